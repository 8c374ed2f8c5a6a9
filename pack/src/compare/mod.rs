//! Two packs side by side: what differs, by how much, and which differences are more than chance. Simulated, live
//! and foreign records meet here, and nowhere else.
//!
//! A comparison judges nothing: it gives every metric of every scope (all attempts, then each class) with its
//! difference and interval, and the distance between the distributions. A verdict is built on that.
//!
//! **Intervals** are percentile intervals of a block bootstrap (Künsch 1989; circular, Politis and Romano 1992).
//! Requests of one run are not independent: a queue carries one's delay over to the next. So whole stretches of
//! consecutive requests of the schedule are drawn, of a length of about the root of their number. Where both sides
//! ran the same schedule, both are drawn together, request by request: what the schedule itself adds to both then
//! cancels.

mod bootstrap;
mod distance;
mod metric;
mod side;
#[cfg(test)]
mod tests;

pub use distance::between as distance;
pub use metric::{Level, Metric, Quantity};
pub use side::{Side, SideError};

use bootstrap::{Draws, Places};
use serde::Serialize;
use side::Sorted;
use std::fmt;

/// Replicates of the bootstrap: the 25th from either end bounds 95 %.
pub const REPLICATES: usize = 1_000;

/// What the caller decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether two different schedules may be compared.
    pub different_schedules: bool,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Two sides, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether requests were drawn in pairs.
    pub paired: bool,
    /// Requests drawn in each replicate: of both sides together if paired, of the larger side otherwise.
    pub requests: usize,
    /// Consecutive requests drawn together.
    pub block_requests: usize,
    /// Replicates.
    pub replicates: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// All attempts first, then the classes by name.
    pub scopes: Vec<Scope>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// All metrics of all attempts or of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scope {
    /// The class; null for all attempts.
    pub class: Option<String>,
    /// The metrics, in the order of [`Metric::all`].
    pub metrics: Vec<Difference>,
    /// How far the distributions are apart.
    pub distributions: Vec<Distance>,
}

/// One metric of both sides. Null where a side has no value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Which.
    pub metric: Metric,
    /// Of the first pack.
    pub a: Option<f64>,
    /// Of the second.
    pub b: Option<f64>,
    /// b - a.
    pub difference: Option<f64>,
    /// 95 % interval of `difference`.
    pub difference_ci95: Option<(f64, f64)>,
    /// b / a; null for a = 0.
    pub ratio: Option<f64>,
    /// 95 % interval of `ratio`.
    pub ratio_ci95: Option<(f64, f64)>,
    /// Whether the interval of the difference excludes 0.
    pub real: bool,
}

/// How far two distributions are apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// Of what.
    pub quantity: Quantity,
    /// Kolmogorov-Smirnov: the greatest difference of the two cumulative shares, from 0 to 1.
    pub kolmogorov_smirnov: Option<f64>,
    /// Values of the first pack.
    pub a_count: usize,
    /// Values of the second.
    pub b_count: usize,
}

impl Comparison {
    /// A metric of a scope: of all attempts for `class` None.
    #[must_use]
    pub fn get(&self, class: Option<&str>, metric: Metric) -> Option<&Difference> {
        let scope = self.scopes.iter().find(|scope| scope.class.as_deref() == class)?;
        scope.metrics.iter().find(|difference| difference.metric == metric)
    }
}

/// Why two sides cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// Not known to be the same schedule, and the caller did not allow that.
    DifferentSchedules {
        /// Hash of the first, if it has one.
        a: Option<String>,
        /// Hash of the second.
        b: Option<String>,
    },
    /// The classes have other names.
    DifferentClasses {
        /// Those of the first.
        a: Vec<String>,
        /// Those of the second.
        b: Vec<String>,
    },
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::DifferentSchedules { a, b } => {
                let shown = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".to_owned());
                write!(
                    f,
                    "schedule_hash: found {} and {}; expected the same schedule, or a difference could come from what \
                     was sent; run both with the same manifest, rate, seed and cache state, or give \
                     --different-schedules",
                    shown(a),
                    shown(b)
                )
            }
            CompareError::DifferentClasses { a, b } => write!(
                f,
                "classes: found {} and {}; expected the same classes in both; compare packs of one workload",
                a.join(", "),
                b.join(", ")
            ),
        }
    }
}

impl std::error::Error for CompareError {}

/// What a bootstrap of two sides gave: the observed values and those of each replicate, for whoever judges them.
#[derive(Clone, Debug)]
pub struct Replicates {
    /// Whether requests were drawn in pairs.
    pub paired: bool,
    /// Requests drawn in each replicate, as in [`Comparison::requests`].
    pub requests: usize,
    /// Consecutive requests drawn together.
    pub block_requests: usize,
    /// Scope after scope (all attempts, then the classes by name), each in the order of [`Metric::all`].
    pub metrics: Vec<Replicated>,
}

/// A metric of both sides, observed and drawn again.
#[derive(Clone, Debug)]
pub struct Replicated {
    /// Of the first side and of the second.
    pub observed: (Option<f64>, Option<f64>),
    /// The same of the replicates in which both are defined.
    pub drawn: Vec<(f64, f64)>,
}

