//! One run: a schedule through a fleet, in virtual time.

mod autoscale;
mod ending;
mod faults;
mod gateway;
#[cfg(test)]
mod gateway_tests;
mod health;
mod restart;
mod retry;
mod sampling;
#[cfg(test)]
mod tests;

use crate::attempt::Attempts;
use crate::engine::{Batch, BatchScheduler, Emitted, EngineRequest};
use crate::event::{Event, EventQueue, Slot};
use crate::replica::{Pace, Replica, ReplicaTotals};
use crate::setup::{RunConfig, RunError, RunSummary, Server};
use crate::watch::{Step, Watcher};
use faults::Turmoil;
use scaleproof_pack::chance::{self, Stream};
use scaleproof_pack::experiment::{Observer, Progress};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Workload;
use scaleproof_policy::gate::Gate;
use scaleproof_policy::{Admission, Fleet, Router, admission};

/// The least time between sending a request and hearing that it is refused: a loopback connection's. Without it a
/// refused closed-loop client would send its whole schedule in no time.
const REFUSAL_TURNAROUND_MIN: Nanos = Nanos(1_000_000);
/// The observer is asked whether to stop every so many events.
const ASK_EVERY: u64 = 4096;

/// Runs `schedule` on replicas made by `engine`. Records, samples and progress go to `observer`.
///
/// # Errors
/// [`RunError`]: the records observed until then are valid.
pub fn run(
    config: &RunConfig,
    schedule: &Schedule,
    engine: &dyn Fn() -> Box<dyn BatchScheduler + Send>,
    observer: &mut dyn Observer,
) -> Result<RunSummary, RunError> {
    run_with(config, Policies::of(config), schedule, engine, observer)
}

/// The policies of a run, to bring one's own.
pub struct Policies {
    /// Chooses the replica.
    pub router: Box<dyn Router>,
    /// Lets requests in; None lets everybody in.
    pub admission: Option<Box<dyn Admission>>,
}

impl Policies {
    /// Those that a configuration names.
    #[must_use]
    pub fn of(config: &RunConfig) -> Policies {
        Policies {
            router: scaleproof_policy::build(config.router),
            admission: admission::build(&config.gateway.admission),
        }
    }
}

/// As [`run`], with `policies` in the place of the configuration's.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    config: &RunConfig,
    policies: Policies,
    schedule: &Schedule,
    engine: &dyn Fn() -> Box<dyn BatchScheduler + Send>,
    observer: &mut dyn Observer,
) -> Result<RunSummary, RunError> {
    simulate(config, policies, schedule, &mut |_| Replica::new(engine()), observer, None)
}

/// The same with every step shown to `watcher`, row by row: slower, with the same results.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    config: &RunConfig,
    schedule: &Schedule,
    engine: &dyn Fn() -> Box<dyn BatchScheduler + Send>,
    observer: &mut dyn Observer,
    watcher: &mut dyn Watcher,
) -> Result<RunSummary, RunError> {
    let mut new_replica = |_| listing(engine());
    simulate(config, Policies::of(config), schedule, &mut new_replica, observer, Some(watcher))
}

/// The same with policies of one's own, every step at the pace of its replica, if `pace` has one for its number, and a
/// watcher or none.
///
/// # Errors
/// As [`run`], and for a pace that makes of a step's duration something that is no time.
pub fn run_paced(
    config: &RunConfig,
    policies: Policies,
    schedule: &Schedule,
    engine: &dyn Fn() -> Box<dyn BatchScheduler + Send>,
    pace: &mut dyn FnMut(u32) -> Option<Pace>,
    (observer, watcher): (&mut dyn Observer, Option<&mut dyn Watcher>),
) -> Result<RunSummary, RunError> {
    let watched = watcher.is_some();
    let mut new_replica = |number| {
        let replica = if watched { listing(engine()) } else { Replica::new(engine()) };
        match pace(number) {
            Some(pace) => replica.paced(pace),
            None => replica,
        }
    };
    match watcher {
        Some(watcher) => simulate(config, policies, schedule, &mut new_replica, observer, Some(watcher)),
        None => simulate(config, policies, schedule, &mut new_replica, observer, None),
    }
}

/// A replica that shows every row.
fn listing(engine: Box<dyn BatchScheduler + Send>) -> Replica {
    let mut replica = Replica::new(engine);
    replica.list_every_row();
    replica
}

fn simulate<'a>(
    config: &'a RunConfig,
    policies: Policies,
    schedule: &'a Schedule,
    new_replica: &'a mut dyn FnMut(u32) -> Replica,
    observer: &'a mut dyn Observer,
    watcher: Option<&'a mut dyn Watcher>,
) -> Result<RunSummary, RunError> {
    let replicas = Turmoil::places(config);
    let mut simulation = Simulation {
        config,
        replicas: (0..replicas).map(&mut *new_replica).collect(),
        new_replica,
        workload: Workload::new(schedule, config.enough),
        fleet: Fleet::new(replicas, config.router.load_source(config.poll_interval.is_some())),
        router: policies.router,
        gate: policies.admission.map(Gate::new),
        router_chance: chance::stream(schedule.seed, schedule.run, "router"),
        servers: vec![Server::default(); replicas as usize],
        attempts: Attempts::default(),
        events: EventQueue::new(replicas),
        ended: 0,
        sampled: 0,
        last_end: Nanos::ZERO,
        emitted: Vec::new(),
        turmoil: Turmoil::of(config, schedule),
        observer,
        watcher,
    };
    simulation.start();
    let stopped = simulation.drive()?;
    Ok(simulation.summary(stopped))
}

