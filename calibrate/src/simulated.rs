//! A simulated engine as an experiment: it has a profile that whoever measures it does not see, steps that vary and
//! drift as a real engine's do, and it answers with the arrival of every token.

use crate::trial::alone;
use rand::RngExt;
use scaleproof_pack::chance::{normal, stream};
use scaleproof_pack::experiment::{EngineFacts, Experiment, ExperimentError, Observer, Progress, RunCheck};
use scaleproof_pack::record::{Record, TokensFrom, Wire};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::workload::{Enough, RequestRef};
use scaleproof_sim::engine::BatchScheduler;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::watch::{Step, Watcher};
use scaleproof_sim::{Pace, run_paced};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How an engine's steps differ from its profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Standard deviation of the logarithm of each step's factor.
    pub step_sd: f64,
    /// Share of the steps that take [`Noise::HICCUP`] times as long.
    pub hiccups: f64,
    /// What every step takes longer, as a share.
    pub slower: f64,
    /// What a step takes longer after an hour, as a share: a machine that grows warm.
    pub drift_per_hour: f64,
    /// Of the random numbers.
    pub seed: u64,
}

impl Noise {
    /// How much longer a step with a hiccup takes.
    pub const HICCUP: f64 = 5.0;

    /// The pace of a run that begins `from_s` seconds after the engine was started.
    fn pace(self, run: u64, from_s: f64) -> Pace {
        let mut chance = stream(self.seed, run, "step noise");
        let mut hiccup = stream(self.seed, run, "hiccups");
        Box::new(move |now: Nanos| {
            let drift = 1.0 + self.slower + self.drift_per_hour * (from_s + now.seconds()) / 3600.0;
            let varied = (self.step_sd * normal(&mut chance)).exp();
            let stalled = hiccup.random::<f64>() < self.hiccups;
            (drift * varied * if stalled { Noise::HICCUP } else { 1.0 }).max(1e-3)
        })
    }
}

/// An engine in virtual time.
pub struct SimulatedEngine {
    profile: Profile,
    noise: Noise,
    facts: EngineFacts,
    runs: u64,
    age_s: f64,
}

impl SimulatedEngine {
    /// An engine that does what `profile` says, and tells of itself what a vLLM tells.
    #[must_use]
    pub fn new(profile: Profile, noise: Noise) -> SimulatedEngine {
        let scheduler = &profile.scheduler;
        let facts = EngineFacts {
            version: Some(format!("scaleproof {} (simulated)", env!("CARGO_PKG_VERSION"))),
            model: Some(profile.model_id.clone()),
            max_model_len: Some(scheduler.max_model_len),
            block_size: Some(scheduler.block_size),
            num_blocks: Some(u64::from(scheduler.num_blocks)),
            prefix_cache: Some(scheduler.enable_prefix_caching),
            replicas: 1,
        };
        SimulatedEngine { profile, noise, facts, runs: 0, age_s: 0.0 }
    }

    /// The same, silent about its memory.
    #[must_use]
    pub fn hiding_its_blocks(mut self) -> SimulatedEngine {
        (self.facts.num_blocks, self.facts.block_size, self.facts.prefix_cache) = (None, None, None);
        self
    }

    /// What it does.
    #[must_use]
    pub fn truth(&self) -> &Profile {
        &self.profile
    }
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
        let failed = |error: &dyn std::fmt::Display| ExperimentError(format!("simulated engine: {error}"));
        let (config, scheduler) = alone(&self.profile, None, enough).map_err(|error| failed(&error))?;
        let engine = || -> Box<dyn BatchScheduler + Send> {
            Box::new(VllmScheduler::new(&scheduler).expect("a profile's settings were checked"))
        };
        let tokens = RefCell::default();
        let mut tap = Tap { tokens: &tokens, observer };
        let mut stamps = Stamps { tokens: &tokens, on_the_way: config.front_end.output_token };
        let (noise, run, from_s) = (self.noise, self.runs, self.age_s);
        let mut pace = |_| noise.pace(run, from_s);
        let summary = run_paced(&config, schedule, &engine, &mut pace, (&mut tap, &mut stamps))
            .map_err(|error| failed(&error))?;
        self.runs += 1;
        self.age_s += summary.ended.seconds();
        Ok(RunCheck { invalid: Vec::new(), stopped: summary.stopped })
    }

    fn reset_prefix_cache(&mut self) -> Result<bool, ExperimentError> {
        // Each run begins with an empty cache.
        Ok(true)
    }
}

