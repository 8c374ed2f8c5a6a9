//! How attempts go on and end: tokens, impatience, and the one place where an attempt is settled.

use super::Simulation;
use crate::attempt::{Attempt, Fate};
use crate::engine::Emitted;
use crate::event::{Event, GiveUp, Slot};
use scaleproof_pack::record::Outcome;
use scaleproof_pack::time::Nanos;
use scaleproof_policy::admission::WAITED_TOO_LONG;

impl Simulation<'_> {
    /// Tokens of one request reach its client at `arrives`.
    pub(super) fn token(&mut self, slot: Slot, token: &Emitted, arrives: Nanos) {
        let Some(attempt) = self.attempts.get_mut(slot) else { return };
        if token.finish.is_some() {
            attempt.in_engine = false;
        }
        if let Some((until, why)) = attempt.patience(self.config.ttft_timeout)
            && arrives > until
        {
            // Those of before were in time.
            attempt.output_tokens += token.tokens.saturating_sub(1);
            return self.abandon(slot, why, until);
        }
        if attempt.fate == Some(Fate::Breaks) && token.tokens > 0 {
            self.connection_broke(arrives);
            return self.settle(slot, Outcome::Error, arrives, "the connection broke");
        }
        attempt.output_tokens += token.tokens;
        let complete = attempt.output_tokens == attempt.requested_tokens;
        if token.tokens > 0 && attempt.first_token.is_none() {
            attempt.first_token = Some(arrives);
            let answered = *attempt;
            let input = u64::from(attempt.input_tokens);
            let replica = attempt.replica.expect("a replica answered");
            let away = answered.away + self.turmoil.as_ref().map_or(Nanos::ZERO, |t| t.latency(replica));
            let server = &mut self.servers[replica as usize];
            server.tokens_without_answer -= input;
            server.ttft_count += 1;
            let ttft = arrives.since(answered.sent).since(away);
            // A run of centuries may have waited longer than can be counted.
            server.ttft_sum = Nanos(server.ttft_sum.0.saturating_add(ttft.0));
            self.answered(&answered);
        }
        if token.finish.is_some() {
            let (outcome, reason) =
                if complete { (Outcome::Ok, "") } else { (Outcome::Error, "answer cut short") };
            self.settle(slot, outcome, arrives, reason);
        }
    }

    pub(super) fn give_up(&mut self, slot: Slot, why: GiveUp, now: Nanos) {
        let Some(attempt) = self.attempts.get_mut(slot) else { return };
        if why == GiveUp::FirstTokenTimeout && attempt.first_token.is_some() {
            return;
        }
        if why == GiveUp::GatewayTimeout {
            return self.waited_too_long(slot, now);
        }
        self.abandon(slot, why, now);
    }

    /// A refusal reaches the client at `at`, unless its patience ends before.
    pub(super) fn refuse(&mut self, slot: Slot, outcome: Outcome, at: Nanos, reason: &'static str) {
        let attempt = self.attempts.get_mut(slot).expect("it was just sent");
        match attempt.patience(self.config.ttft_timeout) {
            Some((until, why)) if until < at => self.abandon(slot, why, until),
            _ => self.settle(slot, outcome, at, reason),
        }
    }

    pub(super) fn abandon(&mut self, slot: Slot, why: GiveUp, at: Nanos) {
        let (outcome, reason) = match why {
            GiveUp::Timeout => (Outcome::Timeout, "no whole answer in time"),
            GiveUp::FirstTokenTimeout => (Outcome::Timeout, "no first token in time"),
            GiveUp::Cancel => (Outcome::Cancelled, "cancelled by the client"),
            GiveUp::GatewayTimeout => (Outcome::Rejected, WAITED_TOO_LONG),
        };
        self.settle(slot, outcome, at, reason);
    }

    /// A replica does not count an attempt among its own any more.
    pub(super) fn uncount(&mut self, replica: u32, attempt: &Attempt) {
        self.fleet.ended(replica);
        let server = &mut self.servers[replica as usize];
        server.unfinished -= 1;
        if attempt.first_token.is_none() {
            server.tokens_without_answer -= u64::from(attempt.input_tokens);
        }
        if server.unfinished == 0 && self.turmoil.is_some() {
            self.emptied(replica);
        }
    }

    /// An attempt ends. The only place where one does.
    pub(super) fn settle(&mut self, slot: Slot, outcome: Outcome, ended: Nanos, reason: &'static str) {
        let mut attempt = self.attempts.remove(slot).expect("an attempt ends once");
        if let Some(replica) = attempt.replica.filter(|_| attempt.counted) {
            if attempt.in_engine {
                self.interrupt(replica, true);
                let prefilled = self.replicas[replica as usize].prefilled_tokens(slot.engine_id());
                attempt.prefilled_tokens = prefilled.saturating_sub(attempt.cached_tokens);
                attempt.output_tokens += self.replicas[replica as usize].abort(slot.engine_id());
            }
            self.uncount(replica, &attempt);
        }
        self.ended += 1;
        self.last_end = self.last_end.max(ended);
        let record = attempt.record(ended, outcome, reason);
        self.observer.record(&record);
        if let Some(watcher) = &mut self.watcher {
            watcher.ended(&record);
        }
        let resumed_at = ended.max(self.events.now());
        self.leave(slot, &attempt, &record, resumed_at);
        if let Some((at, next)) = self.workload.ended(attempt.request, outcome, resumed_at) {
            self.events.push(at, Event::Release(next));
        }
    }
}
