//! `calibrate --target` and `validate --target` over HTTP, against an emulated engine whose parameters they are not told.
//!
//! Everything here happens in real time. What must come out whatever the machine does (files, exit codes, an outcome with
//! its reasons) is asserted always; what rests on times only if the emulator's own steps were not late, and otherwise the
//! test says that it judged none.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it does not judge"
)]

mod support;

use scaleproof_sim::profile::Profile;
use serde_json::Value;
use support::Scenario;
use support::emulated::Emulated;

/// Wide, so that few repeats decide; a wrong engine is wronger.
const WIDE: &str = "ttft_p50=0.3,ttft_p90=0.4,ttft_p95=0.5,tpot_p50=0.2,tpot_p90=0.25,tpot_p95=0.4,e2e_p50=0.2,e2e_p90=0.25,\
                    e2e_p95=0.4,throughput=0.1,attainment=0.1,preemptions=1,drift=0.2";

/// The small scenario's fleet.
fn emulated(scenario: &Scenario, arguments: &[&str]) -> Emulated {
    Emulated::start(scenario, "small", &[&["--noise", "0.01"], arguments].concat())
}

#[test]
fn an_emulated_engine_is_calibrated_over_http() {
    let scenario = Scenario::new();
    let engine = emulated(&scenario, &["--replicas", "1"]);
    let run = scenario.run(&[
        "calibrate",
        "--target",
        &engine.replicas[0],
        "--budget",
        "0.6",
        "--scenario",
        "small",
        "--out",
        "found.yaml",
        "--report",
        "report",
        "--format",
        "json",
    ]);
    let mut on_time = engine.was_on_time();
    if scenario.path("report/fit-report.md").exists()
        && scenario.read("report/fit-report.md").contains("failed the client's own checks")
    {
        println!("times are not judged: the client's own checks failed");
        on_time = false;
    }
    if !on_time && run.code != 0 {
        // A machine that cannot be measured on is refused in words.
        assert!(run.code < 3 && (run.err.contains("expected") || run.out.contains("misfit")), "{run:#?}");
        return;
    }
    assert_eq!(run.code, 0, "{run:#?}");
    let found = Profile::parse("found.yaml", &scenario.read("found.yaml")).unwrap();
    let truth = Profile::parse("profile.yaml", &scenario.read("small/profile.yaml")).unwrap();
    assert_eq!(
        (found.tp, &*found.model_revision, &*found.precision),
        (2, "small-r1", "bf16"),
        "by --scenario"
    );
    assert_eq!(found.scheduler.num_blocks, truth.scheduler.num_blocks);
    assert!(found.scheduler.enable_prefix_caching);
    for file in ["sweep.json", "measurements.csv", "fit-report.md", "report.html"] {
        assert!(!scenario.read(&format!("report/{file}")).is_empty(), "{file}");
    }
    // A scenario takes what was found.
    scenario.write("profile.yaml", &scenario.read("found.yaml"));
    scenario.run(&["simulate", "small", "--rps", "20", "--out", "predicted"]).expect(0);
    let again =
        ["calibrate", "--from", "report", "--scenario", "small", "--out", "again.yaml", "--report", "r2"];
    scenario.run(&again).expect(0);
    if on_time {
        assert_eq!(found.scheduler, truth.scheduler, "the scheduler's settings, read and measured");
        for rows in [1_u32, 4, 8] {
            let shape = scaleproof_sim::step_time::BatchShape {
                tokens: rows.into(),
                rows,
                sampled: rows,
                decode_context: u64::from(rows) * 100,
                ..Default::default()
            };
            let times = [&found, &truth].map(|p| p.step_time.duration(&shape, true).unwrap().seconds());
            assert!((times[0] / times[1] - 1.0).abs() < 0.03, "a step of {rows} rows: {times:?} s");
        }
    }
}

/// What `validate` says of two emulated replicas, perhaps under a fault; and whether times can be judged.
fn verdict(scenario: &Scenario, rps: &str, fault: Option<&str>) -> (i32, Value, bool) {
    let engine = emulated(scenario, &[]);
    if let Some(fault) = fault {
        engine.admin.fault("all", fault);
    }
    let run = scenario.run(&[
        "validate",
        "small",
        "--target",
        &engine.replicas[0],
        "--target",
        &engine.replicas[1],
        "--rps",
        rps,
        "--repeats",
        "3",
        "--tolerance",
        WIDE,
        "--out",
        "pack",
        "--format",
        "json",
    ]);
    let mut on_time = engine.was_on_time();
    assert!(run.code < 2, "{run:#?}");
    let verdict = run.json()["verdict"].clone();
    if verdict["reasons"].to_string().contains("a live run is invalid") {
        println!("times are not judged: the client's own checks failed: {}", verdict["reasons"]);
        on_time = false;
    }
    let confirmed = verdict["outcome"] == "confirmed";
    assert_eq!(run.code == 0, confirmed, "{}", verdict["reasons"]);
    assert!(!verdict["reasons"].as_array().unwrap().is_empty());
    for file in
        ["prediction.json", "verdict.json", "report.html", &format!("live/open-cold-{rps}-7/requests.csv")]
    {
        assert!(!scenario.read(&format!("pack/{file}")).is_empty(), "{file}");
    }
    (run.code, verdict, on_time)
}

/// Two hundred requests a run.
fn scenario() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 200")
        .manifest("{chat: 300, batch: 100}", "{chat: 150, batch: 50}")
}

#[test]
fn the_engine_of_the_profile_is_confirmed_over_http() {
    let scenario = scenario();
    let (code, verdict, on_time) = verdict(&scenario, "40", None);
    if on_time {
        assert_eq!((code, &verdict["outcome"]), (0, &"confirmed".into()), "{}", verdict["reasons"]);
        assert!(verdict["compared"].as_array().unwrap().len() > 10);
    }
}

#[test]
fn a_slower_engine_is_refuted_over_http_by_its_step_time() {
    let scenario = scenario();
    let (code, verdict, on_time) = verdict(&scenario, "40", Some(r#"{"fault": "slow", "factor": 1.5}"#));
    assert_eq!(code, 1, "slow steps look like no fast machine's: {}", verdict["reasons"]);
    if on_time {
        assert_eq!(verdict["outcome"], "refuted", "{}", verdict["reasons"]);
        assert_eq!(verdict["causes"][0]["place"], "step_time", "{}", verdict["causes"]);
    }
}

#[test]
fn a_run_that_fails_its_own_checks_yields_no_verdict() {
    let scenario = Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 60")
        .manifest("{chat: 300, batch: 100}", "{chat: 45, batch: 15}")
        // Metrics come as late: they have more time.
        .scenario("sample_interval_seconds: 0.05", "sample_interval_seconds: 0.5");
    // The client's first tokens come much later than the server says: a way that cannot be judged through.
    let fault = r#"{"fault": "latency", "request_ms": 60}"#;
    let (code, verdict, _) = verdict(&scenario, "60", Some(fault));
    assert_eq!((code, &verdict["outcome"]), (1, &"inconclusive".into()), "{}", verdict["reasons"]);
    assert!(verdict["reasons"].to_string().contains("ttft_above_server"), "{}", verdict["reasons"]);
}
