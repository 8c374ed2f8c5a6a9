//! How processes come and go: their end, their start with its phases, draining, rolling restarts.

use super::Simulation;
use super::faults::{Leaving, Process};
use crate::attempt::{Attempt, Fate};
use crate::event::{Event, FleetEvent, Slot};
use crate::faults::FaultKind;
use scaleproof_pack::failure::{Phase, Sign, What};
use scaleproof_pack::record::Outcome;
use scaleproof_pack::time::Nanos;

impl Simulation<'_> {
    /// A replica's process ends, however: what the engine has is lost, what it has not is tried elsewhere.
    pub(super) fn crash(&mut self, replica: u32, now: Nanos) {
        let start = self.replicas[replica as usize].start();
        let turmoil = self.turmoil();
        let automatic = turmoil.plan.resilience.restart.automatic;
        let unit = turmoil.unit(replica);
        if unit.leaving.is_some() {
            return self.drained(replica, start, now);
        }
        if !matches!(unit.process, Process::Up | Process::Starting) {
            return;
        }
        self.stop(replica, now);
        if automatic {
            self.start_again(replica, now);
        }
    }

    /// Ends a process.
    pub(super) fn stop(&mut self, replica: u32, now: Nanos) {
        let next = (self.new_replica)(replica);
        let turmoil = self.turmoil();
        // What was to come of a start that is cut short does not come.
        turmoil.moments.retain(|moment| moment.at <= now || moment.replica != Some(replica));
        turmoil.note(now, replica, What::Stopped);
        let plan = turmoil.plan;
        let unit = turmoil.unit(replica);
        unit.process = Process::Down;
        (unit.held_steps, unit.leaving) = (0, None);
        unit.held_requests.clear();
        unit.active.retain(|&index| !matches!(plan.faults[index as usize].kind, FaultKind::Hang(_)));
        let on_it = |attempt: &Attempt| attempt.counted && attempt.replica == Some(replica);
        let open: Vec<(Slot, bool)> = self
            .attempts
            .open_slots()
            .filter(|(_, attempt)| on_it(attempt))
            .map(|(slot, attempt)| (slot, attempt.in_engine))
            .collect();
        if !open.is_empty() {
            self.notice(replica, Sign::Reset, now);
        }
        for (slot, in_engine) in open {
            if in_engine {
                self.connection_broke(now);
                self.end_now(slot, Outcome::Lost, "the replica died", now);
            } else {
                self.try_failed_as(slot, Fate::NoConnection, now);
            }
        }
        let start = self.replicas[replica as usize].start() + 1;
        self.replicas[replica as usize] = self.replicas[replica as usize].succeeded_by(next);
        self.events.set_step_end(replica, None);
        self.apply(replica);
        let resilience = &plan.resilience;
        if let Some(seen) = resilience.exit_seen {
            self.events.push(now + seen, Event::Fleet(FleetEvent::ExitSeen(replica)));
        }
        if let Some(stale) = resilience.stale_metrics {
            self.events.push(now + stale, Event::Fleet(FleetEvent::Stale(replica, start)));
        }
    }

    pub(super) fn watchdog(&mut self, replica: u32, start: u32, now: Nanos) {
        let unit = &self.replicas[replica as usize];
        if unit.start() == start && unit.is_frozen() {
            self.crash(replica, now);
        }
    }

    /// Whoever watches over the process starts it again.
    pub(super) fn start_again(&mut self, replica: u32, now: Nanos) {
        let notice = self.turmoil().plan.resilience.restart.notice;
        self.turmoil().note(now, replica, What::Starting(Phase::Waiting));
        self.start_process(replica, now + notice);
    }

    /// A process starts at `at`, and can serve when all its phases are over.
    fn start_process(&mut self, replica: u32, at: Nanos) {
        let start = self.replicas[replica as usize].start();
        let turmoil = self.turmoil();
        turmoil.unit(replica).process = Process::Starting;
        let mut begins = at;
        for (phase, lasts) in turmoil.plan.resilience.restart.phases() {
            turmoil.note(begins, replica, What::Starting(phase));
            begins += lasts;
        }
        self.events.push(begins, Event::Fleet(FleetEvent::Ready(replica, start)));
    }

    pub(super) fn ready(&mut self, replica: u32, start: u32, now: Nanos) {
        if self.replicas[replica as usize].start() != start {
            return;
        }
        let turmoil = self.turmoil();
        turmoil.unit(replica).process = Process::Up;
        turmoil.note(now, replica, What::Ready);
    }

    /// A replica that is not there is ordered: a machine, then its process. It gets work once it has passed its health
    /// checks.
    pub(super) fn order(&mut self, replica: u32, now: Nanos) {
        let turmoil = self.turmoil();
        if turmoil.unit(replica).process != Process::Absent {
            return;
        }
        let provisioning = turmoil.plan.autoscaler.map_or(Nanos::ZERO, |scaler| scaler.provisioning);
        turmoil.note(now, replica, What::Ordered);
        turmoil.note(now, replica, What::Starting(Phase::Provisioning));
        self.start_process(replica, now + provisioning);
        self.unhealthy(replica, Sign::Drain, now);
        self.reset_breaker(replica);
    }

    /// It gets no new work; what it has may end within `limit`, then it goes.
    pub(super) fn drain(&mut self, replica: u32, why: Leaving, limit: Nanos, now: Nanos) {
        let start = self.replicas[replica as usize].start();
        let turmoil = self.turmoil();
        turmoil.note(now, replica, What::Drained);
        turmoil.unit(replica).leaving = Some(why);
        self.admit_or_remove(replica, Sign::Drain, now);
        let idle = self.servers[replica as usize].unfinished == 0;
        let at = if idle { now } else { now + limit };
        self.events.push(at, Event::Fleet(FleetEvent::Drained(replica, start)));
    }

    /// The last attempt of a replica has left it.
    pub(super) fn emptied(&mut self, replica: u32) {
        let start = self.replicas[replica as usize].start();
        let leaving = self.turmoil().unit(replica).leaving.is_some();
        if leaving {
            let now = self.events.now();
            self.events.push(now, Event::Fleet(FleetEvent::Drained(replica, start)));
        }
    }

    pub(super) fn drained(&mut self, replica: u32, start: u32, now: Nanos) {
        if self.replicas[replica as usize].start() != start {
            return;
        }
        let Some(why) = self.turmoil().unit(replica).leaving else { return };
        self.stop(replica, now);
        let unit = self.turmoil().unit(replica);
        (unit.watched.health.healthy, unit.leaving) = (false, None);
        match why {
            Leaving::Retire => unit.process = Process::Absent,
            Leaving::Restart => self.start_again(replica, now),
        }
    }

    /// Replicas are started anew one after another.
    pub(super) fn roll(&mut self, replicas: &[u32], drain: Nanos, now: Nanos) {
        let rolling = &mut self.turmoil().rolling;
        let begins = rolling.is_empty();
        rolling.extend(replicas.iter().map(|&replica| (replica, drain)));
        if begins {
            self.roll_on(now);
        }
    }

    /// The first in line is drained; one that does not run anyway is passed over.
    fn roll_on(&mut self, now: Nanos) {
        while let Some(&(replica, limit)) = self.turmoil().rolling.front() {
            let unit = self.turmoil().unit(replica);
            if unit.process == Process::Up && unit.leaving.is_none() {
                return self.drain(replica, Leaving::Restart, limit, now);
            }
            self.turmoil().rolling.pop_front();
        }
    }

    /// A replica is back: if it is the one whose turn it was, the next one follows.
    pub(super) fn readmitted(&mut self, now: Nanos) {
        let Some(&(replica, _)) = self.turmoil().rolling.front() else { return };
        let back = self.turmoil().unit(replica).process == Process::Up
            && self.fleet.available().binary_search(&replica).is_ok();
        if back {
            self.turmoil().rolling.pop_front();
            self.roll_on(now);
        }
    }
}
