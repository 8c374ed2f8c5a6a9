//! The arguments of `observability`.

use clap::Args;
use scaleproof_pack::time::Nanos;
use std::path::PathBuf;

/// Arguments of `observability`.
#[derive(Debug, Args)]
pub struct ObservabilityArgs {
    /// Write the files here, over those of an earlier run
    #[arg(long, value_name = "DIR", default_value = "observability")]
    pub out: PathBuf,
    /// Scrape and evaluate every so many seconds; every window and hold is a multiple of it
    #[arg(long, value_name = "S", default_value = "5", allow_negative_numbers = true, value_parser = interval)]
    pub interval_s: Nanos,
}

/// From 0.1 s, below which Prometheus would do nothing else, to 5 minutes, after which it takes a series for gone.
pub fn interval(text: &str) -> Result<Nanos, String> {
    let seconds = text.parse().ok().and_then(|seconds| Nanos::from_seconds(seconds).ok());
    let whole_millis = |nanos: &Nanos| nanos.0.is_multiple_of(10_000_000);
    seconds
        .filter(|nanos| (0.1..=300.0).contains(&nanos.seconds()) && whole_millis(nanos))
        .ok_or_else(|| "expected seconds from 0.1 to 300, to the hundredth".to_owned())
}
