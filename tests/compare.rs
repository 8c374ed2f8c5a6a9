//! `scaleproof compare`: two packs side by side.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod small;

use serde_json::Value;
use small::{EIGHT_SEATS, Place};

/// Simulates `scenario` at `rps` into `out`.
fn simulate(place: &Place, scenario: &str, rps: &str, out: &str) -> Value {
    place.json(&[0, 1], &["simulate", scenario, "--rps", rps, "--out", out])
}

fn metric<'v>(comparison: &'v Value, class: Option<&str>, name: &str) -> &'v Value {
    let scopes = comparison["comparison"]["scopes"].as_array().unwrap();
    let scope = scopes.iter().find(|scope| scope["class"].as_str() == class).unwrap();
    scope["metrics"].as_array().unwrap().iter().find(|metric| metric["metric"] == name).unwrap()
}

#[test]
fn a_pack_and_itself_do_not_differ() {
    let place = Place::new();
    simulate(&place, "scenario", "20", "a");
    let found = place.json(&[0], &["compare", "a", "a"]);
    for scope in found["comparison"]["scopes"].as_array().unwrap() {
        for metric in scope["metrics"].as_array().unwrap() {
            assert!(metric["difference"].is_null() || metric["difference"] == 0.0, "{metric}");
            assert_eq!(metric["real"], false);
        }
    }
    let again = place.json(&[0], &["compare", "a", "a"]);
    assert_eq!(found, again);
}

#[test]
fn a_smaller_engine_is_slower_on_the_same_schedule() {
    let place = Place::new();
    place.scenario("small-batches", &[EIGHT_SEATS]);
    let a = simulate(&place, "scenario", "16", "a");
    let b = simulate(&place, "small-batches", "16", "b");
    let found = place.json(&[0], &["compare", "a", "b"]);
    assert_eq!(found["comparison"]["paired"], true);
    let attainment = metric(&found, None, "attainment");
    assert_eq!((&attainment["a"], &attainment["b"]), (&a["overall_attainment"], &b["overall_attainment"]));
    let ttft = metric(&found, Some("interactive"), "p95_ttft_ms");
    assert_eq!(ttft["b"], b["classes"]["interactive"]["p95_ttft_ms"]);
    assert!(ttft["real"] == true && ttft["difference_ci95"][0].as_f64().unwrap() > 0.0, "{ttft}");
    let text = place.run(&["compare", "a", "b"]);
    let text = String::from_utf8(text.stdout).unwrap();
    for words in
        ["all classes", "p95_ttft_ms", "Kolmogorov-Smirnov", "would by chance alone", "seed 20260829"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn different_schedules_are_refused_unless_told() {
    let place = Place::new();
    let a = simulate(&place, "scenario", "12", "a");
    let b = simulate(&place, "scenario", "16", "b");
    let message = place.fault(&["compare", "a", "b"]);
    for hash in [&a["schedule_hash"], &b["schedule_hash"]] {
        assert!(message.contains(hash.as_str().unwrap()), "{message}");
    }
    assert!(message.contains("--different-schedules"), "{message}");
    let found = place.json(&[0], &["compare", "a", "b", "--different-schedules"]);
    assert_eq!(found["comparison"]["paired"], false);
    let throughput = metric(&found, None, "request_throughput_rps");
    assert!(throughput["real"] == true && throughput["difference"].as_f64().unwrap() > 2.0, "{throughput}");
}

#[test]
fn what_is_no_pack_says_why() {
    let place = Place::new();
    simulate(&place, "scenario", "12", "a");
    assert!(place.fault(&["compare", "a", "none"]).contains("none: found no directory; expected a pack"));
    std::fs::create_dir(place.path("b")).unwrap();
    assert!(place.fault(&["compare", "a", "b"]).contains("b/slo-report.json: found"));
    std::fs::write(place.path("b/slo-report.json"), "{\"origin\": 3}").unwrap();
    let message = place.fault(&["compare", "a", "b"]);
    assert!(message.contains("b/slo-report.json:1:") && message.contains("expected a report"), "{message}");
    std::fs::copy(place.path("a/slo-report.json"), place.path("b/slo-report.json")).unwrap();
    let rows = place.read("a/requests.csv");
    let short: String = rows.lines().take(10).map(|line| format!("{line}\n")).collect();
    std::fs::write(place.path("b/requests.csv"), short).unwrap();
    let message = place.fault(&["compare", "a", "b"]);
    assert!(
        message.contains("b/requests.csv: found 9 attempts, ") && message.contains("expected 1100"),
        "{message}"
    );
    std::fs::write(place.path("b/requests.csv"), rows.replacen(",ok,", ",OK,", 1)).unwrap();
    let message = place.fault(&["compare", "a", "b"]);
    assert!(message.contains("b/requests.csv: 2: status: found \"OK\""), "{message}");
}
