//! What others fell into: each case through the binary, with its exit code and what it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Run, Scenario, files_below};

const REPORT_JSON: [&str; 6] = ["simulate", "small", "--rps", "60", "--format", "json"];

fn outcomes(report: &Value) -> Value {
    report["outcomes"].clone()
}

/// Asserts that every attempt ended as `outcome`, and that nothing about it looks good.
#[track_caller]
fn assert_all(report: &Value, outcome: &str, attempted: u64) {
    let mut expected = json!({"ok": 0, "error": 0, "timeout": 0, "rejected": 0, "cancelled": 0, "lost": 0});
    expected[outcome] = json!(attempted);
    assert_eq!(outcomes(report), expected);
    assert_eq!(report["error_rate"], json!(1.0));
    assert_eq!(report["capacity_gate_pass"], json!(false));
    assert_eq!(report["all_class_slos_pass"], json!(false));
    assert_eq!(report["overall_attainment"], Value::Null);
    assert_eq!(report["attempted_attainment"], json!(0.0));
    for class in report["classes"].as_object().unwrap().values() {
        for key in [
            "attainment",
            "p50_ttft_ms",
            "p95_ttft_ms",
            "p99_ttft_ms",
            "p50_tpot_ms",
            "p95_tpot_ms",
            "p95_e2e_ms",
        ] {
            assert_eq!(class[key], Value::Null, "{key} of nothing");
        }
        assert_eq!(class["class_slo_pass"], json!(false));
    }
}

#[test]
fn one_kv_block_fails_every_attempt() {
    // Two blocks, of which the engine keeps the null block: one is usable, and every request needs more.
    let scenario = Scenario::new().profile("num_blocks: 200", "num_blocks: 2");
    let run = scenario.run(&REPORT_JSON).expect(1);
    let report = run.json();
    // The schedule goes on for successes that never come, to the scenario's usual twice its length.
    assert_all(&report, "error", 800);
    assert_eq!(report["failure_reasons"], json!({"longer than the engine's context or KV pool": 800}));
}

#[test]
fn a_prompt_longer_than_the_pool_fails_alone() {
    // 12 usable blocks of 16 hold 192 tokens: `chat` fits, the 200 tokens of `batch` do not.
    let scenario = Scenario::new().profile("num_blocks: 200", "num_blocks: 13");
    let report = scenario.run(&REPORT_JSON).expect(1).json();
    assert_eq!(report["classes"]["batch"]["successful_count"], json!(0));
    assert_eq!(report["classes"]["batch"]["attainment"], Value::Null);
    assert_eq!(report["classes"]["chat"]["successful_count"], report["classes"]["chat"]["attempted_count"]);
}

#[test]
fn a_pool_for_exactly_one_request_serves_it() {
    // 232 tokens of `batch` in 15 blocks of 16: one at a time, and none waits for ever.
    for scheduling in ["async_scheduling: true", "async_scheduling: false"] {
        let scenario = Scenario::new().profile("num_blocks: 200", &format!("num_blocks: 16\n  {scheduling}"));
        let report = scenario.run(&["simulate", "small", "--rps", "2", "--format", "json"]).expect(0).json();
        assert_eq!(outcomes(&report)["ok"], json!(400), "{scheduling}");
    }
}

