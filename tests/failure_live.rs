//! The kill of one of four emulated replicas of the worked example at its 20 requests/s, at twice the speed, beside what is
//! simulated of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::Scenario;
use support::emulated::{Emulated, once_there};

/// Seconds of the wall clock that a second of the engine takes.
const SCALE: f64 = 0.5;
/// 20/s of the engine's seconds.
const RATE: &str = "40";
/// A repeat of the schedule whose steady state comes soon: the test takes no longer than it must.
const REPEAT: &str = "7";
/// When the replica is killed, and how long its start takes, in seconds of the wall clock.
const KILLED_S: &str = "26";
const START_UP_S: f64 = 8.0;

const RESILIENCE: &str = "
resilience:
  circuit_breaker: {failures: 10, open_seconds: 6, successes: 3}
  health_check: {interval_seconds: 30, timeout_seconds: 5}
  restart: {notice_seconds: 0, imports_seconds: 8, weights_gb: 0, compile_seconds: 0, graph_capture_seconds: 0, warm_up_seconds: 0}
";

fn repository(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old:?} is not there once");
        text.replace(old, new)
    })
}

/// The worked example, shorter, as it is in the wall clock's time; and beside it, in the engine's time, to be emulated.
fn worked_example() -> Scenario {
    let scenario = Scenario::new();
    let manifest = replaced(
        &repository("scenarios/tp2-dp4/workload-manifest.yaml"),
        &[
            ("initial_scheduled_requests: 22000", "initial_scheduled_requests: 2500"),
            (
                "interactive: 15400, long_context: 4400, generation_heavy: 2200",
                "interactive: 1750, long_context: 500, generation_heavy: 250",
            ),
            ("minimum_duration_seconds: 300", "minimum_duration_seconds: 0"),
            ("min_successful_samples_per_class: 2000", "min_successful_samples_per_class: 100"),
            ("warmup_seconds: 60", "warmup_seconds: 14"),
        ],
    );
    let profile = repository("models/fixture/dense-70b-fixture-r1.yaml");
    let in_wall_time = replaced(
        &profile,
        &[
            ("request_ms: 20", "request_ms: 10"),
            ("base_us: 14600", "base_us: 7300"),
            ("[2048, 41754]", "[2048, 20877]"),
            ("decode_context_token_us: 0.03", "decode_context_token_us: 0.015"),
            ("prefill_pair_us: 0.0005", "prefill_pair_us: 0.00025"),
            ("row_us: 58.4", "row_us: 29.2"),
        ],
    );
    let yaml = replaced(
        &repository("scenarios/tp2-dp4/scenario.yaml"),
        &[
            ("../../models/fixture/dense-70b-fixture-r1.yaml", "profile.yaml"),
            ("rates_rps: [16, 20, 24, 28]", "rates_rps: [40]"),
        ],
    );
    let emulated = scenario.path("emulated");
    std::fs::create_dir(&emulated).unwrap();
    for (name, live, in_engine_time) in [
        ("workload-manifest.yaml", &manifest, &manifest),
        ("profile.yaml", &in_wall_time, &profile),
        ("scenario.yaml", &(yaml.clone() + RESILIENCE), &yaml),
    ] {
        scenario.write(name, live);
        std::fs::write(emulated.join(name), in_engine_time).unwrap();
    }
    scenario
}

fn after_s(report: &Value, what: &str) -> f64 {
    report[what]["after_s"].as_f64().unwrap_or_else(|| panic!("{what} was not seen: {report:#}"))
}

/// Whether a count is within three times its interval. A sound run is outside the interval itself one time in twenty, for
/// each count: too often for a test.
fn is_near(beside: &Value) -> bool {
    let [low, high] = [0, 1].map(|end| beside["one_more_95"][end].as_f64().unwrap());
    let seen = beside["seen"].as_f64().unwrap();
    (low - (high - low)..=high + (high - low)).contains(&seen)
}

/// The lines of the verdict that are not so. When the steady state is back depends on a few requests' times, and so on the
/// machine.
fn failing(markdown: &str) -> Vec<&str> {
    let verdict = markdown.split("## Verdict").nth(1).and_then(|rest| rest.split("\n## ").next());
    let lines: Vec<&str> = verdict.unwrap().lines().filter(|line| line.starts_with("| the ")).collect();
    assert!(lines.len() >= 4, "{markdown}");
    lines.into_iter().filter(|line| !line.contains("| yes |")).collect()
}

/// The order of what happened, and the sums, hold on any machine; numbers and verdict only where client and emulator were on
/// time.
#[test]
fn a_killed_replica_is_left_out_and_comes_back_as_predicted() {
    let scenario = worked_example();
    let emulator = Emulated::start(&scenario, "emulated", &["--time-scale", &SCALE.to_string()]);
    let admin = emulator.admin.clone();
    // It is started again by itself.
    let kill = format!(r#"{{"fault": "stop", "start_up_seconds": {}}}"#, START_UP_S / SCALE);
    once_there(scenario.path("kill"), move || admin.fault("1", &kill));
    let mut arguments =
        vec!["failure-test", "small", "--live", "--rate", RATE, "--at", KILLED_S, "--replica", "1"];
    arguments.extend(emulator.targets());
    arguments.extend([
        "--inject",
        "touch kill",
        "--predict",
        "--run",
        REPEAT,
        "--repeats",
        "10",
        "--interval-s",
        "1",
        "--out",
        "p",
    ]);
    let run = scenario.run(&arguments);
    assert!([0, 1, 3].contains(&run.code) && !run.err.contains("panicked"), "{run:#?}");
    let report: Value = serde_json::from_str(&scenario.read("p/failure-test.json")).unwrap();
    assert_eq!(report["run"]["origin"], "live");
    let times = ["detected", "removed", "readmitted"].map(|what| after_s(&report, what));
    assert!(times.is_sorted() && times[2] > START_UP_S, "{times:?}");
    let counts = &report["counts"];
    assert!(counts["lost"].as_u64() > Some(0) && counts["retried"].as_u64() > Some(0), "{counts}");
    let alarms = report["alarms"].as_array().unwrap();
    assert!(alarms.iter().any(|alarm| alarm["name"] == "ReplicaDown" && alarm["replica"] == 1), "{alarms:?}");
    let markdown = scenario.read("p/failure-test.md");
    assert!(markdown.contains("## Prediction\n") && markdown.contains("## What happened\n"), "{markdown}");
    let rows = scenario.read("p/requests.csv").lines().count() - 1;
    assert!(rows >= 2_500, "every attempt has its row: {rows}");
    if run.code == 3 {
        println!("skipped: the machine was too busy to judge the numbers: {}", run.err);
        return;
    }
    // For docs/failures.md, by --nocapture.
    println!(
        "{}",
        markdown.split("## Prediction\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap()
    );
    assert!(failing(&markdown).iter().all(|line| line.contains("the steady state returns")), "{markdown}");
    for name in ["lost", "retried", "rejected"] {
        let beside = report["prediction"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        assert!(is_near(beside), "{beside}\n{markdown}");
    }
}
