//! What the routers learn of a replica, and when they stop and begin to send it work: health checks, circuit breakers,
//! ends of processes, stale metrics.

use super::Simulation;
use super::faults::Process;
use crate::event::{Event, FleetEvent};
use scaleproof_pack::chance;
use scaleproof_pack::failure::{Sign, What};
use scaleproof_pack::time::Nanos;

/// What the routers know of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// By the health checks and what stands for one.
    pub healthy: bool,
    /// Failures and successes of health checks in a row.
    failures: u32,
    successes: u32,
    pub breaker: BreakerState,
    /// Failures or successes in a row that the breaker counts.
    counted: u32,
    /// Whether there is nothing more to notice: a sign of the last fault was seen, or there was none.
    pub noticed: bool,
}

impl Default for Watched {
    fn default() -> Watched {
        Watched {
            healthy: true,
            failures: 0,
            successes: 0,
            breaker: BreakerState::Closed,
            counted: 0,
            noticed: true,
        }
    }
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    /// It lets everything through.
    Closed,
    /// It lets nothing through.
    Open,
    /// It lets everything through and opens at the first failure.
    HalfOpen,
}

impl Simulation<'_> {
    /// The first sign of a fault is noted.
    pub(super) fn notice(&mut self, replica: u32, sign: Sign, now: Nanos) {
        let turmoil = self.turmoil();
        let watched = &mut turmoil.unit(replica).watched;
        if !std::mem::replace(&mut watched.noticed, true) {
            turmoil.note(now, replica, What::Detected(sign));
        }
    }

    /// Puts what is known into effect; `sign` is what brought the news.
    pub(super) fn admit_or_remove(&mut self, replica: u32, sign: Sign, now: Nanos) {
        let unit = self.turmoil().unit(replica);
        let (watched, leaving) = (&mut unit.watched, unit.leaving.is_some());
        let takes_work = watched.healthy && watched.breaker != BreakerState::Open && !leaving;
        let took_work = self.fleet.available().binary_search(&replica).is_ok();
        if takes_work == took_work {
            return;
        }
        self.fleet.set_available(replica, takes_work);
        let turmoil = self.turmoil();
        if takes_work {
            turmoil.note(now, replica, What::Readmitted);
            self.readmitted(now);
        } else {
            turmoil.note(now, replica, What::Removed(sign));
        }
    }

    /// A round of health checks. An answer takes no time; none is noticed at the time limit.
    pub(super) fn check_all(&mut self, now: Nanos) {
        let check = self.turmoil().plan.resilience.health_check;
        for replica in 0..self.replicas.len() as u32 {
            let frozen = self.replicas[replica as usize].is_frozen();
            let turmoil = self.turmoil();
            let unit = &turmoil.units[replica as usize];
            let slow = unit.latency + unit.latency > check.timeout;
            let unanswered =
                frozen || slow || (unit.loss > 0.0 && chance::uniform(&mut turmoil.chance) < unit.loss);
            match turmoil.units[replica as usize].process {
                Process::Absent => {}
                Process::Down | Process::Starting => self.check_failed(replica, now),
                Process::Up if unanswered => {
                    let at = now + check.timeout;
                    self.events.push(at, Event::Fleet(FleetEvent::CheckTimedOut(replica)));
                }
                Process::Up => self.check_passed(replica, now),
            }
        }
        if self.goes_on() {
            self.events.push(now + check.interval, Event::Fleet(FleetEvent::CheckAll));
        }
    }

    fn check_passed(&mut self, replica: u32, now: Nanos) {
        let turmoil = self.turmoil();
        let needed = turmoil.plan.resilience.health_check.successes;
        let watched = &mut turmoil.unit(replica).watched;
        watched.failures = 0;
        if !watched.healthy {
            watched.successes += 1;
            watched.healthy = watched.successes >= needed;
            self.admit_or_remove(replica, Sign::HealthCheck, now);
        }
    }

    pub(super) fn check_failed(&mut self, replica: u32, now: Nanos) {
        let turmoil = self.turmoil();
        let needed = turmoil.plan.resilience.health_check.failures;
        let unit = turmoil.unit(replica);
        if unit.process == Process::Absent {
            return;
        }
        let watched = &mut unit.watched;
        watched.successes = 0;
        watched.failures = watched.failures.saturating_add(1);
        if watched.failures >= needed {
            watched.healthy = false;
        }
        self.notice(replica, Sign::HealthCheck, now);
        self.admit_or_remove(replica, Sign::HealthCheck, now);
    }

    /// It gets no work before it has passed health checks.
    pub(super) fn unhealthy(&mut self, replica: u32, sign: Sign, now: Nanos) {
        let watched = &mut self.turmoil().unit(replica).watched;
        (watched.healthy, watched.successes) = (false, 0);
        self.admit_or_remove(replica, sign, now);
    }

    pub(super) fn exit_seen(&mut self, replica: u32, now: Nanos) {
        // Also one that is up again by now has to show that it is.
        if self.turmoil().unit(replica).process != Process::Absent {
            self.notice(replica, Sign::Exit, now);
            self.unhealthy(replica, Sign::Exit, now);
        }
    }

    pub(super) fn metrics_are_stale(&mut self, replica: u32, start: u32, now: Nanos) {
        if self.replicas[replica as usize].start() == start && !self.answers(replica) {
            self.notice(replica, Sign::StaleMetrics, now);
            self.unhealthy(replica, Sign::StaleMetrics, now);
        }
    }

    /// A try at a replica failed: its breaker counts it.
    pub(super) fn breaker_counts_failure(&mut self, replica: u32, sign: Sign, now: Nanos) {
        self.notice(replica, sign, now);
        let turmoil = self.turmoil();
        let Some(breaker) = turmoil.plan.resilience.breaker else { return };
        let watched = &mut turmoil.unit(replica).watched;
        let opens = match watched.breaker {
            BreakerState::Closed => {
                watched.counted += 1;
                watched.counted >= breaker.failures
            }
            BreakerState::HalfOpen => true,
            BreakerState::Open => false,
        };
        if opens {
            (watched.breaker, watched.counted) = (BreakerState::Open, 0);
            self.events.push(now + breaker.open, Event::Fleet(FleetEvent::HalfOpen(replica)));
            self.admit_or_remove(replica, sign, now);
        }
    }

    /// A replica took a request in: its breaker counts that too.
    pub(super) fn breaker_counts_success(&mut self, replica: u32) {
        let turmoil = self.turmoil();
        let Some(breaker) = turmoil.plan.resilience.breaker else { return };
        let watched = &mut turmoil.unit(replica).watched;
        match watched.breaker {
            BreakerState::Closed => watched.counted = 0,
            BreakerState::Open => {}
            BreakerState::HalfOpen => {
                watched.counted += 1;
                if watched.counted >= breaker.successes {
                    (watched.breaker, watched.counted) = (BreakerState::Closed, 0);
                }
            }
        }
    }

    pub(super) fn half_open(&mut self, replica: u32, now: Nanos) {
        let watched = &mut self.turmoil().unit(replica).watched;
        if watched.breaker == BreakerState::Open {
            watched.breaker = BreakerState::HalfOpen;
            self.admit_or_remove(replica, Sign::Connection, now);
        }
    }

    /// A new process is unknown to its breaker.
    pub(super) fn reset_breaker(&mut self, replica: u32) {
        let watched = &mut self.turmoil().unit(replica).watched;
        (watched.breaker, watched.counted) = (BreakerState::Closed, 0);
    }
}
