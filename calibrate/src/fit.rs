//! The simulator in the loop of a fit: a candidate profile through frozen schedules, in parallel.

use rayon::prelude::*;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::fault::Faults;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::report::{Origin, Report, RunFacts};
use scaleproof_pack::schedule::{Load, Schedule, ScheduleError};
use scaleproof_sim::engine::BatchScheduler;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::{Extremes, RunError};
use std::fmt;

/// A point to simulate: offered rate in requests per second, and number of the repeat.
pub type RatePoint = (f64, u64);

/// A scenario under a candidate profile. The schedules are frozen once, so that every candidate meets the same
/// arrivals (common random numbers).
pub struct Bench {
    manifest: Manifest,
    scenario_file: String,
    scenario_text: String,
    schedules: Vec<Schedule>,
}

/// What a candidate did at one point.
pub struct Measured {
    /// The analyzer's report.
    pub report: Report,
    /// The largest batches of any replica.
    pub extremes: Extremes,
}

impl Bench {
    /// For the texts of a scenario's two files, at the given points, cold.
    ///
    /// # Errors
    /// Faults of the manifest, or a schedule that cannot be made.
    pub fn new(
        (manifest_file, manifest_text): (&str, &str),
        (scenario_file, scenario_text): (&str, &str),
        points: &[RatePoint],
    ) -> Result<Bench, FitError> {
        let manifest = Manifest::parse(manifest_file, manifest_text)?;
        let schedule =
            |&(rps, run): &RatePoint| Schedule::generate(&manifest, Load::Open { rps }, run, None, false);
        let schedules = points.iter().map(schedule).collect::<Result<_, _>>()?;
        Ok(Bench {
            manifest,
            scenario_file: scenario_file.to_owned(),
            scenario_text: scenario_text.to_owned(),
            schedules,
        })
    }

    /// Simulates every point with the profile of this text; results in the order of the points, whatever the number
    /// of threads.
    ///
    /// # Errors
    /// Faults of the profile, or of the scenario over it; a run that cannot end.
    pub fn measure(&self, profile_file: &str, profile_text: &str) -> Result<Vec<Measured>, FitError> {
        let profile = Profile::parse(profile_file, profile_text)?;
        let scenario = Scenario::parse(&self.scenario_file, &self.scenario_text, &profile, &self.manifest)?;
        self.schedules
            .par_iter()
            .with_max_len(1)
            .map(|schedule| self.simulate(schedule, &scenario, &profile))
            .collect()
    }

    fn simulate(
        &self,
        schedule: &Schedule,
        scenario: &Scenario,
        profile: &Profile,
    ) -> Result<Measured, FitError> {
        let replicas = self.manifest.engine.placement.replicas;
        let config = scenario.run_config(&self.manifest, profile, replicas);
        let engine = || -> Box<dyn BatchScheduler + Send> {
            Box::new(
                VllmScheduler::grouping(&scenario.scheduler).expect("the scenario's settings were checked"),
            )
        };
        let mut analyzer = Analyzer::new(&self.manifest);
        let summary = scaleproof_sim::run(&config, schedule, &engine, &mut analyzer)?;
        let report = analyzer.finish(RunFacts::of(Origin::Simulated, schedule), Stated::default());
        let extremes =
            summary.replicas.iter().fold(Extremes::default(), |seen, replica| seen.max(replica.extremes));
        Ok(Measured { report, extremes })
    }
}

/// Why a candidate could not be measured.
#[derive(Debug)]
pub enum FitError {
    /// A manifest, scenario or profile with faults.
    Input(Faults),
    /// A schedule that cannot be made.
    Schedule(ScheduleError),
    /// A simulation that did not end.
    Run(RunError),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Input(faults) => faults.fmt(f),
            FitError::Schedule(error) => error.fmt(f),
            FitError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FitError {}

impl From<Faults> for FitError {
    fn from(faults: Faults) -> Self {
        FitError::Input(faults)
    }
}

impl From<ScheduleError> for FitError {
    fn from(error: ScheduleError) -> Self {
        FitError::Schedule(error)
    }
}

impl From<RunError> for FitError {
    fn from(error: RunError) -> Self {
        FitError::Run(error)
    }
}