struct Simulation<'a> {
    config: &'a RunConfig,
    replicas: Vec<Replica>,
    /// A new process for a replica, by the replica's number.
    new_replica: &'a mut dyn FnMut(u32) -> Replica,
    workload: Workload<'a>,
    fleet: Fleet,
    router: Box<dyn Router>,
    /// None if everybody is let in.
    gate: Option<Gate<Slot>>,
    router_chance: Stream,
    servers: Vec<Server>,
    attempts: Attempts,
    events: EventQueue,
    ended: u64,
    /// Timeline rows given to the observer.
    sampled: u64,
    last_end: Nanos,
    emitted: Vec<Emitted>,
    /// What disturbs the run, if anything may.
    turmoil: Option<Box<Turmoil<'a>>>,
    observer: &'a mut dyn Observer,
    watcher: Option<&'a mut dyn Watcher>,
}

impl Simulation<'_> {
    fn start(&mut self) {
        self.arm_next_arrival();
        while let Some((at, request)) = self.workload.next_client() {
            self.events.push(at, Event::Release(request));
        }
        self.events.push(Nanos::ZERO, Event::Sample);
        if self.config.polls().is_some() {
            self.events.push(Nanos::ZERO, Event::Poll);
        }
        self.start_turmoil();
    }

    /// The loop. Returns whether the observer stopped it.
    fn drive(&mut self) -> Result<bool, RunError> {
        let mut handled = 0u64;
        while let Some((now, event)) = self.events.pop() {
            if now.seconds() > Nanos::MAX_SECONDS {
                return Err(RunError::TooLong { unfinished: self.attempts.open() });
            }
            match event {
                Event::Arrival(request) => {
                    self.send(request, now)?;
                    self.arm_next_arrival();
                }
                Event::Release(request) => self.send(request, now)?,
                Event::Dispatch(slot) => self.dispatch(slot, now)?,
                Event::Reached(slot) => self.reached(slot, now)?,
                Event::Ingested(slot) => self.ingested(slot, now)?,
                Event::TakenIn(replica, start) => self.taken_in(replica, start, now),
                Event::Watch(slot) => self.watch(slot),
                Event::StepEnded(replica) => self.step_ended(replica, now)?,
                Event::GiveUp(slot, why) => self.give_up(slot, why, now),
                Event::Fleet(event) => self.fleet_event(event, now)?,
                Event::Poll => self.poll(now),
                Event::Sample => self.sample(now)?,
            }
            handled += 1;
            if handled.is_multiple_of(ASK_EVERY) {
                self.observer.progress(Progress { now, ended: self.ended, planned: self.workload.len() });
                if self.observer.stop() {
                    return Ok(true);
                }
            }
        }
        if let Some(error) = self.workload.take_failure() {
            return Err(RunError::Schedule(error));
        }
        match self.attempts.open() {
            0 => Ok(false),
            unfinished => {
                let first = self.attempts.open_requests().take(5).collect();
                Err(RunError::Stalled { unfinished, first })
            }
        }
    }

    fn summary(mut self, stopped: bool) -> RunSummary {
        let now = self.events.now();
        self.replicas.iter_mut().for_each(|replica| replica.catch_up(now, true));
        let replicas: Vec<ReplicaTotals> = self.replicas.iter().map(Replica::totals).collect();
        let (moments, connection_failures) = self.turmoil.map(|turmoil| turmoil.told()).unwrap_or_default();
        RunSummary {
            ended: self.last_end,
            attempts: self.ended,
            continued: self.workload.continued(),
            events: self.events.total() + replicas.iter().map(|totals| totals.steps).sum::<u64>(),
            replicas,
            moments,
            connection_failures,
            stopped,
        }
    }

    fn arm_next_arrival(&mut self) {
        if let Some((at, request)) = self.workload.next_arrival() {
            self.events.push(at, Event::Arrival(request));
        }
    }

    fn arm_patience(&mut self, slot: Slot) {
        let Some(attempt) = self.attempts.get_mut(slot) else { return };
        let first = attempt.patience(self.config.ttft_timeout);
        let second = attempt.deadline.filter(|_| first != attempt.deadline);
        let watch_from = self.watch_from(slot).map(|from| from.max(self.events.now()));
        for (at, why) in first.into_iter().chain(second) {
            self.events.push(at, Event::GiveUp(slot, why));
        }
        if let Some(from) = watch_from {
            self.events.push(from, Event::Watch(slot));
        }
    }

    /// From when on a token may reach the client after its patience has ended, although it was there before.
    fn watch_from(&self, slot: Slot) -> Option<Nanos> {
        let link = self.turmoil.as_ref().map_or(Nanos::ZERO, |turmoil| turmoil.link_latency_max());
        let on_the_way = self.config.front_end.output_token + link;
        let (until, _) = self.attempts.get(slot)?.deadline.filter(|_| on_the_way > Nanos::ZERO)?;
        Some(Nanos(until.0.saturating_sub(on_the_way.0)))
    }

    /// Each further token of an attempt is looked at when it comes.
    fn watch(&mut self, slot: Slot) {
        let Some(attempt) = self.attempts.get(slot).filter(|attempt| attempt.in_engine) else { return };
        let replica = attempt.replica.expect("it is in an engine");
        self.interrupt(replica, false);
        self.replicas[replica as usize].report_each_token(slot.engine_id());
    }

    fn ingested(&mut self, slot: Slot, now: Nanos) -> Result<(), RunError> {
        if self.turmoil.is_some() && self.held_back(slot) {
            return Ok(());
        }
        let Some(attempt) = self.attempts.get_mut(slot) else { return Ok(()) };
        attempt.in_engine = true;
        let (request, max_tokens) = (attempt.request, attempt.requested_tokens);
        let replica = attempt.replica.expect("it was sent to one");
        let priority = self.workload.get(request).map_or(0, |planned| planned.priority);
        let (prompt, output) = self.workload.prompt(request).expect("it is in the schedule");
        let id = slot.engine_id();
        self.interrupt(replica, false);
        self.replicas[replica as usize].add(EngineRequest { id, prompt, output, max_tokens, priority });
        if self.watch_from(slot).is_some_and(|from| from <= now) {
            self.watch(slot);
        }
        if self.replicas[replica as usize].is_idle() {
            self.begin_steps(replica, now)?;
        }
        Ok(())
    }

    /// An idle replica has something to do, perhaps.
    fn begin_steps(&mut self, replica: u32, now: Nanos) -> Result<(), RunError> {
        self.replicas[replica as usize].begin(now, self.events.next_turn());
        self.launch_steps(replica, now)
    }

    /// Somebody comes to a replica or leaves it, after the steps that end now if `and_now`: what was foreseen beyond
    /// holds no longer.
    fn interrupt(&mut self, replica: u32, and_now: bool) {
        let unit = &mut self.replicas[replica as usize];
        if unit.is_ahead() {
            let now = self.events.now();
            unit.catch_up(now, and_now);
            // Who comes may have been sent by the end of another replica's step, of this very moment: the steps before that one
            // have ended too.
            if unit.end_at(0).is_some_and(|end| self.events.has_ended(&end)) {
                unit.catch_up(now, true);
            }
            unit.forget_foreseen();
            self.events.set_step_end(replica, unit.next_end());
        }
    }

    fn launch_steps(&mut self, replica: u32, now: Nanos) -> Result<(), RunError> {
        let unit = &mut self.replicas[replica as usize];
        while let Some(launched) = unit.launch(now, &self.config.step_time)? {
            note_admissions(&mut self.attempts, launched.batch);
            let (span, preempted) = (launched.span, !launched.batch.preempted.is_empty());
            match span {
                Some((begins, ends)) => {
                    if let Some(watcher) = &mut self.watcher {
                        let (batch, load) = (launched.batch, launched.load());
                        watcher.step(&Step { replica, begins, ends, batch, load, attempts: &self.attempts });
                    }
                }
                // The one request tried gave up its blocks, and others can have them: the engine's loop goes round
                // again. With a step in flight it waits for that first.
                None if preempted && unit.is_idle() => {}
                None => break,
            }
        }
        if self.turmoil.is_none() {
            unit.look_ahead(&self.config.step_time);
        }
        self.events.set_step_end(replica, unit.next_end());
        Ok(())
    }

    fn step_ended(&mut self, replica: u32, now: Nanos) -> Result<(), RunError> {
        let mut arrives = now + self.config.front_end.output_token;
        if self.turmoil.is_some() {
            match self.answer_arrives(replica, arrives) {
                Some(later) => arrives = later,
                None => return Ok(()),
            }
        }
        let mut emitted = std::mem::take(&mut self.emitted);
        emitted.clear();
        let unit = &mut self.replicas[replica as usize];
        unit.catch_up_whole();
        unit.complete(&mut emitted);
        for token in &emitted {
            self.token(Slot::of_engine_id(token.id), token, arrives);
        }
        self.emitted = emitted;
        self.launch_steps(replica, now)
    }
}

fn note_admissions(attempts: &mut Attempts, batch: &Batch) {
    for &(id, cached) in &batch.admitted {
        if let Some(attempt) = attempts.get_mut(Slot::of_engine_id(id)) {
            attempt.cached_tokens = cached;
        }
    }
    for &id in &batch.preempted {
        if let Some(attempt) = attempts.get_mut(Slot::of_engine_id(id)) {
            attempt.preemptions += 1;
        }
    }
}
