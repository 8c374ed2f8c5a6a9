//! Two runs of one schedule, and by how much each metric differs between them.

use super::draws::{Changes, Drawn};
use super::statistics::Cell;
use super::tolerance::is_relative;
use crate::compare::{self, Level, Metric, Options, Replicated, Side, percentile_interval};
use crate::interval::{mean_ci95, normal_quantile};
use crate::record::Record;
use crate::report::Report;
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use crate::trend;
use std::collections::BTreeMap;

/// Replicates of the bootstrap of each pair of runs.
const REPLICATES: usize = 200;
/// Successes beyond a percentile that it must rest on to be judged.
const BEYOND_PERCENTILE_MIN: f64 = 5.0;

/// One run of a schedule, predicted or measured.
#[derive(Clone, Debug)]
pub struct Run {
    /// The analyzer's report.
    pub report: Report,
    side: Side,
    /// Counters of all replicas over the run; None without a timeline.
    pub(super) counters: Option<Counters>,
    /// Attempts by replica, as far as they are known.
    pub(super) by_replica: Loads,
    /// Waiting and running by replica, summed over the samples.
    pub(super) in_flight: Loads,
    /// Median time from sending to the response's headers, which only a live client sees.
    pub(super) headers_ms: Option<f64>,
}

/// Something of each replica.
pub(super) type Loads = BTreeMap<u32, u64>;

/// What the replicas counted over a run, its warm-up left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    pub prefix_queries: u64,
    pub prefix_hits: u64,
    pub preemptions: u64,
}

impl Run {
    /// Of a run's report, records and samples; `classes` in the manifest's order.
    ///
    /// # Errors
    /// Records that are not those of the report.
    pub fn new(
        report: Report,
        classes: &[&str],
        records: &[Record],
        samples: &[TimelineRow],
    ) -> Result<Run, String> {
        let side = Side::of_records(&report, classes, records).map_err(|error| error.to_string())?;
        let (mut by_replica, mut in_flight) = (Loads::new(), Loads::new());
        for row in samples {
            *in_flight.entry(row.replica).or_insert(0) += u64::from(row.waiting) + u64::from(row.running);
        }
        for replica in records.iter().filter(|record| !record.warmup).filter_map(|record| record.replica) {
            *by_replica.entry(replica).or_insert(0) += 1;
        }
        let delay = |record: &Record| Some(record.wire.as_ref()?.headers?.since(record.sent).millis());
        let mut delays: Vec<f64> = records.iter().filter_map(delay).collect();
        let middle = delays.len() / 2;
        let headers_ms =
            (!delays.is_empty()).then(|| *delays.select_nth_unstable_by(middle, f64::total_cmp).1);
        let begin = records.iter().filter(|record| !record.warmup).map(|record| record.sent).min();
        let counters = counters(samples, begin.unwrap_or_default());
        Ok(Run { report, side, counters, by_replica, in_flight, headers_ms })
    }

    /// Every metric as the client sees it, as [`Side::metrics`] has them.
    pub(super) fn side_metrics(&self) -> Vec<Option<f64>> {
        self.side.metrics()
    }

    /// The sorted latencies of a scope, in milliseconds: 0 for all attempts, then the classes by name.
    pub(super) fn latencies(&self, quantity: compare::Quantity, scope: usize) -> Vec<f64> {
        self.side.latencies(quantity, scope)
    }
}

/// From the last sample before `begin`: what came before it was to warm up, by other means in the two worlds.
fn counters(samples: &[TimelineRow], begin: Nanos) -> Option<Counters> {
    let mut ends: BTreeMap<u32, (TimelineRow, TimelineRow)> = BTreeMap::new();
    for row in samples {
        let (first, last) = ends.entry(row.replica).or_insert((*row, *row));
        *last = *row;
        if row.at <= begin {
            *first = *row;
        }
    }
    let mut sum = Counters::default();
    for (first, last) in ends.values() {
        sum.prefix_queries += last.prefix_queries.saturating_sub(first.prefix_queries);
        sum.prefix_hits += last.prefix_hits.saturating_sub(first.prefix_hits);
        sum.preemptions += last.preemptions.saturating_sub(first.preemptions);
    }
    (!ends.is_empty()).then_some(sum)
}

/// The same schedule, predicted and measured.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Simulated, before the measurement.
    pub predicted: Run,
    /// What was measured.
    pub measured: Run,
}