#[test]
fn a_class_nobody_sends_is_named_and_passes_nothing() {
    let nobody = "  - {name: nobody, mix: 0, input_tokens: 1, output_tokens: 1, request_ttft_cutoff_ms: 1, request_tpot_cutoff_ms: 1}\n";
    // Wherever it stands among the classes.
    for before in ["  - {name: chat, mix", "  - {name: batch, mix"] {
        let scenario = Scenario::new()
            .manifest("{chat: 300, batch: 100}", "{chat: 300, batch: 100, nobody: 0}")
            .manifest(before, &format!("{nobody}{before}"));
        let report = scenario.run(&REPORT_JSON).expect(1).json();
        let class = &report["classes"]["nobody"];
        assert_eq!([&class["attempted_count"], &class["attainment"]], [&json!(0), &Value::Null]);
        assert_eq!(class["class_slo_pass"], json!(false));
        // It cannot get its successes, so nothing is gained by running on.
        assert_eq!(report["attempted"], json!(400));
        let warnings = report["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|w| w.as_str().unwrap().contains("nobody")), "{warnings:?}");
    }
}

#[test]
fn an_unknown_class_in_requests_csv_is_refused() {
    let scenario = Scenario::new();
    let header = "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status\n";
    let text = format!("{header}r-1,chat,10,5,100,16,ok\nr-2,chatt,10,5,100,16,ok\n");
    fs::write(scenario.path("requests.csv"), text).unwrap();
    let arguments = ["analyze", "requests.csv", "--manifest", "small/workload-manifest.yaml"];
    scenario.run(&[&arguments[..], &["--duration-s", "10", "--queue-trend", "flat"]].concat()).refuses(&[
        "requests.csv",
        "requests.csv:3",
        "class",
        "chatt",
        "chat, batch",
    ]);
}

#[test]
fn a_count_for_an_unknown_class_is_refused() {
    let scenario = Scenario::new().manifest("{chat: 300, batch: 100}", "{chat: 300, bacth: 100}");
    scenario.run(&REPORT_JSON).refuses(&["small/workload-manifest.yaml:17:", "bacth", "batch"]);
}

#[test]
fn zero_requests_are_no_success() {
    let scenario = Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 0")
        .manifest("{chat: 300, batch: 100}", "{chat: 0, batch: 0}");
    let report = scenario.run(&REPORT_JSON).expect(1).json();
    assert_eq!(report["attempted"], json!(0));
    assert_eq!(report["error_rate"], Value::Null);
    assert_eq!(report["request_throughput_rps"], Value::Null);
    assert_eq!(report["capacity_gate_pass"], json!(false));
    let plan = scenario.run(&["plan", "small", "--peak", "90"]).expect(1);
    assert!(plan.out.contains("no plan: no tested rate passes"), "{}", plan.out);
}

#[test]
fn all_rejected_is_no_success() {
    // A prompt token limit that a warm-up request of hours keeps reached.
    let scenario = Scenario::new()
        .scenario("router:", "engine: {max_num_queued_tokens: 1}\nrouter:")
        .profile("base_us: 5000", "base_us: 3600000000");
    let report = scenario.run(&["simulate", "small", "--rps", "60", "--format", "json"]).expect(1).json();
    assert_all(&report, "rejected", 800);
    assert_eq!(report["failure_reasons"], json!({"queue full": 800}));
}

#[test]
fn a_client_that_gives_up_at_once_gets_nothing() {
    let scenario = Scenario::new().scenario("router:", "client: {timeout_seconds: 0.000001}\nrouter:");
    assert_all(&scenario.run(&REPORT_JSON).expect(1).json(), "timeout", 800);
}

#[test]
fn rates_that_are_none_are_refused() {
    let scenario = Scenario::new();
    for (rate, found) in
        [("0", "found 0"), ("NaN", "found NaN"), ("inf", "found inf"), ("-1", "found -1"), ("x", "x")]
    {
        for command in [&["simulate", "small"][..], &["sweep", "small"], &["plan", "small", "--peak", "9"]] {
            let option = if command[0] == "plan" { "--within" } else { "--rps" };
            let run = scenario.run(&[command, &[option, rate]].concat());
            run.refuses(&[option, found, "expected a number"]);
        }
    }
    scenario.run(&["simulate", "small", "--rps", "1e7"]).refuses(&["1000000"]);
    scenario.run(&["simulate", "small", "--concurrency", "0"]).refuses(&["--concurrency", "0"]);
    scenario.run(&["plan", "small"]).refuses(&["--peak"]);
}

#[test]
fn what_is_not_there_is_refused() {
    let scenario = Scenario::new();
    scenario.run(&["simulate", "elsewhere"]).refuses(&["elsewhere: found no directory", "scenarios/tp2-dp4"]);
    scenario.run(&["sweep", "."]).refuses(&["./workload-manifest.yaml", "expected a readable file"]);
    scenario.run(&["oracle", "none.json"]).refuses(&["none.json", "expected a readable file"]);
    scenario
        .run(&[
            "analyze",
            "none.csv",
            "--manifest",
            "small/workload-manifest.yaml",
            "--duration-s",
            "1",
            "--queue-trend",
            "flat",
        ])
        .refuses(&["none.csv", "expected a readable file"]);
    assert!(!scenario.path("out").exists(), "a pack was begun for nothing");
    let scenario = scenario.scenario("profile: profile.yaml", "profile: gone.yaml");
    scenario.run(&["simulate", "small"]).refuses(&["small/gone.yaml", "expected a readable file"]);
}

#[test]
fn a_trace_that_is_not_there_says_how_to_give_it() {
    let scenario = Scenario::new()
        .manifest(
            "arrival_pattern: poisson\n",
            "arrival_pattern: trace\n  trace: {file: own.csv, format: csv}\n",
        )
        .manifest("  initial_scheduled_requests: 400\n", "")
        .manifest("  class_schedule_counts: {chat: 300, batch: 100}\n", "")
        .manifest("mix: 0.75, input_tokens: 64, output_tokens: 16, ", "")
        .manifest("mix: 0.25, input_tokens: 200, output_tokens: 32, ", "");
    scenario.run(&["simulate", "small"]).refuses(&["small/own.csv", "--trace FILE"]);
    scenario
        .run(&["simulate", "small", "--trace", "my.csv"])
        .refuses(&["my.csv", "expected a readable file"]);
    scenario.write("own.csv", "arrival_s,input_tokens,output_tokens\n0,9,2\n1.5,9,2\n1.25,9,2\n");
    scenario.run(&["simulate", "small"]).refuses(&["small/own.csv:4", "arrival_s", "never run backwards"]);
}

#[test]
fn an_unwritable_place_is_no_bad_input() {
    let scenario = Scenario::new();
    for command in [&["simulate", "small"][..], &["sweep", "small"], &["plan", "small", "--peak", "90"]] {
        let run = scenario.run(&[command, &["--out", "small/profile.yaml/pack"]].concat());
        run.fails(3, &["small/profile.yaml/pack", "choose another --out"]);
    }
    scenario
        .run(&["schedule", "small", "--out", "nowhere/s.csv"])
        .fails(3, &["nowhere/s.csv", "choose another --out"]);
}

#[test]
fn what_the_simulator_does_not_model_is_refused() {
    let scenario = Scenario::new()
        .manifest("speculative_decoding: disabled", "speculative_decoding: enabled")
        .manifest("precision: bf16", "precision: fp8");
    scenario.run(&["simulate", "small"]).refuses(&[
        "engine.speculative_decoding: found enabled; expected disabled",
        "model.precision: found fp8; expected bf16, as in the profile small-engine",
    ]);
}

#[test]
fn a_run_of_centuries_is_an_error_and_no_overflow() {
    // An hour for each token of the prompt: no request is ever done in a time that 64 bits of nanoseconds hold.
    let scenario = Scenario::new()
        .profile("[[64, 0], [256, 10000]]", "[[1, 0], [2, 3600000000]]")
        .profile("prefill_pair_us: 0.001", "prefill_pair_us: 3600000000")
        .scenario("sample_interval_seconds: 0.05", "sample_interval_seconds: 3600");
    scenario.run(&["simulate", "small"]).fails(3, &["too long: found ", "profile's step time"]);
}

#[test]
fn faults_are_reported_all_at_once() {
    let scenario = Scenario::new()
        .manifest("mix: 0.75", "mix: 0.7")
        .manifest("gpus: 4", "gpus: 5")
        .manifest("revision: small-r1", "revision: latest");
    let run = scenario.run(&["simulate", "small"]).expect(2);
    for fault in ["mix", "gpus", "latest"] {
        assert!(run.err.contains(fault), "no {fault} in {}", run.err);
    }
    assert!(
        run.err.lines().all(|line| line.starts_with("error: small/workload-manifest.yaml:")),
        "{}",
        run.err
    );
}

/// Starts a command, waits until `ready` exists, and sends what Ctrl-C sends.
fn interrupt(scenario: &Scenario, arguments: &[&str], ready: impl Fn() -> bool) -> Run {
    let mut child =
        scenario.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !ready() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
        assert!(started.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    Run::of(&child.wait_with_output().unwrap())
}

/// A scenario whose points take minutes.
fn long() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 2000000")
        .manifest("{chat: 300, batch: 100}", "{chat: 1500000, batch: 500000}")
        .scenario("sample_interval_seconds: 0.05", "sample_interval_seconds: 1")
}

#[test]
fn an_interrupted_run_leaves_what_it_had() {
    let scenario = long();
    let begun = || fs::read_dir(scenario.path("p")).is_ok_and(|mut files| files.next().is_some());
    let run = interrupt(&scenario, &["simulate", "small", "--rps", "60", "--out", "p"], begun);
    run.fails(3, &["interrupted", "p holds the attempts that had ended"]);
    let files = files_below(&scenario.path("p"));
    let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    let expected = [
        "profile.yaml",
        "report.html",
        "requests.csv",
        "scenario.yaml",
        "seal.json",
        "slo-report.json",
        "timeline.csv",
        "workload-manifest.yaml",
    ];
    assert_eq!(names, expected);
    let report: Value = serde_json::from_str(&scenario.read("p/slo-report.json")).unwrap();
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("stopped before the schedule's end"), "{warnings}");
    let attempted = report["attempted"].as_u64().unwrap();
    let requests = scenario.read("p/requests.csv");
    assert!(requests.ends_with('\n'));
    assert_eq!(requests.lines().count() as u64, 1 + attempted);
    let manifest = scenario.path("p/workload-manifest.yaml").display().to_string();
    let rest = ["--manifest", &manifest, "--duration-s", "1", "--queue-trend", "flat"];
    let analyzed = scenario.run(&[&["analyze", "p/requests.csv"], &rest[..]].concat());
    assert_eq!(analyzed.json()["attempted"].as_u64(), Some(attempted));
}

