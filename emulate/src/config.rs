//! What an emulator is given, and why it may not be able to start.

use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{EngineConfig, SettingFault};
use scaleproof_sim::step_time::StepTime;
use scaleproof_sim::{FrontEnd, ServerLimits};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A fleet to emulate. All times of the engine are stretched by `time_scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name under which the model is served.
    pub model: String,
    /// The scheduler's settings.
    pub engine: EngineConfig,
    /// What a step costs.
    pub step_time: StepTime,
    /// What the API server adds.
    pub front_end: FrontEnd,
    /// What the API server refuses.
    pub limits: ServerLimits,
    /// Replicas, all alike.
    pub replicas: u32,
    /// Where they listen.
    pub host: IpAddr,
    /// The first one's port, the others on the next ones; 0 for any that are free.
    pub port: u16,
    /// The port for faults; 0 for any that is free.
    pub admin_port: u16,
    /// Seconds of the wall clock that a second of the engine takes: below 1 is faster than the engine.
    pub time_scale: f64,
    /// Standard deviation of the logarithm of a step's time; 0 for none.
    pub noise: f64,
    /// Seed of the noise and of the faults' probabilities.
    pub seed: u64,
    /// A new file for a row of every step.
    pub steps: Option<PathBuf>,
}

/// The most replicas of one process.
pub const REPLICAS_MAX: u32 = 256;
/// The range of the time scale.
pub const TIME_SCALE: (f64, f64) = (1e-6, 1e3);

impl Config {
    /// Whether all of it can be.
    ///
    /// # Errors
    /// The first thing that cannot.
    pub fn check(&self) -> Result<(), EmulateError> {
        let setting = |name: &'static str, found: &dyn fmt::Display, expected: String| {
            Err(EmulateError::Setting { name, found: found.to_string(), expected })
        };
        if !(1..=REPLICAS_MAX).contains(&self.replicas) {
            return setting("replicas", &self.replicas, format!("1 to {REPLICAS_MAX}"));
        }
        let (low, high) = TIME_SCALE;
        if !(low..=high).contains(&self.time_scale) {
            return setting("time_scale", &self.time_scale, format!("{low} to {high}"));
        }
        if !(0.0..=1.0).contains(&self.noise) {
            return setting("noise", &self.noise, "0 to 1".to_owned());
        }
        if self.port > 0 && u32::from(self.port) + self.replicas - 1 > u32::from(u16::MAX) {
            let expected =
                format!("at most {}, a port for each replica", u32::from(u16::MAX) + 1 - self.replicas);
            return setting("port", &self.port, expected);
        }
        VllmScheduler::new(&self.engine).map(drop).map_err(EmulateError::Engine)
    }

    /// What clients may know of it.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts {
            model: self.model.clone(),
            max_request_tokens: self.limits.max_request_tokens,
            block_size: self.engine.block_size,
            num_blocks: self.engine.num_blocks,
            prefix_caching: self.engine.enable_prefix_caching,
        }
    }
}

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name under which the model is served.
    pub model: String,
    /// Prompt and output tokens that a request may have.
    pub max_request_tokens: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV blocks, the null block included.
    pub num_blocks: u32,
    /// Whether the prefix cache is on.
    pub prefix_caching: bool,
}

/// Why an emulator does not run, or does not do what it was asked.
#[derive(Debug)]
pub enum EmulateError {
    /// A setting of its own.
    Setting {
        /// Which.
        name: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// Settings of the engine.
    Engine(Vec<SettingFault>),
    /// A port cannot be had.
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The file of the steps cannot be made.
    StepLog {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A thread or a server could not be made.
    Start(std::io::Error),
    /// A fault that cannot be.
    Fault(String),
}

impl fmt::Display for EmulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmulateError::Setting { name, found, expected } => {
                write!(f, "{name}: found {found}; expected {expected}")
            }
            EmulateError::Engine(faults) => {
                let lines: Vec<String> = faults.iter().map(|fault| format!("engine.{fault}")).collect();
                f.write_str(&lines.join("\n"))
            }
            EmulateError::Bind { address, error } => write!(
                f,
                "{address}: found {error}; expected a free port; choose others with the port's option, or 0 for any \
                 that are free"
            ),
            EmulateError::StepLog { path, error } => {
                write!(f, "{}: found {error}; expected a new file for the steps", path.display())
            }
            EmulateError::Start(error) => write!(f, "a replica cannot be started: {error}"),
            EmulateError::Fault(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EmulateError {}
