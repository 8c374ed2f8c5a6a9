//! The arguments of `emulate`.

use crate::args::seed;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// Arguments of `emulate`.
#[derive(Debug, Args)]
pub struct EmulateArgs {
    /// The scenario: a directory with workload-manifest.yaml and scenario.yaml
    pub scenario: PathBuf,
    /// Replicas [default: the manifest's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(scaleproof_emulate::REPLICAS_MAX)))]
    pub replicas: Option<u32>,
    /// Where they listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// The first replica's port, the others on the next ones; 0 for any that are free
    #[arg(long, default_value_t = 8100)]
    pub port: u16,
    /// The port that takes faults; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8099)]
    pub admin_port: u16,
    /// Seconds of the wall clock that a second of the engine takes: 0.1 is ten times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true)]
    pub time_scale: f64,
    /// Noise of step times: the standard deviation of their logarithm
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    pub noise: f64,
    /// Seed of the noise and of faults that happen by chance
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// Emulate this engine instead of the profile that the scenario names
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// KV blocks of a replica [default: the scenario's or profile's]
    #[arg(long, value_name = "N")]
    pub num_blocks: Option<u32>,
    /// The name under which the model is served [default: the manifest's model]
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Write a row of every step to this new CSV file
    #[arg(long, value_name = "FILE")]
    pub steps: Option<PathBuf>,
}
