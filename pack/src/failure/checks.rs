//! What a failure test asks for, line by line.

use super::{FailureReport, Observation, What};
use crate::time::Nanos;
use crate::trend::Verdict;
use serde::Serialize;

/// One line of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is asked.
    pub name: &'static str,
    /// Whether it is so; null where the fault leaves nothing to ask.
    pub pass: Option<bool>,
    /// What was seen.
    pub evidence: String,
}

fn check(name: &'static str, pass: impl Into<Option<bool>>, evidence: String) -> Check {
    Check { name, pass: pass.into(), evidence }
}

/// All of them, in the order of the report.
pub(super) fn checks(report: &FailureReport, observation: &Observation<'_>) -> Vec<Check> {
    vec![
        detected(report),
        removed(report, observation),
        no_new_work(report, observation),
        visible(report),
        bounded(report),
        steady(report, observation),
        without_repair(report, observation),
        alerted(report),
    ]
}

fn detected(report: &FailureReport) -> Check {
    let name = "the fault is detected";
    if !report.fault.is_failure {
        return check(name, None, "no replica fails".to_owned());
    }
    let at = report.fault.at_s;
    let alarm = report.alarms.iter().find(|alarm| alarm.at_s >= at);
    match (&report.detected, alarm) {
        (Some(seen), _) => check(name, true, format!("after {:.2} s: {}", seen.after_s, seen.what)),
        // What leaves a replica serving, worse than before, may show in the alerts alone.
        (None, Some(alarm)) if !report.fault.takes_replica_down => {
            check(name, true, format!("after {:.2} s: alert {}", alarm.at_s - at, alarm.name))
        }
        _ => check(name, false, "no sign was seen".to_owned()),
    }
}

fn removed(report: &FailureReport, observation: &Observation<'_>) -> Check {
    let name = "the replica is removed from the router";
    if !report.fault.takes_replica_down {
        return check(name, None, "the replica goes on serving, or goes on purpose".to_owned());
    }
    let at = Nanos::from_seconds(report.fault.at_s).unwrap_or(Nanos::ZERO);
    let missing: Vec<u32> = report
        .fault
        .replicas
        .iter()
        .copied()
        .filter(|&replica| {
            !observation.moments.iter().any(|moment| {
                moment.replica == Some(replica) && moment.at >= at && matches!(moment.what, What::Removed(_))
            })
        })
        .collect();
    match (&report.removed, missing.is_empty()) {
        (Some(seen), true) => check(name, true, format!("after {:.2} s: {}", seen.after_s, seen.what)),
        _ => check(name, false, format!("never removed: replica {}", numbers(&missing))),
    }
}

