//! What a finished step changes.

use super::VllmScheduler;
use super::request::{Slot, Status};
use crate::engine::{Batch, Emitted, Finish, Sample};

impl VllmScheduler {
    pub(super) fn update_step(&mut self, batch: &Batch, samples: &[Sample], emitted: &mut Vec<Emitted>) {
        debug_assert_eq!(batch.rows.len(), samples.len(), "one sample a row");
        if batch.is_empty() {
            return;
        }
        self.updated = batch.number;
        let slots = self.row_slots.land(batch.number);
        debug_assert_eq!(batch.rows.len(), slots.len(), "batches are updated in the order of their calls");
        let mut left = 0;
        for ((row, &sample), &slot) in batch.rows.iter().zip(samples).zip(&slots) {
            // Aborted while the step ran, or ended by the step before: the row was in vain.
            if !self.requests.holds(slot, row.id) {
                continue;
            }
            self.update_left(batch.number, Some(self.requests.get(slot).seat), &mut left, emitted);
            if self.requests.get(slot).grouped_from > 0 {
                // Its first batches in flight were listed. A member's counts follow from their numbers.
                self.report(slot, None, emitted);
                continue;
            }
            self.drain(slot, row.tokens);
            if sample == Sample::Nothing {
                continue;
            }
            let finish = self.receive(slot, sample);
            self.report(slot, finish, emitted);
        }
        self.update_left(batch.number, None, &mut left, emitted);
        self.left.retain(|left| left.to > batch.number);
        self.row_slots.give_back(slots);
    }

    /// Updates with the grouped rows of those who have left since, as far as they ran before `seat`.
    fn update_left(&mut self, number: u64, seat: Option<u64>, next: &mut usize, emitted: &mut Vec<Emitted>) {
        while let Some(&left) = self.left.get(*next).filter(|left| seat.is_none_or(|seat| left.seat < seat)) {
            *next += 1;
            if !self.requests.holds(left.slot, left.id) || number < left.from || left.to < number {
                continue;
            }
            self.drain(left.slot, 1);
            let finish = self.receive(left.slot, Sample::Token);
            debug_assert_eq!(finish, None, "its last row is listed");
            let request = self.requests.get_mut(left.slot);
            if request.watched {
                self.report(left.slot, None, emitted);
            } else {
                request.unreported += 1;
            }
        }
    }

    /// Reports a token just received, with those of before that were not; ends its request if it finished.
    fn report(&mut self, slot: Slot, finish: Option<Finish>, emitted: &mut Vec<Emitted>) {
        let request = self.requests.get_mut(slot);
        let tokens = 1 + std::mem::take(&mut request.unreported);
        emitted.push(Emitted { id: request.id, tokens, finish });
        if finish.is_some() {
            match request.status {
                Status::Running => self.unseat(slot),
                _ => self.waiting.remove(request.place),
            }
            self.forget(slot);
        }
    }

    /// Takes a row out of the counts in flight.
    fn drain(&mut self, slot: Slot, tokens: u32) {
        let request = self.requests.get_mut(slot);
        request.in_flight_tokens = request.in_flight_tokens.saturating_sub(tokens);
        request.stale_tokens = request.stale_tokens.saturating_sub(tokens);
    }

    /// Appends one sampled token.
    fn receive(&mut self, slot: Slot, sample: Sample) -> Option<Finish> {
        let request = self.requests.get_mut(slot);
        request.known_tokens += 1;
        // None is left of a request that was preempted since: its counts were reset.
        request.placeholders = request.placeholders.saturating_sub(1);
        let full_length = request.known_tokens >= self.config.max_model_len
            || request.output_tokens() >= request.max_tokens;
        // A block that a decode row filled has its name only now that its last token is known.
        if self.config.async_scheduling && request.status == Status::Running {
            let settled = request.computed_tokens - request.placeholders;
            self.pool.register(&mut request.holding, &request.chain, settled);
        }
        match sample {
            Sample::Stop => Some(Finish::Stop),
            _ if full_length => Some(Finish::Length),
            _ => None,
        }
    }
}