#[test]
fn an_interrupted_sweep_keeps_the_points_it_finished() {
    let scenario = long();
    let point = scenario.path("p/points/open-cold-20-7");
    let begun = || fs::read_dir(&point).is_ok_and(|mut files| files.next().is_some());
    let run = interrupt(&scenario, &["sweep", "small", "--threads", "1", "--out", "p"], begun);
    run.fails(3, &["interrupted", "the points finished until then are valid"]);
    let summary = scenario.read("p/summary.csv");
    assert_eq!(summary.lines().count(), 1, "a point that was stopped is no result: {summary}");
    assert!(!scenario.path("p/points/open-cold-60-7").exists(), "a point was begun after the interruption");
}

#[test]
fn a_refused_closed_loop_client_comes_back_only_after_its_answer() {
    let scenario =
        Scenario::new().scenario("experiment:\n", "engine: {max_num_queued_reqs: 4}\nexperiment:\n");
    let report =
        scenario.run(&["simulate", "small", "--concurrency", "20", "--format", "json"]).expect(1).json();
    // Twelve of the twenty find no place. Each refusal takes at least a millisecond: they storm, but in finite time.
    assert!(report["outcomes"]["rejected"].as_u64().unwrap() > 100, "{report}");
    assert!(report["duration_s"].as_f64().unwrap() > 400.0 / 12.0 / 1000.0, "{report}");
}

