//! The lines about what lies beside the points: the plan, the failure test, dashboard and alerts.

use super::{Judged, capacity};
use crate::acceptance::{Evidence, PointPack, Verdict};
use crate::alerts::Cause;
use crate::plan::{Plan, PlanInput, plan as divide};
use serde_json::Value;

/// Every plan is worked out again from the capacity of the points.
pub(super) fn plan(evidence: &Evidence) -> Judged {
    let manifest = evidence.points.iter().find_map(|point| point.manifest.as_ref().ok());
    let (Some(manifest), Some(capacity_rps)) = (manifest, capacity::capacity_rps(evidence)) else {
        return Err((Verdict::NotShown, vec!["no capacity to divide".to_owned()]));
    };
    let (mut wrong, mut good) = (Vec::new(), Vec::new());
    for (name, json) in &evidence.plans {
        for planned in json["plans"].as_array().into_iter().flatten() {
            let Ok(planned) = serde_json::from_value::<Plan>(planned.clone()) else {
                wrong.push(format!("{name}: a plan that cannot be read"));
                continue;
            };
            let placement = &manifest.engine.placement;
            let input = PlanInput {
                capacity_rps,
                replicas: placement.replicas,
                gpus_per_replica: placement.tp.saturating_mul(placement.pp),
                peak_rps: planned.peak_rps,
                target_utilization: manifest.acceptance.target_utilization,
                spare: planned.spare_replicas,
            };
            match divide(&input) {
                Ok(ours) if ours == planned => good.push(format!(
                    "ceil({} / ({} / {} x {})) = {} replicas, {} GPUs",
                    planned.peak_rps,
                    capacity_rps,
                    placement.replicas,
                    planned.target_utilization,
                    planned.required_replicas,
                    planned.required_gpus
                )),
                Ok(ours) => wrong.push(format!(
                    "{name}: {} replicas and {} GPUs from a capacity of {} at {}; the points give {} and {} from {} at {}",
                    planned.required_replicas,
                    planned.required_gpus,
                    planned.capacity_rps,
                    planned.target_utilization,
                    ours.required_replicas,
                    ours.required_gpus,
                    capacity_rps,
                    input.target_utilization
                )),
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
    }
    shown(good, wrong, "no plan was found")
}

fn shown(good: Vec<String>, wrong: Vec<String>, nothing: &str) -> Judged {
    match (good.is_empty(), wrong.is_empty()) {
        (_, false) => Err((Verdict::NotMet, wrong)),
        (true, true) => Err((Verdict::NotShown, vec![nothing.to_owned()])),
        (false, true) => Ok(good),
    }
}

pub(super) fn failure_test(evidence: &Evidence) -> Judged {
    let (mut wrong, mut good) = (Vec::new(), Vec::new());
    for test in &evidence.failure_tests {
        let (name, json) = (&test.run.name, &test.report);
        let detected_s = json["detected"]["after_s"].as_f64();
        let recovery_s = json["recovery_s"].as_f64();
        let at_s = json["fault"]["at_s"].as_f64().unwrap_or(0.0);
        let alarms: Vec<&str> = json["alarms"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|alarm| alarm["at_s"].as_f64().is_some_and(|fired_s| fired_s >= at_s))
            .filter_map(|alarm| alarm["name"].as_str())
            .collect();
        let mut lacking = unfit(&test.run);
        let mut lacks = |what: &str, if_so: bool| lacking.extend(if_so.then(|| what.to_owned()));
        lacks("no failure-test.md", !test.has_page);
        lacks("no detection time", detected_s.is_none());
        lacks("no recovery time", recovery_s.is_none());
        lacks("no alert fired", alarms.is_empty());
        lacks("it did not pass", json["pass"] != Value::Bool(true));
        if let (Some(detected_s), Some(recovery_s), true) = (detected_s, recovery_s, lacking.is_empty()) {
            let kind = json["fault"]["kind"].as_str().unwrap_or("fault");
            good.push(format!(
                "{name}: {kind}, detected after {detected_s:.2} s, recovered after {recovery_s:.0} s, alerts {}",
                alarms.join(", ")
            ));
        }
        wrong.extend(lacking.into_iter().map(|what| format!("{name}: {what}")));
    }
    shown(good, wrong, "no failure test was found")
}

/// Why a failure test's run proves nothing: a broken seal, rows that do not give its report, a load generator that was late.
fn unfit(run: &PointPack) -> Vec<String> {
    let invalid = run.report.as_ref().ok().and_then(|report| report.invalid.clone()).unwrap_or_default();
    let mut faults = run.faults();
    faults.extend(invalid.into_iter().map(|what| format!("its load generator: {what}")));
    faults
}

/// The four causes that must be told apart.
const CAUSES: [Cause; 4] = [Cause::QueueSaturation, Cause::KvPressure, Cause::ReplicaFailure, Cause::Network];

pub(super) fn causes(evidence: &Evidence) -> Judged {
    let of = |ending: &str| {
        let files = evidence.observability.iter().filter(|(name, _)| name.ends_with(ending));
        files.map(|(_, text)| text.as_str()).collect::<Vec<_>>()
    };
    let (dashboards, rules) = (of(".json"), of(".yaml"));
    if dashboards.is_empty() || rules.is_empty() {
        let lacking =
            if dashboards.is_empty() { "no dashboard was found" } else { "no alert rules were found" };
        return Err((Verdict::NotShown, vec![lacking.to_owned()]));
    }
    let mut wrong = Vec::new();
    for cause in CAUSES {
        let word = cause.word();
        if !dashboards.iter().any(|text| text.contains(&format!("cause=\\\"{word}\\\""))) {
            wrong.push(format!("no panel of the dashboard shows {word}"));
        }
        if !rules.iter().any(|text| text.contains(&format!("cause: {word}"))) {
            wrong.push(format!("no alert rule is of {word}"));
        }
    }
    let words = CAUSES.map(Cause::word).join(", ");
    shown(vec![format!("panels and rules of {words}")], wrong, "")
}
