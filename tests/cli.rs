//! The command line: what is printed where, and that it says what it should.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use serde_json::{Value, json};
use support::{Scenario, repository};

/// The file of the format's schema smoke test.
const SMOKE: &str = "\
request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status
r-0001,interactive,182.0,25.1,3370.0,128,ok
r-0002,long_context,1940.0,44.2,13211.2,256,ok
r-0003,generation_heavy,910.0,47.0,48991.0,1024,ok
r-0004,interactive,0,0,0,0,error
";

const CLASS_KEYS: [&str; 17] = [
    "successful_count",
    "passing_count",
    "request_ttft_cutoff_ms",
    "request_tpot_cutoff_ms",
    "attainment",
    "sample_adequate",
    "p99_sample_adequate",
    "class_slo_pass",
    "p50_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "p50_tpot_ms",
    "p95_tpot_ms",
    "p99_tpot_ms",
    "p95_e2e_ms",
    "output_tokens",
    "attempted_attainment",
];

/// Whether `found` has every value of `expected`.
#[track_caller]
fn assert_has(found: &Value, expected: &Value) {
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&found[key], value, "{key}");
    }
}

fn analyze(scenario: &Scenario, requests: &str, rest: &[&str]) -> support::Run {
    std::fs::write(scenario.path("requests.csv"), requests).unwrap();
    let manifest = repository("scenarios/tp2-dp4/workload-manifest.yaml");
    scenario.run(&[&["analyze", "requests.csv", "--manifest", &manifest], rest].concat())
}

#[test]
fn analyze_judges_the_smoke_file() {
    let scenario = Scenario::new();
    let run = analyze(&scenario, SMOKE, &["--duration-s", "300", "--queue-trend", "flat"]).expect(1);
    assert_eq!(run.err, "");
    let report = run.json();
    assert_has(
        &report,
        &json!({
            "attempted": 4, "successful": 3, "failed": 1, "error_rate": 0.25,
            "overall_attainment": 2.0 / 3.0, "observed_goodput_rps": 2.0 / 300.0,
            "request_throughput_rps": 0.01, "output_throughput_tps": 1408.0 / 300.0,
            "queue_trend": "flat", "all_class_slos_pass": false, "capacity_gate_pass": false,
        }),
    );
    let classes = &report["classes"];
    assert_eq!(classes.as_object().unwrap().len(), 3);
    for class in classes.as_object().unwrap().values() {
        for key in CLASS_KEYS {
            assert!(class.get(key).is_some(), "no {key}");
        }
    }
    let one = |passing: u64, ttft: [f64; 2], tpot: [f64; 2], e2e: f64, tokens: u64| {
        json!({
            "successful_count": 1, "passing_count": passing, "attainment": passing as f64,
            "sample_adequate": false, "p99_sample_adequate": false, "class_slo_pass": false,
            "request_ttft_cutoff_ms": ttft[1], "p50_ttft_ms": ttft[0], "p95_ttft_ms": ttft[0], "p99_ttft_ms": null,
            "request_tpot_cutoff_ms": tpot[1], "p50_tpot_ms": tpot[0], "p95_tpot_ms": tpot[0], "p99_tpot_ms": null,
            "p95_e2e_ms": e2e, "output_tokens": tokens,
        })
    };
    assert_has(&classes["interactive"], &one(1, [182.0, 500.0], [25.1, 40.0], 3370.0, 128));
    assert_has(&classes["long_context"], &one(1, [1940.0, 2500.0], [44.2, 50.0], 13211.2, 256));
    assert_has(&classes["generation_heavy"], &one(0, [910.0, 800.0], [47.0, 45.0], 48991.0, 1024));
    assert_eq!(classes["interactive"]["attempted_attainment"], json!(0.5));
}

#[test]
fn analyze_takes_the_trend_it_is_told() {
    let scenario = Scenario::new();
    let trend = |word: &str| {
        let run = analyze(&scenario, SMOKE, &["--duration-s", "300", "--queue-trend", word]).expect(1);
        let report = run.json();
        let gates = report["gates"].as_array().unwrap();
        gates.iter().find(|gate| gate["name"] == "queue_trend").unwrap()["pass"].clone()
    };
    assert_eq!([trend("flat"), trend("growing")], [json!(true), json!(false)]);
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let scenario = Scenario::new();
    for command in ["simulate", "sweep", "capacity", "plan", "analyze", "schedule", "oracle"] {
        let help = scenario.run(&[command, "--help"]).expect(0).out;
        assert!(help.contains(&format!("Example: scaleproof {command}")), "{help}");
    }
}

