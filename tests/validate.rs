//! Verdicts: a true model is confirmed; one that is wrong in one place is refuted, with that place named.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::Scenario;

/// The small scenario with enough load and prefixes for every rule, on both sides the same.
fn scenario() -> Scenario {
    Scenario::new()
        .scenario("rates_rps: [20, 60, 400]", "rates_rps: [20, 90]")
        .prefix_groups([("a", 32), ("b", 96)])
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

/// As behind nginx: eight replicas at one address, so that the client does not know whom the router chose; the first, which
/// has half of the requests or more, runs out of blocks too.
#[test]
fn a_router_that_pins_is_named_before_what_it_brings_about_where_only_metrics_show_it() {
    let scenario = scenario()
        .manifest(
            "{tp: 2, pp: 1, dp: 2, replicas: 2, gpus: 4}",
            "{tp: 2, pp: 1, dp: 8, replicas: 8, gpus: 16}",
        )
        .scenario("rates_rps: [20, 90]", "rates_rps: [60, 200]")
        .profile("num_blocks: 200", "num_blocks: 60");
    engine(&scenario, "", "", "");
    for pinned in ["pinned=0.5,one_target=1", "pinned=0.75,one_target=1"] {
        let found = verdict(&scenario, pinned, &["--repeats", "3"]);
        refuted_by(&found, "router");
        let causes = found.1["causes"].as_array().unwrap();
        assert!(causes[0]["evidence"].as_str().unwrap().contains("load in flight"), "{pinned}: {causes:#?}");
        let preempts = causes.iter().find(|cause| cause["place"] == "kv_blocks");
        let says = preempts.unwrap()["evidence"].as_str().unwrap();
        assert!(says.contains("preemptions") && says.contains("the router may bring it about"), "{says}");
    }
}

/// An engine that is slower than the profile's numbers, but no slower than the profile says it might be.
#[test]
fn a_profile_that_is_unsure_is_not_refuted_for_it() {
    let uncertain = "uncertainty:\n  - {factor: weights, prior_sd: 0.5, deviations: [SD]}\nprovenance:";
    let outcome = |sd: &str| {
        let scenario = scenario().profile("provenance:", &uncertain.replace("SD", sd));
        engine(&scenario, "", "", "");
        let (_, verdict) = verdict(&scenario, "speed=1.1", &["--draws", "12", "--out", "pack"]);
        let draws: Value = serde_json::from_str(&scenario.read("pack/prediction.json")).unwrap();
        assert_eq!(draws["prediction"]["draws"].as_array().unwrap().len(), 12);
        assert!(draws["prediction"]["draws"][0]["weights"].as_f64().unwrap() > 0.0);
        let tpot = verdict["compared"].as_array().unwrap().iter();
        let tpot = tpot.filter(|c| c["metric"] == "p50_tpot_ms").max_by_key(|c| c["draws"].as_u64()).unwrap();
        let width = tpot["predicted_ci95"][1].as_f64().unwrap() - tpot["predicted_ci95"][0].as_f64().unwrap();
        (verdict["outcome"].as_str().unwrap().to_owned(), width, verdict["reasons"].to_string())
    };
    let (sure, narrow, reasons) = outcome("0.002");
    assert_eq!(sure, "refuted", "{reasons}");
    let (unsure, wide, reasons) = outcome("0.2");
    assert_eq!(unsure, "inconclusive", "{reasons}");
    assert!(wide > 3.0 * narrow && reasons.contains("own uncertainty"), "{wide} {narrow} {reasons}");
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
    assert_eq!(rates["drawn"], Value::Null, "the profile states no uncertainty");
}

#[test]
fn fleets_of_several_sizes_are_told_apart_and_a_rehearsal_validates_nothing_live() {
    let scenario = scenario().scenario("rates_rps: [20, 90]", "rates_rps: [20, 60]");
    engine(&scenario, "", "", "");
    let (_, verdict) = verdict(&scenario, "", &["--replicas", "1,2", "--repeats", "3"]);
    let fleets = verdict["scale_out"]["fleets"].as_array().unwrap();
    assert_eq!(fleets.iter().map(|fleet| fleet["replicas"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(fleets.iter().all(|fleet| fleet["standing"] != "unmeasured"));
    let says = verdict["scale_out"]["statement"].as_str().unwrap();
    assert!(says.contains("rehearsal") && !says.contains("on live replicas"), "{says}");
}
