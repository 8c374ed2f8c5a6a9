//! The arguments of `reproduce`.

use crate::args::rate;
use crate::commands::failure_test::args::LiveFaultArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// The scenario: a directory with workload-manifest.yaml and scenario.yaml
    pub scenario: PathBuf,
    /// Write the study's packs here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the study in --out: points and steps that are whole are not made again
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Offered rates, in requests per second [default: the scenario's]
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = rate)]
    pub rps: Vec<f64>,
    /// Closed loop: numbers of clients [default: 1, 2, 4, ... 128 for each replica]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub concurrency: Vec<u32>,
    /// Independent repeats of each offered rate
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub repeats: u64,
    /// Peak to plan for, in requests per second [default: 1.5 times the highest rate that passes]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub peak: Option<f64>,
    /// Offered rate of the failure test, which kills a replica [default: the tested rate below the highest that passes,
    /// if there is one]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub failure_rate: Option<f64>,
    /// The replica that it kills; live, --inject does
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub failure_replica: u32,
    /// Threads to use [default: all cores]. Results are the same for any number
    #[arg(long, value_name = "N", conflicts_with = "live", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub live: LiveFaultArgs,
}
