//! Faults meet replicas: what begins, what it does, what ends. A run without a plan never comes here.

use super::Simulation;
use super::health::Watched;
use crate::event::{Event, FleetEvent, Slot};
use crate::faults::{FaultKind, FaultPlan};
use crate::setup::{RunConfig, RunError};
use scaleproof_pack::chance::{self, Stream};
use scaleproof_pack::failure::{Moment, What};
use scaleproof_pack::record::Outcome;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use std::collections::VecDeque;

/// What a replica's process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    /// It is not part of the fleet.
    Absent,
    /// It ended. Connections are refused.
    Down,
    /// It starts. Connections are refused.
    Starting,
    /// It serves, unless it hangs.
    Up,
}

/// One replica as the world around it sees it.
pub(super) struct Unit {
    pub process: Process,
    /// Places in the plan of the faults that hold now.
    pub active: Vec<u32>,
    /// Added to each message, each way.
    pub latency: Nanos,
    /// Share of connections that fail.
    pub loss: f64,
    /// What the routers know.
    pub watched: Watched,
    /// It is to go, and why.
    pub leaving: Option<Leaving>,
    /// When the last token sent so far reaches its client: later ones come no earlier.
    pub last_answer: Nanos,
    /// Steps whose end came while it hung, and requests that reached it then.
    pub held_steps: u32,
    pub held_requests: Vec<Slot>,
}

/// Why a replica is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// To be started anew.
    Restart,
    /// For good.
    Retire,
}

/// What disturbs a run, and its state.
pub(super) struct Turmoil<'a> {
    pub plan: &'a FaultPlan,
    pub units: Vec<Unit>,
    pub chance: Stream,
    pub moments: Vec<Moment>,
    /// When tries found no connection or lost it.
    pub connection_failures: Vec<Nanos>,
    /// Requests sent so far, and tries beyond the first.
    pub requests: u64,
    pub retries: u64,
    /// Of rolling restarts, the replicas still to come, with the longest time to drain.
    pub rolling: VecDeque<(u32, Nanos)>,
    /// When the autoscaler last changed the number of replicas.
    pub scaled: Option<Nanos>,
    link_latency_max: Nanos,
}

impl<'a> Turmoil<'a> {
    /// Replicas that a run may come to have.
    pub fn places(config: &RunConfig) -> u32 {
        let most = config.faults.as_ref().and_then(|plan| plan.autoscaler).map_or(0, |scaler| scaler.max);
        config.replicas.max(most)
    }

    pub fn of(config: &'a RunConfig, schedule: &Schedule) -> Option<Box<Turmoil<'a>>> {
        let plan = config.faults.as_deref()?;
        let late: Vec<u32> = plan
            .faults
            .iter()
            .filter(|fault| fault.kind == FaultKind::ColdStart)
            .flat_map(|fault| fault.replicas.iter().copied())
            .collect();
        let units = (0..Turmoil::places(config)).map(|replica| Unit {
            process: if replica < config.replicas && !late.contains(&replica) {
                Process::Up
            } else {
                Process::Absent
            },
            active: Vec::new(),
            latency: Nanos::ZERO,
            loss: 0.0,
            watched: Watched::default(),
            leaving: None,
            last_answer: Nanos::ZERO,
            held_steps: 0,
            held_requests: Vec::new(),
        });
        let latency = |kind: FaultKind| match kind {
            FaultKind::Link { latency, .. } => latency.0,
            _ => 0,
        };
        Some(Box::new(Turmoil {
            plan,
            units: units.collect(),
            chance: chance::stream(schedule.seed, schedule.run, "faults"),
            moments: Vec::new(),
            connection_failures: Vec::new(),
            requests: 0,
            retries: 0,
            rolling: VecDeque::new(),
            scaled: None,
            // Several may hold at once.
            link_latency_max: Nanos(plan.faults.iter().map(|fault| latency(fault.kind)).sum()),
        }))
    }

    /// Added to each message of a replica, each way.
    pub fn latency(&self, replica: u32) -> Nanos {
        self.units[replica as usize].latency
    }

    pub fn link_latency_max(&self) -> Nanos {
        self.link_latency_max
    }

    pub fn unit(&mut self, replica: u32) -> &mut Unit {
        &mut self.units[replica as usize]
    }

    pub fn note(&mut self, at: Nanos, replica: u32, what: What) {
        self.moments.push(Moment { at, replica: Some(replica), what });
    }

    /// What happened, and when connections failed, both in order of time.
    pub fn told(mut self) -> (Vec<Moment>, Vec<Nanos>) {
        self.moments.sort_by_key(|moment| moment.at);
        self.connection_failures.sort_unstable();
        (self.moments, self.connection_failures)
    }
}

impl<'a> Simulation<'a> {
    /// What disturbs the run. Only asked for where something may.
    pub(super) fn turmoil(&mut self) -> &mut Turmoil<'a> {
        self.turmoil.as_mut().expect("fleet events come with a plan")
    }