#[test]
fn simulate_prints_its_report_and_names_its_pack() {
    let scenario = Scenario::new();
    let run = scenario.run(&["simulate", "small", "--rps", "60", "--format", "json"]).expect(0);
    assert_eq!(run.err, "");
    let mut printed = run.json();
    assert_eq!(printed["pack"], json!("out/simulate-small"));
    printed.as_object_mut().unwrap().remove("pack");
    let written: Value = serde_json::from_str(&scenario.read("out/simulate-small/slo-report.json")).unwrap();
    assert_eq!(printed, written);
    assert_has(
        &written,
        &json!({"attempted": 400, "successful": 400, "offered_rps": 60.0, "concurrency": null}),
    );
    let again = scenario.run(&["simulate", "small", "--rps", "60"]).expect(0);
    assert!(again.out.contains("pack: out/simulate-small-2\n"), "{}", again.out);
    assert!(again.out.contains("seed 7; profile small-engine (fixture"), "{}", again.out);
}

#[test]
fn what_a_pack_says_of_itself_analyzes_to_the_same() {
    let scenario = Scenario::new();
    scenario.run(&["simulate", "small", "--rps", "400", "--out", "p"]).expect(1);
    let written: Value = serde_json::from_str(&scenario.read("p/slo-report.json")).unwrap();
    let duration = written["duration_s"].to_string();
    let arguments = ["analyze", "p/requests.csv", "--manifest", "p/workload-manifest.yaml"];
    let rest = ["--duration-s", &duration, "--queue-trend", written["queue_trend"].as_str().unwrap()];
    let analyzed = scenario.run(&[&arguments[..], &rest].concat()).expect(1).json();
    for key in [
        "attempted",
        "successful",
        "outcomes",
        "classes",
        "observed_goodput_rps",
        "gates",
        "prefix_hit_share",
    ] {
        assert_eq!(analyzed[key], written[key], "{key}");
    }
}

#[test]
fn a_closed_loop_keeps_its_clients_busy() {
    let scenario = Scenario::new();
    let report =
        scenario.run(&["simulate", "small", "--concurrency", "6", "--format", "json"]).expect(0).json();
    assert_has(&report, &json!({"attempted": 400, "successful": 400, "offered_rps": null, "concurrency": 6}));
    let little = &report["littles_law"];
    // All six are in the system but for the front-end's share, and for those who are done at the end.
    let in_flight = little["implied_in_flight"].as_f64().unwrap();
    assert!((5.5..=6.0).contains(&in_flight), "{little}");
}

