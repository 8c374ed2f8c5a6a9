//! The verdict: whether a prediction holds on a live engine, by a rule that was stated before.
//!
//! Every operating point was predicted and then measured with the same schedules, a repeat each with its own. What is
//! compared is the difference within a repeat, so that the schedule's own chance cancels; its uncertainty comes from a
//! block bootstrap of both runs together and from the spread between repeats ([`statistics`]).
//!
//! - **confirmed**: *every* metric is shown to be inside its tolerance, each by a test of equivalence at
//!   `confirmed_error`. To be wrong, all of them must be, so no correction is needed (an intersection-union test, Berger
//!   1982).
//! - **refuted**: *some* metric is shown to be outside, and by more than the profile's own uncertainty moves it
//!   ([`Drawn`]). Each of many metrics could be by chance, so their p-values are adjusted by Holm's method: all together err
//!   at most at `refuted_error`.
//! - **inconclusive**: neither, with what more would decide it; and whatever makes the measurement worthless.

mod capacity;
mod causes;
mod draws;
mod measure;
mod more;
mod plan;
mod reference;
mod scale;
mod shapes;
mod signs;
mod statistics;
#[cfg(test)]
mod tests;
mod tolerance;
mod words;

pub use capacity::{Agreement, FleetCapacity, RateResult, Unmeasured};
pub use causes::{Cause, Place, RULES};
pub use draws::Drawn;
pub use measure::{Pair, Point, Run};
pub use more::More;
pub use plan::{Plan, PlanRow, plan};
pub use reference::Reference;
pub use scale::{ScaleOut, Standing};
pub use shapes::Shape;
pub use tolerance::{KEYS, Tolerance, is_relative};

use crate::compare::Metric;
use crate::experiment::EngineFacts;
use measure::Measured;
use serde::Serialize;
use statistics::{Draws, Estimate};

/// Repeats below which the spread between runs is not known well enough to confirm anything.
pub const REPEATS_MIN: usize = 3;

/// What the verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every metric is inside its tolerance, with confidence.
    Confirmed,
    /// At least one is outside, with confidence.
    Refuted,
    /// Neither.
    Inconclusive,
}

impl Outcome {
    /// In lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Confirmed => "confirmed",
            Outcome::Refuted => "refuted",
            Outcome::Inconclusive => "inconclusive",
        }
    }
}

/// What one metric shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// Inside its tolerance, with confidence.
    Inside,
    /// Outside, with confidence, all metrics together.
    Outside,
    /// Not known.
    Open,
}

impl Finding {
    /// In lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Finding::Inside => "inside",
            Finding::Outside => "outside",
            Finding::Open => "open",
        }
    }
}

/// One metric of one operating point, judged. Latencies in milliseconds, shares from 0 to 1, preemptions an attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Replicas.
    pub replicas: u32,
    /// The schedules' rate, in requests per second.
    pub offered_rps: f64,
    /// The class; null for all attempts.
    pub class: Option<String>,
    /// Which.
    pub metric: Metric,
    /// Mean over the repeats.
    pub predicted: f64,
    /// 95 % interval of it, over seeds and over the profile's own uncertainty.
    pub predicted_ci95: Option<(f64, f64)>,
    /// Mean over the repeats.
    pub measured: f64,
    /// 95 % interval of it.
    pub measured_ci95: Option<(f64, f64)>,
    /// Mean over the repeats of measured less predicted: as a share of the predicted value if `relative`.
    pub difference: f64,
    /// Whether differences and tolerance are shares of the predicted value.
    pub relative: bool,
    /// Standard error of `difference`.
    pub standard_error: f64,
    /// Its degrees of freedom.
    pub degrees_of_freedom: f64,
    /// Standard deviation of the difference of one repeat.
    pub repeat_sd: f64,
    /// What the profile's own uncertainty moves the predicted value by, in the unit of `difference`; 0 without draws.
    pub parameters_sd: f64,
    /// Draws that `parameters_sd` is of.
    pub draws: usize,
    /// How far off it may be.
    pub tolerance: f64,
    /// P-value of being off by at least the tolerance.
    pub p_inside: f64,
    /// P-value of being off by at most the tolerance and what the profile's uncertainty makes it, adjusted for all metrics.
    pub p_outside: f64,
    /// What it shows.
    pub finding: Finding,
}

