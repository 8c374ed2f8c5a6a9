//! Whether the same rates pass, at each size of the fleet.

use super::Tolerance;
use super::draws::Drawn;
use super::measure::{Pair, Point};
use super::scale::Standing;
use super::signs::{judgements, passing, trends};
use crate::capacity::{Judgement, capacity};
use crate::report::Report;
use serde::Serialize;

/// How two capacities compare, at the resolution of the tested rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The same rate is the highest that passes.
    Same,
    /// Another one, with confidence.
    Different,
    /// Another one, or another queue trend, but the repeats do not show that it is more than chance and what the profile's
    /// own uncertainty leaves possible.
    Open,
    /// There was no live fleet of this size.
    Unmeasured,
}

/// A fleet that was predicted at a rate and not measured.
#[derive(Clone, Debug)]
pub struct Unmeasured {
    /// Replicas.
    pub replicas: u32,
    /// The schedules' rate, in requests per second.
    pub offered_rps: f64,
    /// The predicted reports, a repeat each.
    pub reports: Vec<Report>,
    /// Engines drawn from the profile's uncertainty.
    pub draws: Vec<Drawn>,
}

/// One tested rate of a fleet: in how many repeats each side passes and grows a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateResult {
    /// The offered rate.
    pub offered_rps: f64,
    /// Repeats.
    pub repeats: usize,
    /// Repeats that were predicted to pass every gate.
    pub predicted_passing: usize,
    /// Repeats that passed.
    pub measured_passing: usize,
    /// Repeats in which the queue was predicted to grow.
    pub predicted_growing: usize,
    /// Repeats in which it grew.
    pub measured_growing: usize,
    /// P-value of as many gate disagreements one way by chance, adjusted for all that is judged.
    pub p_passing: f64,
    /// The same for the queue's trend.
    pub p_growing: f64,
}

/// The capacities of one fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetCapacity {
    /// Replicas.
    pub replicas: u32,
    /// The highest rate that was predicted to pass; null if none.
    pub predicted_rps: Option<f64>,
    /// The least and the greatest such rate of the engines drawn from the profile's uncertainty, 0 for none; null without
    /// draws.
    pub predicted_range_rps: Option<(f64, f64)>,
    /// The highest rate that passed; null if none, or if nothing was measured.
    pub measured_rps: Option<f64>,
    /// How they compare.
    pub agreement: Agreement,
    /// What has been shown of this size, by every metric.
    pub standing: Standing,
    /// The step to the next tested rate, as a share of the predicted capacity: no difference smaller than this is seen.
    pub resolution: Option<f64>,
    /// The tested rates, rising.
    pub rates: Vec<RateResult>,
}

impl FleetCapacity {
    /// What disagrees, in a sentence.
    pub(super) fn disagreement(&self) -> Option<String> {
        let shown =
            |rps: Option<f64>| rps.map_or("no tested rate".to_owned(), |rps| format!("{rps} requests/s"));
        let growth = || {
            let rates = self.rates.iter().filter(|rate| rate.trends_differ());
            rates.map(|rate| format!("{}", rate.offered_rps)).collect::<Vec<_>>().join(", ")
        };
        match self.agreement {
            Agreement::Same | Agreement::Unmeasured => None,
            _ if self.predicted_rps != self.measured_rps => Some(format!(
                "capacity of {} replicas: {} predicted, {} measured{}",
                self.replicas,
                shown(self.predicted_rps),
                shown(self.measured_rps),
                if self.agreement == Agreement::Open {
                    "; the repeats do not show that it is more than chance and the profile's own uncertainty"
                } else {
                    ""
                }
            )),
            _ => Some(format!(
                "{} replicas: the queue's trend differs at {} requests/s",
                self.replicas,
                growth()
            )),
        }
    }

    /// That the rates lie too far apart to tell much of the capacity.
    pub(super) fn coarse(&self) -> Option<String> {
        let resolution = self.resolution.filter(|step| *step > 0.1)?;
        Some(format!(
            "{} replicas: capacity is known to within one step of the tested rates, {:.0} %; test rates closer to it to \
             know it better",
            self.replicas,
            100.0 * resolution
        ))
    }
}

impl RateResult {
    fn passes(&self, passing: usize) -> bool {
        2 * passing > self.repeats
    }

    fn gates_differ(&self) -> bool {
        self.passes(self.predicted_passing) != self.passes(self.measured_passing)
    }

    fn trends_differ(&self) -> bool {
        self.passes(self.predicted_growing) != self.passes(self.measured_growing)
    }
}

