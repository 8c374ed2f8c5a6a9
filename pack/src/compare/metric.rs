//! What is compared, and its value from weighted attempts.

use super::side::Attempt;
use crate::analyze::share;
use crate::percentile::rank;
use crate::report::P99_SUCCESSES_MIN;
use serde::{Serialize, Serializer};

/// A latency of a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// From sending to the end.
    E2e,
}

impl Quantity {
    /// All three.
    pub const ALL: [Quantity; 3] = [Quantity::Ttft, Quantity::Tpot, Quantity::E2e];

    /// Its name, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Quantity::Ttft => "ttft",
            Quantity::Tpot => "tpot",
            Quantity::E2e => "e2e",
        }
    }
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The median.
    P50,
    /// The 90th.
    P90,
    /// The 95th.
    P95,
    /// The 99th: only where both sides have enough successes.
    P99,
}

impl Level {
    /// All four, rising.
    pub const ALL: [Level; 4] = [Level::P50, Level::P90, Level::P95, Level::P99];

    fn percent(self) -> u32 {
        match self {
            Level::P50 => 50,
            Level::P90 => 90,
            Level::P95 => 95,
            Level::P99 => 99,
        }
    }
}

/// A number that both sides have. docs/metrics.md has the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A percentile of a latency, in milliseconds.
    Percentile(Quantity, Level),
    /// Passing / successes.
    Attainment,
    /// Passing / attempts.
    AttemptedAttainment,
    /// Passing successes per second.
    Goodput,
    /// Successes per second.
    Throughput,
    /// Output tokens of successes per second.
    OutputThroughput,
    /// Failed / attempted.
    ErrorRate,
    /// Cached / prompt tokens of successes.
    PrefixHitShare,
    /// Times an attempt lost its blocks.
    Preemptions,
}

impl Metric {
    /// All of them, in the order of every list.
    #[must_use]
    pub fn all() -> Vec<Metric> {
        let percentiles = Quantity::ALL
            .into_iter()
            .flat_map(|q| Level::ALL.into_iter().map(move |l| Metric::Percentile(q, l)));
        percentiles
            .chain([
                Metric::Attainment,
                Metric::AttemptedAttainment,
                Metric::Goodput,
                Metric::Throughput,
                Metric::OutputThroughput,
                Metric::ErrorRate,
                Metric::PrefixHitShare,
                Metric::Preemptions,
            ])
            .collect()
    }

    /// Its name, as in slo-report.json.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Metric::Percentile(quantity, level) => format!("p{}_{}_ms", level.percent(), quantity.word()),
            Metric::Attainment => "attainment".into(),
            Metric::AttemptedAttainment => "attempted_attainment".into(),
            Metric::Goodput => "observed_goodput_rps".into(),
            Metric::Throughput => "request_throughput_rps".into(),
            Metric::OutputThroughput => "output_throughput_tps".into(),
            Metric::ErrorRate => "error_rate".into(),
            Metric::PrefixHitShare => "prefix_hit_share".into(),
            Metric::Preemptions => "preemptions".into(),
        }
    }

    /// Whether it is a share, from 0 to 1.
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(
            self,
            Metric::Attainment | Metric::AttemptedAttainment | Metric::ErrorRate | Metric::PrefixHitShare
        )
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// What is counted of a scope. Weighted: an attempt drawn twice counts twice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    attempted: u64,
    ok: u64,
    passing: u64,
    output_tokens: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    preemptions: u64,
}

impl Tally {
    /// Counts an attempt `weight` times.
    pub fn add(&mut self, attempt: &Attempt, weight: u64) {
        self.attempted += weight;
        self.ok += weight * u64::from(attempt.ok);
        self.passing += weight * u64::from(attempt.passing);
        self.output_tokens += weight * u64::from(attempt.output_tokens);
        self.prompt_tokens += weight * u64::from(attempt.input_tokens);
        self.cached_tokens += weight * u64::from(attempt.cached_tokens);
        self.preemptions += weight * u64::from(attempt.preemptions);
    }

    /// Both together.
    pub fn and(self, other: &Tally) -> Tally {
        Tally {
            attempted: self.attempted + other.attempted,
            ok: self.ok + other.ok,
            passing: self.passing + other.passing,
            output_tokens: self.output_tokens + other.output_tokens,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
            preemptions: self.preemptions + other.preemptions,
        }
    }

    /// The metrics that are no percentiles, in the order of [`Metric::all`].
    pub fn rates(&self, duration_s: f64, preemptions_known: bool) -> [Option<f64>; 8] {
        let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
        [
            share(self.passing, self.ok),
            share(self.passing, self.attempted),
            per_second(self.passing),
            per_second(self.ok),
            per_second(self.output_tokens),
            share(self.attempted - self.ok, self.attempted),
            share(self.cached_tokens, self.prompt_tokens),
            preemptions_known.then_some(self.preemptions as f64),
        ]
    }
}

/// Walks sorted values once and picks the nearest-rank percentiles of one scope on the way.
#[derive(Clone, Debug)]
pub(super) struct Picker {
    targets: [u64; Level::ALL.len()],
    passed: u64,
    next: usize,
    pub found: [Option<f64>; Level::ALL.len()],
}

impl Picker {
    /// For `total` weighted values.
    pub fn new(total: u64) -> Picker {
        let count = usize::try_from(total).unwrap_or(usize::MAX);
        let mut targets = Level::ALL.map(|level| rank(count, level.percent()) as u64);
        if total < P99_SUCCESSES_MIN {
            targets[Level::ALL.len() - 1] = u64::MAX;
        }
        Picker { targets, passed: 0, next: 0, found: [None; Level::ALL.len()] }
    }

    /// The next value, which counts `weight` times.
    pub fn take(&mut self, value: f64, weight: u64) {
        self.passed += weight;
        while self.next < self.targets.len() && self.passed >= self.targets[self.next] {
            self.found[self.next] = Some(value);
            self.next += 1;
        }
    }
}
