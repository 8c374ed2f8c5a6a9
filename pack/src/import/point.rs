//! What a benchmark says about one operating point of a system, whichever tool measured it.

use crate::manifest::Distribution;
use std::fmt;

/// The tool that wrote a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `vllm bench serve`.
    VllmBench,
    /// NVIDIA AIPerf.
    Aiperf,
    /// guidellm.
    Guidellm,
    /// inference-perf.
    InferencePerf,
    /// A requests.csv of the seven shared columns.
    RequestsCsv,
    /// A table of operating points in this project's own format.
    PointTable,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 6] = [
        Tool::VllmBench,
        Tool::Aiperf,
        Tool::Guidellm,
        Tool::InferencePerf,
        Tool::RequestsCsv,
        Tool::PointTable,
    ];

    /// The word in files and tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Tool::VllmBench => "vllm-bench",
            Tool::Aiperf => "aiperf",
            Tool::Guidellm => "guidellm",
            Tool::InferencePerf => "inference-perf",
            Tool::RequestsCsv => "requests-csv",
            Tool::PointTable => "point-table",
        }
    }
}

/// The clock of a client's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Never set: differences are durations.
    Monotonic,
    /// The time of day, which may be set while a run lasts.
    Wall,
    /// Not stated.
    Unstated,
}

impl Clock {
    /// All of them.
    pub const ALL: [Clock; 3] = [Clock::Monotonic, Clock::Wall, Clock::Unstated];

    /// The word in files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Clock::Monotonic => "monotonic",
            Clock::Wall => "wall",
            Clock::Unstated => "unstated",
        }
    }
}

/// Where an end-to-end latency ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRule {
    /// At the last token: this project's own rule.
    LastToken,
    /// When the stream closes, after the usage chunk and `[DONE]`.
    StreamEnd,
    /// Not stated.
    Unstated,
}

impl EndRule {
    /// All of them.
    pub const ALL: [EndRule; 3] = [EndRule::LastToken, EndRule::StreamEnd, EndRule::Unstated];

    /// The word in files and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EndRule::LastToken => "last_token",
            EndRule::StreamEnd => "stream_end",
            EndRule::Unstated => "unstated",
        }
    }
}

/// Who measured, and what the numbers mean there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The tool.
    pub tool: Tool,
    /// How its numbers were made into this project's metrics, in one line.
    pub semantics: String,
    /// The clock of its time stamps.
    pub clock: Clock,
    /// Where its end-to-end latencies end.
    pub e2e_end: EndRule,
}

/// The offered rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfferedRate {
    /// Requests per second.
    Rps(f64),
    /// All requests at once, as fast as the client can.
    Infinite,
}

impl fmt::Display for OfferedRate {
    /// The number, or `inf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferedRate::Rps(rps) => write!(f, "{rps}"),
            OfferedRate::Infinite => f.write_str("inf"),
        }
    }
}

/// Tokens of the successful requests, prompts or answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    /// All together.
    pub total: Option<u64>,
    /// A request.
    pub mean: Option<f64>,
    /// How the lengths are distributed; only a table of points says that.
    pub lengths: Option<Distribution>,
}

impl Tokens {
    /// `total` over `requests`; no mean without requests.
    #[must_use]
    pub fn of_total(total: u64, requests: u64) -> Tokens {
        let mean = (requests > 0).then(|| total as f64 / requests as f64);
        Tokens { total: Some(total), mean, lengths: None }
    }
}

/// A latency over the successful requests, in milliseconds. What the source does not say is absent, never 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Mean.
    pub mean_ms: Option<f64>,
    /// Pairs of a percentage (above 0, below 100; 50 is the median) and its value, percentages ascending, each once.
    pub percentiles_ms: Vec<(f64, f64)>,
}

impl Summary {
    /// The value at `percent`, if the source gives that very percentile.
    #[must_use]
    pub fn at_ms(&self, percent: f64) -> Option<f64> {
        let same = |(p, _): &&(f64, f64)| p.total_cmp(&percent).is_eq();
        self.percentiles_ms.iter().find(same).map(|(_, value)| *value)
    }

    /// The median.
    #[must_use]
    pub fn median_ms(&self) -> Option<f64> {
        self.at_ms(50.0)
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mean_ms.is_none() && self.percentiles_ms.is_empty()
    }

