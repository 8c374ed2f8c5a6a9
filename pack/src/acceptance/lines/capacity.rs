//! The lines about the capacity: the two loops, the chosen point, its repeats.

use super::{ATTAINMENT_MIN, ERROR_RATE_MAX, Judged, REPEATS_MIN, Refusal, SUCCESSES_MIN};
use crate::acceptance::{Evidence, PointPack, Verdict};
use crate::capacity::{Judgement, capacity};
use crate::report::Report;
use crate::saturation::saturation;
use crate::trend;

/// Levels of a sweep from which on it shows a course.
const LEVELS_MIN: usize = 3;

/// The reports of the study's first cache state, which the capacity is of: that of its top, or cold.
fn of_first_state(evidence: &Evidence) -> impl Iterator<Item = (&PointPack, &Report)> {
    let top = evidence.tops.iter().find_map(|(_, text)| {
        let point = evidence.points.iter().find(|point| point.report_text == *text)?;
        point.cache()
    });
    let state = top.unwrap_or("cold");
    let reports = evidence.points.iter().filter_map(|point| Some((point, point.report.as_ref().ok()?)));
    reports.filter(move |(point, _)| point.cache() == Some(state))
}

fn open(evidence: &Evidence) -> Vec<(&PointPack, &Report, f64)> {
    of_first_state(evidence)
        .filter_map(|(point, report)| Some((point, report, report.facts.offered_rps?)))
        .collect()
}

pub(super) fn both_loops(evidence: &Evidence) -> Judged {
    let closed: Vec<(u32, f64)> = of_first_state(evidence)
        .filter_map(|(_, report)| {
            Some((report.facts.concurrency?, report.request_throughput_rps.unwrap_or(0.0)))
        })
        .collect();
    let found = saturation(&closed);
    let levels: std::collections::BTreeSet<u32> = closed.iter().map(|&(clients, _)| clients).collect();
    let mut rates: Vec<f64> = open(evidence).iter().map(|&(_, _, rps)| rps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut lacking = Vec::new();
    if levels.len() < LEVELS_MIN {
        lacking.push(format!(
            "closed loop: {} numbers of clients, at least {LEVELS_MIN} expected",
            levels.len()
        ));
    }
    if rates.len() < LEVELS_MIN {
        lacking.push(format!("open loop: {} rates, at least {LEVELS_MIN} expected", rates.len()));
    }
    match found.saturation_concurrency {
        _ if !lacking.is_empty() => Err((Verdict::NotShown, lacking)),
        Some(clients) if found.reached => Ok(vec![
            format!(
                "closed loop: saturated from {clients} clients on, at {:.1} requests/s",
                found.highest_throughput_rps
            ),
            format!("open loop: {rates:?} requests/s"),
        ]),
        _ => Err((
            Verdict::NotMet,
            vec!["closed loop: throughput still rises at the most clients tested".to_owned()],
        )),
    }
}

/// A rate with its points.
type Rate<'a> = (f64, Vec<(&'a PointPack, &'a Report)>);

/// The points at the capacity: the highest rate that passes, as the study itself finds it.
fn at_capacity(evidence: &Evidence) -> Result<Rate<'_>, Refusal> {
    let open = open(evidence);
    if open.is_empty() {
        return Err((Verdict::NotShown, vec!["no open-loop point was found".to_owned()]));
    }
    let tested: Vec<_> = open.iter().map(|&(_, report, rps)| (rps, Judgement::of(report))).collect();
    let Some(chosen) = capacity(&tested).capacity_rps else {
        return Err((Verdict::NotMet, vec!["no tested rate passes its gates".to_owned()]));
    };
    let there = open.into_iter().filter(|&(_, _, rps)| rps.total_cmp(&chosen).is_eq());
    Ok((chosen, there.map(|(point, report, _)| (point, report)).collect()))
}

/// The rate is chosen by the study's own rule; the first repeat, whose files stand at the top, must pass the list's own
/// thresholds, however lenient its manifest is.
pub(super) fn chosen(evidence: &Evidence) -> Judged {
    let (rps, points) = at_capacity(evidence)?;
    let at_top = |point: &PointPack| evidence.tops.iter().any(|(_, text)| *text == point.report_text);
    let Some((point, report)) = points.iter().find(|(point, _)| at_top(point)).or(points.first()) else {
        return Err((Verdict::NotShown, vec!["no point at the chosen rate".to_owned()]));
    };
    let mut wrong = Vec::new();
    for (name, class) in &report.classes {
        let attainment = class.attainment.unwrap_or(0.0);
        if attainment < ATTAINMENT_MIN || class.successful_count < SUCCESSES_MIN {
            let successes = class.successful_count;
            wrong.push(format!("{}: class {name}: {:.2} % of {successes}", point.name, 100.0 * attainment));
        }
    }
    let errors = report.error_rate.unwrap_or(1.0);
    if errors > ERROR_RATE_MAX {
        wrong.push(format!("{}: {:.2} % errors", point.name, 100.0 * errors));
    }
    if report.queue_trend != trend::Verdict::Flat {
        wrong.push(format!("{}: queue {}", point.name, report.queue_trend.word()));
    }
    if !wrong.is_empty() {
        return Err((Verdict::NotMet, wrong));
    }
    let (weakest, class) = report.weakest_class().ok_or((Verdict::NotShown, vec!["no class".to_owned()]))?;
    Ok(vec![format!(
        "{rps} requests/s ({}): weakest class {weakest} {:.2} %, errors {:.2} %, queue flat",
        point.name,
        100.0 * class.attainment.unwrap_or(0.0),
        100.0 * errors
    )])
}

pub(super) fn repeats(evidence: &Evidence) -> Judged {
    let (rps, points) = at_capacity(evidence)?;
    let mut runs: Vec<u64> = points.iter().filter_map(|(_, report)| report.facts.run).collect();
    runs.sort_unstable();
    runs.dedup();
    if runs.len() < REPEATS_MIN {
        let found = format!("{} repeats at {rps} requests/s, at least {REPEATS_MIN} expected", runs.len());
        return Err((Verdict::NotShown, vec![found]));
    }
    let spread = |what: &str, of: &dyn Fn(&Report) -> Option<f64>, factor: f64, unit: &str| {
        let values = points.iter().filter_map(|(_, report)| of(report)).map(|value| factor * value);
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        format!("{what} {low:.2} to {high:.2} {unit} over {} repeats", runs.len())
    };
    Ok(vec![
        spread("goodput", &|report| report.observed_goodput_rps, 1.0, "requests/s"),
        spread(
            "weakest class",
            &|report| report.weakest_class().and_then(|(_, class)| class.attainment),
            100.0,
            "%",
        ),
    ])
}

/// The capacity that the points give, for the plan that divides it.
pub(super) fn capacity_rps(evidence: &Evidence) -> Option<f64> {
    at_capacity(evidence).ok().map(|(rps, _)| rps)
}