#[test]
fn an_interrupted_trace_is_no_trace() {
    let scenario = long();
    let root = scenario.path("");
    let begun = || {
        let mut names = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with(".scaleproof-"))
    };
    let arguments = ["trace", "small", "--rps", "60", "--from-s", "0", "--for-s", "1e6", "--out", "t.json"];
    interrupt(&scenario, &arguments, begun).fails(3, &["interrupted", "t.json was not written"]);
    assert!(!scenario.path("t.json").exists());
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let scenario = Scenario::new();
    let vary = "--vary";
    for (arguments, words) in [
        (&["capacity", "small", "--concurrency", "8"][..], "--concurrency: found clients"),
        (&["plan", "small", "--peak", "9", "--concurrency", "8"], "--concurrency: found clients"),
        (&["capacity", "small", "--cache", "cold,warm"], "--cache: found several"),
        (&["whatif", "small", vary, "replicas=2", "--out", "g", "--resume"], "--resume: found it for a grid"),
        (&["whatif", "small", vary, "client.request_schedule_seed=1,2", "--seed", "5"], "--seed says which"),
        (&["whatif", "small", vary, "experiment.cache=cold,warm", "--cache", "cold"], "--cache says which"),
        (&["whatif", "small", vary, "experiment.repeats=1,5"], "each cell is one run"),
    ] {
        scenario.run(arguments).refuses(&[words]);
    }
    assert!(!scenario.path("out").exists() && !scenario.path("g").exists(), "something was written");
}

