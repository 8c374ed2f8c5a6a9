//! What a client sees of a simulated engine: the network before each answer, noise, and the arrival of every token.

use super::Quirks;
use scaleproof_pack::chance::{Stream, normal};
use scaleproof_pack::experiment::{Observer, Progress};
use scaleproof_pack::record::{Outcome, Record, TokensFrom, Wire};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::{Nanos, TimeError};
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::workload::RequestRef;
use scaleproof_sim::watch::{Step, Watcher};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// When the tokens of each request in flight leave the engine.
pub(super) type Tokens = RefCell<BTreeMap<RequestRef, Vec<Nanos>>>;

/// Notes the tokens of each step.
pub(super) struct Stamps<'a> {
    pub tokens: &'a Tokens,
    pub on_the_way: Nanos,
}

impl Watcher for Stamps<'_> {
    fn step(&mut self, step: &Step<'_>) {
        debug_assert!(step.replica == 0, "one engine is calibrated");
        let mut tokens = self.tokens.borrow_mut();
        for row in step.batch.rows.iter().filter(|row| row.samples) {
            if let Some(attempt) = step.attempt(row.id) {
                tokens.entry(attempt.request).or_default().push(step.ends + self.on_the_way);
            }
        }
    }

    fn held_up(&mut self, _replica: u32, now: Nanos, by: Nanos) {
        let in_flight = |at: &&mut Nanos| **at > now + self.on_the_way;
        for times in self.tokens.borrow_mut().values_mut() {
            times.iter_mut().rev().take_while(in_flight).for_each(|at| *at += by);
        }
    }
}

/// The client.
pub(super) struct Client<'a> {
    observer: &'a mut dyn Observer,
    tokens: &'a Tokens,
    network: Nanos,
    request_sd: f64,
    one_target: bool,
    chance: Stream,
}

impl<'a> Client<'a> {
    pub fn new(
        observer: &'a mut dyn Observer,
        tokens: &'a Tokens,
        quirks: &Quirks,
        schedule: &Schedule,
    ) -> Result<Client<'a>, TimeError> {
        let network = Nanos::from_seconds(quirks.network_ms / 1e3)?;
        let (request_sd, one_target) = (quirks.request_sd, quirks.one_target);
        let chance = quirks.stream(schedule, "requests");
        Ok(Client { observer, tokens, network, request_sd, one_target, chance })
    }
}

impl Observer for Client<'_> {
    fn record(&mut self, record: &Record) {
        let request = RequestRef { warmup: record.warmup, index: record.id };
        let mut stamps = self.tokens.borrow_mut().remove(&request).unwrap_or_default();
        // A row that was in flight when its request ended made no token.
        stamps.truncate(record.output_tokens as usize);
        let factor = (self.request_sd * normal(&mut self.chance)).exp();
        let later = |at: Nanos| {
            let after_ns = at.since(record.sent).0 as f64 * factor;
            record.sent + Nanos(after_ns as u64) + self.network
        };
        let mut seen = record.clone();
        seen.first_token = record.first_token.map(later);
        seen.ended = later(record.ended);
        if self.one_target {
            seen.replica = None;
        }
        let answered = record.outcome == Outcome::Ok;
        seen.wire = Some(Box::new(Wire {
            headers: Some(record.sent + self.network),
            done: answered.then_some(seen.ended),
            http_status: answered.then_some(200),
            tokens_from: TokensFrom::Usage,
            usage_input_tokens: answered.then_some(record.input_tokens),
            chunks: stamps.into_iter().map(|at| (later(at), 1)).collect(),
            ..Wire::default()
        }));
        self.observer.record(&seen);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.observer.sample(row);
    }

    fn progress(&mut self, progress: Progress) {
        self.observer.progress(progress);
    }

    fn stop(&mut self) -> bool {
        self.observer.stop()
    }
}
