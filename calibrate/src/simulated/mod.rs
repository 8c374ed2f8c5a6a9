//! A simulated engine as an experiment: replicas with a profile that whoever measures them does not see, and with what a
//! real engine has beside a profile ([`Quirks`]). For rehearsals of a calibration and of a verdict.

mod client;
mod quirks;
#[cfg(test)]
mod tests;

pub use quirks::Quirks;

use crate::trial::alone;
use client::{Client, Stamps, Tokens};
use scaleproof_pack::chance::Stream;
use scaleproof_pack::experiment::{EngineFacts, Experiment, ExperimentError, Observer, RunCheck};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_pack::workload::Enough;
use scaleproof_policy::{Fleet, RouteRequest, Router};
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{BatchScheduler, EngineConfig};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::watch::Watcher;
use scaleproof_sim::{Policies, RunConfig, run_paced};

/// An engine, or a fleet of them, in virtual time.
pub struct SimulatedEngine {
    profile: Profile,
    scheduler: EngineConfig,
    config: RunConfig,
    quirks: Quirks,
    facts: EngineFacts,
    tells_tokens: bool,
    runs: u32,
    age_s: f64,
}

impl SimulatedEngine {
    /// One replica that does what `profile` says, without a router's or a client's limits.
    #[must_use]
    pub fn alone(profile: Profile, quirks: Quirks) -> SimulatedEngine {
        let (config, scheduler) = alone(&profile, None, Enough { successes: 0, max_requests: 0 });
        let model = profile.model_id.clone();
        SimulatedEngine::new(profile, scheduler, config, model, quirks)
    }

    /// A scenario's fleet of `replicas`, which does what `profile` says.
    #[must_use]
    pub fn fleet(
        (scenario, manifest): (&Scenario, &Manifest),
        profile: &Profile,
        replicas: u32,
        quirks: Quirks,
    ) -> SimulatedEngine {
        let config = scenario.run_config(manifest, profile, replicas);
        let model = manifest.model.id.clone();
        SimulatedEngine::new(profile.clone(), scenario.scheduler.clone(), config, model, quirks)
    }

    fn new(
        profile: Profile,
        scheduler: EngineConfig,
        config: RunConfig,
        model: String,
        quirks: Quirks,
    ) -> SimulatedEngine {
        let facts = EngineFacts {
            version: Some(format!("scaleproof {} (simulated)", env!("CARGO_PKG_VERSION"))),
            model: Some(model),
            max_model_len: Some(scheduler.max_model_len),
            block_size: Some(scheduler.block_size),
            num_blocks: Some(u64::from(scheduler.num_blocks)),
            prefix_cache: Some(scheduler.enable_prefix_caching),
            replicas: if quirks.one_target { 1 } else { config.replicas },
        };
        let (tells_tokens, runs, age_s) = (false, 0, 0.0);
        SimulatedEngine { profile, scheduler, config, quirks, facts, tells_tokens, runs, age_s }
    }

    /// The same, silent about its memory.
    #[must_use]
    pub fn hiding_its_blocks(mut self) -> SimulatedEngine {
        (self.facts.num_blocks, self.facts.block_size, self.facts.prefix_cache) = (None, None, None);
        self
    }

    /// The same with the arrival of every token in its records, as a calibration needs them. Slower: it shows every row.
    #[must_use]
    pub fn telling_tokens(self) -> SimulatedEngine {
        SimulatedEngine { tells_tokens: true, ..self }
    }

    /// The same after so many runs, for its drift.
    #[must_use]
    pub fn after_runs(self, runs: u32) -> SimulatedEngine {
        SimulatedEngine { runs, ..self }
    }

    /// How this run is configured.
    fn configured(&self, schedule: &Schedule, enough: Enough) -> Result<RunConfig, ExperimentError> {
        let profile = self.quirks.profile(&self.profile, schedule, self.runs);
        let profile = profile.map_err(|error| failed(&error))?;
        let (step_time, front_end) = (profile.step_time.on(&self.scheduler), profile.front_end);
        Ok(RunConfig { step_time, front_end, enough, ..self.config.clone() })
    }
}

fn failed(error: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError(format!("simulated engine: {error}"))
}

impl Experiment for SimulatedEngine {
    fn engine(&mut self) -> Result<EngineFacts, ExperimentError> {
        Ok(self.facts.clone())
    }

    fn run(
        &mut self,
        schedule: &Schedule,
        enough: Enough,
        observer: &mut dyn Observer,
    ) -> Result<RunCheck, ExperimentError> {
        let config = self.configured(schedule, enough)?;
        let engine = || -> Box<dyn BatchScheduler + Send> {
            Box::new(VllmScheduler::grouping(&self.scheduler).expect("the settings were checked"))
        };
        let mut policies = Policies::of(&config);
        // A closed loop, as a reference point is, has about one request in flight for each replica, whoever serves it.
        if self.quirks.pinned > 0.0 && matches!(schedule.load, Load::Open { .. }) {
            policies.router =
                Box::new(Pinning { share: self.quirks.pinned, chosen: 0, others: policies.router });
        }
        let tokens = Tokens::default();
        let mut client = Client::new(observer, &tokens, &self.quirks, schedule).map_err(|e| failed(&e))?;
        let mut stamps = Stamps { tokens: &tokens, on_the_way: config.front_end.output_token };
        let watcher = self.tells_tokens.then_some(&mut stamps as &mut dyn Watcher);
        let mut pace = |replica| self.quirks.pace(schedule, replica, self.age_s);
        let summary = run_paced(&config, policies, schedule, &engine, &mut pace, (&mut client, watcher));
        let summary = summary.map_err(|error| failed(&error))?;
        self.runs += 1;
        self.age_s += summary.ended.seconds();
        Ok(RunCheck { invalid: Vec::new(), stopped: summary.stopped })
    }

    fn reset_prefix_cache(&mut self) -> Result<bool, ExperimentError> {
        // Each run begins with an empty cache.
        Ok(true)
    }
}

/// A router that keeps to a share for the first replica from the first request on, and leaves the rest to another.
struct Pinning {
    share: f64,
    chosen: u64,
    others: Box<dyn Router>,
}

impl Router for Pinning {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        let pinned = |chosen: u64| (chosen as f64 * self.share).floor();
        let first = pinned(self.chosen + 1) > pinned(self.chosen) && fleet.available().first() == Some(&0);
        self.chosen += 1;
        if first { Some(0) } else { self.others.choose(request, fleet, chance) }
    }
}
