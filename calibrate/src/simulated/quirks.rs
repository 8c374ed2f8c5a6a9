//! What a simulated engine has that its profile does not say.

use rand::RngExt;
use scaleproof_pack::chance::{self, Stream, normal};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::{Nanos, TimeError};
use scaleproof_sim::Pace;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::{Correction, Knob};
use std::fmt;

/// How an engine differs from its profile, and its runs and requests from one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quirks {
    /// Factor on all its times, the front end's too.
    pub speed: f64,
    /// Factor on its steps alone.
    pub steps: f64,
    /// Standard deviation of the logarithm of its speed between runs.
    pub run_sd: f64,
    /// The same of each request's latencies.
    pub request_sd: f64,
    /// The same of each step.
    pub step_sd: f64,
    /// Share of the steps that take [`Quirks::HICCUP`] times as long.
    pub hiccups: f64,
    /// What a step takes longer after an hour, as a share: a machine that grows warm.
    pub drift_per_hour: f64,
    /// By how much all its times grow, a run.
    pub drift_per_run: f64,
    /// Before each answer.
    pub network_ms: f64,
    /// Share of an open loop's requests that its router always sends to the first replica.
    pub pinned: f64,
    /// Whether it is seen through one address: whom its router chose is not known.
    pub one_target: bool,
    /// Of the random numbers.
    pub seed: u64,
}

impl Default for Quirks {
    fn default() -> Quirks {
        Quirks {
            speed: 1.0,
            steps: 1.0,
            run_sd: 0.0,
            request_sd: 0.0,
            step_sd: 0.0,
            hiccups: 0.0,
            drift_per_hour: 0.0,
            drift_per_run: 0.0,
            network_ms: 0.0,
            pinned: 0.0,
            one_target: false,
            seed: 0,
        }
    }
}

impl fmt::Display for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Quirks::default();
        let said = [
            ("speed", self.speed, usual.speed),
            ("steps", self.steps, usual.steps),
            ("noise between runs", self.run_sd, usual.run_sd),
            ("noise between requests", self.request_sd, usual.request_sd),
            ("noise between steps", self.step_sd, usual.step_sd),
            ("hiccups", self.hiccups, usual.hiccups),
            ("drift an hour", self.drift_per_hour, usual.drift_per_hour),
            ("drift a run", self.drift_per_run, usual.drift_per_run),
            ("network ms", self.network_ms, usual.network_ms),
            ("pinned", self.pinned, usual.pinned),
        ];
        let said = said.iter().filter(|(_, value, usual)| value.total_cmp(usual).is_ne());
        let mut said: Vec<String> = said.map(|(name, value, _)| format!("{name} {value}")).collect();
        if self.one_target {
            said.push("behind one address".to_owned());
        }
        if said.is_empty() { f.write_str("as its profile says") } else { f.write_str(&said.join(", ")) }
    }
}

impl Quirks {
    /// How much longer a step with a hiccup takes.
    pub const HICCUP: f64 = 5.0;

    /// The profile as it is in this run, before which there were `runs`.
    pub(super) fn profile(
        &self,
        base: &Profile,
        schedule: &Schedule,
        runs: u32,
    ) -> Result<Profile, TimeError> {
        let drift = 1.0 + self.drift_per_run * f64::from(runs);
        let noise = (self.run_sd * normal(&mut self.stream(schedule, "speed"))).exp();
        let factor = self.speed * drift * noise;
        if (factor - 1.0).abs() < f64::EPSILON {
            return Ok(base.clone());
        }
        base.corrected(&Correction { factors: Knob::ALL.map(|knob| (knob, factor)).to_vec() })
    }

    /// The pace of a replica in a run that begins `from_s` seconds after the engine was started. None if its steps take what
    /// the profile says.
    pub(super) fn pace(self, schedule: &Schedule, replica: u32, from_s: f64) -> Option<Pace> {
        let none = Quirks { step_sd: 0.0, hiccups: 0.0, drift_per_hour: 0.0, steps: 1.0, ..self };
        if self == none {
            return None;
        }
        let mut noise = self.stream(schedule, &format!("steps of replica {replica}"));
        let mut hiccup = self.stream(schedule, &format!("hiccups of replica {replica}"));
        Some(Box::new(move |now: Nanos| {
            let drift = self.steps + self.drift_per_hour * (from_s + now.seconds()) / 3600.0;
            let varied = (self.step_sd * normal(&mut noise)).exp();
            let stalled = hiccup.random::<f64>() < self.hiccups;
            (drift * varied * if stalled { Quirks::HICCUP } else { 1.0 }).max(1e-3)
        }))
    }

    /// The random numbers of one run. By its schedule, so that a sweep that is resumed meets the same engine.
    pub(super) fn stream(&self, schedule: &Schedule, of: &str) -> Stream {
        let name = format!("engine {} of {}: {of}", self.seed, schedule.hash);
        chance::stream(schedule.seed, schedule.run, &name)
    }
}
