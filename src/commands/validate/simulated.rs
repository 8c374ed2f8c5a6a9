//! An engine for rehearsals: the simulator in the place of a live one, with what a profile does not say of an engine.

use crate::exit::CommandError;
use crate::input::Loaded;
use scaleproof_pack::chance::{self, Stream, normal};
use scaleproof_pack::experiment::{EngineFacts, Experiment, ExperimentError, Observer, Progress, RunCheck};
use scaleproof_pack::record::{Record, Wire};
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::workload::Enough;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::{Correction, Knob};
use std::fmt;

/// What an engine has that its profile does not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// Standard deviation of the logarithm of its speed between runs, and of latencies between requests.
    pub noise: f64,
    /// By how much it becomes slower, a run.
    pub drift_per_run: f64,
    /// Factor on all its times.
    pub speed: f64,
    /// Before each answer.
    pub network_ms: f64,
    /// Share of the requests that its router always sends to the first replica.
    pub pinned: f64,
}

impl Default for Quirks {
    fn default() -> Quirks {
        Quirks { noise: 0.0, drift_per_run: 0.0, speed: 1.0, network_ms: 0.0, pinned: 0.0 }
    }
}

impl Quirks {
    /// Reads `KEY=VALUE`s; `runs` is the length of the sweep that a drift is stated over.
    pub fn parse(texts: &[String], runs: usize) -> Result<Quirks, CommandError> {
        let mut quirks = Quirks::default();
        for text in texts {
            let fail = |found: &str, expected: &str| {
                CommandError::bad_input(format!(
                    "--engine {text}: found {found}; expected {expected}; scaleproof validate --help lists them"
                ))
            };
            let (name, value) = text.split_once('=').ok_or_else(|| fail("no =", "KEY=VALUE"))?;
            let number: f64 = value.parse().map_err(|_| fail(value, "a number"))?;
            let within = |low: f64, high: f64| {
                let inside = (low..=high).contains(&number);
                if inside { Ok(number) } else { Err(fail(value, &format!("a number from {low} to {high}"))) }
            };
            match name {
                "noise" => quirks.noise = within(0.0, 1.0)?,
                "drift" => quirks.drift_per_run = within(-0.9, 10.0)? / runs.max(1) as f64,
                "speed" => quirks.speed = within(0.01, 100.0)?,
                "network_ms" => quirks.network_ms = within(0.0, 1e6)?,
                "pinned" => quirks.pinned = within(0.0, 1.0)?,
                _ => return Err(fail(name, "noise, drift, speed, network_ms or pinned")),
            }
        }
        Ok(quirks)
    }
}

impl fmt::Display for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quirks { noise, drift_per_run, speed, network_ms, pinned } = self;
        write!(
            f,
            "noise {noise}, drift {drift_per_run:.5} a run, speed {speed}, network {network_ms} ms, pinned {pinned}"
        )
    }
}

/// A fleet of simulated replicas that seems to be live.
pub struct Simulated<'a> {
    loaded: &'a Loaded,
    replicas: u32,
    quirks: Quirks,
    runs: u32,
}

impl<'a> Simulated<'a> {
    /// A fleet of `loaded`'s engine.
    pub fn new(loaded: &'a Loaded, replicas: u32, quirks: Quirks) -> Simulated<'a> {
        Simulated { loaded, replicas, quirks, runs: 0 }
    }

    /// Where in the sweep the next run stands, for its drift.
    pub fn at_run(mut self, run: u32) -> Simulated<'a> {
        self.runs = run;
        self
    }

    /// The profile as it is during one run.
    fn profile(&self, chance: &mut Stream) -> Result<Profile, ExperimentError> {
        let quirks = &self.quirks;
        let drift = 1.0 + quirks.drift_per_run * f64::from(self.runs);
        let factor = quirks.speed * drift * (quirks.noise * normal(chance)).exp();
        if (factor - 1.0).abs() < f64::EPSILON {
            return Ok(self.loaded.profile.clone());
        }
        let correction = Correction { factors: Knob::ALL.map(|knob| (knob, factor)).to_vec() };
        self.loaded.profile.corrected(&correction).map_err(|error| ExperimentError(error.to_string()))
    }

    fn simulate(
        &self,
        profile: &Profile,
        replicas: u32,
        (schedule, enough): (&Schedule, Enough),
        observer: &mut dyn Observer,
    ) -> Result<bool, ExperimentError> {
        let mut config = self.loaded.scenario.run_config(&self.loaded.manifest, profile, replicas);
        config.enough = enough;
        let summary = scaleproof_sim::run(&config, schedule, &|| self.loaded.engine(), observer);
        summary.map(|summary| summary.stopped).map_err(|error| ExperimentError(error.to_string()))
    }

