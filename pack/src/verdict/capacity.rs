//! Whether the same rates pass, at each size of the fleet, and whether capacity grows with the fleet.

use super::Tolerance;
use super::measure::{Pair, Point, Run};
use crate::capacity::{Judgement, capacity};
use crate::report::Report;
use crate::trend;
use serde::Serialize;

/// How two capacities compare, at the resolution of the tested rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// The same rate is the highest that passes.
    Same,
    /// Another one, with confidence.
    Different,
    /// Another one, or another queue trend, but the repeats do not show that it is more than chance.
    Open,
    /// There was no live fleet of this size.
    Unmeasured,
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
    /// The highest rate that passed; null if none, or if nothing was measured.
    pub measured_rps: Option<f64>,
    /// How they compare.
    pub agreement: Agreement,
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
                    "; the repeats do not show that it is more than chance"
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

/// Capacity over the fleets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleOut {
    /// The fleets, rising.
    pub fleets: Vec<FleetCapacity>,
    /// Whether capacity per replica is predicted to be the same at every size; null for one size.
    pub predicted_linear: Option<bool>,
    /// The same as measured; null unless two sizes were.
    pub measured_linear: Option<bool>,
    /// What has and what has not been validated.
    pub statement: String,
}

/// The sign tests of each point: of the gates and of the queue's trend. Two-sided, over the repeats in which the sides
/// disagree.
pub(super) fn sign_tests(points: &[&Point]) -> Vec<f64> {
    let tests = |point: &&Point| [p_of_signs(point, passing), p_of_signs(point, trends)];
    points.iter().flat_map(tests).collect()
}

/// Whether each side passes its gates. Where a side's queue trend is not known, as of an engine that shows no queue, both
/// are taken without that gate.
fn passing(pair: &Pair) -> (bool, bool) {
    let (a, b) = judgements(pair);
    (a.pass, b.pass)
}

fn judgements(pair: &Pair) -> (Judgement, Judgement) {
    let known = trends_known(pair);
    let judged = |run: &Run| {
        let mut judged = Judgement::of(&run.report);
        if !known {
            judged.failing_gates.retain(|gate| gate != "queue_trend");
            judged.pass = judged.failing_gates.is_empty();
        }
        judged
    };
    (judged(&pair.predicted), judged(&pair.measured))
}

/// Whether the queue's trend is known on both sides.
pub(super) fn trends_known(pair: &Pair) -> bool {
    let known = |run: &Run| run.report.queue_trend != trend::Verdict::Undetermined;
    known(&pair.predicted) && known(&pair.measured)
}

/// Whether each side's queue grows; neither does where one is not known.
fn trends(pair: &Pair) -> (bool, bool) {
    let grows = |run: &Run| run.report.queue_trend == trend::Verdict::Growing;
    if trends_known(pair) { (grows(&pair.predicted), grows(&pair.measured)) } else { (false, false) }
}

fn p_of_signs(point: &Point, of: fn(&Pair) -> (bool, bool)) -> f64 {
    let count = |way: (bool, bool)| point.pairs.iter().filter(|pair| of(pair) == way).count();
    match (count((true, false)), count((false, true))) {
        (0, 0) => 1.0,
        // Both ways: no more than chance.
        (a, b) if a > 0 && b > 0 => 1.0,
        (a, b) => (2.0 * 0.5f64.powi((a + b).min(1000) as i32)).min(1.0),
    }
}

/// The capacities of all fleets; `adjusted` has the [`sign_tests`] after adjustment.
pub(super) fn scale_out(
    points: &[&Point],
    predicted_only: &[(u32, f64, Report)],
    adjusted: &[f64],
    rule: &Tolerance,
) -> ScaleOut {
    let mut sizes: Vec<u32> = points.iter().map(|point| point.replicas).collect();
    sizes.extend(predicted_only.iter().map(|(replicas, ..)| *replicas));
    sizes.sort_unstable();
    sizes.dedup();
    let fleet = |&replicas: &u32| {
        let own = points.iter().zip(adjusted.chunks(2)).filter(|(point, _)| point.replicas == replicas);
        let own: Vec<(&Point, &[f64])> = own.map(|(point, p)| (*point, p)).collect();
        if own.is_empty() { unmeasured(replicas, predicted_only) } else { measured(replicas, &own, rule) }
    };
    let fleets: Vec<FleetCapacity> = sizes.iter().map(fleet).collect();
    let linear = |of: fn(&FleetCapacity) -> Option<f64>, fleets: &[&FleetCapacity]| {
        let each: Option<Vec<f64>> =
            fleets.iter().map(|fleet| Some(of(fleet)? / f64::from(fleet.replicas))).collect();
        let each = each.filter(|each| each.len() > 1)?;
        Some(each.iter().all(|value| (value / each[0] - 1.0).abs() < 1e-6))
    };
    let all: Vec<&FleetCapacity> = fleets.iter().collect();
    let live: Vec<&FleetCapacity> =
        fleets.iter().filter(|fleet| fleet.agreement != Agreement::Unmeasured).collect();
    let measured_linear = linear(|fleet| fleet.measured_rps, &live);
    let predicted_linear = linear(|fleet| fleet.predicted_rps, &all);
    let statement = statement(&fleets, measured_linear, predicted_linear);
    ScaleOut { predicted_linear, measured_linear, statement, fleets }
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
    let resolution = resolution(predicted_rps, rates.iter().map(|rate| rate.offered_rps));
    FleetCapacity { replicas, predicted_rps, measured_rps, agreement, resolution, rates }
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

fn unmeasured(replicas: u32, predicted_only: &[(u32, f64, Report)]) -> FleetCapacity {
    let own = predicted_only.iter().filter(|(size, ..)| *size == replicas);
    let runs: Vec<_> = own.map(|(_, rps, report)| (*rps, Judgement::of(report))).collect();
    let predicted_rps = capacity(&runs).capacity_rps;
    FleetCapacity {
        replicas,
        predicted_rps,
        measured_rps: None,
        agreement: Agreement::Unmeasured,
        resolution: resolution(predicted_rps, runs.iter().map(|(rps, _)| *rps)),
        rates: Vec::new(),
    }
}

fn resolution(capacity_rps: Option<f64>, rates: impl Iterator<Item = f64>) -> Option<f64> {
    let capacity_rps = capacity_rps?;
    let above = rates.filter(|rps| *rps > capacity_rps).min_by(f64::total_cmp)?;
    Some(above / capacity_rps - 1.0)
}

fn statement(fleets: &[FleetCapacity], measured: Option<bool>, predicted: Option<bool>) -> String {
    let list = |unmeasured: bool| {
        let own = fleets.iter().filter(|fleet| (fleet.agreement == Agreement::Unmeasured) == unmeasured);
        own.map(|fleet| fleet.replicas.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (live, missing) = (list(false), list(true));
    let mut text = format!(
        "Validated against live replicas: fleets of {}.",
        if live.is_empty() { "no size" } else { &live }
    );
    if !missing.is_empty() {
        text += &format!(
            " Not validated: fleets of {missing}, for which there were not as many live replicas; what is said of them is \
             the simulator's prediction alone."
        );
    }
    let linear = |holds: bool| if holds { "the same at every size" } else { "not the same at every size" };
    if let Some(holds) = measured {
        text += &format!(
            " Measured capacity per replica is {}, at the resolution of the tested rates.",
            linear(holds)
        );
    }
    if let Some(holds) = predicted {
        text += &format!(" Predicted capacity per replica is {}.", linear(holds));
    }
    text
}