    pub(super) fn start_turmoil(&mut self) {
        let Some(turmoil) = &self.turmoil else { return };
        let plan = turmoil.plan;
        for (index, fault) in plan.faults.iter().enumerate() {
            self.events.push(fault.at, Event::Fleet(FleetEvent::Begins(index as u32)));
        }
        let absent = |unit: &(usize, &Unit)| unit.1.process == Process::Absent;
        let absent: Vec<u32> =
            turmoil.units.iter().enumerate().filter(absent).map(|(replica, _)| replica as u32).collect();
        for replica in absent {
            self.turmoil().unit(replica).watched.health.healthy = false;
            self.fleet.set_available(replica, false);
        }
        self.events.push(plan.resilience.health_check.interval, Event::Fleet(FleetEvent::CheckAll));
        if let Some(scaler) = plan.autoscaler {
            self.events.push(scaler.interval, Event::Fleet(FleetEvent::Scale));
        }
    }

    pub(super) fn fleet_event(&mut self, event: FleetEvent, now: Nanos) -> Result<(), RunError> {
        if self.attempts.open() == 0 && !self.events.has_sends() {
            // The run is over; what happens to an idle fleet afterwards is nobody's business.
            return Ok(());
        }
        match event {
            FleetEvent::Begins(fault) => self.fault_begins(fault, now)?,
            FleetEvent::Ends(fault) => self.fault_ends(fault, now)?,
            FleetEvent::CheckAll => self.check_all(now),
            FleetEvent::CheckTimedOut(replica) => self.check_failed(replica, now),
            FleetEvent::Stale(replica, start) => self.metrics_are_stale(replica, start, now),
            FleetEvent::ExitSeen(replica) => self.exit_seen(replica, now),
            FleetEvent::HalfOpen(replica) => self.half_open(replica, now),
            FleetEvent::TryFailed(slot) => self.try_failed(slot, now),
            FleetEvent::Retry(slot) => self.dispatch(slot, now)?,
            FleetEvent::Drained(replica, start) => self.drained(replica, start, now),
            FleetEvent::Ready(replica, start) => self.ready(replica, start, now),
            FleetEvent::Watchdog(replica, start) => self.watchdog(replica, start, now),
            FleetEvent::Scale => self.scale(now),
        }
        Ok(())
    }

    fn fault_begins(&mut self, index: u32, now: Nanos) -> Result<(), RunError> {
        let plan = self.turmoil().plan;
        let fault = &plan.faults[index as usize];
        let places = self.replicas.len() as u32;
        let met: Vec<u32> = fault.replicas.iter().copied().filter(|&replica| replica < places).collect();
        let shows = fault.kind.is_failure();
        for &replica in &met {
            let turmoil = self.turmoil();
            turmoil.note(now, replica, What::Injected);
            turmoil.unit(replica).watched.noticed &= !shows;
        }
        match fault.kind {
            FaultKind::Crash => met.iter().for_each(|&replica| self.crash(replica, now)),
            FaultKind::Cancellations { share } => self.cancel(share, &met, now),
            FaultKind::ColdStart => met.iter().for_each(|&replica| self.order(replica, now)),
            FaultKind::RollingRestart { drain } => self.roll(&met, drain, now),
            FaultKind::Hang(lasts) => {
                for &replica in &met {
                    self.hang(replica, index, lasts.is_none(), now);
                }
            }
            FaultKind::Slow { .. } | FaultKind::Link { .. } | FaultKind::KvCut { .. } => {
                for &replica in &met {
                    self.turmoil().unit(replica).active.push(index);
                    self.apply(replica);
                }
            }
        }
        if let Some(lasts) = fault.kind.lasts() {
            self.events.push(now + lasts, Event::Fleet(FleetEvent::Ends(index)));
        }
        Ok(())
    }

    fn fault_ends(&mut self, index: u32, now: Nanos) -> Result<(), RunError> {
        for replica in 0..self.replicas.len() as u32 {
            let unit = self.turmoil().unit(replica);
            let held = unit.active.len();
            unit.active.retain(|&active| active != index);
            if unit.active.len() == held {
                continue;
            }
            self.turmoil().note(now, replica, What::Cleared);
            self.apply(replica);
            if !self.replicas[replica as usize].is_frozen() {
                self.wake(replica, now)?;
            }
        }
        Ok(())
    }

