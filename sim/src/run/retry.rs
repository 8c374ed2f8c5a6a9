//! Tries that fail before an answer has begun, and what is tried again.

use super::{REFUSAL_TURNAROUND_MIN, Simulation};
use crate::attempt::Fate;
use crate::event::{Event, FleetEvent, Slot};
use crate::run::faults::Process;
use scaleproof_pack::chance;
use scaleproof_pack::failure::Sign;
use scaleproof_pack::record::Outcome;
use scaleproof_pack::time::Nanos;

impl Fate {
    /// How an attempt ends whose last try failed so.
    fn outcome(self) -> (Outcome, &'static str) {
        match self {
            Fate::NoConnection => (Outcome::Error, "no connection to a replica"),
            Fate::QueueFull => (Outcome::Rejected, "queue full"),
            Fate::NoReplica => (Outcome::Error, "no replica"),
            Fate::Breaks => (Outcome::Error, "the connection broke"),
        }
    }
}

impl Simulation<'_> {
    /// An attempt goes to `replica`, whose queue may be full. The latency of the way; None if the try fails.
    pub(super) fn connect(&mut self, slot: Slot, replica: u32, full: bool, now: Nanos) -> Option<Nanos> {
        let frozen = self.replicas[replica as usize].is_frozen();
        let turmoil = self.turmoil();
        turmoil.requests += 1;
        let (connect_timeout, latency) =
            (turmoil.plan.resilience.connect_timeout, turmoil.unit(replica).latency);
        let loss = turmoil.unit(replica).loss;
        let mut lost = || loss > 0.0 && chance::uniform(&mut turmoil.chance) < loss;
        let (unreachable, breaks) = (lost(), lost());
        if turmoil.unit(replica).process != Process::Up {
            self.will_fail(slot, Fate::NoConnection, now + latency);
            return None;
        }
        if unreachable {
            self.will_fail(slot, Fate::NoConnection, now + connect_timeout);
            return None;
        }
        if full && !frozen {
            self.will_fail(slot, Fate::QueueFull, now + latency + latency);
            return None;
        }
        if let Some(attempt) = self.attempts.get_mut(slot) {
            attempt.away = now.since(attempt.sent) + latency;
            attempt.fate = breaks.then_some(Fate::Breaks);
        }
        Some(latency)
    }

    /// The router will hear that a try fails, a turnaround after `at`.
    pub(super) fn will_fail(&mut self, slot: Slot, fate: Fate, at: Nanos) {
        if let Some(attempt) = self.attempts.get_mut(slot) {
            attempt.fate = Some(fate);
            let hears = at + REFUSAL_TURNAROUND_MIN;
            self.events.push(hears, Event::Fleet(FleetEvent::TryFailed(slot)));
        }
    }

    pub(super) fn try_failed(&mut self, slot: Slot, now: Nanos) {
        if let Some(fate) = self.attempts.get(slot).and_then(|attempt| attempt.fate) {
            self.try_failed_as(slot, fate, now);
        }
    }

    /// A try has failed: the next one follows after its wait, if there is one.
    pub(super) fn try_failed_as(&mut self, slot: Slot, fate: Fate, now: Nanos) {
        let Some(mut attempt) = self.attempts.remove(slot) else { return };
        let replica = attempt.replica.filter(|_| attempt.counted);
        if let Some(replica) = replica {
            self.uncount(replica, &attempt);
        }
        (attempt.counted, attempt.fate) = (false, None);
        let tried = attempt.retries + 1;
        let wait = self.wait_before_retry(tried);
        attempt.retries += u32::from(wait.is_some());
        // Whoever waits for the old try waits in vain: it has another slot.
        let slot = self.attempts.insert(attempt);
        if fate == Fate::NoConnection {
            self.turmoil().connection_failures.push(now);
        }
        if let Some(replica) = replica {
            let sign = if fate == Fate::QueueFull { Sign::ServerError } else { Sign::Connection };
            self.breaker_counts_failure(replica, sign, now);
        }
        match wait {
            Some(wait) => {
                self.arm_patience(slot);
                self.events.push(now + wait, Event::Fleet(FleetEvent::Retry(slot)));
            }
            None => {
                let (outcome, reason) = fate.outcome();
                self.settle(slot, outcome, now, reason);
            }
        }
    }

    /// The wait after so many tries; None if there is no further one.
    fn wait_before_retry(&mut self, tried: u32) -> Option<Nanos> {
        let turmoil = self.turmoil();
        let retries = turmoil.plan.resilience.retries;
        if !retries.has_another(tried, turmoil.retries, turmoil.requests) {
            return None;
        }
        turmoil.retries += 1;
        retries.wait(tried, chance::uniform(&mut turmoil.chance))
    }

    /// A replica took a request in.
    pub(super) fn connected(&mut self, replica: u32, slot: Slot) {
        if self.attempts.get(slot).is_some() {
            self.breaker_counts_success(replica);
        }
    }
}
