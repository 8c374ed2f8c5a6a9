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
    let pairs = factors.iter().enumerate().map(pair).collect();
    Point { replicas: 1, offered_rps, pairs, draws: Vec::new() }
}

/// The same of a profile whose uncertainty makes times these factors.
fn with_draws(point: Point, factors: &[f64], grows: bool) -> Point {
    let drawn = |factor: &f64| Drawn::of(&run("draw", 1.0, false), &run("draw", *factor, grows)).unwrap();
    Point { draws: factors.iter().map(drawn).collect(), ..point }
}

fn evidence<'a>(points: &'a [Point], unmeasured: &'a [Unmeasured], facts: &'a EngineFacts) -> Evidence<'a> {
    Evidence { points, unmeasured, references: &[], invalid: &[], facts, expected: facts, live: true }
}

fn judged(points: &[Point], invalid: &[String]) -> Verdict {
    let facts = EngineFacts::default();
    let evidence = Evidence { invalid, ..evidence(points, &[], &facts) };
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
fn what_the_profile_takes_to_be_possible_is_not_refuted_and_not_confirmed() {
    let far = || point(1.0, &[1.21, 1.19, 1.205, 1.2], false);
    let sure = judged(&[with_draws(far(), &[0.99, 1.01, 1.0, 0.995, 1.005, 1.01, 0.99, 1.0], false)], &[]);
    assert_eq!(sure.outcome, Outcome::Refuted, "{:?}", sure.reasons);
    let wide = judged(&[with_draws(far(), &[0.8, 1.2, 0.7, 1.3, 1.1, 0.9, 1.25, 0.75], false)], &[]);
    assert_eq!(wide.outcome, Outcome::Inconclusive, "{:?}", wide.reasons);
    assert!(wide.reasons.iter().any(|reason| reason.contains("own uncertainty")), "{:?}", wide.reasons);
    assert!(
        wide.more.as_ref().is_some_and(|more| more.repeats.is_none() && more.allowed_for),
        "{:?}",
        wide.more
    );
    let tpot = |verdict: &Verdict| {
        let found = verdict.compared.iter().find(|c| c.metric.name() == "p50_tpot_ms").unwrap().clone();
        let (low, high) = found.predicted_ci95.unwrap();
        (found.parameters_sd, high - low)
    };
    let ((little, narrow), (much, broad)) = (tpot(&sure), tpot(&wide));
    assert!(little < 0.01 && much > 0.15 && broad > 5.0 * narrow, "{little} {narrow} {much} {broad}");
}

#[test]
fn a_wide_profile_whose_numbers_hold_is_confirmed_with_a_warning() {
    let near = with_draws(point(1.0, &[1.01, 0.99, 1.005, 1.0], false), &[0.8, 1.2, 0.7, 1.3], false);
    let found = judged(&[near], &[]);
    assert_eq!(found.outcome, Outcome::Confirmed, "{:?}", found.reasons);
    assert!(found.warnings.iter().any(|w| w.contains("own uncertainty is wider")), "{:?}", found.warnings);
}

#[test]
fn a_queue_that_a_drawn_engine_grows_as_well_is_no_evidence() {
    let growing = || point(2.0, &[1.0; 12], true);
    let points = |draws| [point(1.0, &[1.0; 12], false), with_draws(growing(), &[1.0; 4], draws)];
    assert_eq!(judged(&points(false), &[]).outcome, Outcome::Refuted);
    let found = judged(&points(true), &[]);
    assert_eq!(found.outcome, Outcome::Inconclusive, "{:?}", found.reasons);
    assert_eq!(found.scale_out.fleets[0].agreement, Agreement::Open);
}

#[test]
fn of_each_size_of_the_fleet_it_is_said_what_was_shown() {
    let only = || {
        let reports = vec![run("4 replicas", 1.0, false).report];
        Unmeasured { replicas: 4, offered_rps: 4.0, reports, draws: Vec::new() }
    };
    let two = |factor: f64| Point { replicas: 2, ..point(2.0, &[factor; 3], false) };
    let facts = EngineFacts::default();
    let said = |points: &[Point], live| {
        let unmeasured = [only()];
        let evidence = Evidence { live, ..evidence(points, &unmeasured, &facts) };
        judge(&evidence, &Tolerance::default()).unwrap().scale_out
    };
    let found = said(&[point(1.0, &[1.0; 3], false), two(1.0)], true);
    assert_eq!(
        found.fleets.iter().map(|f| f.standing).collect::<Vec<_>>(),
        [Standing::Validated, Standing::Validated, Standing::Unmeasured]
    );
    assert_eq!((found.predicted_linear, found.measured_linear), (Some(true), Some(true)));
    for words in [
        "Validated on live replicas: fleets of 1, 2.",
        "Not validated: fleets of 4,",
        "for fleets of 1, 2, at",
    ] {
        assert!(found.statement.contains(words), "{words}: {}", found.statement);
    }
    let found = said(&[point(1.0, &[1.0; 3], false), two(1.3)], true);
    assert!(found.statement.contains("Refuted on live replicas: fleets of 2."), "{}", found.statement);
    let found = said(&[point(1.0, &[1.0; 2], false)], true);
    assert!(found.statement.starts_with("Measured on live replicas, and neither"), "{}", found.statement);
    assert!(!found.statement.contains("Validated on"), "{}", found.statement);
    let found = said(&[point(1.0, &[1.0; 3], false)], false);
    assert!(
        found.statement.ends_with("This is a rehearsal: nothing live was measured."),
        "{}",
        found.statement
    );
}

#[test]
fn runs_of_different_schedules_are_refused() {
    let pair = Pair { predicted: run("a", 1.0, false), measured: run("b", 1.0, false) };
    let points = [Point { replicas: 1, offered_rps: 1.0, pairs: vec![pair], draws: Vec::new() }];
    let facts = EngineFacts::default();
    let error = judge(&evidence(&points, &[], &facts), &Tolerance::default()).unwrap_err();
    assert!(error.contains("schedule_hash"), "{error}");
    assert!(Drawn::of(&run("a", 1.0, false), &run("b", 1.0, false)).is_err());
}

/// Four replicas, of which the first has half of what is in flight and so preempts; the client does not see whom the router
/// chose.
#[test]
fn a_router_that_pins_comes_before_what_it_brings_about() {
    let loaded = |name: &str, factor: f64, first: u32, preemptions: u64| {
        let mut run = run(name, factor, false);
        run.by_replica.clear();
        run.in_flight = [(0, first), (1, 10), (2, 10), (3, 10)].map(|(id, n)| (id, u64::from(n))).into();
        run.counters = Some(measure::Counters { preemptions, ..measure::Counters::default() });
        run
    };
    let pair = |i: u32| Pair {
        predicted: loaded(&format!("{i}"), 1.0, 10, 0),
        measured: loaded(&format!("{i}"), 1.4, 30, 60 + u64::from(i)),
    };
    let points =
        [Point { replicas: 4, offered_rps: 4.0, pairs: (0..4).map(pair).collect(), draws: Vec::new() }];
    let facts = EngineFacts { num_blocks: Some(100), ..EngineFacts::default() };
    let found = judge(&evidence(&points, &[], &facts), &Tolerance::default()).unwrap();
    let places: Vec<Place> = found.causes.iter().map(|cause| cause.place).collect();
    assert_eq!(places, [Place::Router, Place::KvBlocks, Place::StepTime], "{:?}", found.causes);
    assert!(found.causes[1].evidence.contains("the router may bring it about"), "{:?}", found.causes);
    // An engine that says that it has fewer blocks has: that comes first.
    let fewer = EngineFacts { num_blocks: Some(50), ..EngineFacts::default() };
    let told = Evidence { facts: &fewer, ..evidence(&points, &[], &facts) };
    let found = judge(&told, &Tolerance::default()).unwrap();
    assert_eq!(found.causes[0].place, Place::KvBlocks, "{:?}", found.causes);
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