    /// Adds a percentile in its place; a value for the same percentage replaces the one before.
    pub fn set(&mut self, percent: f64, value_ms: f64) {
        match self.percentiles_ms.binary_search_by(|(p, _)| p.total_cmp(&percent)) {
            Ok(at) => self.percentiles_ms[at].1 = value_ms,
            Err(at) => self.percentiles_ms.insert(at, (percent, value_ms)),
        }
    }

    /// Mean and the percentiles 50, 90, 95 and 99 of `values_ms`, which are put in order. Percentiles lie on the line
    /// between the two nearest values (type 7), as the tools that these summaries stand beside have them.
    #[must_use]
    pub fn of(values_ms: &mut [f64]) -> Summary {
        if values_ms.is_empty() {
            return Summary::default();
        }
        values_ms.sort_by(f64::total_cmp);
        let mean_ms = Some(values_ms.iter().sum::<f64>() / values_ms.len() as f64);
        let percentiles_ms = [50.0, 90.0, 95.0, 99.0].map(|p| (p, interpolated(values_ms, p))).to_vec();
        Summary { mean_ms, percentiles_ms }
    }
}

/// `sorted` has at least one value.
fn interpolated(sorted: &[f64], percent: f64) -> f64 {
    let at = (sorted.len() - 1) as f64 * percent / 100.0;
    let below = at.floor();
    let (low, high) = (sorted[below as usize], sorted[at.ceil() as usize]);
    low + (high - low) * (at - below)
}

/// One operating point as measured: a load, what was served, and how fast. What the source does not say is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatingPoint {
    /// The system as the source names it: its model, or the file.
    pub label: String,
    /// Who measured, and how.
    pub source: Source,
    /// Offered rate of an open loop. Beside a `concurrency`, that many in flight was the client's limit.
    pub offered_rate: Option<OfferedRate>,
    /// Most requests in flight.
    pub concurrency: Option<u32>,
    /// Shape of the gamma distribution of the gaps between arrivals: 1 is Poisson.
    pub gamma_shape: Option<f64>,
    /// Prompt tokens.
    pub input_tokens: Tokens,
    /// Output tokens.
    pub output_tokens: Tokens,
    /// Share of the prompts' tokens that were found in the prefix cache; 0: it was cold, or there was none.
    pub prefix_hit_share: Option<f64>,
    /// Requests that were sent.
    pub attempted: Option<u64>,
    /// Those that succeeded.
    pub completed: Option<u64>,
    /// The others.
    pub failed: Option<u64>,
    /// What the source divides by for its throughputs, in seconds.
    pub duration_s: Option<f64>,
    /// Successes per second.
    pub request_throughput_rps: Option<f64>,
    /// Output tokens of successes per second.
    pub output_throughput_tps: Option<f64>,
    /// Prompt and output tokens per second.
    pub total_throughput_tps: Option<f64>,
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token after the first, of requests with at least two: (E2E - TTFT)/(O - 1).
    pub tpot_ms: Summary,
    /// From sending to the end, as `source.e2e_end` has it.
    pub e2e_ms: Summary,
}

impl OperatingPoint {
    /// A point of which nothing but its source is known.
    #[must_use]
    pub fn new(label: &str, source: Source) -> OperatingPoint {
        OperatingPoint {
            label: label.to_owned(),
            source,
            offered_rate: None,
            concurrency: None,
            gamma_shape: None,
            input_tokens: Tokens::default(),
            output_tokens: Tokens::default(),
            prefix_hit_share: None,
            attempted: None,
            completed: None,
            failed: None,
            duration_s: None,
            request_throughput_rps: None,
            output_throughput_tps: None,
            total_throughput_tps: None,
            ttft_ms: Summary::default(),
            tpot_ms: Summary::default(),
            e2e_ms: Summary::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_interpolated_and_kept_in_order() {
        let mut summary = Summary::of(&mut [40.0, 10.0, 20.0, 30.0]);
        assert_eq!(summary.mean_ms, Some(25.0));
        assert_eq!(summary.median_ms(), Some(25.0));
        assert_eq!(summary.at_ms(90.0), Some(37.0));
        assert_eq!(summary.at_ms(75.0), None);
        summary.set(75.0, 32.5);
        summary.set(50.0, 26.0);
        assert_eq!(summary.at_ms(75.0), Some(32.5));
        assert_eq!(summary.median_ms(), Some(26.0));
        assert!(summary.percentiles_ms.is_sorted());
        assert!(Summary::of(&mut []).is_empty());
    }
}