impl Compared {
    /// Whether the difference is more than chance and at least half of what is tolerated: enough to point at a cause
    /// once a model is refuted.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        let sure = self.estimate().p_outside(0.0, self.spread()) < 0.005;
        self.finding == Finding::Outside || sure && self.difference.abs() >= 0.5 * self.tolerance
    }

    /// Whether it would be outside if the profile's own uncertainty did not allow for as much: no repeat decides it.
    #[must_use]
    pub fn is_allowed_for(&self, refuted_error: f64) -> bool {
        let alone = self.estimate().p_outside(self.tolerance, Draws::default());
        self.finding == Finding::Open && self.draws > 0 && alone <= refuted_error
    }

    fn estimate(&self) -> Estimate {
        Estimate {
            mean: self.difference,
            repeat_sd: self.repeat_sd,
            standard_error: self.standard_error,
            degrees_of_freedom: self.degrees_of_freedom,
        }
    }

    fn spread(&self) -> Draws {
        Draws { sd: self.parameters_sd, count: self.draws }
    }

    /// `+12.0 %` or `-1.3 points`.
    #[must_use]
    pub fn difference_text(&self) -> String {
        shown_difference(self.difference, self.metric)
    }

    /// `chat p50_tpot_ms at 24 requests/s`.
    #[must_use]
    pub fn name(&self) -> String {
        let class = self.class.as_ref().map(|class| format!("{class} ")).unwrap_or_default();
        format!("{class}{} at {} requests/s", self.metric.name(), self.offered_rps)
    }
}

/// A difference in the unit of its tolerance.
#[must_use]
pub fn shown_difference(difference: f64, metric: Metric) -> String {
    if is_relative(metric) {
        format!("{:+.1} %", 100.0 * difference)
    } else if metric.is_share() {
        format!("{:+.2} points", 100.0 * difference)
    } else {
        format!("{difference:+.4} an attempt")
    }
}

/// Everything that was measured and judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The answer.
    pub outcome: Outcome,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// Repeats of the point with the fewest.
    pub repeats: usize,
    /// Where the model is wrong, the likeliest first; empty unless refuted.
    pub causes: Vec<Cause>,
    /// What would decide it; null unless inconclusive for want of data.
    pub more: Option<More>,
    /// Predicted and measured capacity of each fleet, and how they scale.
    pub scale_out: ScaleOut,
    /// Every metric that was judged, by point.
    pub compared: Vec<Compared>,
    /// The distributions side by side.
    pub shapes: Vec<Shape>,
    /// Change of the reference point over the sweep, as a share; null with fewer than three of its runs.
    pub drift: Option<f64>,
    /// The rule.
    pub tolerance: Tolerance,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// What a verdict is made of.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The operating points, in any order.
    pub points: &'a [Point],
    /// Fleets that were predicted but not measured, by rate.
    pub unmeasured: &'a [Unmeasured],
    /// The reference point's runs in order of time.
    pub references: &'a [Reference],
    /// Self-checks that failed, each with its run: any makes the measurement invalid.
    pub invalid: &'a [String],
    /// What the engine says of itself.
    pub facts: &'a EngineFacts,
    /// What the prediction took it to be.
    pub expected: &'a EngineFacts,
    /// Whether it is real: a simulated engine in its place validates nothing.
    pub live: bool,
}

/// Judges a prediction.
///
/// # Errors
/// Runs that are not of the same schedule and classes.
pub fn judge(evidence: &Evidence<'_>, rule: &Tolerance) -> Result<Verdict, String> {
    let mut points: Vec<&Point> = evidence.points.iter().collect();
    points.sort_by(|a, b| a.replicas.cmp(&b.replicas).then(a.offered_rps.total_cmp(&b.offered_rps)));
    let (compared, signs) = compare_all(&points, rule)?;
    let fleets = capacity::fleets(&points, evidence.unmeasured, &signs, rule);
    let repeats = points.iter().map(|point| point.pairs.len()).min().unwrap_or(0);
    let drift = reference::drift(evidence.references);
    let worthless = words::worthless(evidence, repeats, drift, rule);
    let scale_out = ScaleOut::of(fleets, &compared, !worthless.is_empty(), evidence.live);
    let outside = compared.iter().any(|c| c.finding == Finding::Outside);
    let open = compared.iter().any(|c| c.finding == Finding::Open);
    let agree = |wanted| scale_out.fleets.iter().any(|fleet| fleet.agreement == wanted);
    let outcome = if !worthless.is_empty() {
        Outcome::Inconclusive
    } else if outside || agree(Agreement::Different) {
        Outcome::Refuted
    } else if open || agree(Agreement::Open) || compared.is_empty() {
        Outcome::Inconclusive
    } else {
        Outcome::Confirmed
    };
    let causes = if outcome == Outcome::Refuted {
        causes::causes(&points, &compared, (evidence.expected, evidence.facts))
    } else {
        Vec::new()
    };
    let more = (outcome == Outcome::Inconclusive && worthless.is_empty())
        .then(|| more::more(&compared, repeats, rule))
        .flatten();
    Ok(Verdict {
        outcome,
        reasons: words::reasons(outcome, worthless, &compared, &scale_out, rule),
        repeats,
        causes,
        more,
        shapes: shapes::shapes(&points),
        warnings: words::warnings(&points, &compared, &scale_out, evidence, rule),
        scale_out,
        compared,
        drift,
        tolerance: rule.clone(),
    })
}

