//! The arguments of `compare-policies`.

use crate::args::{ScenarioArgs, rate};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `compare-policies`.
#[derive(Debug, Args)]
pub struct ComparePoliciesArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    /// Files with a `router`, an `admission` or an `engine` section (its queue limits), as in scenario.yaml, two or more.
    /// Each takes the place of the scenario's own; every other is compared with the first
    #[arg(long, value_name = "FILE,FILE,...", value_delimiter = ',', required = true)]
    pub policies: Vec<PathBuf>,
    /// Loads, as multiples of the capacity
    #[arg(long, value_name = "X,X,...", value_delimiter = ',', default_values_t = [0.5, 0.75, 1.0, 1.3, 1.6, 2.0], allow_negative_numbers = true, value_parser = load)]
    pub loads: Vec<f64>,
    /// The capacity in requests per second [default: found on the scenario's rates, as `capacity` does]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub capacity_rps: Option<f64>,
    /// Replicas [default: the manifest's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replicas: Option<u32>,
    /// Runs of each policy at each load, each with a seed of its own that all policies share
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=1_000))]
    pub repeats: u64,
    /// Give each policy seeds of its own: differences then carry the noise of both
    #[arg(long)]
    pub independent_seeds: bool,
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load <= 100.0 => Ok(load),
        _ => Err("expected a number above 0 and at most 100, such as 1.3".to_owned()),
    }
}
