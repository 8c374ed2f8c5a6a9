//! The schedule as a state machine: what is sent next, and what an attempt's end sets free. Both worlds walk it; the
//! caller owns the clock, so the same arrivals are sent in virtual time and live.

mod walk;

#[cfg(test)]
mod tests;

use crate::prompt::{Segment, TokenStream};
use crate::record::Outcome;
use crate::schedule::{Load, Planned, Release, Schedule, ScheduleError};
use crate::time::Nanos;
use walk::Walk;

/// A request of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestRef {
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
    /// Its position there.
    pub index: u64,
}

/// When a run may end: a schedule is continued until every class that it sends has its successes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    /// Successes each class needs.
    pub successes: u64,
    /// Measured requests after which the run ends all the same.
    pub max_requests: u64,
}

/// A schedule on its way.
pub struct Workload<'a> {
    walk: Walk<'a>,
    enough: Enough,
    /// Measured successes by class; None for a class that the schedule does not send.
    successes: Vec<Option<u64>>,
    planned: u64,
    /// Closed-loop clients that have not begun.
    idle_clients: u32,
    open: bool,
    /// Why the schedule could not be continued.
    failure: Option<ScheduleError>,
}

impl<'a> Workload<'a> {
    /// At the schedule's beginning.
    #[must_use]
    pub fn new(schedule: &'a Schedule, enough: Enough) -> Workload<'a> {
        let idle_clients = match schedule.load {
            Load::Open { .. } => 0,
            Load::Closed { concurrency } => concurrency,
        };
        Workload {
            walk: Walk::new(schedule),
            enough,
            successes: no_successes(schedule),
            planned: schedule.measured.requests.len() as u64,
            idle_clients,
            open: matches!(schedule.load, Load::Open { .. }),
            failure: None,
        }
    }

    /// The next request of an open loop, and when it is sent. To be asked again once that one was sent: by then
    /// the classes may have had enough.
    pub fn next_arrival(&mut self) -> Option<(Nanos, RequestRef)> {
        if !self.open {
            return None;
        }
        match self.next_independent() {
            Some((request, Release::At(at))) => Some((at, request)),
            _ => None,
        }
    }

    /// The first request of the next client of a closed loop, with its pause; None once all have begun.
    pub fn next_client(&mut self) -> Option<(Nanos, RequestRef)> {
        self.idle_clients = self.idle_clients.checked_sub(1)?;
        self.client_takes_next(Nanos::ZERO)
    }

    /// An attempt ended at `now`: the request that this sets free, and when it is sent. It is the next turn of its
    /// session, or in a closed loop what its client takes next.
    pub fn ended(
        &mut self,
        request: RequestRef,
        outcome: Outcome,
        now: Nanos,
    ) -> Option<(Nanos, RequestRef)> {
        if outcome == Outcome::Ok && !request.warmup {
            let class = self.walk.get(request).map_or(0, |(planned, _)| usize::from(planned.class));
            let successes = self.successes.get_mut(class).and_then(Option::as_mut);
            *successes.expect("it was in the schedule") += 1;
        }
        if let Some((next, delay)) = self.walk.follower(request) {
            return Some((now + delay, next));
        }
        let opener = self.walk.session_opener(request);
        match self.get(opener).map(|planned| planned.release) {
            Some(Release::WhenFree { .. }) => self.client_takes_next(now),
            _ => None,
        }
    }

    /// A request, if the schedule has it.
    #[must_use]
    pub fn get(&self, request: RequestRef) -> Option<&Planned> {
        self.walk.get(request).map(|(planned, _)| planned)
    }

    /// The request that opened the session of `request`: itself, unless it is a later turn. Walks back over the turns.
    #[must_use]
    pub fn session_opener(&self, request: RequestRef) -> RequestRef {
        self.walk.session_opener(request)
    }

    /// The whole prompt of a request: the segments it shares, then tokens of its own; and the stream of its
    /// output.
    #[must_use]
    pub fn prompt(&self, request: RequestRef) -> Option<(Vec<Segment>, TokenStream)> {
        self.walk.prompt(request)
    }

    /// Requests known so far, warm-up included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a count for a progress bar")]
    pub fn len(&self) -> u64 {
        self.walk.len()
    }

    /// Measured requests taken from the schedule's continuation.
    #[must_use]
    pub fn continued(&self) -> u64 {
        self.walk.measured_len() - self.planned
    }

    /// Why the schedule could not be continued, if it could not. The attempts in flight still end; then the run has
    /// failed.
    pub fn take_failure(&mut self) -> Option<ScheduleError> {
        self.failure.take()
    }

    fn client_takes_next(&mut self, now: Nanos) -> Option<(Nanos, RequestRef)> {
        match self.next_independent() {
            Some((request, Release::WhenFree { think })) => Some((now + think, request)),
            _ => None,
        }
    }

    /// Whether every class the schedule sends has its successes, or the run is long enough all the same.
    fn has_enough(&self) -> bool {
        let sent = self.walk.measured_len();
        sent >= self.enough.max_requests
            || self.successes.iter().flatten().all(|&n| n >= self.enough.successes)
    }

    /// The next request in schedule order, continuing the schedule while classes lack successes.
    fn next_independent(&mut self) -> Option<(RequestRef, Release)> {
        loop {
            if let Some(next) = self.walk.next_independent() {
                return Some(next);
            }
            if self.has_enough() {
                return None;
            }
            match self.walk.extend() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failure = Some(error);
                    return None;
                }
            }
        }
    }
}

/// None yet, of each class that the schedule sends.
fn no_successes(schedule: &Schedule) -> Vec<Option<u64>> {
    let mut successes = Vec::new();
    for planned in &schedule.measured.requests {
        let class = usize::from(planned.class);
        if successes.len() <= class {
            successes.resize(class + 1, None);
        }
        successes[class] = Some(0);
    }
    successes
}