/// When the tokens of each request in flight reach its client.
type Arrivals = RefCell<BTreeMap<RequestRef, Vec<Nanos>>>;

/// Notes the tokens of each step.
struct Stamps<'a> {
    tokens: &'a Arrivals,
    on_the_way: Nanos,
}

impl Watcher for Stamps<'_> {
    fn step(&mut self, step: &Step<'_>) {
        let mut tokens = self.tokens.borrow_mut();
        for row in step.batch.rows.iter().filter(|row| row.samples) {
            if let Some(attempt) = step.attempt(row.id) {
                tokens.entry(attempt.request).or_default().push(step.ends + self.on_the_way);
            }
        }
    }
}

/// Adds to each record the tokens that were noted for it.
struct Tap<'a> {
    tokens: &'a Arrivals,
    observer: &'a mut dyn Observer,
}

impl Observer for Tap<'_> {
    fn record(&mut self, record: &Record) {
        let request = RequestRef { warmup: record.warmup, index: record.id };
        let mut stamps = self.tokens.borrow_mut().remove(&request).unwrap_or_default();
        // A row that was in flight when its request ended made no token.
        stamps.truncate(record.output_tokens as usize);
        let wire = Wire {
            headers: record.first_token,
            done: Some(record.ended),
            http_status: Some(200),
            tokens_from: TokensFrom::Usage,
            usage_input_tokens: Some(record.input_tokens),
            chunks: stamps.into_iter().map(|at| (at, 1)).collect(),
            ..Wire::default()
        };
        self.observer.record(&Record { wire: Some(Box::new(wire)), ..record.clone() });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Builder;
    use crate::testing::engine;

    #[derive(Default)]
    struct Kept(Vec<Record>);

    impl Observer for Kept {
        fn record(&mut self, record: &Record) {
            self.0.push(record.clone());
        }
    }

    fn records(noise: Noise) -> Vec<Record> {
        let mut list = Builder::default();
        for _ in 0..3 {
            list.add(None, (300, 20), &[]).unwrap();
        }
        let mut kept = Kept::default();
        let mut simulated = SimulatedEngine::new(engine(), noise);
        let enough = Enough { successes: 0, max_requests: 0 };
        simulated.run(&list.closed(3), enough, &mut kept).unwrap();
        kept.0
    }

    #[test]
    fn every_token_has_its_time() {
        for record in records(Noise::default()) {
            let chunks = &record.wire.as_ref().unwrap().chunks;
            assert_eq!(chunks.len(), 20);
            assert_eq!(Some(chunks[0].0), record.first_token);
            assert_eq!(chunks[19].0, record.ended);
            assert!(chunks.is_sorted());
        }
    }

    #[test]
    fn noise_moves_the_steps_and_repeats_by_its_seed() {
        let ends = |noise| records(noise).iter().map(|record| record.ended).collect::<Vec<_>>();
        let noise = Noise { step_sd: 0.05, seed: 3, ..Noise::default() };
        assert_eq!(ends(noise), ends(noise));
        assert_ne!(ends(noise), ends(Noise::default()));
        assert_ne!(ends(noise), ends(Noise { seed: 4, ..noise }));
        let late = Noise { drift_per_hour: 3600.0, ..Noise::default() };
        assert!(ends(late)[0] > ends(Noise::default())[0]);
    }
}