fn numbers(replicas: &[u32]) -> String {
    replicas.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// The times in which each replica was out, with the replica.
fn outages(observation: &Observation<'_>) -> Vec<(u32, Nanos, Nanos)> {
    let mut outages: Vec<(u32, Nanos, Nanos)> = Vec::new();
    for moment in observation.moments {
        let Some(replica) = moment.replica else { continue };
        let open = outages.iter_mut().find(|(r, _, to)| *r == replica && *to == Nanos(u64::MAX));
        match (moment.what, open) {
            (What::Removed(_), None) => outages.push((replica, moment.at, Nanos(u64::MAX))),
            (What::Readmitted, Some(open)) => open.2 = moment.at,
            _ => {}
        }
    }
    outages
}

fn no_new_work(report: &FailureReport, observation: &Observation<'_>) -> Check {
    let name = "a removed replica gets no new work";
    let outages = outages(observation);
    if outages.is_empty() {
        let pass = if report.fault.takes_replica_down { Some(false) } else { None };
        return check(name, pass, "no replica was removed".to_owned());
    }
    if !observation.records.is_empty() && observation.records.iter().all(|record| record.replica.is_none()) {
        return check(name, None, "which replica serves a request is known to the router alone".to_owned());
    }
    // A retried attempt's first sending says nothing of its last; it came to the replica it ended on after that.
    let new = |record: &&crate::record::Record| {
        outages.iter().any(|&(replica, from, to)| {
            record.replica == Some(replica) && record.retries == 0 && record.sent > from && record.sent < to
        })
    };
    let count = observation.records.iter().filter(new).count();
    check(name, count == 0, format!("{count} attempts sent to it while it was out"))
}

fn visible(report: &FailureReport) -> Check {
    let name = "errors or backpressure are visible";
    let counts = &report.counts;
    let before = report.part("before").and_then(|part| part.report.queue_peak).unwrap_or(0);
    let queue = report.queue_peak.map_or(0, |(peak, _)| peak);
    let failures = counts.lost + counts.errors + counts.timeouts + counts.rejected + counts.cancelled;
    let evidence = format!(
        "{} lost, {} errors, {} timeouts, {} rejected, {} cancelled, {} retried; queue peak {queue}, {before} before",
        counts.lost, counts.errors, counts.timeouts, counts.rejected, counts.cancelled, counts.retried
    );
    let shows = failures + counts.retried > 0 || queue > before;
    let asked = report.fault.is_failure || shows;
    check(name, asked.then_some(shows), evidence)
}

fn bounded(report: &FailureReport) -> Check {
    let peak = match report.queue_peak {
        Some((peak, at)) => format!("peak {peak} waiting at {at:.0} s; "),
        None => String::new(),
    };
    let evidence = format!("{peak}{}", report.queue.reason);
    check("the queue stays bounded", report.queue.verdict == Verdict::Flat, evidence)
}

fn steady(report: &FailureReport, observation: &Observation<'_>) -> Check {
    let name = "the steady state returns";
    let (Some(after), Some(recovery_s)) = (report.part("after"), report.recovery_s) else {
        return check(name, false, "it did not return before the last arrival".to_owned());
    };
    let acceptance = &observation.manifest.acceptance;
    let weakest = after
        .report
        .classes
        .iter()
        .filter(|(_, class)| class.attempted_count > 0)
        .min_by(|(_, a), (_, b)| a.attainment.unwrap_or(0.0).total_cmp(&b.attainment.unwrap_or(0.0)));
    let Some((class, weakest)) = weakest else {
        return check(name, false, "no attempt was scheduled after it".to_owned());
    };
    let attainment = weakest.attainment.unwrap_or(0.0);
    let errors = after.report.error_rate.unwrap_or(1.0);
    let pass = attainment >= acceptance.class_slo_attainment_min && errors <= acceptance.error_rate_max;
    let evidence = format!(
        "after {recovery_s:.0} s; from then on weakest class {class} at {:.1} %, errors {:.2} %",
        attainment * 100.0,
        errors * 100.0
    );
    check(name, pass, evidence)
}

fn without_repair(report: &FailureReport, observation: &Observation<'_>) -> Check {
    let name = "capacity comes back with no manual repair";
    let out: Vec<u32> = outages(observation)
        .iter()
        .filter(|(replica, _, to)| *to == Nanos(u64::MAX) && report.fault.replicas.contains(replica))
        .map(|&(replica, ..)| replica)
        .collect();
    let evidence = match (observation.repaired_by_hand, out.is_empty(), &report.readmitted) {
        (true, ..) => "somebody had to help".to_owned(),
        (_, false, _) => format!("still out at the end: replica {}", numbers(&out)),
        (_, true, Some(seen)) => format!("all replicas take work again after {:.2} s", seen.after_s),
        (_, true, None) => "no replica was out".to_owned(),
    };
    check(name, !observation.repaired_by_hand && out.is_empty(), evidence)
}

fn alerted(report: &FailureReport) -> Check {
    let at = report.fault.at_s;
    let fired: Vec<String> = report
        .alarms
        .iter()
        .filter(|alarm| alarm.at_s >= at)
        .map(|alarm| format!("{} after {:.0} s", alarm.name, alarm.at_s - at))
        .collect();
    let evidence = if fired.is_empty() { "none fired".to_owned() } else { fired.join(", ") };
    check("at least one alert fires", !fired.is_empty(), evidence)
}
