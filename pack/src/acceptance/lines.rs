//! The lines of the list, and how each is judged.

mod beside;
mod capacity;

use super::{Evidence, Line, PointPack, Verdict};
use crate::manifest::Manifest;
use std::collections::BTreeSet;

/// Attainment that every class of the chosen point must reach, whatever its manifest asks for.
const ATTAINMENT_MIN: f64 = 0.95;
/// Errors that the chosen point may have.
const ERROR_RATE_MAX: f64 = 0.01;
/// Successes on which a class is judged.
const SUCCESSES_MIN: u64 = crate::report::EXPLORATORY_BELOW;
/// Repeats of the chosen point from which on their spread says something.
const REPEATS_MIN: usize = 3;
/// Prefix hits that a cold run may have, of its prompt tokens: what a chance block of a chat template makes.
const COLD_HITS_MAX: f64 = 0.01;

/// What is wrong or lacks.
type Refusal = (Verdict, Vec<String>);

/// What a judge says: the evidence of a line that is met, or why it is not.
type Judged = Result<Vec<String>, Refusal>;

pub(super) struct Rule {
    id: &'static str,
    asked: &'static str,
    judge: fn(&Evidence) -> Judged,
}

impl Rule {
    pub fn judge(&self, evidence: &Evidence) -> Line {
        let (verdict, evidence) = match (self.judge)(evidence) {
            Ok(evidence) => (Verdict::Met, evidence),
            Err(other) => other,
        };
        Line { id: self.id, asked: self.asked, verdict, evidence }
    }
}

/// All lines, in the order of docs/verification.md.
pub(super) const LINES: [Rule; 11] = [
    Rule { id: "whole", asked: "every point is sealed, and its rows give its report", judge: whole },
    Rule {
        id: "revisions",
        asked: "model, tokenizer, engine, precision, scheduler and workload are named by what cannot move",
        judge: revisions,
    },
    Rule {
        id: "cache-states",
        asked: "cold and warm are both measured and named apart, with hits and evictions",
        judge: cache_states,
    },
    Rule {
        id: "both-loops",
        asked: "a closed loop finds the saturation, an open loop sweeps rates",
        judge: capacity::both_loops,
    },
    Rule {
        id: "points",
        asked: "every point has counts, error rate, P50 and P95, throughput, goodput, queue trend and successes by class",
        judge: points,
    },
    Rule {
        id: "samples",
        asked: "every class is judged by its own cutoffs on at least 2,000 successes",
        judge: samples,
    },
    Rule {
        id: "chosen",
        asked: "the chosen point has 95 % attainment in every class, at most 1 % errors, and no growing queue",
        judge: capacity::chosen,
    },
    Rule {
        id: "repeats",
        asked: "the chosen point is repeated, and its spread is known",
        judge: capacity::repeats,
    },
    Rule {
        id: "plan",
        asked: "replicas and GPUs follow from capacity, peak and utilization",
        judge: beside::plan,
    },
    Rule {
        id: "failure-test",
        asked: "a failure test has its detection and recovery times, and an alert that fired",
        judge: beside::failure_test,
    },
    Rule {
        id: "causes",
        asked: "dashboard and alerts tell queue, KV, replica and network apart",
        judge: beside::causes,
    },
];

/// Met if nothing is wrong, of what there is any of.
fn unless_wrong(any: bool, wrong: Vec<String>, evidence: String) -> Judged {
    match (any, wrong.is_empty()) {
        (false, _) => Err((Verdict::NotShown, vec!["no operating point was found".to_owned()])),
        (true, false) => Err((Verdict::NotMet, wrong)),
        (true, true) => Ok(vec![evidence]),
    }
}

fn of_each(evidence: &Evidence, wrong: impl Fn(&PointPack) -> Vec<String>, good: &str) -> Judged {
    let points = &evidence.points;
    let named = |point: &PointPack| {
        let name = point.name.clone();
        wrong(point).into_iter().map(move |what| format!("{name}: {what}")).collect::<Vec<_>>()
    };
    let wrong = points.iter().flat_map(named).collect();
    unless_wrong(!points.is_empty(), wrong, format!("{} points: {good}", points.len()))
}

fn whole(evidence: &Evidence) -> Judged {
    let wrong = |point: &PointPack| {
        let mut wrong = point.faults();
        let unfinished = point.report.as_ref().is_ok_and(|report| !report.facts.complete);
        wrong.extend(unfinished.then(|| "stopped before its schedule's end".to_owned()));
        wrong
    };
    let mut judged =
        of_each(evidence, wrong, "sealed, and counted again from their rows with the same result");
    let reports: BTreeSet<&str> = evidence.points.iter().map(|point| point.report_text.as_str()).collect();
    let strange = evidence.tops.iter().filter(|(_, text)| !reports.contains(text.as_str()));
    let mut strange: Vec<String> = strange
        .map(|(name, _)| format!("{name}/slo-report.json: not the report of one of its points"))
        .collect();
    strange.extend(evidence.unreadable.iter().cloned());
    if !strange.is_empty() {
        judged = match judged {
            Ok(_) => Err((Verdict::NotMet, strange)),
            Err((verdict, mut wrong)) => {
                wrong.extend(strange);
                Err((verdict, wrong))
            }
        };
    }
    judged
}

