//! Which tokens the next step computes: running requests first, then admissions.

use super::VllmScheduler;
use super::request::{Slot, Status};
use crate::engine::{Batch, Row, SchedulingPolicy};

impl VllmScheduler {
    pub(super) fn schedule_step(&mut self, batch: &mut Batch) {
        batch.clear();
        let mut budget = self.config.max_num_batched_tokens;
        // A lone request has nobody to starve.
        let alone = self.running.len() + self.waiting.len() <= 1;
        let limit = match self.config.long_prefill_token_threshold {
            0 => u32::MAX,
            _ if alone => u32::MAX,
            threshold => threshold,
        };
        self.regroup(self.scheduled + 1);
        if !self.schedule_grouped(batch, &mut budget, limit) {
            self.dissolve();
            self.schedule_running(batch, &mut budget, limit);
        }
        // Memory was short for those who run: nobody new comes in.
        if batch.preempted.is_empty() {
            self.schedule_waiting(batch, &mut budget, limit);
        }
        self.number_batch(batch);
        self.ended_unreported = false;
    }

    fn schedule_running(&mut self, batch: &mut Batch, budget: &mut u32, limit: u32) {
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let slot = self.running.at(index);
            let tokens = self.tokens_of_running(slot).min(limit).min(*budget);
            if tokens == 0 {
                index += 1;
                continue;
            }
            if !self.grow_or_preempt(slot, tokens, &mut index, budget, batch) {
                return;
            }
            self.commit(slot, tokens, batch);
            *budget -= tokens;
            index += 1;
        }
    }

    /// Tokens that a running request could compute now.
    pub(super) fn tokens_of_running(&self, slot: Slot) -> u32 {
        let request = self.requests.get(slot);
        if request.ends_in_flight() {
            return 0;
        }
        // One position stays for the token that the step samples.
        let room = self.config.max_model_len.saturating_sub(request.computed_tokens + 1);
        request.pending_tokens().min(room)
    }

    /// Gives a running request its blocks, taking them from others if need be. False if it lost its own.
    fn grow_or_preempt(
        &mut self,
        slot: Slot,
        tokens: u32,
        index: &mut usize,
        budget: &mut u32,
        batch: &mut Batch,
    ) -> bool {
        while !self.grow(slot, tokens) {
            let victim_index = self.victim_index();
            let victim = self.running.at(victim_index);
            self.unseat(victim);
            if victim_index < *index {
                *index -= 1;
                *budget += self.unschedule(victim, batch);
            }
            self.preempt(victim, batch);
            if victim == slot {
                return false;
            }
        }
        true
    }

    fn victim_index(&self) -> usize {
        let last = self.running.len() - 1;
        match self.config.policy {
            SchedulingPolicy::Fcfs => last,
            SchedulingPolicy::Priority => (0..=last)
                .max_by_key(|&index| {
                    let request = self.requests.get(self.running.at(index));
                    (request.priority, request.rank)
                })
                .unwrap_or(last),
        }
    }

    /// Takes a request's row out of the batch again. Returns the tokens it had.
    fn unschedule(&mut self, slot: Slot, batch: &mut Batch) -> u32 {
        let request = self.requests.get_mut(slot);
        let Some(position) = batch.rows.iter().position(|row| row.id == request.id) else { return 0 };
        let row = batch.rows.remove(position);
        self.row_slots.next.remove(position);
        request.in_flight_tokens -= row.tokens;
        row.tokens
    }

    /// Sends a request, already out of the running ones, back to wait. Its tokens are kept, their blocks are not.
    fn preempt(&mut self, slot: Slot, batch: &mut Batch) {
        let request = self.requests.get_mut(slot);
        self.pool.release(&mut request.holding);
        request.status = Status::Preempted;
        request.computed_tokens = 0;
        request.placeholders = 0;
        request.stale_tokens = request.in_flight_tokens;
        request.place = self.waiting.push_front(slot, request.priority, request.rank);
        self.totals.preemptions += 1;
        batch.preempted.push(request.id);
    }

    /// Blocks and names for `tokens` more of a running request. False, and nothing changes, if too few are free.
    pub(super) fn grow(&mut self, slot: Slot, tokens: u32) -> bool {
        let request = self.requests.get_mut(slot);
        let end = request.computed_tokens + tokens;
        if !self.pool.grow(&mut request.holding, end.min(self.config.max_model_len)) {
            return false;
        }
        self.pool.register(&mut request.holding, &request.chain, end.min(request.known_tokens));
        true
    }

    fn schedule_waiting(&mut self, batch: &mut Batch, budget: &mut u32, limit: u32) {
        let mut skipped = None;
        while *budget > 0 && self.running.len() < self.config.max_num_seqs as usize {
            let Some(slot) = self.waiting.after(skipped) else { return };
            let request = self.requests.get_mut(slot);
            if request.stale_tokens > 0 {
                // An output of before its preemption is still to come: it would sample that position twice.
                skipped = Some(request.place);
                continue;
            }
            // The last known token is computed in any case, to sample from it.
            let hit_limit = request.known_tokens.saturating_sub(1);
            self.pool.lookup(&request.chain, hit_limit, &mut self.hit);
            let hit_tokens = self.hit.tokens();
            let tokens = (request.known_tokens - hit_tokens).min(limit).min(*budget);
            // Who does not fit holds up all behind it.
            if tokens == 0 || !self.fits(slot, hit_tokens + tokens) {
                return;
            }
            self.admit(slot, hit_tokens, batch);
            let fitted = self.grow(slot, tokens);
            debug_assert!(fitted, "the admission check counts these blocks");
            self.commit(slot, tokens, batch);
            *budget -= tokens;
        }
    }

    /// Whether a waiting request that hits `self.hit` can have the blocks of its first `end` tokens.
    fn fits(&self, slot: Slot, end: u32) -> bool {
        let request = self.requests.get(slot);
        let whole = if self.config.scheduler_reserve_full_isl { request.known_tokens.max(end) } else { end };
        let spare = if self.running.is_empty() { 0 } else { self.config.watermark_blocks() };
        self.pool.fits(&self.hit, whole.min(self.config.max_model_len), spare)
    }

    /// Moves a waiting request to the end of the running ones, with the blocks it hits.
    fn admit(&mut self, slot: Slot, hit_tokens: u32, batch: &mut Batch) {
        self.admissions += 1;
        let request = self.requests.get_mut(slot);
        request.seat = self.admissions;
        self.waiting.remove(request.place);
        self.running.insert(request.seat, slot);
        self.listed.insert(request.seat, slot);
        self.pool.adopt(&mut request.holding, &self.hit);
        if request.status == Status::Preempted {
            batch.resumed.push((request.id, hit_tokens));
        } else {
            batch.admitted.push((request.id, hit_tokens));
            if self.config.enable_prefix_caching {
                self.totals.prefix_queries += u64::from(request.known_tokens);
                self.totals.prefix_hits += u64::from(hit_tokens);
            }
        }
        request.status = Status::Running;
        request.computed_tokens = hit_tokens;
        request.prefill_end = request.known_tokens;
    }

    /// Writes a request's row and counts its tokens as computed.
    pub(super) fn commit(&mut self, slot: Slot, tokens: u32, batch: &mut Batch) {
        let asynchronous = self.config.async_scheduling;
        let request = self.requests.get_mut(slot);
        let context = request.computed_tokens;
        let samples = tokens >= request.pending_tokens();
        self.row_slots.next.push(slot);
        batch.rows.push(Row {
            id: request.id,
            tokens,
            context,
            samples,
            prefill: context < request.prefill_end,
        });
        request.computed_tokens += tokens;
        request.in_flight_tokens += tokens;
        request.placeholders += u32::from(asynchronous && samples);
    }
}
