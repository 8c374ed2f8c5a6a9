//! Requests that decode, one token in every step, are stepped together: a step changes the group's sums and nothing of
//! its members.
//!
//! A member's counts stand still as of just before its first batch in the group, and follow from the numbers of the
//! batches scheduled and updated since. Its last row is listed again, so that it ends like any other. What the members
//! do is known beforehand only while each of them has its token and its block in every step: where the budget or the
//! pool does not suffice for all, the group is dissolved and that step is decided row by row (`schedule_running`).
//!
//! Blocks: at each step those members need one whose context fills their last, a residue of the step's number. Which
//! member gets which block makes no difference. The names of the blocks that members fill are registered when they
//! leave: nobody can hit these before, as no request is a member whose output stands in the prompt of another one.

use super::VllmScheduler;
use super::ends::Ends;
use super::request::{Request, Slot, Status};
use crate::engine::{Batch, DecodeRows, Row};
use scaleproof_pack::hash::IdMap;
use scaleproof_pack::prompt::TokenStream;

/// Larger blocks are not worth a table of their residues.
const BLOCK_SIZE_MAX: u32 = 1 << 16;

/// The sums over the members.
#[derive(Clone, Debug, Default)]
pub(super) struct DecodeGroup {
    enabled: bool,
    members: u32,
    /// Sum over the members of their context in batch n, less n.
    context_base: i64,
    /// Members by the residue of the batches in which they need a block.
    needing_block: Vec<u32>,
    ends: Ends,
    /// What was updated when the last batch was scheduled.
    updated_before: u64,
    /// The most tokens of a row of who has left.
    longest: u32,
    /// Output streams in the prompts of known requests, with how often.
    quoted: IdMap<TokenStream, u32>,
    /// Scratch: what the listed requests compute.
    plan: Vec<(Slot, u32)>,
}

/// Rows in the groups of batches in flight, of a request that has left since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub slot: Slot,
    pub id: u64,
    pub seat: u64,
    /// The first and the last of those batches.
    pub from: u64,
    pub to: u64,
}

impl DecodeGroup {
    pub fn new(enabled: bool, block_size: u32) -> DecodeGroup {
        let enabled = enabled && block_size <= BLOCK_SIZE_MAX;
        let residues = if enabled { block_size as usize } else { 0 };
        DecodeGroup { enabled, needing_block: vec![0; residues], ..DecodeGroup::default() }
    }

    /// The sums of batch `number`.
    fn rows(&self, number: u64) -> DecodeRows {
        let context = self.context_base + i64::from(self.members) * number as i64;
        DecodeRows { count: self.members, context: context as u64 }
    }

    /// Which batches a request of `tokens` computed tokens at batch `number` needs blocks in.
    fn residue(&mut self, tokens: u32, number: u64) -> &mut u32 {
        let size = self.needing_block.len() as u64;
        let residue = (number % size + size - u64::from(tokens) % size) % size;
        &mut self.needing_block[residue as usize]
    }

    fn quote(&mut self, stream: TokenStream) {
        let count = self.quoted.get(&stream).copied().unwrap_or(0);
        self.quoted.insert(stream, count + 1);
    }

    fn unquote(&mut self, stream: TokenStream) {
        match self.quoted.remove(&stream) {
            None | Some(0 | 1) => {}
            Some(count) => {
                self.quoted.insert(stream, count - 1);
            }
        }
    }
}

impl VllmScheduler {
    /// Batches in flight.
    fn in_flight(&self) -> u64 {
        self.scheduled - self.updated
    }

