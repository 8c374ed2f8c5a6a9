//! The requests an engine knows, in slots that are used again.

use scaleproof_pack::hash::IdMap;
use scaleproof_pack::prompt::TokenStream;

use super::queue::Place;
use crate::engine::block_pool::Holding;
use crate::engine::token_chain::TokenChain;
use crate::engine::{EngineConfig, EngineRequest};

/// A request's place in [`Requests`], while it is known.
pub(super) type Slot = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Never admitted.
    Waiting,
    Running,
    /// Waiting again: it ran and lost its blocks.
    Preempted,
    /// Gone. Its slot is free.
    Finished,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub id: u64,
    pub status: Status,
    pub prompt_tokens: u32,
    pub max_tokens: u32,
    /// Tokens whose values the scheduler has: the prompt and the output received.
    pub known_tokens: u32,
    /// Tokens computed, those of steps in flight included.
    pub computed_tokens: u32,
    /// Output tokens that steps in flight will give (asynchronous only).
    pub placeholders: u32,
    /// Tokens of steps in flight.
    pub in_flight_tokens: u32,
    /// Of those, the ones scheduled before its last preemption: their outputs are still delivered, but the counts
    /// above were reset and no longer include them.
    pub stale_tokens: u32,
    /// Tokens known at its last admission: up to here it prefills, or computes again.
    pub prefill_end: u32,
    pub priority: i32,
    /// Order of arrival among equal priorities.
    pub rank: u64,
    /// Where it waits, if it does.
    pub place: Place,
    /// Order of admission: the running ones are in this order.
    pub seat: u64,
    /// The number of the first batch in whose group it is; 0 if it is in none. Its counts stand still as of just
    /// before that batch was scheduled (`group`).
    pub grouped_from: u64,
    /// Never grouped: somebody wants to know of every token.
    pub watched: bool,
    /// Tokens received that `update` has not reported.
    pub unreported: u32,
    /// Its output's own stream.
    pub output: TokenStream,
    /// Output streams of others that its prompt contains.
    pub quotes: Vec<TokenStream>,
    pub chain: TokenChain,
    pub holding: Holding,
}

impl Request {
    pub fn output_tokens(&self) -> u32 {
        self.known_tokens - self.prompt_tokens
    }

    /// Tokens it can compute now: known ones and placeholders.
    pub fn pending_tokens(&self) -> u32 {
        (self.known_tokens + self.placeholders).saturating_sub(self.computed_tokens)
    }

    /// Tokens at its end by its own length.
    pub fn final_tokens(&self) -> u32 {
        self.prompt_tokens.saturating_add(self.max_tokens)
    }

    /// Whether the steps in flight are sure to end it by its own length.
    pub fn ends_in_flight(&self) -> bool {
        self.placeholders > 0
            && u64::from(self.computed_tokens) + 2
                >= u64::from(self.prompt_tokens) + u64::from(self.max_tokens) + u64::from(self.placeholders)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Request>,
    free: Vec<Slot>,
    by_id: IdMap<u64, Slot>,
}

impl Requests {
    pub fn find(&self, id: u64) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// Whether a request is known, and in this slot.
    pub fn holds(&self, slot: Slot, id: u64) -> bool {
        self.slots
            .get(slot as usize)
            .is_some_and(|request| request.id == id && request.status != Status::Finished)
    }

    pub fn get(&self, slot: Slot) -> &Request {
        &self.slots[slot as usize]
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Request {
        &mut self.slots[slot as usize]
    }

    /// Takes a request in, waiting.
    pub fn insert(&mut self, request: EngineRequest, rank: u64, block_size: u32) -> Slot {
        let tokens: u64 = request.prompt.iter().map(|segment| u64::from(segment.len)).sum();
        let prompt_tokens = tokens.min(u64::from(EngineConfig::TOKENS_MAX)) as u32;
        let slot = self.free.pop().unwrap_or(self.slots.len() as Slot);
        let (mut chain, holding) = match self.slots.get_mut(slot as usize) {
            Some(old) => (std::mem::take(&mut old.chain), std::mem::take(&mut old.holding)),
            None => Default::default(),
        };
        chain.reset(&request.prompt, request.output, block_size);
        let streams = request.prompt.iter().map(|segment| segment.stream);
        let quotes = streams.filter(|stream| stream.is_output()).collect();
        let fresh = Request {
            id: request.id,
            status: Status::Waiting,
            prompt_tokens,
            max_tokens: request.max_tokens.max(1),
            known_tokens: prompt_tokens,
            computed_tokens: 0,
            placeholders: 0,
            in_flight_tokens: 0,
            stale_tokens: 0,
            prefill_end: 0,
            priority: request.priority,
            rank,
            place: Place::default(),
            seat: 0,
            grouped_from: 0,
            watched: false,
            unreported: 0,
            output: request.output,
            quotes,
            chain,
            holding,
        };
        match self.slots.get_mut(slot as usize) {
            Some(old) => *old = fresh,
            None => self.slots.push(fresh),
        }
        self.by_id.insert(request.id, slot);
        slot
    }

    /// Forgets a request. It must hold no blocks.
    pub fn remove(&mut self, slot: Slot) {
        let request = &mut self.slots[slot as usize];
        debug_assert!(request.holding.is_empty(), "blocks would leak");
        request.status = Status::Finished;
        self.by_id.remove(&request.id);
        self.free.push(slot);
    }
}
