//! What a finished step changes.

use super::VllmScheduler;
use super::request::{Slot, Status};
use crate::engine::{Batch, Emitted, Finish, Row, Sample};

impl VllmScheduler {
    pub(super) fn update_step(&mut self, batch: &Batch, samples: &[Sample], emitted: &mut Vec<Emitted>) {
        debug_assert_eq!(batch.rows.len(), samples.len(), "one sample a row");
        let mut ended_running = false;
        let mut place = 0;
        for (row, &sample) in batch.rows.iter().zip(samples) {
            // Aborted while the step ran, or ended by the step before: the row was in vain.
            let Some(slot) = self.locate(row.id, &mut place) else { continue };
            self.drain(slot, row);
            if sample == Sample::Nothing {
                continue;
            }
            let finish = self.receive(slot, sample);
            emitted.push(Emitted { id: row.id, tokens: 1, finish });
            if finish.is_some() {
                let request = self.requests.get(slot);
                match request.status {
                    Status::Running => ended_running = true,
                    _ => self.waiting.remove(request.place),
                }
                self.forget(slot);
            }
        }
        if ended_running {
            let requests = &self.requests;
            self.running.retain(|&slot| requests.get(slot).status == Status::Running);
        }
    }

    /// Finds a row's request: mostly where the running ones have come to (`place`), or one further if one of them
    /// was not scheduled; by its id otherwise.
    fn locate(&self, id: u64, place: &mut usize) -> Option<Slot> {
        let ahead = self.running.get(*place..).unwrap_or_default().iter().take(2);
        for (skipped, &slot) in ahead.enumerate() {
            if self.requests.get(slot).id == id {
                *place += skipped + 1;
                return Some(slot);
            }
        }
        self.requests.find(id)
    }

    /// Takes a row out of the counts in flight.
    fn drain(&mut self, slot: Slot, row: &Row) {
        let request = self.requests.get_mut(slot);
        request.in_flight_tokens = request.in_flight_tokens.saturating_sub(row.tokens);
        request.stale_tokens = request.stale_tokens.saturating_sub(row.tokens);
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