#[test]
fn what_is_asked_for_twice_is_done_and_counted_once() {
    let scenario = Scenario::new();
    let twice = ["sweep", "small", "--rps", "60,30,60", "--cache", "cold,warm,cold", "--format", "json"];
    let swept = scenario.run(&twice).expect(0).json();
    let experiments = swept["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 2);
    for rate in experiments[0]["capacity"]["rates"].as_array().unwrap() {
        assert_eq!(rate["repeats"], 1, "{rate}");
    }
}

#[test]
fn sweep_capacity_and_plan_print_their_keys() {
    let scenario = Scenario::new();
    let sweep = scenario.run(&["sweep", "small", "--format", "json"]).expect(0).json();
    assert_eq!(sweep["capacity_rps"], json!(60.0));
    let experiment = &sweep["experiments"][0];
    assert_eq!(experiment["points"].as_array().unwrap().len(), 3);
    assert_has(experiment, &json!({"cache": "cold", "saturation": null}));
    let both =
        ["sweep", "small", "--concurrency", "1,4", "--rps", "60", "--cache", "cold,warm", "--format", "json"];
    let both = scenario.run(&both).expect(0).json();
    let experiments = both["experiments"].as_array().unwrap();
    let names: Vec<_> = experiments.iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "Closed loop, cold cache: the saturation point",
            "Open loop, cold cache: the capacity",
            "Closed loop, warm cache: the saturation point",
            "Open loop, warm cache: the capacity"
        ]
    );
    assert!(experiments[0]["saturation"]["caveat"].as_str().unwrap().contains("proves nothing"));
    let capacity = scenario.run(&["capacity", "small", "--refined", "--within", "20", "--format", "json"]);
    let capacity = capacity.expect(0).json();
    assert_has(&capacity, &json!({"capacity_rps": 60.0, "first_failing_rps": 400.0}));
    assert!(capacity["capacity_refined_rps"].as_f64().unwrap() >= 60.0);
    assert!(capacity["first_failing_gate"].is_string());
    let plan = scenario
        .run(&["plan", "small", "--peak", "90", "--within", "20", "--format", "json"])
        .expect(0)
        .json();
    // ceil(90 / (60 / 2 x 0.75)) = 4 replicas of two GPUs.
    assert_has(
        &plan,
        &json!({"capacity_rps": 60.0, "capacity_per_replica_rps": 30.0, "required_replicas": 4, "required_gpus": 8}),
    );
    let written: Value = serde_json::from_str(&scenario.read("out/plan-small/plan.json")).unwrap();
    assert_eq!(written["plans"], plan["plans"]);
    let written: Value = serde_json::from_str(&scenario.read("out/capacity-small/capacity.json")).unwrap();
    assert_eq!((&written["grid"], written.get("pack")), (&capacity["grid"], None));
    let planned = &plan["plans"][0];
    // A fleet beside the plan's on either side is simulated, and every one down to the first that fails.
    let smallest = &planned["smallest_fleet"];
    let fewest = smallest["replicas"].as_u64().unwrap();
    let simulated: Vec<(u64, bool)> = smallest["simulated"]
        .as_array()
        .unwrap()
        .iter()
        .map(|at| (at["replicas"].as_u64().unwrap(), at["pass"].as_bool().unwrap()))
        .collect();
    assert!(simulated.contains(&(fewest, true)) && simulated.contains(&(5, true)), "{smallest}");
    assert!(fewest == 1 || simulated.contains(&(fewest - 1, false)), "{smallest}");
    assert_eq!(smallest["gpus"], json!(2 * fewest));
    assert_has(&planned["at_peak"], &json!({"replicas": 4, "pass": true, "repeats": 1}));
    assert_eq!(planned["after_loss"]["replicas"], json!(3));
    assert_eq!(
        planned["scaling"]["linear_rps"].as_f64(),
        capacity["capacity_refined_rps"].as_f64().map(|x| x * 2.0)
    );
}

#[test]
fn trace_names_classes_and_writes_over_nothing_that_was_not_named() {
    let scenario = Scenario::new();
    let trace = |rest: &[&str]| {
        scenario.run(&[&["trace", "small", "--rps", "60", "--from-s", "1", "--for-s", "1"], rest].concat())
    };
    let printed = trace(&["--format", "json"]).expect(0).json();
    assert_has(&printed, &json!({"trace": "trace.json", "from_s": 1.0, "to_s": 2.0}));
    let written: Value = serde_json::from_str(&scenario.read("trace.json")).unwrap();
    let events = written["traceEvents"].as_array().unwrap();
    let tracks = events.iter().filter(|event| event["name"] == "thread_name");
    let names: Vec<&str> = tracks.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    let classes = ["chat", "batch"].map(|class| names.iter().filter(|name| name.ends_with(class)).count());
    assert!(classes.iter().all(|&count| count > 5), "{names:?}");
    trace(&[]).refuses(&["trace.json: found a file", "name it or another with --out"]);
    trace(&["--out", "trace.json"]).expect(0);
    let beyond = ["trace", "small", "--rps", "60", "--from-s", "900", "--out", "none.json"];
    scenario.run(&beyond).refuses(&["--from-s 900", "found no step", "ended at "]);
    assert!(!scenario.path("none.json").exists());
}

#[test]
fn a_warm_experiment_in_which_nothing_is_shared_says_so() {
    let scenario = Scenario::new();
    let text = scenario.run(&["sweep", "small", "--rps", "20,60", "--cache", "warm"]).expect(0).out;
    let words = "warning: some runs: the cache is called warm but no prompt shares a prefix";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    assert!(text.contains("(the first of 2 runs that say so)"), "{text}");
}

#[test]
fn several_peaks_make_a_table_and_spares_come_on_top() {
    let scenario = Scenario::new();
    let plan = ["plan", "small", "--rps", "60,400", "--peak", "50,90", "--spare", "2", "--within", "40"];
    let text = scenario.run(&plan).expect(0).out;
    assert!(
        text.contains(
            "peak 50 requests/s: 30 per replica x 0.75 utilization -> ceil(50 / 22.500) = 3 replicas"
        )
    );
    assert!(text.contains("with 2 spare: 6 replicas, 12 GPUs"), "{text}");
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with("peak rps  replicas")).skip(1);
    let firsts: Vec<Vec<&str>> =
        table.take(2).map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(firsts, [["50.0", "5", "10"], ["90.0", "6", "12"]], "{text}");
}

