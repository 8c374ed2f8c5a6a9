//! Policies side by side: the same schedules through fleets that differ in their router and admission alone, at several
//! loads, and which of the differences are real.

mod paired;
mod table;

#[cfg(test)]
mod tests;

pub use paired::{Paired, holm, paired};
pub use table::{csv, differences_table, loads_table};

use crate::chance::stream;
use crate::report::Report;
use crate::trend::Verdict;
use crate::work::{ClassWork, Work};
use serde::Serialize;

/// Replicates of each comparison: never fewer, and enough for Holm's correction to leave room.
const REPLICATES_MIN: usize = 9_999;
const REPLICATES_MAX: usize = 100_000;
/// Replicates for each comparison there is.
const REPLICATES_EACH: usize = 100;
/// A difference is real if its corrected p-value is at most this.
pub const LEVEL: f64 = 0.05;

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Inside the cutoffs / attempted.
    AttemptedAttainment,
    /// Inside the cutoffs, per second.
    GoodputRps,
    /// Rejected / attempted.
    RejectedShare,
    /// Tokens computed for attempts that failed or missed / tokens computed.
    WastedShare,
    /// Jain's index of the classes' attempted attainments: 1 if all are equal, 1/classes if one has all.
    Fairness,
    /// 95th percentile of the TTFT of successes, in milliseconds.
    P95TtftMs,
    /// 99th percentile of the same, with enough successes.
    P99TtftMs,
    /// 95th percentile of the TPOT of successes, in milliseconds.
    P95TpotMs,
}

impl Measure {
    /// All, in the order of the tables.
    pub const ALL: [Measure; 8] = [
        Measure::AttemptedAttainment,
        Measure::GoodputRps,
        Measure::RejectedShare,
        Measure::WastedShare,
        Measure::Fairness,
        Measure::P95TtftMs,
        Measure::P99TtftMs,
        Measure::P95TpotMs,
    ];

    /// Its name, with its unit.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Measure::AttemptedAttainment => "attempted attainment",
            Measure::GoodputRps => "goodput rps",
            Measure::RejectedShare => "rejected share",
            Measure::WastedShare => "wasted share",
            Measure::Fairness => "fairness (Jain)",
            Measure::P95TtftMs => "P95 TTFT ms",
            Measure::P99TtftMs => "P99 TTFT ms",
            Measure::P95TpotMs => "P95 TPOT ms",
        }
    }

    /// Whether more of it is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Measure::AttemptedAttainment | Measure::GoodputRps | Measure::Fairness)
    }

    /// Decimals that it is written with.
    fn digits(self) -> usize {
        match self {
            Measure::P95TtftMs | Measure::P99TtftMs => 0,
            Measure::GoodputRps => 2,
            Measure::P95TpotMs => 1,
            _ => 3,
        }
    }
}

/// One run of a policy, as far as it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct RunMeasures {
    /// By scope (the whole fleet, then the classes in the manifest's order) and by place in [`Measure::ALL`].
    values: Vec<[Option<f64>; Measure::ALL.len()]>,
    /// What the queue did.
    pub queue_trend: Verdict,
}

impl RunMeasures {
    /// Those of a run with these classes.
    #[must_use]
    pub fn of(report: &Report, work: &Work, classes: &[&str]) -> RunMeasures {
        let all = work.classes().iter().fold(ClassWork::default(), |sum, class| sum.and(class));
        let rejected =
            |rejected: u64, attempted: u64| (attempted > 0).then(|| rejected as f64 / attempted as f64);
        let of_class = |name: &&str| report.classes.get(*name);
        let attainments: Vec<f64> =
            classes.iter().filter_map(of_class).filter_map(|class| class.attempted_attainment).collect();
        let mut values = vec![[
            report.attempted_attainment,
            report.observed_goodput_rps,
            rejected(report.outcomes.rejected, report.attempted),
            all.wasted_share(),
            jain(&attainments),
            None,
            None,
            None,
        ]];
        for (name, class_work) in classes.iter().zip(work.classes()) {
            let goodput =
                |passing: u64| (report.duration_s > 0.0).then(|| passing as f64 / report.duration_s);
            values.push(report.classes.get(*name).map_or([None; Measure::ALL.len()], |class| {
                [
                    class.attempted_attainment,
                    goodput(class.passing_count),
                    rejected(class_work.rejected, class.attempted_count),
                    class_work.wasted_share(),
                    None,
                    class.latency.p95_ttft_ms,
                    class.latency.p99_ttft_ms,
                    class.p95_tpot_ms,
                ]
            }));
        }
        RunMeasures { values, queue_trend: report.queue_trend }
    }

    /// A value, if it is defined.
    #[must_use]
    pub fn get(&self, scope: usize, measure: Measure) -> Option<f64> {
        let place = Measure::ALL.iter().position(|&other| other == measure)?;
        self.values.get(scope)?[place]
    }
}