/// All metrics of all points; those of one class and metric share what is known of the spread between runs. Beside them
/// the p-values of the points' [`signs::sign_tests`]: all are adjusted together.
fn compare_all(points: &[&Point], rule: &Tolerance) -> Result<(Vec<Compared>, Vec<f64>), String> {
    let mut all: Vec<(&Point, Measured)> = Vec::new();
    for point in points {
        all.extend(measure::measure(point)?.into_iter().map(|measured| (*point, measured)));
    }
    let mut estimates: Vec<Option<Estimate>> = vec![None; all.len()];
    for index in 0..all.len() {
        if estimates[index].is_some() {
            continue;
        }
        let same =
            |other: &Measured| other.metric == all[index].1.metric && other.scope == all[index].1.scope;
        let group: Vec<usize> = (index..all.len()).filter(|&i| same(&all[i].1)).collect();
        let cells: Vec<_> = group.iter().map(|&i| all[i].1.cell.clone()).collect();
        for (&i, estimate) in group.iter().zip(statistics::estimates(&cells)) {
            estimates[i] = Some(estimate);
        }
    }
    let judged: Vec<(&Point, Measured, Estimate)> =
        all.into_iter().zip(estimates).filter_map(|((p, m), e)| Some((p, m, e?))).collect();
    let tolerance = |measured: &Measured| rule.of(measured.metric, measured.predicted);
    let outside: Vec<f64> = judged.iter().map(|(_, m, e)| e.p_outside(tolerance(m), spread(m))).collect();
    let adjusted = statistics::holm(&[outside, signs::sign_tests(points)].concat());
    let (of_metrics, signs) = adjusted.split_at(judged.len());
    let compared = judged.iter().zip(of_metrics).map(|((point, measured, estimate), &p_outside)| {
        compared(point, measured, *estimate, (tolerance(measured), p_outside), rule)
    });
    Ok((compared.collect(), signs.to_vec()))
}

/// What the profile's own uncertainty does to a metric.
fn spread(measured: &Measured) -> Draws {
    Draws { sd: measured.changes.sd(), count: measured.changes.count() }
}

fn compared(
    point: &Point,
    measured: &Measured,
    estimate: Estimate,
    (tolerance, p_outside): (f64, f64),
    rule: &Tolerance,
) -> Compared {
    let p_inside = estimate.p_inside(tolerance);
    let finding = if p_outside <= rule.get("refuted_error") {
        Finding::Outside
    } else if p_inside <= rule.get("confirmed_error") {
        Finding::Inside
    } else {
        Finding::Open
    };
    Compared {
        replicas: point.replicas,
        offered_rps: point.offered_rps,
        class: measured.scope.checked_sub(1).and_then(|class| point.classes().get(class).cloned()),
        metric: measured.metric,
        predicted: measured.predicted,
        predicted_ci95: measured.predicted_ci95,
        measured: measured.measured,
        measured_ci95: measured.measured_ci95,
        difference: estimate.mean,
        relative: is_relative(measured.metric),
        standard_error: estimate.standard_error,
        degrees_of_freedom: estimate.degrees_of_freedom,
        repeat_sd: estimate.repeat_sd,
        parameters_sd: measured.changes.sd(),
        draws: measured.changes.count(),
        tolerance,
        p_inside,
        p_outside,
        finding,
    }
}