/// Draws `count` replicates of two sides.
///
/// # Errors
/// Sides with different classes, or with schedules not known to be the same unless `options` allow it.
pub fn replicates(a: &Side, b: &Side, options: &Options, count: usize) -> Result<Replicates, CompareError> {
    let paired = check(a, b, options)?;
    let places = Places::new(a, b, paired);
    let (sorted_a, sorted_b) = (Sorted::new(a, &places.a), Sorted::new(b, &places.b));
    let mut draws = Draws::new(&places, options.seed);
    let observed = evaluate(&sorted_a, &sorted_b, &draws);
    let mut metrics: Vec<Replicated> = observed
        .into_iter()
        .map(|observed| Replicated { observed, drawn: Vec::with_capacity(count) })
        .collect();
    for _ in 0..count {
        draws.next();
        for (metric, pair) in metrics.iter_mut().zip(evaluate(&sorted_a, &sorted_b, &draws)) {
            metric.drawn.extend(pair.0.zip(pair.1));
        }
    }
    let (requests, block_requests) = draws.sizes();
    Ok(Replicates { paired, requests, block_requests, metrics })
}

/// Whether the sides' requests can be drawn in pairs, if they can be compared at all.
fn check(a: &Side, b: &Side, options: &Options) -> Result<bool, CompareError> {
    if !a.classes().eq(b.classes()) {
        let names = |side: &Side| side.classes().map(str::to_owned).collect();
        return Err(CompareError::DifferentClasses { a: names(a), b: names(b) });
    }
    let same = a.schedule_hash.is_some() && a.schedule_hash == b.schedule_hash;
    if !same && !options.different_schedules {
        let (a, b) = (a.schedule_hash.clone(), b.schedule_hash.clone());
        return Err(CompareError::DifferentSchedules { a, b });
    }
    Ok(same && a.has_ids && b.has_ids)
}

/// Compares two sides.
///
/// # Errors
/// As [`replicates`].
pub fn compare(a: &Side, b: &Side, options: &Options) -> Result<Comparison, CompareError> {
    let found = replicates(a, b, options, REPLICATES)?;
    let metrics = Metric::all();
    let differences: Vec<Difference> = found
        .metrics
        .iter()
        .zip(metrics.iter().cycle())
        .map(|(replicated, &metric)| {
            Difference::new(metric, replicated.observed.0, replicated.observed.1, &replicated.drawn)
        })
        .collect();
    let scope = |(number, differences): (usize, &[Difference])| Scope {
        class: number.checked_sub(1).map(|class| a.cutoffs[class].name.clone()),
        metrics: differences.to_vec(),
        distributions: Quantity::ALL
            .map(|of| distance(of, &a.latencies(of, number), &b.latencies(of, number)))
            .to_vec(),
    };
    let same = a.schedule_hash.is_some() && a.schedule_hash == b.schedule_hash;
    Ok(Comparison {
        paired: found.paired,
        requests: found.requests,
        block_requests: found.block_requests,
        replicates: REPLICATES,
        seed: options.seed,
        scopes: differences.chunks(metrics.len()).enumerate().map(scope).collect(),
        warnings: warnings(a, b, same, found.paired),
    })
}

/// All metrics of both sides: scope after scope, each in the order of [`Metric::all`].
fn evaluate(a: &Sorted<'_>, b: &Sorted<'_>, draws: &Draws) -> Vec<(Option<f64>, Option<f64>)> {
    let (weights_a, weights_b) = draws.weights();
    a.evaluate(weights_a).into_iter().zip(b.evaluate(weights_b)).collect()
}

impl Difference {
    fn new(metric: Metric, a: Option<f64>, b: Option<f64>, replicates: &[(f64, f64)]) -> Difference {
        let both = a.zip(b);
        let interval = |of: fn(f64, f64) -> f64| both.and_then(|_| interval(replicates, of));
        let difference_ci95 = interval(|a, b| b - a);
        let ratio = both.filter(|&(a, _)| a > 0.0).map(|(a, b)| b / a);
        Difference {
            metric,
            a,
            b,
            difference: both.map(|(a, b)| b - a),
            difference_ci95,
            ratio,
            ratio_ci95: ratio.and_then(|_| interval(|a, b| b / a)),
            real: difference_ci95.is_some_and(|(low, high)| low > 0.0 || high < 0.0),
        }
    }
}

/// The 95 % interval of a function of both sides over the replicates; None if it is not finite or if the metric was
/// defined in less than nine tenths of the [`REPLICATES`].
fn interval(pairs: &[(f64, f64)], of: fn(f64, f64) -> f64) -> Option<(f64, f64)> {
    if pairs.len() * 10 < REPLICATES * 9 {
        return None;
    }
    percentile_interval(pairs.iter().map(|&(a, b)| of(a, b)).collect())
}

/// The 95 % percentile interval of replicates: a fortieth of them is left out at either end. None if an end is not
/// finite, and for none.
#[must_use]
pub fn percentile_interval(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let tail = values.len() / 40;
    let (low, high) = (*values.get(tail)?, *values.get((values.len() - tail).checked_sub(1)?)?);
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

fn warnings(a: &Side, b: &Side, same: bool, paired: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if !same {
        warnings.push(
            "the schedules are not known to be the same: a difference may come from what was sent".to_owned(),
        );
    }
    if same && !paired {
        warnings
            .push("rows without our own columns cannot be paired: the intervals are wider for it".to_owned());
    }
    for (a, b) in a.cutoffs.iter().zip(&b.cutoffs) {
        if a != b {
            warnings.push(format!(
                "class {}: the packs have different cutoffs, and each is judged by its own",
                a.name
            ));
        }
    }
    warnings
}
