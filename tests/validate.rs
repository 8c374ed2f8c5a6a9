//! Verdicts: a true model is confirmed; one that is wrong in one place is refuted, with that place named.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::Scenario;

/// The small scenario with enough load and prefixes for every rule, on both sides the same.
fn scenario() -> Scenario {
    Scenario::new()
        .scenario("rates_rps: [20, 60, 400]", "rates_rps: [20, 90]")
        .scenario("router: ", "prefix_groups:\n  - {name: a, tokens: 32, weight: 1, classes: [chat]}\n  - {name: b, tokens: 96, weight: 1, classes: [batch]}\nrouter: ")
}

/// A copy of the scenario as the engine has it, with one of its files changed.
fn engine(scenario: &Scenario, file: &str, old: &str, new: &str) {
    let to = scenario.path("engine");
    std::fs::create_dir_all(&to).unwrap();
    for name in ["workload-manifest.yaml", "scenario.yaml", "profile.yaml"] {
        let text = std::fs::read_to_string(scenario.directory().join(name)).unwrap();
        let text = if name == file {
            assert_eq!(text.matches(old).count(), 1, "{old:?} is not once in {name}");
            text.replace(old, new)
        } else {
            text
        };
        std::fs::write(to.join(name), text).unwrap();
    }
}

/// The verdict on the engine, which has a little noise and these quirks.
fn verdict(scenario: &Scenario, quirks: &str, more: &[&str]) -> (i32, Value) {
    let quirks = ["noise=0.005", quirks].join(if quirks.is_empty() { "" } else { "," });
    let args = ["validate", "small", "--simulate-engine", "engine", "--engine", &quirks, "--format", "json"];
    let run = scenario.run(&[&args, more].concat());
    assert!(run.code < 2, "{run:#?}");
    (run.code, run.json()["verdict"].clone())
}

#[track_caller]
fn refuted_by(found: &(i32, Value), place: &str) {
    let (code, verdict) = found;
    assert_eq!((*code, verdict["outcome"].as_str()), (1, Some("refuted")), "{}", verdict["reasons"]);
    assert_eq!(verdict["causes"][0]["place"], place, "{}", verdict["causes"]);
}

#[test]
fn a_true_model_is_confirmed() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    let (code, verdict) = verdict(&scenario, "", &["--cache", "warm"]);
    assert_eq!((code, verdict["outcome"].as_str()), (0, Some("confirmed")), "{}", verdict["reasons"]);
    assert!(verdict["compared"].as_array().unwrap().len() > 20);
    assert_eq!(verdict["causes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_profile_that_is_too_fast_is_refuted_by_its_step_time() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    refuted_by(&verdict(&scenario, "speed=1.15", &[]), "step_time");
}

#[test]
fn a_router_that_pins_is_refuted_by_the_router() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    refuted_by(&verdict(&scenario, "pinned=0.75", &[]), "router");
}

#[test]
fn half_the_blocks_are_found() {
    let scenario = scenario().profile("num_blocks: 200", "num_blocks: 80");
    engine(&scenario, "profile.yaml", "num_blocks: 80", "num_blocks: 40");
    refuted_by(&verdict(&scenario, "", &[]), "kv_blocks");
}

#[test]
fn a_cache_that_is_off_is_found() {
    let scenario = scenario();
    engine(&scenario, "workload-manifest.yaml", "prefix_cache: enabled", "prefix_cache: disabled");
    refuted_by(&verdict(&scenario, "", &["--cache", "warm"]), "cache");
}

#[test]
fn a_slow_network_is_found() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    refuted_by(&verdict(&scenario, "network_ms=20", &[]), "network");
}

#[test]
fn a_drifting_engine_yields_no_verdict() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    let (code, verdict) = verdict(&scenario, "drift=0.4", &[]);
    assert_eq!((code, verdict["outcome"].as_str()), (1, Some("inconclusive")), "{}", verdict["reasons"]);
    assert!(verdict["reasons"][0].as_str().unwrap().contains("drifted"));
}

#[test]
fn what_was_done_is_not_done_again_and_the_prediction_may_not_change() {
    let scenario = scenario();
    engine(&scenario, "", "", "");
    let place = ["--out", "pack", "--resume"];
    let first = verdict(&scenario, "", &place);
    let prediction = scenario.read("pack/prediction.json");
    let rows = scenario.path("pack/live/open-cold-20-7/requests.csv");
    let before = std::fs::metadata(&rows).unwrap().modified().unwrap();
    // A run that is damaged is made again.
    let damaged = scenario.path("pack/live/open-cold-90-7/requests.csv");
    let whole = std::fs::read_to_string(&damaged).unwrap();
    std::fs::write(&damaged, "x").unwrap();
    assert_eq!(verdict(&scenario, "", &place), first);
    assert_eq!(std::fs::metadata(&rows).unwrap().modified().unwrap(), before);
    assert_eq!(std::fs::read_to_string(&damaged).unwrap(), whole);
    assert_eq!(scenario.read("pack/prediction.json"), prediction);
    let args = ["validate", "small", "--simulate-engine", "engine", "--tolerance", "drift=0.2"];
    scenario.run(&[&args[..], &place].concat()).refuses(&["prediction.json", "may not change"]);
    let page = scenario.read("pack/report.html");
    assert!(page.contains("CONFIRMED") || page.contains("REFUTED") || page.contains("INCONCLUSIVE"));
    assert!(page.contains("<svg") && !page.contains("NaN"));
}

#[test]
fn a_plan_and_error_rates_need_no_engine() {
    let scenario = scenario();
    let plan = scenario.run(&["validate", "small", "--plan", "--format", "json"]).expect(0).json();
    assert!(plan["hours"].as_f64().unwrap() > 0.0 && !plan["metrics"].as_array().unwrap().is_empty());
    let rates =
        scenario.run(&["validate", "small", "--error-rates", "3", "--format", "json"]).expect(0).json();
    let sum = |of: &str| {
        ["confirmed", "refuted", "inconclusive"].iter().map(|k| rates[of][k].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("true"), sum("wrong")), (3, 3));
    assert_eq!(rates["wrong"]["confirmed"], 0);
}
