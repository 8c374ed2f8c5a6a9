//! The requests that an engine has.

use super::Piece;
use crate::book::{Book, Finished};
use crate::clock::Clock;
use crate::contents::PromptEnd;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::engine::{Batch, EngineRequest};
use std::collections::BTreeMap;
use tokio::sync::mpsc::UnboundedSender;

/// One of them.
pub(super) struct Live {
    /// Until the engine takes it.
    pub request: Option<EngineRequest>,
    pub end: PromptEnd,
    pub prompt_tokens: u32,
    max_tokens: u32,
    pub cached_tokens: u32,
    pub output_tokens: u32,
    preemptions: u32,
    arrived: Nanos,
    /// When it came into the engine's queue, and was first scheduled.
    pub queued_at: Nanos,
    scheduled_at: Option<Nanos>,
    first_token_at: Nanos,
    last_token_at: Nanos,
    /// When all that was sent to the client will have reached it.
    pub delivered_until: Nanos,
    /// Whether the engine is done with it.
    pub finished: bool,
    pub pieces: UnboundedSender<Piece>,
}

impl Live {
    pub fn new(
        request: EngineRequest,
        end: PromptEnd,
        prompt_tokens: u32,
        arrived: Nanos,
        pieces: UnboundedSender<Piece>,
    ) -> Live {
        Live {
            max_tokens: request.max_tokens,
            request: Some(request),
            end,
            prompt_tokens,
            cached_tokens: 0,
            output_tokens: 0,
            preemptions: 0,
            arrived,
            queued_at: arrived,
            scheduled_at: None,
            first_token_at: arrived,
            last_token_at: arrived,
            delivered_until: Nanos::ZERO,
            finished: false,
            pieces,
        }
    }

    /// Tokens came at `at`. Returns what they add to the step's tokens: the prompt with the first.
    pub fn note_tokens(&mut self, tokens: u32, at: Nanos, clock: &Clock, book: &mut Book) -> u64 {
        if tokens == 0 {
            return 0;
        }
        let mut step_tokens = u64::from(tokens);
        if self.output_tokens == 0 {
            step_tokens += u64::from(self.prompt_tokens);
            self.first_token_at = at;
            book.first_token(clock.wall(at.since(self.arrived)), self.prompt_tokens, self.cached_tokens);
        } else {
            book.itl.observe(clock.wall(at.since(self.last_token_at)).as_secs_f64());
        }
        book.generation_tokens += u64::from(tokens);
        self.output_tokens += tokens;
        self.last_token_at = at;
        step_tokens
    }

    /// What it was, once it has all its tokens.
    pub fn result(&self, clock: &Clock) -> Finished {
        let scheduled = self.scheduled_at.unwrap_or(self.queued_at);
        let wall = |to: Nanos, from: Nanos| clock.wall(to.since(from));
        Finished {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            max_tokens: self.max_tokens,
            output_tokens: self.output_tokens,
            preemptions: self.preemptions,
            queued: wall(scheduled, self.queued_at),
            prefill: wall(self.first_token_at, scheduled),
            decode: wall(self.last_token_at, self.first_token_at),
            e2e: wall(self.last_token_at, self.arrived),
        }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Requests(BTreeMap<u64, Live>);

impl Requests {
    pub fn insert(&mut self, id: u64, live: Live) {
        self.0.insert(id, live);
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Live> {
        self.0.get_mut(&id)
    }

    pub fn remove(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// How many the engine is not done with.
    pub fn open(&self) -> usize {
        self.0.values().filter(|live| !live.finished).count()
    }

    /// Takes note of who was admitted, with what hit, and who lost its blocks, in a step that begins at `begins`.
    pub fn note(&mut self, batch: &Batch, begins: Nanos) {
        for &(id, cached_tokens) in &batch.admitted {
            if let Some(live) = self.0.get_mut(&id) {
                live.cached_tokens = cached_tokens;
                live.scheduled_at = Some(begins);
            }
        }
        for id in &batch.preempted {
            if let Some(live) = self.0.get_mut(id) {
                live.preemptions += 1;
            }
        }
    }
}