/// The capacities of all fleets; `adjusted` has the points' sign tests after adjustment.
pub(super) fn fleets(
    points: &[&Point],
    unmeasured: &[Unmeasured],
    adjusted: &[f64],
    rule: &Tolerance,
) -> Vec<FleetCapacity> {
    let mut sizes: Vec<u32> = points.iter().map(|point| point.replicas).collect();
    sizes.extend(unmeasured.iter().map(|point| point.replicas));
    sizes.sort_unstable();
    sizes.dedup();
    let fleet = |&replicas: &u32| {
        let own = points.iter().zip(adjusted.chunks(2)).filter(|(point, _)| point.replicas == replicas);
        let own: Vec<(&Point, &[f64])> = own.map(|(point, p)| (*point, p)).collect();
        if own.is_empty() { predicted_only(replicas, unmeasured) } else { measured(replicas, &own, rule) }
    };
    sizes.iter().map(fleet).collect()
}

fn measured(replicas: u32, own: &[(&Point, &[f64])], rule: &Tolerance) -> FleetCapacity {
    let (mut predicted, mut measured) = (Vec::new(), Vec::new());
    for (point, _) in own {
        for (a, b) in point.pairs.iter().map(judgements) {
            predicted.push((point.offered_rps, a));
            measured.push((point.offered_rps, b));
        }
    }
    let (predicted_rps, measured_rps) = (capacity(&predicted).capacity_rps, capacity(&measured).capacity_rps);
    let rates: Vec<RateResult> = own.iter().map(|(point, p)| rate(point, p)).collect();
    let level = rule.get("refuted_error");
    let different = rates.iter().any(|rate| {
        rate.gates_differ() && rate.p_passing <= level || rate.trends_differ() && rate.p_growing <= level
    });
    let same = predicted_rps == measured_rps && !rates.iter().any(RateResult::trends_differ);
    let agreement = match (different, same) {
        (true, _) => Agreement::Different,
        (false, true) => Agreement::Same,
        (false, false) => Agreement::Open,
    };
    let draws: Vec<(f64, &[Drawn])> =
        own.iter().map(|(point, _)| (point.offered_rps, point.draws.as_slice())).collect();
    FleetCapacity {
        replicas,
        predicted_rps,
        predicted_range_rps: range(&draws),
        measured_rps,
        agreement,
        // Until all its metrics have been looked at.
        standing: Standing::Undecided,
        resolution: resolution(predicted_rps, rates.iter().map(|rate| rate.offered_rps)),
        rates,
    }
}

/// The least and the greatest capacity of the engines that were drawn at all of a fleet's rates.
fn range(points: &[(f64, &[Drawn])]) -> Option<(f64, f64)> {
    let count = points.iter().map(|(_, draws)| draws.len()).min()?;
    let of_one = |draw: usize| {
        let judged: Vec<(f64, Judgement)> =
            points.iter().map(|(rps, draws)| (*rps, draws[draw].judgement.clone())).collect();
        capacity(&judged).capacity_rps.unwrap_or(0.0)
    };
    let all = (0..count).map(of_one);
    all.fold(None, |range: Option<(f64, f64)>, rps| {
        Some(range.map_or((rps, rps), |(low, high)| (low.min(rps), high.max(rps))))
    })
}

fn rate(point: &Point, adjusted: &[f64]) -> RateResult {
    let count = |of: &dyn Fn(&Pair) -> bool| point.pairs.iter().filter(|pair| of(pair)).count();
    RateResult {
        offered_rps: point.offered_rps,
        repeats: point.pairs.len(),
        predicted_passing: count(&|pair| passing(pair).0),
        measured_passing: count(&|pair| passing(pair).1),
        predicted_growing: count(&|pair| trends(pair).0),
        measured_growing: count(&|pair| trends(pair).1),
        p_passing: adjusted.first().copied().unwrap_or(1.0),
        p_growing: adjusted.get(1).copied().unwrap_or(1.0),
    }
}

fn predicted_only(replicas: u32, unmeasured: &[Unmeasured]) -> FleetCapacity {
    let own: Vec<&Unmeasured> = unmeasured.iter().filter(|point| point.replicas == replicas).collect();
    let judged = |point: &&Unmeasured| {
        let rps = point.offered_rps;
        point.reports.iter().map(move |report| (rps, Judgement::of(report))).collect::<Vec<_>>()
    };
    let runs: Vec<(f64, Judgement)> = own.iter().flat_map(judged).collect();
    let predicted_rps = capacity(&runs).capacity_rps;
    let draws: Vec<(f64, &[Drawn])> =
        own.iter().map(|point| (point.offered_rps, point.draws.as_slice())).collect();
    FleetCapacity {
        replicas,
        predicted_rps,
        predicted_range_rps: range(&draws),
        measured_rps: None,
        agreement: Agreement::Unmeasured,
        standing: Standing::Unmeasured,
        resolution: resolution(predicted_rps, runs.iter().map(|(rps, _)| *rps)),
        rates: Vec::new(),
    }
}

fn resolution(capacity_rps: Option<f64>, rates: impl Iterator<Item = f64>) -> Option<f64> {
    let capacity_rps = capacity_rps?;
    let above = rates.filter(|rps| *rps > capacity_rps).min_by(f64::total_cmp)?;
    Some(above / capacity_rps - 1.0)
}
