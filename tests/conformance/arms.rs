//! One suite with two arms: the same schedule through the simulator and, in real time, through `emulate` and `live`.

use crate::packs::{GROUPS, Row, emulated, live, report, rows};
use crate::process::{Emulated, millis};
use crate::small::Place;
use crate::support::Scenario;
use serde_json::Value;
use std::collections::BTreeMap;

/// Medians may differ by this share.
const MEDIANS_WITHIN: f64 = 0.03;
/// Where the emulator's steps or the client's sendings were later than this at the 99th percentile, times of some
/// dozens of milliseconds say nothing of the two.
const LAG_MAX_MS: f64 = 5.0;

/// Steps that both arms must have alike, of all, where times are judged.
const SAME_BATCHES: f64 = 0.95;

/// A step by what its batch is made of: tokens, rows that prefill, rows that decode, requests admitted, requests preempted.
type BatchKey = [u64; 5];

/// The steps of each replica that the emulator has written.
fn emulated_batches(scenario: &Scenario, file: &str) -> BTreeMap<(u64, BatchKey), u32> {
    let text = scenario.read(file);
    let mut counts = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [replica, tokens, prefills, decodes, admitted, preempted] =
            [0, 3, 4, 5, 6, 8].map(|column| fields[column].parse::<u64>().unwrap());
        // Prompts of a few tokens are the client's, which asks beforehand whether the endpoint takes token ids.
        if prefills != 1 || tokens > 8 {
            *counts.entry((replica, [tokens, prefills, decodes, admitted, preempted])).or_default() += 1;
        }
    }
    counts
}

/// The steps of a simulated run, by its trace.
fn simulated_batches(scenario: &Scenario, point: &[&str]) -> BTreeMap<(u64, BatchKey), u32> {
    let trace =
        [&["trace", "small", "--from-s", "0", "--for-s", "1000", "--out", "trace.json"], point].concat();
    scenario.run(&trace).expect(0);
    let trace: Value = serde_json::from_str(&scenario.read("trace.json")).unwrap();
    let mut counts = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        let args = &event["args"];
        if event["ph"] == "X" && args["decode_rows"].is_u64() {
            let key = ["tokens", "prefill_rows", "decode_rows", "admitted", "preempted"]
                .map(|name| args[name].as_u64().unwrap());
            *counts.entry((event["pid"].as_u64().unwrap() - 1, key)).or_default() += 1;
        }
    }
    counts
}

/// Both arms compute the same tokens; where times are judged, in the same batches.
#[track_caller]
fn compare_batches(
    found: &BTreeMap<(u64, BatchKey), u32>,
    expected: &BTreeMap<(u64, BatchKey), u32>,
    judged: bool,
) {
    let tokens = |of: &BTreeMap<(u64, BatchKey), u32>| -> u64 {
        of.iter().map(|((_, key), &times)| key[0] * u64::from(times)).sum()
    };
    let apart = |one: &BTreeMap<(u64, BatchKey), u32>, other: &BTreeMap<(u64, BatchKey), u32>| -> Vec<_> {
        one.iter()
            .filter(|(key, times)| other.get(key) != Some(times))
            .map(|(key, times)| (*key, *times))
            .collect()
    };
    let (more, less) = (apart(found, expected), apart(expected, found));
    assert_eq!(tokens(found), tokens(expected), "tokens computed: emulated {more:?}, simulated {less:?}");
    let steps: u32 = expected.values().sum();
    let alike: u32 =
        expected.iter().map(|(key, &times)| times.min(found.get(key).copied().unwrap_or(0))).sum();
    eprintln!(
        "{alike} of {steps} simulated steps are the emulator's too, which had {}",
        found.values().sum::<u32>()
    );
    assert!(steps > 100, "too few steps to compare");
    assert!(
        !judged || f64::from(alike) >= SAME_BATCHES * f64::from(steps),
        "emulated {more:?}, simulated {less:?}"
    );
}