#[test]
fn a_fleet_that_no_memory_holds_is_refused() {
    let scenario = Scenario::new().profile("num_blocks: 200", "num_blocks: 5000");
    let words = "100000 replicas: found 500000000 KV blocks, 5000 each; expected at most 134217728 in all";
    scenario.run(&["simulate", "small", "--replicas", "100000"]).refuses(&[words]);
    scenario.run(&["whatif", "small", "--vary", "replicas=100000"]).refuses(&[words]);
    scenario.run(&["plan", "small", "--rps", "20", "--peak", "1e6"]).refuses(&["check the peak's unit"]);
}

#[test]
fn the_same_rate_twice_is_no_second_repeat() {
    let scenario = Scenario::new();
    let sweep = ["sweep", "small", "--rps", "60,20,60", "--concurrency", "4,4", "--format", "json"];
    let found = scenario.run(&sweep).expect(0).json();
    let experiments = found["experiments"].as_array().unwrap();
    let points: Vec<usize> = experiments.iter().map(|e| e["points"].as_array().unwrap().len()).collect();
    assert_eq!(points, [1, 2]);
}

#[test]
fn to_resume_writes_over_no_other_point() {
    let scenario = Scenario::new();
    let simulate = |rps: &str, rest: &[&str]| {
        scenario.run(&[&["simulate", "small", "--out", "p", "--rps", rps], rest].concat())
    };
    let first = simulate("20", &[]).expect(0).out;
    let files = files_below(&scenario.path("p"));
    simulate("60", &["--resume"]).refuses(&["p/slo-report.json: found another point's report"]);
    assert_eq!(simulate("20", &["--resume"]).expect(0).out, first);
    assert_eq!(files_below(&scenario.path("p")), files);
    fs::write(scenario.path("p/slo-report.json"), "{").unwrap();
    assert_eq!(simulate("20", &["--resume"]).expect(0).out, first, "a damaged one is made again");
    assert_eq!(files_below(&scenario.path("p")), files);
}

#[test]
fn a_capacity_that_only_the_run_s_length_bounds_says_so() {
    // 400 requests at 60/s are over after 7 s: too few samples for a trend, although the fleet serves them.
    let scenario = Scenario::new().scenario("interval_seconds: 0.05", "interval_seconds: 1");
    let found =
        scenario.run(&["capacity", "small", "--rps", "20", "--refined", "--format", "json"]).expect(0).json();
    let warnings = found["refined"]["warnings"].to_string();
    assert!(warnings.contains("cannot judge: the capacity may be higher"), "{found}");
    let judged =
        Scenario::new().run(&["capacity", "small", "--refined", "--format", "json"]).expect(0).json();
    assert_eq!(judged["refined"]["warnings"], json!([]));
}

#[test]
fn a_grid_s_files_do_not_depend_on_where_they_lie() {
    let scenario = Scenario::new();
    for out in ["a", "b"] {
        scenario.run(&["whatif", "small", "--vary", "rps=20", "--out", out]).expect(0);
    }
    assert_eq!(files_below(&scenario.path("a")), files_below(&scenario.path("b")));
}
