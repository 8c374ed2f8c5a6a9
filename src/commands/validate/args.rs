//! The arguments of `validate`.

use crate::args::{ScenarioArgs, rate};
use crate::commands::live::TargetArgs;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    #[command(flatten)]
    pub targets: TargetArgs,
    /// The profile to judge [default: the scenario's]
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Offered rates of the manifest's own fleet, in requests per second [default: the scenario's]
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = rate)]
    pub rps: Vec<f64>,
    /// Repeats of each point, each with a schedule of its own
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=1000))]
    pub repeats: u64,
    /// Sizes of the fleet to judge, rates in proportion; those without as many live replicas are predicted only
    /// [default: the manifest's]
    #[arg(id = "fleet_sizes", long = "replicas", value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub fleet_sizes: Vec<u32>,
    /// The rule: KEY=VALUE, or a YAML file of them [default: docs/validation.md]
    #[arg(long, value_name = "FILE|KEY=VALUE", value_delimiter = ',')]
    pub tolerance: Vec<String>,
    /// Engines drawn from the profile's uncertainty: what they move the prediction by is part of its intervals, and refutes
    /// nothing. None are drawn of a profile that states no uncertainty
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub draws: u64,
    /// Rehearse on a simulated engine instead of a live one: this scenario's fleet and profile serve the schedules
    #[arg(long, value_name = "SCENARIO", conflicts_with = "targets")]
    pub simulate_engine: Option<PathBuf>,
    /// What the simulated engine has beside its profile: noise=SHARE between runs and between requests, step_noise=SHARE
    /// between steps, hiccups=SHARE of the steps that take five times as long, drift=SHARE over the sweep, speed=FACTOR on
    /// its times, steps=FACTOR on its steps alone, network_ms=MS before each answer, pinned=SHARE of the requests always to
    /// the first replica, one_target=1 if it is not seen whom the router chose
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// Measure nothing: print how long the sweep takes, what it could tell, and the repeats to make. Assumes an engine of
    /// this profile with the noise of --engine [default: noise=0.01]
    #[arg(long)]
    pub plan: bool,
    /// Measure nothing: judge this many simulated engines, true and 10 % slower ones, and print how often the verdict errs
    #[arg(long, value_name = "TRIALS", value_parser = clap::value_parser!(u64).range(1..=100_000), conflicts_with = "plan")]
    pub error_rates: Option<u64>,
}
