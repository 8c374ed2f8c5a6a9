//! The arguments of `calibrate`.

use crate::args::Format;
use crate::commands::live::{EndpointArg, TargetArgs};
use crate::commands::model::ProvenanceArgs;
use clap::Args;
use scaleproof_sim::engine::EngineConfig;
use std::path::PathBuf;

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("engine").required(true).args(["target", "simulate", "from"]))]
pub struct CalibrateArgs {
    /// One engine that speaks OpenAI's API, as http://host:8000, without other traffic
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Try the whole procedure on a simulated engine with this profile, and compare what is found with it
    #[arg(long, value_name = "PROFILE")]
    pub simulate: Option<PathBuf>,
    /// Measure nothing: fit a stored sweep again (the report directory of an earlier calibration, or its sweep.json), or,
    /// with --prior, packs and other tools' results as `model fit` does
    #[arg(long, value_name = "PACK", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// What `model predict` says of this GPU, model, precision and placement, which the profile then names: it must not be
    /// faster than that GPU can be, and what the experiments tell little of stays near the prior
    #[arg(long, value_name = "PROFILE")]
    pub prior: Option<PathBuf>,
    /// Minutes of experiments at most
    #[arg(long, value_name = "MINUTES", default_value_t = 15.0, value_parser = minutes)]
    pub budget: f64,
    /// Standard deviation of the simulated engine's steps, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = noise, requires = "simulate")]
    pub noise: f64,
    /// The simulated engine does not say how much memory it has
    #[arg(long, requires = "simulate")]
    pub hide_blocks: bool,
    /// KV blocks, from the server's log, if the engine does not say them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(EngineConfig::NUM_BLOCKS_MAX)))]
    pub num_blocks: Option<u32>,
    /// The longest request in tokens, if the engine does not say it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(128..=i64::from(EngineConfig::TOKENS_MAX)))]
    pub max_model_len: Option<u32>,
    /// Which endpoint takes the requests
    #[arg(long, value_enum, default_value = "completions", requires = "target")]
    pub endpoint: EndpointArg,
    /// The model's id at the endpoint [default: the first that it lists]
    #[arg(long, value_name = "ID", requires = "target")]
    pub model: Option<String>,
    /// A file with the bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "token_env", requires = "target")]
    pub token_file: Option<PathBuf>,
    /// An environment variable with the bearer token
    #[arg(long, value_name = "NAME", requires = "target")]
    pub token_env: Option<String>,
    /// A file of certificates, in PEM, to trust beside the public authorities
    #[arg(long, value_name = "FILE", requires = "target")]
    pub ca: Option<PathBuf>,
    /// Ids of the prompts' tokens are below this [default: 4096, or the engine's vocabulary if it is smaller]
    #[arg(long, value_name = "N", requires = "target", value_parser = clap::value_parser!(u32).range(16..=10_000_000))]
    pub vocabulary: Option<u32>,
    /// The scenario that the engine is of: its manifest states model, revision, precision and placement, which cannot be
    /// seen from outside and without which no scenario takes the profile. Beside --prior it must be of the same precision
    /// and placement
    #[arg(long, value_name = "SCENARIO", conflicts_with = "simulate")]
    pub scenario: Option<PathBuf>,
    /// What the profile says of itself
    #[command(flatten)]
    pub provenance: ProvenanceArgs,
    /// Write the profile here
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Write the fit report, the measurements and the sweep here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

impl CalibrateArgs {
    /// Where requests go, as `live` has it.
    pub fn targets(&self) -> TargetArgs {
        TargetArgs {
            targets: self.target.iter().cloned().collect(),
            replicas: Vec::new(),
            endpoint: self.endpoint,
            model: self.model.clone(),
            router: None,
            token_file: self.token_file.clone(),
            token_env: self.token_env.clone(),
            ca: self.ca.clone(),
            vocabulary: self.vocabulary,
        }
    }
}

/// A budget.
fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=1440.0).contains(&value) => Ok(value),
        _ => Err("expected minutes from 0.1 to 1440".to_owned()),
    }
}

/// A share of noise.
fn noise(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=0.3).contains(&value) => Ok(value),
        _ => Err("expected a share from 0 to 0.3, such as 0.02".to_owned()),
    }
}
