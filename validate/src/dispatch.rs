//! What is sent when: the schedule's state machine with the moments that lie ahead. It reads no clock: its caller says what
//! time it is, so that a test can drive it in virtual time and hold it against the simulator.

use scaleproof_pack::record::Outcome;
use scaleproof_pack::schedule::{Load, Planned, Schedule, ScheduleError};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::{Enough, RequestRef, Workload};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request whose time has come, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When the schedule wants it sent.
    pub at: Nanos,
    /// Which.
    pub request: RequestRef,
}

/// A moment ahead, in order of time, then of becoming known: as the simulator's events.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ahead {
    at: Nanos,
    sequence: u64,
    request: RequestRef,
    /// Of the open loop: the next arrival follows it.
    arrival: bool,
}

/// The schedule on its way, with what is due next.
pub struct Dispatch<'a> {
    workload: Workload<'a>,
    ahead: BinaryHeap<Reverse<Ahead>>,
    known: u64,
    in_flight: u64,
    stopped: bool,
}

impl<'a> Dispatch<'a> {
    /// At the schedule's beginning. The clients of a closed loop begin spread evenly over `ramp`.
    #[must_use]
    pub fn new(schedule: &'a Schedule, enough: Enough, ramp: Nanos) -> Dispatch<'a> {
        let mut dispatch = Dispatch {
            workload: Workload::new(schedule, enough),
            ahead: BinaryHeap::new(),
            known: 0,
            in_flight: 0,
            stopped: false,
        };
        dispatch.arm_next_arrival();
        let clients = match schedule.load {
            Load::Closed { concurrency } => u64::from(concurrency),
            Load::Open { .. } => 1,
        };
        let step = Nanos(ramp.0 / clients);
        let mut begins = Nanos::ZERO;
        while let Some((at, request)) = dispatch.workload.next_client() {
            dispatch.push(begins + at, request, false);
            begins += step;
        }
        dispatch
    }

    /// What is sent next, and when.
    #[must_use]
    pub fn next(&self) -> Option<Due> {
        self.ahead.peek().map(|Reverse(ahead)| Due { at: ahead.at, request: ahead.request })
    }

    /// The next request whose time has come by `now`. It counts as in flight until [`Dispatch::ended`].
    pub fn take(&mut self, now: Nanos) -> Option<Due> {
        if self.ahead.peek()?.0.at > now {
            return None;
        }
        let Reverse(ahead) = self.ahead.pop()?;
        self.in_flight += 1;
        if ahead.arrival {
            self.arm_next_arrival();
        }
        Some(Due { at: ahead.at, request: ahead.request })
    }

    /// An attempt ended, and its client knows at `now`.
    pub fn ended(&mut self, request: RequestRef, outcome: Outcome, now: Nanos) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some((at, next)) = self.workload.ended(request, outcome, now) {
            self.push(at, next, false);
        }
    }

    /// Nothing becomes due any more.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.ahead.clear();
    }

    /// Requests sent and not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether all is sent and has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ahead.is_empty() && self.in_flight == 0
    }

    /// The schedule.
    #[must_use]
    pub fn workload(&self) -> &Workload<'a> {
        &self.workload
    }

    /// A request that was due.
    ///
    /// # Panics
    /// If the schedule does not have it.
    #[must_use]
    pub fn planned(&self, request: RequestRef) -> Planned {
        *self.workload.get(request).expect("only scheduled requests become due")
    }

    /// Why the schedule could not be continued, if it could not.
    pub fn take_failure(&mut self) -> Option<ScheduleError> {
        self.workload.take_failure()
    }

    fn arm_next_arrival(&mut self) {
        if let Some((at, request)) = self.workload.next_arrival() {
            self.push(at, request, true);
        }
    }

    fn push(&mut self, at: Nanos, request: RequestRef, arrival: bool) {
        if self.stopped {
            return;
        }
        self.ahead.push(Reverse(Ahead { at, sequence: self.known, request, arrival }));
        self.known += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scaleproof_pack::schedule::{PlannedList, Release};

    const ENOUGH: Enough = Enough { successes: 0, max_requests: 0 };

    fn closed(clients: u32, requests: usize) -> Schedule {
        let request = Planned {
            release: Release::WhenFree { think: Nanos::ZERO },
            class: 0,
            priority: 0,
            input_tokens: 1,
            output_tokens: 1,
            cancel_after: None,
            segments_from: 0,
            segments_len: 0,
        };
        let list = PlannedList { requests: vec![request; requests], segments: Vec::new() };
        Schedule::of(Load::Closed { concurrency: clients }, list)
    }

    #[test]
    fn a_ramp_spreads_the_clients() {
        let schedule = closed(4, 9);
        let mut dispatch = Dispatch::new(&schedule, ENOUGH, Nanos(100));
        let begun: Vec<u64> = std::iter::from_fn(|| dispatch.take(Nanos(1000))).map(|due| due.at.0).collect();
        assert_eq!((begun, dispatch.in_flight()), (vec![0, 25, 50, 75], 4));
    }

    #[test]
    fn nothing_follows_a_stop() {
        let schedule = closed(2, 9);
        let mut dispatch = Dispatch::new(&schedule, ENOUGH, Nanos::ZERO);
        let sent: Vec<Due> = std::iter::from_fn(|| dispatch.take(Nanos::ZERO)).collect();
        dispatch.stop();
        for due in sent {
            assert!(!dispatch.is_over());
            dispatch.ended(due.request, Outcome::Cancelled, Nanos(5));
        }
        assert!(dispatch.is_over() && dispatch.next().is_none());
    }
}