    /// A router that keeps a share of the requests for the first replica: two fleets, each with its part of the schedule.
    fn run_pinned(
        &self,
        profile: &Profile,
        schedule: &Schedule,
        client: &mut Client<'_>,
    ) -> Result<bool, ExperimentError> {
        let after = |request: &Planned| matches!(request.release, Release::After { .. });
        let sessions = schedule.measured.requests.iter().any(after);
        if !matches!(schedule.load, Load::Open { .. }) || self.replicas < 2 || sessions {
            let needs = "pinned needs an open loop without sessions, and two replicas or more";
            return Err(ExperimentError(needs.to_owned()));
        }
        // The share is kept to from the first request on.
        let pick = |list: &PlannedList| -> Vec<bool> {
            let so_far = |place: usize| (place as f64 * self.quirks.pinned).floor();
            (0..list.requests.len()).map(|place| so_far(place + 1) > so_far(place)).collect()
        };
        let (warmup, measured) = (pick(&schedule.warmup), pick(&schedule.measured));
        let mut stopped = false;
        for first in [true, false] {
            let mut part = schedule.clone();
            let ids = [keep(&mut part.warmup, &warmup, first), keep(&mut part.measured, &measured, first)];
            let mut renamed = Renamed { client, ids, replica: u32::from(!first) };
            let enough = Enough { successes: 0, max_requests: 0 };
            let replicas = if first { 1 } else { self.replicas - 1 };
            stopped |= self.simulate(profile, replicas, (&part, enough), &mut renamed)?;
        }
        Ok(stopped)
    }
}

/// Keeps the requests whose mark is `wanted`; their positions before.
fn keep(list: &mut PlannedList, marks: &[bool], wanted: bool) -> Vec<u64> {
    let places: Vec<u64> =
        (0u64..).zip(marks).filter(|(_, mark)| **mark == wanted).map(|(id, _)| id).collect();
    list.requests = places.iter().map(|&id| list.requests[id as usize]).collect();
    places
}

impl Experiment for Simulated<'_> {
    fn engine(&mut self) -> Result<EngineFacts, ExperimentError> {
        let scheduler = &self.loaded.scenario.scheduler;
        Ok(EngineFacts {
            version: Some(format!("simulated {}", self.loaded.profile.name)),
            model: Some(self.loaded.manifest.model.id.clone()),
            max_model_len: Some(scheduler.max_model_len),
            block_size: Some(scheduler.block_size),
            num_blocks: Some(scheduler.num_blocks.into()),
            prefix_cache: Some(scheduler.enable_prefix_caching),
            replicas: self.replicas,
        })
    }

    fn run(
        &mut self,
        schedule: &Schedule,
        enough: Enough,
        observer: &mut dyn Observer,
    ) -> Result<RunCheck, ExperimentError> {
        // By the schedule, so that a sweep that is resumed meets the same engine.
        let name = format!("engine noise {}", schedule.hash);
        let mut chance = chance::stream(schedule.seed, schedule.run, &name);
        let profile = self.profile(&mut chance)?;
        let network =
            Nanos::from_seconds(self.quirks.network_ms / 1e3).map_err(|e| ExperimentError(e.to_string()))?;
        let of_requests = chance::stream(schedule.seed, schedule.run, &format!("request {name}"));
        let mut client = Client { observer, network, noise: self.quirks.noise, chance: of_requests };
        let open = matches!(schedule.load, Load::Open { .. });
        // The reference point is one request at a time, whoever serves it.
        let stopped = if self.quirks.pinned > 0.0 && open {
            self.run_pinned(&profile, schedule, &mut client)?
        } else {
            self.simulate(&profile, self.replicas, (schedule, enough), &mut client)?
        };
        self.runs += 1;
        Ok(RunCheck { invalid: Vec::new(), stopped })
    }

    fn reset_prefix_cache(&mut self) -> Result<bool, ExperimentError> {
        // Every run begins with an empty one.
        Ok(true)
    }
}

/// What the client of the rehearsal sees: the network before each answer, and noise on each request.
struct Client<'a> {
    observer: &'a mut dyn Observer,
    network: Nanos,
    noise: f64,
    chance: Stream,
}

impl Observer for Client<'_> {
    fn record(&mut self, record: &Record) {
        let mut seen = record.clone();
        let factor = (self.noise * normal(&mut self.chance)).exp();
        let later = |at: Nanos| {
            let after = at.since(record.sent).0 as f64 * factor;
            record.sent + Nanos(after as u64) + self.network
        };
        seen.first_token = record.first_token.map(later);
        seen.ended = later(record.ended);
        let headers = Some(record.sent + self.network);
        seen.wire = Some(Box::new(Wire { headers, ..Wire::default() }));
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

/// Gives the records of a part of a schedule back their places in the whole.
struct Renamed<'a, 'b> {
    client: &'a mut Client<'b>,
    /// Of the warm-up and of the measured requests.
    ids: [Vec<u64>; 2],
    /// The first replica of this part.
    replica: u32,
}

impl Observer for Renamed<'_, '_> {
    fn record(&mut self, record: &Record) {
        let ids = &self.ids[usize::from(!record.warmup)];
        let Some(&id) = usize::try_from(record.id).ok().and_then(|place| ids.get(place)) else { return };
        let replica = record.replica.map(|replica| replica + self.replica);
        self.client.record(&Record { id, replica, ..record.clone() });
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.client.sample(&TimelineRow { replica: row.replica + self.replica, ..*row });
    }

    fn stop(&mut self) -> bool {
        self.client.stop()
    }
}
