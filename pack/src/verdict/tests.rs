//! Verdicts over records made by hand: one class of ten requests a second, each some milliseconds slower than predicted.

use super::*;
use crate::analyze::{Analyzer, Stated};
use crate::chance::{normal, stream};
use crate::experiment::EngineFacts;
use crate::record::Record;
use crate::report::{Origin, RunFacts};
use crate::testing::{manifest, ok};
use crate::time::Nanos;
use crate::timeline::TimelineRow;

const CLASSES: [&str; 3] = ["interactive", "long_context", "generation_heavy"];
const REQUESTS: u64 = 300;

/// A run of schedule `hash`: TTFT about 100 ms and TPOT 20 ms, times `factor`; its queue grows if asked.
fn run(hash: &str, factor: f64, grows: bool) -> Run {
    let mut chance = stream(1, 0, hash);
    let mut analyzer = Analyzer::new(&manifest(10));
    let mut records: Vec<Record> = Vec::new();
    for id in 0..REQUESTS {
        let spread = (0.1 * normal(&mut chance)).exp() * factor;
        records.push(ok(id, (id % 3) as u16, (1e8 * spread) as u64, (20e6 * 127.0 * spread) as u64, 128));
    }
    let sample = |s: u64| TimelineRow {
        at: Nanos(s * 1_000_000_000),
        waiting: if grows { s as u32 } else { 0 },
        running: 2,
        kv_blocks_total: 100,
        ..TimelineRow::default()
    };
    let samples: Vec<TimelineRow> = (0..REQUESTS).map(sample).collect();
    records.iter().for_each(|record| analyzer.push(record));
    samples.iter().for_each(|row| analyzer.push_sample(row));
    let facts =
        RunFacts { origin: Origin::Simulated, schedule_hash: Some(hash.to_owned()), ..RunFacts::of_file() };
    Run::new(analyzer.finish(facts, Stated::default()), &CLASSES, &records, &samples).unwrap()
}

/// A point whose repeats are slower than predicted by these factors.
fn point(offered_rps: f64, factors: &[f64], grows: bool) -> Point {
    let pair = |(i, factor): (usize, &f64)| {
        let hash = format!("{offered_rps} {i}");
        Pair { predicted: run(&hash, 1.0, false), measured: run(&hash, *factor, grows) }
    };
    Point { replicas: 1, offered_rps, pairs: factors.iter().enumerate().map(pair).collect() }
}

fn judged(points: &[Point], invalid: &[String]) -> Verdict {
    let facts = EngineFacts::default();
    let evidence =
        Evidence { points, predicted_only: &[], references: &[], invalid, facts: &facts, expected: &facts };
    judge(&evidence, &Tolerance::default()).unwrap()
}

#[test]
fn small_differences_are_confirmed_and_large_ones_refuted() {
    let near = judged(&[point(1.0, &[1.01, 0.99, 1.005, 1.0], false)], &[]);
    assert_eq!(near.outcome, Outcome::Confirmed, "{:?}", near.reasons);
    assert!(near.compared.iter().all(|c| c.finding == Finding::Inside) && near.more.is_none());
    let far = judged(&[point(1.0, &[1.21, 1.19, 1.205, 1.2], false)], &[]);
    assert_eq!(far.outcome, Outcome::Refuted, "{:?}", far.reasons);
    assert_eq!(far.causes[0].place, Place::StepTime, "{:?}", far.causes);
}

#[test]
fn on_the_edge_more_repeats_are_asked_for() {
    let edge = judged(&[point(1.0, &[1.02, 1.06, 1.01, 1.07], false)], &[]);
    assert_eq!(edge.outcome, Outcome::Inconclusive, "{:?}", edge.reasons);
    let more = edge.more.unwrap();
    assert!(more.repeats.is_none_or(|repeats| repeats > 4), "{more:?}");
}

