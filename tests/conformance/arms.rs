//! One suite with two arms: the same schedule through the simulator and, in real time, through `emulate` and `live`.

use crate::packs::{GROUPS, Row, emulated, live, report, rows};
use crate::process::{Emulated, millis};
use crate::small::Place;
use crate::support::Scenario;
use serde_json::Value;

/// Medians may differ by this share.
const MEDIANS_WITHIN: f64 = 0.03;
/// Where the emulator's steps or the client's sendings were later than this at the 99th percentile, times of some
/// dozens of milliseconds say nothing of the two.
const LAG_MAX_MS: f64 = 5.0;

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
        .scenario("router: ", GROUPS)
}

#[test]
fn both_arms_agree_on_every_request() {
    let scenario = slow();
    for cache in ["cold", "warm"] {
        let emulated = emulated(&scenario);
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
        compare_medians(&found, &expected, quiet(&found, &summary));
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