    /// Puts what holds now into effect, whatever began first.
    pub(super) fn apply(&mut self, replica: u32) {
        let turmoil = self.turmoil();
        let plan = turmoil.plan;
        let unit = turmoil.unit(replica);
        let (mut frozen, mut slowdown, mut withheld) = (false, 1.0, 0.0);
        (unit.latency, unit.loss) = (Nanos::ZERO, 0.0);
        for &index in &unit.active {
            match plan.faults[index as usize].kind {
                FaultKind::Hang(_) => frozen = true,
                FaultKind::Slow { factor, .. } => slowdown *= factor,
                FaultKind::KvCut { share, .. } => withheld = f64::max(withheld, share),
                FaultKind::Link { latency, loss, .. } => {
                    unit.latency += latency;
                    unit.loss = 1.0 - (1.0 - unit.loss) * (1.0 - loss);
                }
                FaultKind::Crash
                | FaultKind::RollingRestart { .. }
                | FaultKind::ColdStart
                | FaultKind::Cancellations { .. } => {}
            }
        }
        let engine = &mut self.replicas[replica as usize];
        engine.set_frozen(frozen);
        engine.set_slowdown(slowdown);
        engine.withhold_blocks(withheld);
    }

    fn hang(&mut self, replica: u32, index: u32, until_watchdog: bool, now: Nanos) {
        let start = self.replicas[replica as usize].start();
        let turmoil = self.turmoil();
        let resilience = &turmoil.plan.resilience;
        let (watchdog, stale) = (resilience.restart.watchdog, resilience.stale_metrics);
        let unit = turmoil.unit(replica);
        if unit.process != Process::Up {
            return;
        }
        unit.active.push(index);
        self.apply(replica);
        if until_watchdog {
            self.events.push(now + watchdog, Event::Fleet(FleetEvent::Watchdog(replica, start)));
        }
        if let Some(stale) = stale {
            self.events.push(now + stale, Event::Fleet(FleetEvent::Stale(replica, start)));
        }
    }

    /// A replica that stood still goes on: what came meanwhile comes now.
    fn wake(&mut self, replica: u32, now: Nanos) -> Result<(), RunError> {
        let unit = self.turmoil().unit(replica);
        if unit.process != Process::Up {
            return Ok(());
        }
        let steps = std::mem::take(&mut unit.held_steps);
        let requests = std::mem::take(&mut unit.held_requests);
        for slot in requests {
            self.events.push(now, Event::Ingested(slot));
        }
        let engine = &mut self.replicas[replica as usize];
        if engine.is_idle() {
            return self.begin_steps(replica, now);
        }
        engine.end_no_earlier(steps, now);
        self.events.set_step_end(replica, engine.next_end());
        Ok(())
    }

    /// The clients of a share of what these replicas have in flight give up.
    fn cancel(&mut self, share: f64, replicas: &[u32], now: Nanos) {
        let met = |replica: Option<u32>| replica.is_some_and(|r| replicas.binary_search(&r).is_ok());
        let open: Vec<Slot> = self
            .attempts
            .open_slots()
            .filter(|(_, attempt)| attempt.counted && met(attempt.replica))
            .map(|(slot, _)| slot)
            .collect();
        for slot in open {
            if chance::uniform(&mut self.turmoil().chance) < share {
                self.end_now(slot, Outcome::Cancelled, "cancelled by the client", now);
            }
        }
    }

    /// An attempt ends now; what was on its way to the client by then still arrives.
    pub(super) fn end_now(&mut self, slot: Slot, outcome: Outcome, reason: &'static str, now: Nanos) {
        let Some(attempt) = self.attempts.get(slot) else { return };
        let at = attempt.first_token.map_or(now, |first| first.max(now));
        self.settle(slot, outcome, at, reason);
    }

    /// An answer that had begun, or was waited for, will not come.
    pub(super) fn connection_broke(&mut self, at: Nanos) {
        self.turmoil().connection_failures.push(at);
    }

    /// Whether polls, samples and health checks of a replica are answered at all.
    pub(super) fn answers(&self, replica: u32) -> bool {
        self.turmoil.as_ref().is_none_or(|turmoil| {
            turmoil.units[replica as usize].process == Process::Up
                && !self.replicas[replica as usize].is_frozen()
        })
    }

    /// When the tokens of a step that ends now reach their clients, if they left at once by `usual`; None if the step does
    /// not end, because its process stands still.
    pub(super) fn answer_arrives(&mut self, replica: u32, usual: Nanos) -> Option<Nanos> {
        let frozen = self.replicas[replica as usize].is_frozen();
        let unit = self.turmoil().unit(replica);
        if frozen {
            unit.held_steps += 1;
            let next = unit.held_steps as usize;
            self.events.set_step_end(replica, self.replicas[replica as usize].end_at(next));
            return None;
        }
        // A connection keeps its order when the way gets shorter.
        unit.last_answer = unit.last_answer.max(usual + unit.latency);
        Some(unit.last_answer)
    }

    /// A request reaches a replica that stands still: nobody takes it in until it goes on.
    pub(super) fn held_back(&mut self, slot: Slot) -> bool {
        let Some(replica) = self.attempts.get(slot).and_then(|attempt| attempt.replica) else { return true };
        let frozen = self.replicas[replica as usize].is_frozen();
        if frozen {
            self.turmoil().unit(replica).held_requests.push(slot);
        } else {
            self.connected(replica, slot);
        }
        frozen
    }
}
