//! Live failure tests that need no kill, and a whole study against an emulated fleet: `reproduce --live`. It is short, so that
//! `verify-pack` finds too little in it; tests/live/rehearsal.sh makes one that is accepted.
//!
//! Everything here happens in real time, and nothing that rests on times is asserted.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::emulated::{Emulated, once_there};
use support::{Run, Scenario};

/// Soon noticed, in seconds of the wall clock.
const RESILIENCE: &str =
    "resilience:\n  health_check: {interval_seconds: 0.3, timeout_seconds: 1, failures: 3, successes: 2}\n";

fn failure_test(scenario: &Scenario, fleet: &Emulated, arguments: &[&str]) -> Run {
    let common = ["failure-test", "small", "--live", "--rate", "60", "--at", "3", "--interval-s", "1"];
    let run = scenario.run(&[&common, &fleet.targets()[..], arguments].concat());
    assert!(!run.err.contains("panicked"), "{run:#?}");
    run
}

fn report(scenario: &Scenario, run: &Run) -> Value {
    assert!([0, 1, 3].contains(&run.code), "{run:#?}");
    serde_json::from_str(&scenario.read("p/failure-test.json")).unwrap()
}

#[test]
fn clients_give_up_all_at_once() {
    let scenario = Scenario::new();
    let fleet = Emulated::start(&scenario, "small", &[]);
    let run = failure_test(&scenario, &fleet, &["--fault", "cancellations", "--share", "1", "--out", "p"]);
    let report = report(&scenario, &run);
    assert_eq!(report["fault"]["kind"], "cancellations");
    assert_eq!((&report["fault"]["at_s"], &report["detected"]), (&3.0.into(), &Value::Null));
    let cancelled = report["counts"]["cancelled"].as_u64().unwrap();
    assert!(cancelled > 0, "{report:#}");
    let rows = scenario.read("p/requests.csv");
    assert_eq!(rows.matches(",cancelled,").count() as u64, cancelled, "all of them at once");
}

#[test]
fn a_replica_joins_that_was_not_there() {
    let scenario = Scenario::new().scenario("experiment:\n", &format!("{RESILIENCE}experiment:\n"));
    let fleet = Emulated::start(&scenario, "small", &[]);
    let cold = ["--fault", "cold-start", "--replica", "1", "--inject", "touch order", "--out", "p"];
    failure_test(&scenario, &fleet, &cold).refuses(&["found an answer of replica 1", "stop it first"]);
    fleet.admin.fault("1", r#"{"fault": "stop"}"#);
    let admin = fleet.admin.clone();
    once_there(scenario.path("order"), move || {
        admin.fault("1", r#"{"fault": "start", "start_up_seconds": 1}"#);
    });
    let run = failure_test(&scenario, &fleet, &cold);
    let report = report(&scenario, &run);
    assert_eq!((&report["detected"], &report["removed"]), (&Value::Null, &Value::Null), "{report:#}");
    let joined_s = report["readmitted"]["at_s"].as_f64().unwrap();
    assert!(report["readmitted"]["after_s"].as_f64().unwrap() > 1.0, "{report:#}");
    let rows = scenario.read("p/requests.csv");
    let mut lines = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let place = |name| header.iter().position(|column| *column == name).unwrap();
    let (replica, sent) = (place("replica"), place("sent_s"));
    let there: Vec<f64> =
        lines.filter(|row| row[replica] == "1").map(|row| row[sent].parse().unwrap()).collect();
    assert!(!there.is_empty() && there.iter().all(|&sent_s| sent_s >= joined_s), "{joined_s}: {there:?}");
}

/// Few requests of two classes, with prefixes, of a scheduler that is named.
fn short() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 60")
        .manifest("{chat: 300, batch: 100}", "{chat: 45, batch: 15}")
        .manifest("min_successful_samples_per_class: 50", "min_successful_samples_per_class: 10")
        .manifest("warmup_seconds: 1", "warmup_seconds: 0.2")
        .manifest("prefix_cache: enabled", "scheduler_revision: small-s1\n  prefix_cache: enabled")
        .prefix_groups([("chats", 48), ("batches", 96)])
}

#[test]
fn a_study_of_a_live_fleet_is_judged_as_a_simulated_one() {
    let scenario = short();
    let fleet = Emulated::start(&scenario, "small", &[]);
    let mut arguments = vec!["reproduce", "small", "--live", "--inject", "touch 'no kill'", "--out", "study"];
    arguments.extend(fleet.targets());
    arguments.extend(["--rps", "50,100,150", "--concurrency", "2,8,32", "--repeats", "1"]);
    let run = scenario.run(&arguments);
    assert_eq!(run.code, 1, "{run:#?}");
    let judged = scenario.run(&["verify-pack", "study", "--format", "json"]).expect(1).json();
    let verdict = |id: &str| {
        let lines = judged["lines"].as_array().unwrap();
        lines.iter().find(|line| line["id"] == id).unwrap_or_else(|| panic!("no {id}")).clone()
    };
    for id in ["whole", "revisions", "cache-states", "points", "causes"] {
        assert_eq!(verdict(id)["verdict"], "met", "{}", verdict(id));
    }
    for id in ["samples", "repeats"] {
        assert_ne!(verdict(id)["verdict"], "met", "{}", verdict(id));
    }
    let measured: Value = serde_json::from_str(&scenario.read("study/open/live.json")).unwrap();
    let Some(capacity_rps) = measured["capacity_rps"].as_f64() else {
        // A busy machine's runs are invalid: then there is nothing to divide, and to kill at.
        return;
    };
    let plan: Value = serde_json::from_str(&scenario.read("study/plan/plan.json")).unwrap();
    assert_eq!(plan["capacity_rps"].as_f64(), Some(capacity_rps));
    assert_eq!(verdict("plan")["verdict"], "met", "{}", verdict("plan"));
    assert!(
        scenario.path("no kill").exists() && scenario.path("study/failure-test/failure-test.md").exists()
    );
    assert_ne!(verdict("failure-test")["verdict"], "met", "nothing was killed");
    for typed in [
        "live small --target",
        "plan small --measured",
        "failure-test small --rate",
        "--inject 'touch '\\''no kill'\\'''",
    ] {
        assert!(run.out.contains(typed), "no {typed} in {}", run.out);
    }
}