#[test]
fn schedule_prints_its_hash_and_a_row_a_request() {
    let scenario = Scenario::new();
    let to_stdout = scenario.run(&["schedule", "small", "--rps", "20"]).expect(0);
    let rows: Vec<&str> = to_stdout.out.lines().collect();
    assert!(rows[0].starts_with("request_id,phase,class,release,at_s,"), "{}", rows[0]);
    let measured = rows.iter().filter(|row| row.contains(",measured,")).count();
    let warmup = rows.iter().filter(|row| row.contains(",warmup,")).count();
    assert_eq!((measured, rows.len()), (400, 1 + warmup + 400));
    assert_eq!(rows.iter().filter(|row| row.contains(",measured,chat,")).count(), 300);
    let to_file = ["schedule", "small", "--rps", "20", "--out", "s.csv", "--format", "json"];
    let printed = scenario.run(&to_file).expect(0).json();
    assert_eq!(scenario.read("s.csv"), to_stdout.out);
    assert_eq!(to_stdout.err, format!("schedule hash {}\n", printed["schedule_hash"].as_str().unwrap()));
    let simulated = scenario.run(&["simulate", "small", "--rps", "20", "--format", "json"]).expect(0).json();
    assert_eq!(simulated["schedule_hash"], printed["schedule_hash"]);
}

#[test]
fn a_warm_experiment_measures_once_the_cache_is_warm() {
    let groups: String =
        (0..16).map(|n| format!("  - {{name: g{n}, tokens: 48, weight: 1, classes: [chat]}}\n")).collect();
    let scenario = Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 4000")
        .manifest("{chat: 300, batch: 100}", "{chat: 3000, batch: 1000}")
        .profile("num_blocks: 200", "num_blocks: 2000")
        .scenario("experiment:\n", &format!("prefix_groups:\n{groups}experiment:\n"));
    let warm = ["simulate", "small", "--cache", "warm", "--rps", "20", "--format", "json"];
    let report = scenario.run(&warm).expect(0).json();
    let cache = &report["prefix_cache"];
    // 3 blocks of 16 in 64 tokens of three quarters of the requests, against 0.75 x 64 + 0.25 x 200 tokens.
    let expected = 0.75 * 48.0 / 98.0;
    assert!((cache["expected_hit_share"].as_f64().unwrap() - expected).abs() < 1e-9, "{cache}");
    assert_eq!(cache["warm_from_the_start"], json!(true));
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("the warm-up was lengthened to"), "{warnings}");
    // Too small a pool never gets warm, and says so.
    let scenario = scenario.profile("num_blocks: 2000", "num_blocks: 30");
    let report = scenario.run(&warm).json();
    assert_eq!(report["prefix_cache"]["warm_from_the_start"], json!(false));
    assert!(report["warnings"].to_string().contains("the cache was not warm when the window began"));
    let cold =
        scenario.run(&["simulate", "small", "--cache", "cold", "--rps", "20", "--format", "json"]).json();
    assert!(cold["prefix_cache"]["hit_share"].as_f64().unwrap() < 0.001);
}

#[test]
fn a_bench_measures_whole_runs() {
    let scenario = Scenario::new();
    let bench = ["bench", "--only", "worked-24", "--repeats", "1"];
    let measured = scenario.run(&[&bench[..], &["--format", "json"]].concat()).expect(0).json();
    let row = &measured[0];
    assert_eq!(measured.as_array().unwrap().len(), 1);
    assert!(row["requests"].as_u64().unwrap() >= 22_000, "{row}");
    for key in ["cpu_s", "wall_s", "peak_mib", "requests_per_cpu_s", "simulated_s_per_s"] {
        assert!(row[key].as_f64().unwrap() > 0.0, "{key} in {row}");
    }
    let text = scenario.run(&bench).expect(0).out;
    assert!(text.contains("worked-24") && text.contains("one run each"), "{text}");
    scenario.run(&["bench", "--only", "nothing"]).refuses(&["found no work to measure", "worked-24"]);
    scenario.run(&["bench", "--only", "replay-16", "--trace", "absent"]).fails(3, &["absent"]);
}
