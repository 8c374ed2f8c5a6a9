//! What runs a schedule, seen from outside: the simulator, or a live engine.

use crate::record::Record;
use crate::schedule::Schedule;
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use crate::workload::Enough;
use std::fmt;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's own time.
    pub now: Nanos,
    /// Attempts that have ended, warm-up included.
    pub ended: u64,
    /// Attempts planned so far, warm-up included.
    pub planned: u64,
}

/// Receives what a run yields, while it runs. Every method does nothing unless overridden.
pub trait Observer {
    /// An attempt ended. Called exactly once for each, when its end is certain: nearly in order of their ends.
    fn record(&mut self, _record: &Record) {}
    /// A replica was sampled.
    fn sample(&mut self, _row: &TimelineRow) {}
    /// Called now and then.
    fn progress(&mut self, _progress: Progress) {}
    /// Asked now and then: true stops the run early, leaving what it has yielded.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Runs schedules: a live engine, or a simulated one in its place. Who measures, calibrates or judges is given one and
/// cannot tell which.
pub trait Experiment {
    /// What the engine says of itself.
    ///
    /// # Errors
    /// If it cannot be reached.
    fn engine(&mut self) -> Result<EngineFacts, ExperimentError>;

    /// Runs `schedule` from its beginning until it has had `enough`. Records and samples go to `observer`.
    ///
    /// # Errors
    /// If the run could not be made. What the observer was given until then is valid.
    fn run(
        &mut self,
        schedule: &Schedule,
        enough: Enough,
        observer: &mut dyn Observer,
    ) -> Result<RunCheck, ExperimentError>;

    /// Empties the prefix cache of every replica. False if the engine has no such command: prompts must then be new.
    ///
    /// # Errors
    /// If it cannot be reached.
    fn reset_prefix_cache(&mut self) -> Result<bool, ExperimentError>;

    /// Puts the prefixes that a warm `schedule` shares into the caches, before it is run. A simulated engine leaves that
    /// to the schedule's warm-up.
    ///
    /// # Errors
    /// If the engine cannot be reached. That its caches do not keep the prefixes is none: the run says so.
    fn prime(&mut self, _schedule: &Schedule) -> Result<(), ExperimentError> {
        Ok(())
    }
}

/// What an engine says of itself, as far as it does. One replica's; all must say the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineFacts {
    /// The engine's name and version.
    pub version: Option<String>,
    /// The model's id, as requests must name it.
    pub model: Option<String>,
    /// Prompt and output tokens of a request at most.
    pub max_model_len: Option<u32>,
    /// Tokens of a KV block.
    pub block_size: Option<u32>,
    /// KV blocks of a replica.
    pub num_blocks: Option<u64>,
    /// Whether the prefix cache is on.
    pub prefix_cache: Option<bool>,
    /// Replicas that were reached.
    pub replicas: u32,
}

/// Whether a run can be believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCheck {
    /// The self-checks that failed, in words. A run with any is invalid and yields no verdict.
    pub invalid: Vec<String>,
    /// Whether the observer stopped it early.
    pub stopped: bool,
}

/// Why an experiment could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError(pub String);

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExperimentError {}