/// Reading a manifest refuses what may move (`manifest::is_movable`). Scheduler and workload that have no revision of
/// their own are named by the digests of the profile and the schedule.
fn revisions(evidence: &Evidence) -> Judged {
    let wrong = |point: &PointPack| {
        let manifest = match &point.manifest {
            Ok(manifest) => manifest,
            Err(fault) => return vec![fault.clone()],
        };
        let facts = point.report.as_ref().ok().map(|report| &report.facts);
        let system = facts.and_then(|facts| facts.system.as_ref());
        let profile = system.and_then(|system| system.profile.as_ref()).is_some_and(|p| !p.sha256.is_empty());
        let schedule = facts.is_some_and(|facts| facts.schedule_hash.is_some());
        let mut wrong = Vec::new();
        if manifest.engine.scheduler_revision.is_none() && !profile {
            wrong.push("no engine.scheduler_revision, and no digest of a profile".to_owned());
        }
        if manifest.workload_revision.is_none() && !schedule {
            wrong.push("no workload_revision, and no hash of a schedule".to_owned());
        }
        wrong
    };
    let systems: BTreeSet<String> =
        evidence.points.iter().filter_map(|point| Some(system(point.manifest.as_ref().ok()?))).collect();
    if systems.len() > 1 {
        let mut wrong = vec!["the points are of different systems".to_owned()];
        wrong.extend(systems);
        return Err((Verdict::NotMet, wrong));
    }
    of_each(evidence, wrong, &systems.into_iter().collect::<String>())
}

fn system(manifest: &Manifest) -> String {
    let (model, engine) = (&manifest.model, &manifest.engine);
    format!(
        "{} at {}, tokenizer {}, {}, {} {}",
        model.id, model.revision, model.tokenizer_revision, model.precision, engine.name, engine.version
    )
}

fn cache_states(evidence: &Evidence) -> Judged {
    let wrong = |point: &PointPack| {
        let mut wrong = Vec::new();
        let named = point.name.rsplit('/').next().unwrap_or_default();
        let hits = point.hit_share.unwrap_or(0.0);
        match point.cache() {
            Some("cold") if hits > COLD_HITS_MAX => {
                wrong.push(format!("called cold, and {:.1} % of its prompt tokens hit", 100.0 * hits));
            }
            Some("warm") if hits <= COLD_HITS_MAX => {
                wrong.push(format!("called warm, and {:.1} % of its prompt tokens hit", 100.0 * hits));
            }
            Some("cold" | "warm") => {}
            _ => wrong.push("its report does not say whether its cache was cold or warm".to_owned()),
        }
        let other = if point.cache() == Some("cold") { "-warm-" } else { "-cold-" };
        if named.contains(other) {
            wrong.push(format!("its report says {}", point.cache().unwrap_or("nothing")));
        }
        if point.report.as_ref().is_ok_and(|report| report.prefix_cache.is_none()) {
            wrong.push("no hits and evictions over its window".to_owned());
        }
        wrong
    };
    let judged = of_each(evidence, wrong, "cold and warm, with hits and evictions")?;
    let of = |state: &str| evidence.points.iter().filter(|point| point.cache() == Some(state)).count();
    let lacking: Vec<String> = ["cold", "warm"]
        .iter()
        .filter(|state| of(state) == 0)
        .map(|state| format!("no {state} point"))
        .collect();
    if lacking.is_empty() { Ok(judged) } else { Err((Verdict::NotShown, lacking)) }
}

fn points(evidence: &Evidence) -> Judged {
    let wrong = |point: &PointPack| {
        let Ok(report) = &point.report else { return vec!["its report cannot be read".to_owned()] };
        let mut lacking = Vec::new();
        for (what, there) in [
            ("error rate", report.error_rate.is_some()),
            ("throughput", report.request_throughput_rps.is_some()),
            ("goodput", report.observed_goodput_rps.is_some()),
        ] {
            lacking.extend((!there).then(|| format!("no {what}")));
        }
        let classes = point.manifest.as_ref().map(|manifest| manifest.classes.as_slice()).unwrap_or_default();
        for class in classes {
            let found = report.classes.get(&class.name);
            let percentiles =
                found.is_some_and(|c| c.latency.p50_ttft_ms.is_some() && c.latency.p95_ttft_ms.is_some());
            if found.is_none() {
                lacking.push(format!("no class {}", class.name));
            } else if !percentiles {
                lacking.push(format!("class {} without P50 and P95", class.name));
            }
        }
        lacking
    };
    of_each(evidence, wrong, "complete")
}

fn samples(evidence: &Evidence) -> Judged {
    let wrong = |point: &PointPack| {
        let (Ok(report), Ok(manifest)) = (&point.report, &point.manifest) else {
            return vec!["its report or manifest cannot be read".to_owned()];
        };
        if report.facts.offered_rps.is_none() {
            return Vec::new();
        }
        let mut wrong = Vec::new();
        for class in &manifest.classes {
            let Some(found) = report.classes.get(&class.name) else {
                wrong.push(format!("no class {}", class.name));
                continue;
            };
            if found.successful_count < SUCCESSES_MIN {
                wrong.push(format!("class {}: {} successes", class.name, found.successful_count));
            }
            let cutoffs = (found.request_ttft_cutoff_ms, found.request_tpot_cutoff_ms);
            if cutoffs != (class.request_ttft_cutoff_ms, class.request_tpot_cutoff_ms) {
                wrong.push(format!("class {}: judged by other cutoffs than its manifest's", class.name));
            }
        }
        wrong
    };
    of_each(
        evidence,
        wrong,
        "the open-loop ones with at least 2,000 successes of each class, by its own cutoffs",
    )
}
