//! What the routers learn of a replica, and when they stop and begin to send it work: health checks, circuit breakers,
//! ends of processes, stale metrics.

use super::Simulation;
use super::faults::Process;
use crate::event::{Event, FleetEvent};
use scaleproof_pack::chance;
use scaleproof_pack::failure::{Sign, What};
use scaleproof_pack::time::Nanos;
use scaleproof_policy::health::Health;

/// What the routers know of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// By checks and breaker.
    pub health: Health,
    /// Whether there is nothing more to notice: a sign of the last fault was seen, or there was none.
    pub noticed: bool,
}

impl Default for Watched {
    fn default() -> Watched {
        Watched { health: Health::default(), noticed: true }
    }
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
        let takes_work = unit.watched.health.takes_work() && unit.leaving.is_none();
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
        let check = turmoil.plan.resilience.health_check;
        let health = &mut turmoil.unit(replica).watched.health;
        let was_healthy = health.healthy;
        health.check_passed(&check);
        if !was_healthy {
            self.admit_or_remove(replica, Sign::HealthCheck, now);
        }
    }

    pub(super) fn check_failed(&mut self, replica: u32, now: Nanos) {
        let turmoil = self.turmoil();
        let check = turmoil.plan.resilience.health_check;
        let unit = turmoil.unit(replica);
        if unit.process == Process::Absent {
            return;
        }
        unit.watched.health.check_failed(&check);
        self.notice(replica, Sign::HealthCheck, now);
        self.admit_or_remove(replica, Sign::HealthCheck, now);
    }

    /// It gets no work before it has passed health checks.
    pub(super) fn unhealthy(&mut self, replica: u32, sign: Sign, now: Nanos) {
        self.turmoil().unit(replica).watched.health.doubted();
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
        if turmoil.unit(replica).watched.health.try_failed(&breaker) {
            self.events.push(now + breaker.open, Event::Fleet(FleetEvent::HalfOpen(replica)));
            self.admit_or_remove(replica, sign, now);
        }
    }

    /// A replica took a request in: its breaker counts that too.
    pub(super) fn breaker_counts_success(&mut self, replica: u32) {
        let turmoil = self.turmoil();
        let Some(breaker) = turmoil.plan.resilience.breaker else { return };
        turmoil.unit(replica).watched.health.try_succeeded(&breaker);
    }

    pub(super) fn half_open(&mut self, replica: u32, now: Nanos) {
        if self.turmoil().unit(replica).watched.health.half_open() {
            self.admit_or_remove(replica, Sign::Connection, now);
        }
    }

    /// A new process is unknown to its breaker.
    pub(super) fn reset_breaker(&mut self, replica: u32) {
        self.turmoil().unit(replica).watched.health.reset_breaker();
    }
}
