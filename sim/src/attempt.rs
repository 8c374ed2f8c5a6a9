//! Attempts in flight.

use crate::event::{GiveUp, Slot};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;

/// How a try fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No connection can be opened.
    NoConnection,
    /// The replica's queue is full.
    QueueFull,
    /// There is no replica to choose.
    NoReplica,
    /// The connection breaks before the first token.
    Breaks,
}

/// One attempt, from sending to its end.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Which request of the schedule.
    pub request: RequestRef,
    /// Its class.
    pub class: u16,
    /// When the schedule wanted it sent.
    pub scheduled: Nanos,
    /// When it was sent.
    pub sent: Nanos,
    /// When the first token reached the client.
    pub first_token: Option<Nanos>,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Tokens asked for.
    pub requested_tokens: u32,
    /// Tokens received.
    pub output_tokens: u32,
    /// Prefix hit at its first admission.
    pub cached_tokens: u32,
    /// Prompt tokens that were computed for it, if it ended before its first token.
    pub prefilled_tokens: u32,
    /// How often it lost its blocks.
    pub preemptions: u32,
    /// Where it went.
    pub replica: Option<u32>,
    /// Whether its replica counts it among its own: not while it waits for another try.
    pub counted: bool,
    /// Where it stands before the admission policy.
    pub stage: Stage,
    /// Whether the engine has it.
    pub in_engine: bool,
    /// Time it spent elsewhere before its replica had it: earlier tries, a slow way. Zero in a run without faults.
    pub away: Nanos,
    /// How often it was sent again.
    pub retries: u32,
    /// How the try at hand will fail, where that is certain already.
    pub fate: Option<Fate>,
    /// When the client gives up on the whole answer, and why.
    pub deadline: Option<(Nanos, GiveUp)>,
}

/// Where an attempt stands before the admission policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The policy has nothing to do with it: there is none, or it said no.
    Through,
    /// It waits at the gateway.
    Waiting,
    /// It was let in.
    Inside,
}

impl Attempt {
    /// When its client gives up on it as it stands, and why. `ttft_timeout` holds until there is a first token.
    #[must_use]
    pub fn patience(&self, ttft_timeout: Option<Nanos>) -> Option<(Nanos, GiveUp)> {
        let first_token = ttft_timeout
            .filter(|_| self.first_token.is_none())
            .map(|limit| (self.sent + limit, GiveUp::FirstTokenTimeout));
        self.deadline.into_iter().chain(first_token).min_by_key(|&(at, _)| at)
    }

    /// Tokens that the engine computed for it.
    fn computed_tokens(&self) -> u32 {
        match self.output_tokens {
            0 => self.prefilled_tokens,
            // The last token is not computed with any more.
            output => self.input_tokens.saturating_sub(self.cached_tokens).saturating_add(output - 1),
        }
    }

    /// Its record, once it has ended.
    #[must_use]
    pub fn record(&self, ended: Nanos, outcome: Outcome, reason: &'static str) -> Record {
        Record {
            id: self.request.index,
            class: self.class,
            warmup: self.request.warmup,
            scheduled: self.scheduled,
            sent: self.sent,
            first_token: self.first_token,
            ended,
            input_tokens: self.input_tokens,
            cached_tokens: self.cached_tokens,
            output_tokens: self.output_tokens,
            requested_tokens: self.requested_tokens,
            outcome,
            replica: self.replica,
            preemptions: self.preemptions,
            retries: self.retries,
            reason,
            computed_tokens: Some(self.computed_tokens()),
            wire: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    generation: u32,
    attempt: Option<Attempt>,
}

/// All attempts in flight. Places are used again; a generation tells their users apart.
#[derive(Debug, Default)]
pub struct Attempts {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Attempts {
    /// Takes an attempt in.
    pub fn insert(&mut self, attempt: Attempt) -> Slot {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, attempt: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.attempt = Some(attempt);
        Slot { index, generation: place.generation }
    }

    /// The attempt of a slot, if it has not ended.
    #[must_use]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Attempt> {
        let place = &mut self.places[slot.index as usize];
        if place.generation == slot.generation { place.attempt.as_mut() } else { None }
    }

    /// The same, to look at.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&Attempt> {
        let place = self.places.get(slot.index as usize)?;
        if place.generation == slot.generation { place.attempt.as_ref() } else { None }
    }

    /// Removes an attempt that has ended.
    pub fn remove(&mut self, slot: Slot) -> Option<Attempt> {
        let place = &mut self.places[slot.index as usize];
        if place.generation != slot.generation {
            return None;
        }
        let attempt = place.attempt.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot.index);
        Some(attempt)
    }

    /// How many are in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The slots in flight, in the order of their places.
    pub fn open_slots(&self) -> impl Iterator<Item = (Slot, &Attempt)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let slot = Slot { index: index as u32, generation: place.generation };
            place.attempt.as_ref().map(|attempt| (slot, attempt))
        })
    }

    /// The requests in flight.
    pub fn open_requests(&self) -> impl Iterator<Item = RequestRef> {
        self.places.iter().filter_map(|place| place.attempt.map(|attempt| attempt.request))
    }
}
