//! The arguments of `failure-test`.

use crate::args::{ScenarioArgs, rate, seed};
use clap::{Args, ValueEnum};

/// Arguments of `failure-test`.
#[derive(Debug, Args)]
pub struct FailureTestArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    /// What is injected
    #[arg(long, value_enum, default_value = "kill")]
    pub fault: FaultArg,
    /// Offered rate, in requests per second [default: the highest of the scenario's that passes without a fault]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub rate: Option<f64>,
    /// Whom it meets; several are met at once [default: 0; all for cancellations and rolling-restart]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub replica: Vec<u32>,
    /// When, in seconds of the run [default: after the warm-up and a fifth of the arrivals]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = rate)]
    pub at: Option<f64>,
    /// For how long, in seconds: hang, slow, link, kv-cut [default: 120; a hang lasts until its watchdog]
    #[arg(long = "for", value_name = "S", allow_negative_numbers = true, value_parser = rate)]
    pub lasts: Option<f64>,
    /// slow: each step takes this many times as long
    #[arg(long, value_name = "X", default_value_t = 3.0, allow_negative_numbers = true, value_parser = rate)]
    pub factor: f64,
    /// link: added to each message, each way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200.0, allow_negative_numbers = true, value_parser = rate)]
    pub latency_ms: f64,
    /// link: share of connections that fail, and of those opened that break
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, allow_negative_numbers = true, value_parser = share)]
    pub loss: f64,
    /// kv-cut: share of the KV blocks; cancellations: share of what is in flight
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, allow_negative_numbers = true, value_parser = share)]
    pub share: f64,
    /// Repeat with so many schedules and seeds, for the intervals
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: u64,
    /// The first repeat; 0 has the manifest's own schedule
    #[arg(long, default_value_t = 0, value_parser = seed)]
    pub run: u64,
}

/// What can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultArg {
    /// The process ends, and is started again
    Kill,
    /// It neither computes nor answers
    Hang,
    /// Its steps take longer
    Slow,
    /// The way to it is slow and loses connections
    Link,
    /// A part of its KV blocks is gone
    KvCut,
    /// Clients give up what is in flight, all at once
    Cancellations,
    /// It is not there before, and starts cold
    ColdStart,
    /// All are drained and started anew, one after another
    RollingRestart,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}