#[test]
fn a_run_that_failed_its_checks_and_two_repeats_prove_nothing() {
    let good = [point(1.0, &[1.0; 3], false)];
    assert_eq!(judged(&good, &[]).outcome, Outcome::Confirmed);
    let invalid = judged(&good, &["the sender fell behind".to_owned()]);
    assert_eq!(invalid.outcome, Outcome::Inconclusive);
    assert!(invalid.reasons[0].contains("fell behind") && invalid.more.is_none());
    assert_eq!(judged(&[point(1.0, &[1.5; 2], false)], &[]).outcome, Outcome::Inconclusive);
}

#[test]
fn a_queue_that_grows_at_a_rate_is_another_capacity() {
    // Every latency is as predicted: only the queue's trend and the gate that rests on it differ.
    let few = judged(&[point(1.0, &[1.0; 4], false), point(2.0, &[1.0; 4], true)], &[]);
    assert_eq!(few.scale_out.fleets[0].agreement, Agreement::Open, "four signs are no proof");
    assert_eq!(few.outcome, Outcome::Inconclusive);
    let many = judged(&[point(1.0, &[1.0; 12], false), point(2.0, &[1.0; 12], true)], &[]);
    assert_eq!(many.scale_out.fleets[0].agreement, Agreement::Different);
    assert_eq!(many.outcome, Outcome::Refuted);
    let fleet = &many.scale_out.fleets[0];
    assert_eq!((fleet.predicted_rps, fleet.measured_rps), (Some(2.0), Some(1.0)));
}

#[test]
fn a_fleet_without_live_replicas_is_said_to_be_unvalidated() {
    let points = [point(1.0, &[1.0; 3], false)];
    let only = [(4, 4.0, run("4 replicas", 1.0, false).report)];
    let facts = EngineFacts::default();
    let evidence = Evidence {
        points: &points,
        predicted_only: &only,
        references: &[],
        invalid: &[],
        facts: &facts,
        expected: &facts,
    };
    let found = judge(&evidence, &Tolerance::default()).unwrap().scale_out;
    assert_eq!(found.fleets[1].agreement, Agreement::Unmeasured);
    assert_eq!((found.predicted_linear, found.measured_linear), (Some(true), None));
    assert!(found.statement.contains("Not validated: fleets of 4"), "{}", found.statement);
}

#[test]
fn runs_of_different_schedules_are_refused() {
    let pair = Pair { predicted: run("a", 1.0, false), measured: run("b", 1.0, false) };
    let points = [Point { replicas: 1, offered_rps: 1.0, pairs: vec![pair] }];
    let facts = EngineFacts::default();
    let evidence = Evidence {
        points: &points,
        predicted_only: &[],
        references: &[],
        invalid: &[],
        facts: &facts,
        expected: &facts,
    };
    assert!(judge(&evidence, &Tolerance::default()).unwrap_err().contains("schedule_hash"));
}

#[test]
fn a_plan_asks_for_more_of_a_noisier_engine() {
    let rule = Tolerance::default();
    let quiet = plan(&[point(1.0, &[1.002, 0.998, 1.001, 0.999], false)], &rule).unwrap();
    let noisy = plan(&[point(1.0, &[1.02, 0.98, 1.01, 0.99], false)], &rule).unwrap();
    let of_tpot = |plan: &Plan| plan.rows.iter().find(|row| row.name.contains("p50_tpot")).unwrap().repeats;
    assert_eq!(of_tpot(&quiet), Some(REPEATS_MIN));
    assert!(of_tpot(&noisy).unwrap() > REPEATS_MIN && noisy.repeats >= quiet.repeats);
    // No noise makes a share better known than by its hundred requests.
    assert!(quiet.rows[0].name.contains("attainment"), "{:?}", quiet.rows[0]);
    let hopeless = plan(&[point(1.0, &[1.3, 0.7, 1.2, 0.8], false)], &rule).unwrap();
    assert_eq!(hopeless.repeats, None);
}