    /// Before batch `number` is scheduled: who has his last row in it leaves, who decodes steadily joins.
    pub(super) fn regroup(&mut self, number: u64) {
        if !self.group.enabled {
            return;
        }
        while let Some((last, slot)) = self.group.ends.first()
            && last <= number
        {
            self.leave(slot);
        }
        if self.in_flight() >= self.config.depth() as u64 {
            return;
        }
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|slot| {
            let joins = self.is_steady(self.requests.get(slot));
            if joins {
                self.join(slot, number);
            }
            !joins
        });
        self.listed = listed;
    }

    /// Whether it has had one token in each step in flight, will have one in the next, and that is not its last.
    fn is_steady(&self, request: &Request) -> bool {
        let in_flight = self.in_flight() as u32;
        let placeholders = if self.config.async_scheduling { in_flight } else { 0 };
        request.computed_tokens >= request.prefill_end
            && request.in_flight_tokens == in_flight
            && request.placeholders == placeholders
            && request.stale_tokens == 0
            && request.pending_tokens() == 1
            && request.computed_tokens + 2 < request.final_tokens()
            && request.final_tokens() <= self.config.max_model_len
            && !request.watched
            && request.output.is_output()
            && self.group.quoted.get(&request.output).is_none()
    }

    fn join(&mut self, slot: Slot, number: u64) {
        let request = self.requests.get_mut(slot);
        request.grouped_from = number;
        let (tokens, rows) = (request.computed_tokens, request.final_tokens() - 1 - request.computed_tokens);
        self.group.members += 1;
        self.group.context_base += i64::from(tokens) - number as i64;
        *self.group.residue(tokens, number) += 1;
        self.group.ends.insert(number + u64::from(rows) - 1, slot);
    }

    /// A member's counts are its own again.
    pub(super) fn leave(&mut self, slot: Slot) {
        let (scheduled, updated) = (self.scheduled, self.updated);
        let request = self.requests.get_mut(slot);
        let from = std::mem::take(&mut request.grouped_from);
        let (tokens, rows) = (request.computed_tokens, request.final_tokens() - 1 - request.computed_tokens);
        self.group.members -= 1;
        self.group.context_base -= i64::from(tokens) - from as i64;
        *self.group.residue(tokens, from) -= 1;
        self.group.ends.remove(from + u64::from(rows) - 1, slot);

        // When it joined it had a row in each batch in flight.
        let updated_then = from - 1 - u64::from(request.in_flight_tokens);
        let known_when = |updated: u64| request.known_tokens + (updated - updated_then) as u32;
        let known = known_when(updated);
        if scheduled >= from {
            // Named with the last batch: all that was known. Since then, of what came back, what was computed.
            let named = known_when(self.group.updated_before.max(updated_then));
            let settled = if self.config.async_scheduling && updated > updated_then { known - 1 } else { 0 };
            request.computed_tokens += (scheduled + 1 - from) as u32;
            self.pool.hand_over(&mut request.holding, request.computed_tokens);
            self.pool.register(&mut request.holding, &request.chain, named.max(settled));
        }
        request.known_tokens = known;
        request.in_flight_tokens = (scheduled - updated) as u32;
        request.placeholders = if self.config.async_scheduling { request.in_flight_tokens } else { 0 };
        request.unreported += updated.saturating_sub(from - 1) as u32;
        self.group.longest = self.group.longest.max(request.computed_tokens);
        let left =
            Left { slot, id: request.id, seat: request.seat, from: from.max(updated + 1), to: scheduled };
        if left.from <= left.to {
            let place = self.left.partition_point(|other| other.seat < left.seat);
            self.left.insert(place, left);
        }
        self.listed.insert(left.seat, slot);
    }

    /// The counts of all members are their own again.
    pub(super) fn dissolve(&mut self) {
        while let Some((_, slot)) = self.group.ends.first() {
            self.leave(slot);
        }
    }

    /// Schedules the running requests if none of them lacks tokens or blocks that others take. False, and nothing
    /// changes, if there is no group or it must be dissolved.
    pub(super) fn schedule_grouped(&mut self, batch: &mut Batch, budget: &mut u32, limit: u32) -> bool {
        let number = self.scheduled + 1;
        if self.group.members == 0 || self.in_flight() >= self.config.depth() as u64 {
            return false;
        }
        let residue = number % self.group.needing_block.len() as u64;
        let needing_block = self.group.needing_block[residue as usize];
        let Some((tokens_left, blocks)) = self.plan_listed(*budget, limit) else { return false };
        if u64::from(needing_block) + blocks > u64::from(self.pool.free()) {
            return false;
        }
        let taken = self.pool.take(needing_block);
        debug_assert!(taken, "they were counted");
        batch.grouped = self.group.rows(number);
        for index in 0..self.group.plan.len() {
            let (slot, tokens) = self.group.plan[index];
            let grown = self.grow(slot, tokens);
            debug_assert!(grown, "its blocks were counted");
            self.commit(slot, tokens, batch);
        }
        *budget = tokens_left;
        true
    }

    /// How many of the next steps are the members' alone, with a token and a block for each who needs one, from batches in
    /// flight that list nobody.
    pub(super) fn sure_steps(&self) -> u32 {
        let Some((first_end, _)) = self.group.ends.first() else { return 0 };
        if !self.listed.is_empty() || self.waiting.len() > 0 || !self.left.is_empty() {
            return 0;
        }
        let before_end = (first_end - 1).saturating_sub(self.scheduled);
        // In as many steps as a block has tokens each member needs one.
        let rounds = u64::from(self.pool.free() / self.group.members);
        before_end.min(rounds * self.group.needing_block.len() as u64).min(u64::from(u32::MAX)) as u32
    }

    /// Does so many of them.
    pub(super) fn step_group(&mut self, steps: u32) {
        let needing_block = &self.group.needing_block;
        let first = ((self.scheduled + 1) % needing_block.len() as u64) as usize;
        let blocks =
            needing_block[first..].iter().chain(needing_block.iter().cycle()).take(steps as usize).sum();
        let taken = self.pool.take(blocks);
        debug_assert!(taken, "they were counted");
        self.scheduled += u64::from(steps);
        self.updated += u64::from(steps);
        self.group.updated_before = self.updated;
        debug_assert!(self.row_slots.is_empty(), "somebody is listed");
        self.ended_unreported = false;
    }

    /// Fills the plan of those who are not members. Returns the tokens left and the blocks needed, or None if tokens
    /// would be lacking for members that run later.
    fn plan_listed(&mut self, budget: u32, limit: u32) -> Option<(u32, u64)> {
        let mut plan = std::mem::take(&mut self.group.plan);
        plan.clear();
        let mut blocks = 0;
        let mut left = budget.checked_sub(self.group.members);
        for (index, slot) in self.listed.iter().enumerate() {
            let Some(tokens_left) = left else { break };
            let wanted = self.tokens_of_running(slot).min(limit);
            // The members behind it have not taken their tokens yet when its turn comes.
            let tokens = if wanted <= tokens_left {
                wanted
            } else {
                let members_before = self.running.place(self.requests.get(slot).seat) - index;
                wanted.min(tokens_left + self.group.members - members_before as u32)
            };
            left = tokens_left.checked_sub(tokens);
            if tokens > 0 {
                let request = self.requests.get(slot);
                let end = (request.computed_tokens + tokens).min(self.config.max_model_len);
                blocks += u64::from(self.pool.lacking(&request.holding, end));
                plan.push((slot, tokens));
            }
        }
        self.group.plan = plan;
        Some((left?, blocks))
    }

    /// Notes that the batch was scheduled.
    pub(super) fn number_batch(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            self.scheduled += 1;
            batch.number = self.scheduled;
            self.row_slots.launch(batch.number);
            self.group.updated_before = self.updated;
        }
    }

    /// A prompt came in: who wrote what it quotes is no member any more.
    pub(super) fn quote(&mut self, slot: Slot) {
        for index in 0..self.requests.get(slot).quotes.len() {
            let stream = self.requests.get(slot).quotes[index];
            self.group.quote(stream);
            let writer = self.group.ends.slots().find(|&slot| self.requests.get(slot).output == stream);
            if let Some(writer) = writer {
                self.leave(writer);
            }
        }
    }

    pub(super) fn unquote(&mut self, slot: Slot) {
        for stream in &self.requests.get(slot).quotes {
            self.group.unquote(*stream);
        }
    }

    /// Tokens received and not reported.
    pub(super) fn unreported(&self, request: &Request) -> u32 {
        let grouped = match request.grouped_from {
            0 => 0,
            from => self.updated.saturating_sub(from - 1),
        };
        request.unreported + grouped as u32
    }

    pub(super) fn longest_row(&self) -> u32 {
        let tokens = |slot: Slot| {
            let request = self.requests.get(slot);
            request.computed_tokens + (self.scheduled + 1 - request.grouped_from) as u32
        };
        self.group.ends.slots().map(tokens).max().unwrap_or(0).max(self.group.longest)
    }

    /// All rows of the batch that was scheduled last, in the order of the running requests.
    #[must_use]
    pub fn rows(&self, batch: &Batch) -> Vec<Row> {
        let mut listed = batch.rows.iter().peekable();
        let mut rows = Vec::new();
        for slot in self.running.iter() {
            let request = self.requests.get(slot);
            if request.grouped_from > 0 {
                let context = request.computed_tokens + (batch.number - request.grouped_from) as u32;
                rows.push(Row { id: request.id, tokens: 1, context, samples: true, prefill: false });
            } else if let Some(row) = listed.next_if(|row| row.id == request.id) {
                rows.push(*row);
            }
        }
        rows
    }

    /// Takes a request out of the running ones.
    pub(super) fn unseat(&mut self, slot: Slot) {
        debug_assert_eq!(self.requests.get(slot).status, Status::Running);
        if self.requests.get(slot).grouped_from > 0 {
            self.leave(slot);
        }
        let seat = self.requests.get(slot).seat;
        self.running.remove(seat);
        self.listed.remove(seat);
    }
}

#[cfg(test)]
mod tests;
