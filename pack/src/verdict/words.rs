//! A verdict in sentences: why it is what it is, and what to know before believing it.

use super::measure::{Pair, Point, Run};
use super::{
    Compared, Evidence, Finding, FleetCapacity, Outcome, REPEATS_MIN, ScaleOut, Tolerance, shown_difference,
    signs,
};

/// What makes the measurement unfit for any verdict.
pub(super) fn worthless(
    evidence: &Evidence<'_>,
    repeats: usize,
    drift: Option<f64>,
    rule: &Tolerance,
) -> Vec<String> {
    let mut reasons: Vec<String> =
        evidence.invalid.iter().map(|what| format!("a live run is invalid: {what}")).collect();
    if repeats < REPEATS_MIN {
        reasons.push(format!(
            "{repeats} repeats of a point, at least {REPEATS_MIN} needed: how much runs differ is not known"
        ));
    }
    let limit = rule.get("drift");
    if let Some(drift) = drift.filter(|drift| drift.abs() > limit) {
        reasons.push(format!(
            "the engine drifted: the reference point changed by {:+.1} % over the sweep, at most {:.1} % tolerated",
            100.0 * drift,
            100.0 * limit
        ));
    }
    reasons
}

/// Why the verdict is what it is.
pub(super) fn reasons(
    outcome: Outcome,
    worthless: Vec<String>,
    compared: &[Compared],
    scale_out: &ScaleOut,
    rule: &Tolerance,
) -> Vec<String> {
    if !worthless.is_empty() {
        return worthless;
    }
    let count = |finding| compared.iter().filter(|c| c.finding == finding).count();
    let (inside, outside, open) = (count(Finding::Inside), count(Finding::Outside), count(Finding::Open));
    let mut reasons = vec![match outcome {
        Outcome::Confirmed => {
            format!("all {inside} metrics are inside their tolerances, each with confidence")
        }
        Outcome::Refuted => format!(
            "{outside} of {} metrics are outside their tolerances, with confidence over all of them together",
            compared.len()
        ),
        Outcome::Inconclusive => {
            format!("{open} of {} metrics are neither shown inside nor outside", compared.len())
        }
    }];
    let wanted = if outcome == Outcome::Refuted { Finding::Outside } else { Finding::Open };
    let mut worst: Vec<&Compared> = compared.iter().filter(|c| c.finding == wanted).collect();
    worst.sort_by(|a, b| (b.difference.abs() / b.tolerance).total_cmp(&(a.difference.abs() / a.tolerance)));
    reasons.extend(worst.first().map(|worst| {
        format!(
            "the farthest of them: {}, {} where {} is tolerated",
            worst.name(),
            worst.difference_text(),
            shown_difference(worst.tolerance, worst.metric).trim_start_matches('+')
        )
    }));
    let allowed = compared.iter().filter(|c| c.is_allowed_for(rule.get("refuted_error"))).count();
    if allowed > 0 {
        reasons.push(format!(
            "{allowed} of the open ones are off by more than is tolerated, and by no more than the profile's own uncertainty \
             allows for: calibrate it better"
        ));
    }
    reasons.extend(scale_out.fleets.iter().filter_map(FleetCapacity::disagreement));
    reasons
}

/// What a reader should know.
pub(super) fn warnings(
    points: &[&Point],
    compared: &[Compared],
    scale_out: &ScaleOut,
    evidence: &Evidence<'_>,
    rule: &Tolerance,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for point in points.iter().filter(|point| point.overloaded()) {
        warnings.push(format!(
            "{} requests/s on {} replicas is predicted to be overloaded: latencies and attainment depend there on how \
             long a run is, so they are not judged",
            point.offered_rps, point.replicas
        ));
    }
    warnings.extend(scale_out.fleets.iter().filter_map(FleetCapacity::coarse));
    warnings.extend(wide(compared));
    if evidence.references.len() < 3 {
        warnings.push(format!(
            "fewer than three runs of the reference point: a drift of more than {:.0} % would not have been seen",
            100.0 * rule.get("drift")
        ));
    }
    for point in points.iter().filter(|point| point.seen() < point.replicas as usize) {
        warnings.push(format!(
            "{} requests/s: {} of {} replicas were seen; that there are as many is the scenario's word; name them by --replica",
            point.offered_rps,
            point.seen(),
            point.replicas
        ));
    }
    for point in points {
        let sides = |of: fn(&Pair) -> &Run| point.pairs.iter().all(|pair| of(pair).counters.is_some());
        if !sides(|pair| &pair.measured) {
            warnings.push(format!(
                "{} requests/s: the engine's own counters are not known, so prefix hits and preemptions are not judged",
                point.offered_rps
            ));
        }
    }
    if points.iter().flat_map(|point| &point.pairs).any(|pair| !signs::trends_known(pair)) {
        warnings.push(
            "the queue's trend is not known in every run: there the gates are compared without it".to_owned(),
        );
    }
    warnings
}

/// That the profile knows a metric less well than is tolerated: then the numbers may hold here and not elsewhere.
fn wide(compared: &[Compared]) -> Option<String> {
    let wide = compared.iter().filter(|c| 1.96 * c.parameters_sd > c.tolerance);
    let (count, worst) = (
        wide.clone().count(),
        wide.max_by(|a, b| (a.parameters_sd / a.tolerance).total_cmp(&(b.parameters_sd / b.tolerance)))?,
    );
    Some(format!(
        "the profile's own uncertainty is wider than the tolerance for {count} of {} metrics (most for {}: {:.1} times): what \
         is confirmed are the predicted numbers at these rates, not the profile elsewhere",
        compared.len(),
        worst.name(),
        1.96 * worst.parameters_sd / worst.tolerance
    ))
}