/// An operating point with its repeats, each of another schedule.
#[derive(Clone, Debug)]
pub struct Point {
    /// Replicas.
    pub replicas: u32,
    /// The schedules' rate, in requests per second.
    pub offered_rps: f64,
    /// The repeats.
    pub pairs: Vec<Pair>,
    /// Engines drawn from the profile's uncertainty; none if it states none.
    pub draws: Vec<Drawn>,
}

impl Point {
    /// Replicas that were seen in any measured run: by whom the requests went to, or by their own metrics.
    pub(super) fn seen(&self) -> usize {
        let seen = |pair: &Pair| pair.measured.by_replica.len().max(pair.measured.in_flight.len());
        self.pairs.iter().map(seen).max().unwrap_or(0)
    }

    /// Whether the queue grows in most predicted runs: latencies then depend on how long the run was.
    pub(super) fn overloaded(&self) -> bool {
        let growing = |pair: &&Pair| pair.predicted.report.queue_trend == trend::Verdict::Growing;
        2 * self.pairs.iter().filter(growing).count() > self.pairs.len()
    }

    /// The names of the classes, in the order of the scopes.
    pub(super) fn classes(&self) -> Vec<String> {
        let first = self.pairs.first().map(|pair| pair.predicted.report.classes.keys().cloned().collect());
        first.unwrap_or_default()
    }
}

/// One metric of one scope, over the repeats of a point.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub metric: Metric,
    /// 0 for all attempts, then the classes by name.
    pub scope: usize,
    pub predicted: f64,
    pub predicted_ci95: Option<(f64, f64)>,
    pub measured: f64,
    pub measured_ci95: Option<(f64, f64)>,
    pub cell: Cell,
    pub changes: Changes,
}

/// Every metric of a point that can be judged.
///
/// # Errors
/// Runs of different schedules.
pub(super) fn measure(point: &Point) -> Result<Vec<Measured>, String> {
    let metrics = Metric::all();
    let options = Options::default();
    let mut replicated = Vec::new();
    for pair in &point.pairs {
        let (a, b) = (&pair.predicted.side, &pair.measured.side);
        let found = compare::replicates(a, b, &options, REPLICATES).map_err(|error| error.to_string())?;
        replicated.push(found.metrics);
    }
    let scopes = point.classes().len() + 1;
    let mut measured = Vec::new();
    for scope in 0..scopes {
        for (place, &metric) in metrics.iter().enumerate() {
            if !is_judged(point, metric, scope) {
                continue;
            }
            let place = scope * metrics.len() + place;
            let changes = Changes::of(&point.draws, metric, place);
            let repeats: Vec<&Replicated> = replicated.iter().map(|all| &all[place]).collect();
            let found = match metric {
                Metric::PrefixHitShare | Metric::Preemptions => counted(point, metric, changes),
                _ => over_repeats(metric, scope, &repeats, floor(point, metric, scope), changes),
            };
            measured.extend(found);
        }
    }
    Ok(measured)
}

/// What a scope is judged by: classes by latencies and attainment, the whole by rates and counts.
fn is_judged(point: &Point, metric: Metric, scope: usize) -> bool {
    match metric {
        Metric::Percentile(_, level) => {
            let least = point.pairs.iter().flat_map(|pair| [&pair.predicted, &pair.measured]);
            let least = least.map(|run| run.side.counts(scope).1).min().unwrap_or(0);
            scope > 0 && !point.overloaded() && least as f64 * beyond(level) >= BEYOND_PERCENTILE_MIN
        }
        Metric::Attainment => scope > 0 && !point.overloaded(),
        Metric::AttemptedAttainment | Metric::Goodput => false,
        Metric::Throughput | Metric::OutputThroughput | Metric::ErrorRate => scope == 0,
        Metric::PrefixHitShare | Metric::Preemptions => scope == 0,
    }
}

fn beyond(level: Level) -> f64 {
    match level {
        Level::P50 => 0.5,
        Level::P90 => 0.1,
        Level::P95 => 0.05,
        Level::P99 => 0.01,
    }
}

/// The least variance of a difference of shares: none is known better than by one attempt of its sample.
fn floor(point: &Point, metric: Metric, scope: usize) -> f64 {
    let attempts =
        point.pairs.iter().map(|pair| pair.measured.side.counts(scope).0).min().unwrap_or(0) as f64;
    if metric.is_share() { 1.0 / (attempts + 2.0).powi(2) } else { 0.0 }
}

/// The difference of one repeat, as the tolerance measures it. None where it is not defined.
pub(super) fn difference(metric: Metric, predicted: f64, measured: f64) -> Option<f64> {
    let difference = measured - predicted;
    let difference = if is_relative(metric) { difference / predicted } else { difference };
    difference.is_finite().then_some(difference)
}