/// Whether the machine let both sides keep their times; said where it did not.
fn quiet(live: &Value, summary: &str) -> bool {
    let check = |name: &str| {
        let check = live["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
        check["value"].as_f64().unwrap_or(f64::INFINITY)
    };
    let step_ms = millis(summary, "p99");
    let (send_ms, loop_ms) = (check("send_lag_p99_ms"), check("event_loop_lag_p99_ms"));
    eprintln!(
        "at p99 steps ended {step_ms:.1} ms late, requests were sent {send_ms:.1} ms late, the event loop was {loop_ms:.1} ms late"
    );
    let quiet = step_ms.max(send_ms).max(loop_ms) <= LAG_MAX_MS;
    if !quiet {
        eprintln!("too busy to judge times");
    }
    quiet
}

/// Prints the medians of both arms, class by class, and holds them together where they are judged.
#[track_caller]
fn compare_medians(live: &Value, simulated: &Value, judged: bool) {
    for (class, of) in live["classes"].as_object().unwrap() {
        for metric in ["p50_ttft_ms", "p50_tpot_ms"] {
            let (found, expected) =
                (of[metric].as_f64().unwrap(), simulated["classes"][class][metric].as_f64().unwrap());
            eprintln!("{class} {metric}: emulated {found:.2}, simulated {expected:.2}");
            let close = (found / expected - 1.0).abs() <= MEDIANS_WITHIN;
            assert!(close || !judged, "{class} {metric}: {found} for {expected}");
        }
    }
}

/// What both arms must have in common of every request, whatever the times.
fn outcomes(rows: &[Row]) -> Vec<Row> {
    rows.iter().map(|row| Row { usage_input_tokens: None, ..row.clone() }).collect()
}

/// Steps of 40 ms, so that what HTTP takes is little. Answers so short that most requests find their replica idle: while
/// one is busy, its steps keep the phase in which they began, and a step of the warm-up that differs (the emulator's caches
/// are primed) would shift all that follow. In turn to the replicas, so that both arms send each request to the same one.
fn slow() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 80")
        .manifest("{chat: 300, batch: 100}", "{chat: 60, batch: 20}")
        .manifest("min_successful_samples_per_class: 50", "min_successful_samples_per_class: 10")
        .manifest("warmup_seconds: 1", "warmup_seconds: 8")
        .manifest("output_tokens: 16,", "output_tokens: 4,")
        .manifest("output_tokens: 32,", "output_tokens: 8,")
        .manifest("dp: 2, replicas: 2, gpus: 4", "dp: 4, replicas: 4, gpus: 8")
        .profile("base_us: 5000", "base_us: 40000")
        .scenario("router: {policy: least_outstanding}", "router: {policy: round_robin}")
        .prefix_groups(GROUPS)
}

#[test]
fn both_arms_agree_on_every_request() {
    let scenario = slow();
    for cache in ["cold", "warm"] {
        let steps = format!("{cache}-steps.csv");
        let emulated = emulated(&scenario, &["--steps", &steps]);
        let (pack, simulated) = (format!("{cache}-live"), format!("{cache}-sim"));
        let point = ["--rps", "7", "--cache", cache, "--out"];
        live(&scenario, &emulated, &[&point[..], &[&pack]].concat());
        let summary = emulated.stop();
        let run = scenario.run(&[&["simulate", "small"], &point[..], &[&simulated]].concat());
        assert!(run.code < 2, "{run:#?}");
        let (found, expected) = (report(&scenario, &pack), report(&scenario, &simulated));
        assert_eq!(found["schedule_hash"], expected["schedule_hash"]);
        assert_eq!(outcomes(&rows(&scenario, &pack)), outcomes(&rows(&scenario, &simulated)));
        for count in ["outcomes", "attempted", "warmup_attempts", "offered_rps"] {
            assert_eq!(found[count], expected[count], "{count}");
        }
        for share in ["hit_share", "expected_hit_share"] {
            let of = |report: &Value| report["prefix_cache"][share].as_f64().unwrap();
            assert!((of(&found) - of(&expected)).abs() < 0.01, "{share}");
        }
        let judged = quiet(&found, &summary);
        compare_medians(&found, &expected, judged);
        if cache == "cold" {
            // A warm emulator primes its caches first, which the simulator leaves to the warm-up.
            compare_batches(
                &emulated_batches(&scenario, &steps),
                &simulated_batches(&scenario, &point[..4]),
                judged,
            );
        }
    }
}

#[test]
#[ignore = "takes some five minutes, and a quiet machine"]
fn the_worked_example_agrees_in_both_arms() {
    let place = Place::new();
    for point in [["--rps", "12", "--cache", "cold"], ["--rps", "16", "--cache", "warm"]] {
        let arguments = ["emulate", "scenario", "--port", "0", "--admin-port", "0"];
        let emulated = Emulated::start(place.command(&arguments));
        let targets = emulated.targets();
        let found = place.json(&[0, 1, 3], &[&["live", "scenario"], &targets[..], &point].concat());
        let summary = emulated.stop();
        let expected = place.json(&[0, 1], &[&["simulate", "scenario"], &point[..]].concat());
        assert_eq!(found["outcomes"], expected["outcomes"]);
        assert_eq!(found["attempted"], expected["attempted"]);
        compare_medians(&found, &expected, quiet(&found, &summary));
    }
}