/// Jain's fairness index: (sum x)^2 / (n sum x^2). None of nothing; 1 if all are 0, for nobody is worse off.
#[must_use]
pub fn jain(shares: &[f64]) -> Option<f64> {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    match shares.len() {
        0 => None,
        _ if squares == 0.0 => Some(1.0),
        n => Some(sum * sum / (n as f64 * squares)),
    }
}

/// The runs of a policy at a load, a run each repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadRuns {
    /// Offered rate, in requests per second.
    pub offered_rps: f64,
    /// The same over the capacity.
    pub load: f64,
    /// The repeats.
    pub runs: Vec<RunMeasures>,
}

impl LoadRuns {
    /// The mean of a measure over the runs in which it is defined.
    #[must_use]
    pub fn mean(&self, scope: usize, measure: Measure) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| run.get(scope, measure)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Runs of which the queue grew.
    #[must_use]
    pub fn growing(&self) -> usize {
        self.runs.iter().filter(|run| run.queue_trend == Verdict::Growing).count()
    }
}

/// A policy's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRuns {
    /// Its name.
    pub name: String,
    /// By load, the same loads for every policy.
    pub loads: Vec<LoadRuns>,
}

/// A difference between a policy and the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The policy that is compared with the first.
    pub policy: String,
    /// Offered rate over the capacity.
    pub load: f64,
    /// A class, or `all`.
    pub class: String,
    /// What was measured.
    pub measure: Measure,
    /// Mean of the first policy.
    pub first: f64,
    /// Mean of this one.
    pub second: f64,
    /// Mean of this minus that, over the pairs.
    pub difference: f64,
    /// Its 95 % interval, by itself.
    pub ci95: Option<(f64, f64)>,
    /// Its p-value, by itself.
    pub p: f64,
    /// Its p-value, corrected for all comparisons.
    pub p_corrected: f64,
    /// Whether it is real at the level of 5 %, corrected.
    pub real: bool,
    /// Whether it is for the better; null for no difference.
    pub better: Option<bool>,
    /// Pairs of runs.
    pub pairs: usize,
}

/// Compares every policy with the first one, at each load, class and measure, over the pairs of runs in which both are
/// defined. `classes` as in [`RunMeasures::of`]; `seed` decides the replicates.
#[must_use]
pub fn differences(policies: &[PolicyRuns], classes: &[&str], seed: u64) -> Vec<Difference> {
    let Some((first, others)) = policies.split_first() else { return Vec::new() };
    let mut pairs: Vec<(Difference, Vec<f64>)> = Vec::new();
    for other in others {
        for (a, b) in first.loads.iter().zip(&other.loads) {
            for scope in 0..=classes.len() {
                let class = if scope == 0 { table::ALL } else { classes[scope - 1] };
                let compared = Measure::ALL.iter().filter_map(|&measure| pair(a, b, scope, measure));
                pairs.extend(compared.map(|(difference, values)| {
                    (Difference { policy: other.name.clone(), class: class.to_owned(), ..difference }, values)
                }));
            }
        }
    }
    let replicates = (REPLICATES_EACH * pairs.len()).clamp(REPLICATES_MIN, REPLICATES_MAX);
    let mut found: Vec<Difference> = pairs
        .into_iter()
        .zip(0u64..)
        .map(|((difference, values), number)| {
            let Paired { mean, ci95, p } = paired(&values, replicates, &mut stream(seed, number, "policies"));
            let better = (mean != 0.0).then_some((mean > 0.0) == difference.measure.more_is_better());
            Difference { difference: mean, ci95, p, better, ..difference }
        })
        .collect();
    let p: Vec<f64> = found.iter().map(|difference| difference.p).collect();
    for (difference, corrected) in found.iter_mut().zip(holm(&p)) {
        difference.p_corrected = corrected;
        difference.real = corrected <= LEVEL;
    }
    found
}

/// The differences of a measure, pair by pair.
fn pair(a: &LoadRuns, b: &LoadRuns, scope: usize, measure: Measure) -> Option<(Difference, Vec<f64>)> {
    let both = |(a, b): (&RunMeasures, &RunMeasures)| Some(b.get(scope, measure)? - a.get(scope, measure)?);
    let values: Vec<f64> = a.runs.iter().zip(&b.runs).filter_map(both).collect();
    let difference = Difference {
        policy: String::new(),
        load: a.load,
        class: String::new(),
        measure,
        first: a.mean(scope, measure)?,
        second: b.mean(scope, measure)?,
        difference: 0.0,
        ci95: None,
        p: 1.0,
        p_corrected: 1.0,
        real: false,
        better: None,
        pairs: values.len(),
    };
    (!values.is_empty()).then_some((difference, values))
}