fn over_repeats(
    metric: Metric,
    scope: usize,
    repeats: &[&Replicated],
    floor: f64,
    changes: Changes,
) -> Option<Measured> {
    let both: Option<Vec<(f64, f64)>> = repeats.iter().map(|r| r.observed.0.zip(r.observed.1)).collect();
    let both = both.filter(|both| !both.is_empty())?;
    let differences: Option<Vec<f64>> = both.iter().map(|&(a, b)| difference(metric, a, b)).collect();
    let variance = |repeat: &&Replicated| {
        let drawn: Vec<f64> = repeat.drawn.iter().filter_map(|&(a, b)| difference(metric, a, b)).collect();
        super::statistics::sample_variance(&drawn).unwrap_or(0.0)
    };
    let within = repeats.iter().map(variance).sum::<f64>() / repeats.len() as f64;
    let count = repeats.iter().map(|repeat| repeat.drawn.len()).min().unwrap_or(0);
    let means = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let mean = |i| repeats.iter().map(|repeat| of(&repeat.drawn[i])).sum::<f64>() / repeats.len() as f64;
        (0..count).map(mean).collect()
    };
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    Some(Measured {
        metric,
        scope,
        predicted: mean(|pair| pair.0),
        predicted_ci95: percentile_interval(changes.applied(means(|pair| pair.0))),
        measured: mean(|pair| pair.1),
        measured_ci95: percentile_interval(means(|pair| pair.1)),
        cell: Cell { differences: differences?, within: within.max(floor) },
        changes,
    })
}

/// Prefix hits a prompt token or preemptions an attempt, by the replicas' own counters, which a live engine has too; its
/// client does not see either. None without counters; where nothing was looked up there are no hits.
pub(super) fn counted_of(run: &Run, metric: Metric) -> Option<f64> {
    let counters = run.counters?;
    let (part, whole) = match metric {
        Metric::PrefixHitShare => (counters.prefix_hits, counters.prefix_queries),
        _ => (counters.preemptions, run.report.attempted),
    };
    Some(if whole > 0 { part as f64 / whole as f64 } else { 0.0 })
}

fn counted(point: &Point, metric: Metric, changes: Changes) -> Option<Measured> {
    let of = |run: &Run| counted_of(run, metric);
    let pairs = point.pairs.iter().map(|pair| of(&pair.predicted).zip(of(&pair.measured)));
    let both = pairs.collect::<Option<Vec<(f64, f64)>>>().filter(|both| !both.is_empty())?;
    let interval = |of: fn(&(f64, f64)) -> f64| mean_ci95(&both.iter().map(of).collect::<Vec<_>>());
    let mean = |of: fn(&(f64, f64)) -> f64| both.iter().map(of).sum::<f64>() / both.len() as f64;
    let predicted_ci95 = interval(|pair| pair.0).and_then(|(low, high)| {
        // A normal of this interval, at even steps of probability.
        let sd = (high - low) / (2.0 * normal_quantile(0.975));
        let quantile =
            |i| low.midpoint(high) + sd * normal_quantile((f64::from(i) + 0.5) / REPLICATES as f64);
        percentile_interval(changes.applied((0..REPLICATES as u32).map(quantile).collect()))
    });
    Some(Measured {
        metric,
        scope: 0,
        predicted: mean(|pair| pair.0),
        predicted_ci95,
        measured: mean(|pair| pair.1),
        measured_ci95: interval(|pair| pair.1),
        cell: Cell {
            differences: both.iter().map(|(a, b)| b - a).collect(),
            within: floor(point, Metric::PrefixHitShare, 0),
        },
        changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_where_the_warm_up_ends() {
        let row = |s: u64, replica, queries, hits| TimelineRow {
            at: Nanos(s * 1_000_000_000),
            replica,
            prefix_queries: queries,
            prefix_hits: hits,
            ..TimelineRow::default()
        };
        let samples =
            [row(0, 0, 0, 0), row(0, 1, 0, 0), row(5, 0, 100, 10), row(9, 0, 200, 90), row(9, 1, 50, 20)];
        let counted = |begin: u64| counters(&samples, Nanos(begin * 1_000_000_000));
        let all = Counters { prefix_queries: 250, prefix_hits: 110, preemptions: 0 };
        assert_eq!(counted(0), Some(all));
        assert_eq!(counted(6), Some(Counters { prefix_queries: 150, prefix_hits: 100, preemptions: 0 }));
        assert_eq!(counters(&[], Nanos::default()), None);
    }
}
