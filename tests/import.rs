//! What other tools measured, as this project's records and operating points.
//!
//! The files in tests/import are small and made up: three answers (1,100 ms with 11 tokens after 100 ms, 700 with 6
//! after 200, 150 with one), written as each tool writes them, with failures beside.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and says what it skips")]

mod support;

use scaleproof_pack::import::{
    Answer, Clock, End, EndRule, Format, OfferedRate, OperatingPoint, Run, Summary, import, one_end_rule,
    write_points,
};
use scaleproof_pack::manifest::Distribution;
use scaleproof_pack::record::Outcome;
use scaleproof_pack::time::Nanos;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use support::Scenario;

fn sample(name: &str) -> Vec<u8> {
    fs::read(support::repository(&format!("tests/import/{name}"))).unwrap()
}

fn read(name: &str) -> Vec<Run> {
    import(name, &sample(name), None).unwrap_or_else(|faults| panic!("{faults}"))
}

/// What is wrong with a sample in which `old` is `new`.
fn fault(name: &str, old: &str, new: &str) -> String {
    let text = String::from_utf8(sample(name)).unwrap();
    assert!(text.contains(old), "no {old:?} in {name}");
    import(name, text.replacen(old, new, 1).as_bytes(), None).unwrap_err().to_string()
}

#[track_caller]
fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a value");
    assert!((found - expected).abs() <= 1e-6 * expected, "{found}, not {expected}");
}

/// The three answers, by the formula.
#[track_caller]
fn has_the_three(point: &OperatingPoint) {
    near(point.ttft_ms.mean_ms, 150.0);
    near(point.ttft_ms.median_ms(), 150.0);
    near(point.tpot_ms.mean_ms, 100.0);
    near(point.e2e_ms.mean_ms, 650.0);
    near(point.input_tokens.mean, 350.0 / 3.0);
    near(point.output_tokens.mean, 6.0);
    assert_eq!(point.completed, Some(3));
    near(point.duration_s, 2.0);
    near(point.request_throughput_rps, 1.5);
}

fn outcomes(run: &Run) -> Vec<(Option<Nanos>, Outcome)> {
    let outcome = |end: &End| match end {
        End::Ok(_) => Outcome::Ok,
        End::Failed { outcome, .. } => *outcome,
    };
    run.requests.iter().map(|request| (request.sent, outcome(&request.end))).collect()
}

fn at_ms(ms: u64) -> Option<Nanos> {
    Some(Nanos(ms * 1_000_000))
}

#[test]
fn vllm_lists_give_requests_and_the_aggregates_they_lack() {
    let run = &read("vllm-detailed.json")[0];
    has_the_three(&run.point);
    assert_eq!(run.notes, [] as [&str; 0], "aggregates and requests agree");
    assert_eq!((run.point.attempted, run.point.failed), (Some(4), Some(1)));
    assert_eq!(run.point.offered_rate, Some(OfferedRate::Rps(2.0)));
    assert_eq!((run.point.concurrency, run.point.gamma_shape), (None, Some(1.0)));
    let expected = [
        (at_ms(0), Outcome::Ok),
        (at_ms(500), Outcome::Ok),
        (at_ms(1000), Outcome::Ok),
        (at_ms(1250), Outcome::Rejected),
    ];
    assert_eq!(outcomes(run), expected);
    assert!(run.requests.iter().all(|request| request.scheduled.is_none()), "the file has no schedule");
    let single = run.requests[2].answer().unwrap();
    assert_eq!((single.output_tokens, single.tpot_ms, single.e2e), (1, None, Nanos(150_000_000)));
    assert_eq!(run.requests[3].row(0).outcome, Outcome::Rejected);
}

#[test]
fn vllm_appended_results_are_points_without_zeros() {
    let runs = read("vllm-append.json");
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0].point.e2e_ms, Summary::default(), "neither e2el nor requests in the file");
    assert_eq!(runs[1].point.offered_rate, Some(OfferedRate::Infinite));
    assert_eq!(runs[1].point.concurrency, Some(8));
    assert_eq!(runs[1].point.tpot_ms, Summary::default(), "zeros are nobody's");
    assert_eq!(runs[1].point.ttft_ms, runs[0].point.ttft_ms);
}

#[test]
fn aiperf_records_are_converted_by_their_units_and_phases() {
    let run = &read("aiperf.jsonl")[0];
    near(run.point.tpot_ms.mean_ms, 100.0);
    near(run.point.ttft_ms.mean_ms, 150.0);
    assert_eq!((run.point.attempted, run.point.completed), (Some(5), Some(3)));
    assert_eq!(outcomes(run)[3..], [(at_ms(1250), Outcome::Rejected), (at_ms(1300), Outcome::Cancelled)]);
    assert!(run.notes[0].starts_with("1 records of other phases"), "{:?}", run.notes);
    assert!(run.notes[1].starts_with("requests were sent up to 2.000 ms"), "{:?}", run.notes);
}

#[test]
fn aiperf_aggregates_agree_with_its_records() {
    let (aggregate, records) = (&read("aiperf.json")[0].point, &read("aiperf.jsonl")[0].point);
    has_the_three(aggregate);
    assert_eq!(aggregate.attempted, Some(5));
    assert_eq!(aggregate.label, "small");
    assert_eq!(aggregate.offered_rate, Some(OfferedRate::Rps(2.0)));
    assert_eq!(aggregate.gamma_shape, Some(0.5), "of the profiling phase");
    for (a, b) in [
        (&aggregate.ttft_ms, &records.ttft_ms),
        (&aggregate.tpot_ms, &records.tpot_ms),
        (&aggregate.e2e_ms, &records.e2e_ms),
    ] {
        near(a.mean_ms, b.mean_ms.unwrap());
        for percent in [50.0, 90.0, 95.0, 99.0] {
            near(a.at_ms(percent), b.at_ms(percent).unwrap());
        }
    }
}

#[test]
fn guidellm_requests_end_at_their_last_token() {
    let runs = read("guidellm.json");
    let run = &runs[0];
    has_the_three(&run.point);
    assert_eq!(run.point.source.clock, Clock::Wall);
    assert_eq!(run.point.source.e2e_end, EndRule::LastToken);
    assert_eq!(run.point.offered_rate, Some(OfferedRate::Rps(2.0)));
    let expected = [
        (at_ms(250), Outcome::Ok),
        (at_ms(750), Outcome::Ok),
        (at_ms(1250), Outcome::Ok),
        (at_ms(1500), Outcome::Timeout),
        (at_ms(2000), Outcome::Cancelled),
    ];
    assert_eq!(outcomes(run), expected);
    assert_eq!(run.requests[1].scheduled, at_ms(500), "the tool states its schedule");
}

#[test]
fn guidellm_samples_are_no_whole_run() {
    let run = &read("guidellm.json")[1];
    assert!(run.requests.is_empty());
    assert!(run.notes[0].starts_with("the file lists 1 of 3 requests"), "{:?}", run.notes);
    assert_eq!(run.point.source.e2e_end, EndRule::StreamEnd);
    near(run.point.e2e_ms.mean_ms, 1150.0);
    near(run.point.tpot_ms.mean_ms, 100.0);
    assert_eq!(run.point.concurrency, Some(8));
    assert_eq!(run.point.offered_rate, None);
}

#[test]
fn inference_perf_gives_no_halved_tpot() {
    let run = &read("inference-perf.json")[0];
    near(run.point.tpot_ms.mean_ms, 100.0);
    assert_eq!(run.point.tpot_ms.median_ms(), None, "the stated percentiles are of the halved one");
    assert!(run.notes[0].contains("time_per_output_token, 50.000 ms"), "{:?}", run.notes);
    near(run.point.ttft_ms.at_ms(99.9), 200.0);
    near(run.point.duration_s, 2.0);
    assert_eq!((run.point.attempted, run.point.failed), (Some(5), Some(1)));

    let whole = String::from_utf8(sample("inference-perf.json")).unwrap();
    let tpot = whole.find("\"time_per_output_token\"").unwrap();
    let truth = whole[..tpot].to_owned() + &whole[tpot..].replacen("\"median\": 0.05", "\"median\": 0.1", 1);
    let truth = truth.replacen("\"mean\": 0.05", "\"mean\": 0.1", 1);
    let run = &import("f", truth.as_bytes(), None).unwrap()[0];
    near(run.point.tpot_ms.median_ms(), 100.0);
    assert!(run.notes.is_empty(), "{:?}", run.notes);

    let message = fault("inference-perf.json", "\"output_len\"", "\"output_length\"");
    assert!(message.contains("successes.latency.time_per_output_token"), "{message}");
    assert!(message.contains("half the truth where a token came as two chunks"), "{message}");
    let message = fault("inference-perf.json", "\"latency\"", "\"server\"");
    assert!(message.contains("stage_0_lifecycle_metrics.json"), "{message}");
}

#[test]
fn seven_columns_are_a_run_of_their_own_classes() {
    let run = &read("requests.csv")[0];
    let classes: Vec<_> = run.requests.iter().filter_map(|request| request.class.as_deref()).collect();
    assert_eq!(classes, ["chat", "batch", "chat"]);
    assert_eq!((run.point.completed, run.point.failed), (Some(2), Some(1)));
    assert_eq!((run.point.duration_s, run.point.input_tokens.mean), (None, None));
    assert_eq!(run.point.source.e2e_end, EndRule::Unstated);
    near(run.point.tpot_ms.mean_ms, 100.0);
}

#[test]
fn tables_of_points_are_alike_in_csv_and_yaml_and_come_back() {
    let points = |name: &str| read(name).into_iter().map(|run| run.point).collect::<Vec<_>>();
    let (csv, mut yaml) = (points("points.csv"), points("points.yaml"));
    let uniform = Distribution::Uniform { min: 819.0, max: 1024.0 };
    assert_eq!(yaml[1].input_tokens.lengths.take(), Some(uniform));
    yaml[1].input_tokens.mean = Some(1024.0);
    assert_eq!(csv, yaml);
    assert_eq!(csv[1].offered_rate, Some(OfferedRate::Infinite));
    assert_eq!(csv[1].ttft_ms.median_ms(), None, "an empty cell is absent");

    let mut all = csv;
    for name in ["vllm-detailed.json", "vllm-append.json", "aiperf.json", "aiperf.jsonl", "guidellm.json"] {
        all.extend(points(name));
    }
    let mut written = Vec::new();
    write_points(&mut written, &all).unwrap();
    let back = import("written", &written, None).unwrap();
    assert_eq!(back.into_iter().map(|run| run.point).collect::<Vec<_>>(), all);
}

#[test]
fn ends_by_different_rules_are_not_put_together() {
    let runs = [read("guidellm.json"), read("inference-perf.json")].concat();
    let points = || runs.iter().map(|run| ("f", &run.point));
    assert!(one_end_rule(points().take(1)).is_ok());
    let message = one_end_rule(points()).unwrap_err().to_string();
    assert!(message.contains("stream_end; expected last_token"), "{message}");
}

#[test]
fn a_format_that_is_asked_for_must_be_there() {
    for format in Format::ALL {
        let known = matches!(format, Format::VllmBench);
        assert_eq!(import("f", &sample("vllm-detailed.json"), Some(format)).is_ok(), known, "{format:?}");
    }
    let message = import("f", b"{\"a\": 1}", None).unwrap_err().to_string();
    assert!(message.contains("JSON of no known kind") && message.contains("guidellm"), "{message}");
    assert!(import("f", b"", None).is_err() && import("f", b"[]", None).is_err());
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (name, old, new, message) in [
        ("vllm-detailed.json", "0.15, 0.0]", "NaN, 0.0]", "vllm-detailed.json:1:"),
        (
            "vllm-detailed.json",
            "\"ttfts\": [0.1",
            "\"ttfts\": [-0.1",
            "ttfts[0]: found -0.1; expected a number",
        ),
        (
            "aiperf.jsonl",
            "\"time_to_first_token\": {\"value\": 100.0",
            "\"time_to_first_token\": {\"value\": 9999",
            "metrics.request_latency: found a success with 11 output",
        ),
        (
            "vllm-detailed.json",
            "\"ttfts\": [0.1, ",
            "\"ttfts\": [",
            "ttfts: found 3 elements; expected 4, as many as",
        ),
        (
            "vllm-detailed.json",
            "\"completed\": 3",
            "\"completed\": 5",
            "completed: found 5; expected at most",
        ),
        (
            "vllm-append.json",
            "\"request_rate\": \"inf\"",
            "\"request_rate\": \"fast\"",
            "vllm-append.json:2: request_rate",
        ),
        (
            "aiperf.jsonl",
            "\"unit\": \"sec\"",
            "\"unit\": \"h\"",
            "aiperf.jsonl:3: metrics.time_to_first_token.unit",
        ),
        (
            "aiperf.jsonl",
            "\"time_to_first_token\": {\"value\": 100.0",
            "\"ttft\": {\"value\": 100.0",
            "without --streaming",
        ),
        ("aiperf.jsonl", "1700000000500000000", "-5", "request_start_ns: found -5"),
        ("aiperf.jsonl", "1700000001250000000", "18446744073709551615", "less than a century"),
        ("aiperf.jsonl", "\"value\": 1100.0", "\"value\": 1e300", "found 1e+300; expected a number"),
        ("guidellm.json", "\"last_token_iteration\"", "\"last\"", "last_token_iteration: found nothing"),
        ("guidellm.json", "\"total\": 5", "\"total\": 5.5", "request_totals.total: found 5.5"),
        ("requests.csv", "100,1100", "NaN,1100", "requests.csv:2: tpot_ms: found \"NaN\""),
        ("points.csv", "56.6", "-1", "points.csv:2:7: points[0].ttft_mean_ms: found -1"),
        ("points.csv", "ttft_mean_ms", "ttft_avg_ms", "did you mean"),
        ("points.csv", ",3.9\n", "\n", "points.csv:2: found a row of another width"),
        ("points.yaml", "concurrency: 16", "concurrency: 0", "concurrency: found 0"),
    ] {
        let found = fault(name, old, new);
        assert!(found.contains(message), "{name} with {new}: {found}");
    }
}

/// Whatever is cut off, an answer and no panic.
#[test]
fn half_a_file_is_refused_or_read() {
    for name in [
        "vllm-detailed.json",
        "vllm-append.json",
        "aiperf.jsonl",
        "aiperf.json",
        "guidellm.json",
        "inference-perf.json",
        "requests.csv",
        "points.csv",
        "points.yaml",
    ] {
        let bytes = sample(name);
        for end in (0..bytes.len()).step_by(7) {
            let _ = import(name, &bytes[..end], None);
        }
    }
}

#[test]
fn an_answer_needs_tokens_and_a_first_one_before_the_end() {
    assert_eq!(Answer::of(Nanos(2), Nanos(1), 1), None);
    assert_eq!(Answer::of(Nanos(1), Nanos(2), 0), None);
    assert_eq!(Answer::of(Nanos(1), Nanos(2), 1).unwrap().tpot_ms, None);
}

/// The real files beside the repository, if they are there.
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(&support::repository("../shared")).join(path);
    if !path.exists() {
        println!("skipped: ../shared is absent");
    }
    path.exists().then_some(path)
}

fn real(path: &str) -> Option<Vec<Run>> {
    let path = shared(path)?;
    Some(import("real", &fs::read(path).unwrap(), None).unwrap_or_else(|faults| panic!("{faults}")))
}

#[test]
fn real_vllm_results_are_read_and_agree_with_their_requests() {
    let Some(runs) = real("samples/vllm-0.32.0/bench_serve_detailed.json") else { return };
    let run = &runs[0];
    assert_eq!(run.notes, [] as [&str; 0], "stated means are those of the requests");
    assert_eq!((run.requests.len(), run.point.completed), (40, Some(40)));
    near(run.point.e2e_ms.mean_ms, 1010.7769915999711);
    let e2e: f64 = run.requests.iter().map(|r| r.answer().unwrap().e2e.millis()).sum();
    near(Some(e2e / 40.0), 1010.7769915999711);

    let rates = [("01", 1.0, 24.564414268982127), ("04", 4.0, 0.0)];
    for (name, rps, tpot_ms) in rates {
        let path = format!(
            "data/measured/a100-llama70b-tp8/serving_meta-llama-Llama-3.3-70B-Instruct_tp8_pp1_sharegpt_qps_{name}.json"
        );
        let run = &real(&path).unwrap()[0];
        assert_eq!(run.notes, [] as [&str; 0]);
        assert_eq!(run.point.offered_rate, Some(OfferedRate::Rps(rps)));
        assert_eq!(run.requests.len(), 200);
        assert!(run.point.e2e_ms.mean_ms.is_some(), "from TTFT and gaps");
        if tpot_ms > 0.0 {
            near(run.point.tpot_ms.mean_ms, tpot_ms);
        }
    }
    let run = &real("data/measured/do-h200-llama70b-fp8/sharegpt/rate-1.0.json").unwrap()[0];
    assert!(run.requests.is_empty());
    near(run.point.ttft_ms.at_ms(95.0), 68.79524014939307);
}

#[test]
fn a_real_aiperf_export_agrees_with_its_records() {
    let Some(records) = real("samples/aiperf-0.13.0/profile_export.jsonl") else { return };
    let aggregate = &real("samples/aiperf-0.13.0/profile_export_aiperf.json").unwrap()[0].point;
    let run = &records[0];
    assert_eq!((run.point.attempted, run.point.completed, run.point.failed), (Some(60), Some(59), Some(1)));
    assert_eq!((aggregate.attempted, aggregate.completed), (Some(60), Some(59)));
    assert_eq!((aggregate.offered_rate, aggregate.gamma_shape), (Some(OfferedRate::Rps(20.0)), Some(0.5)));
    for percent in [50.0, 90.0, 95.0, 99.0] {
        near(aggregate.ttft_ms.at_ms(percent), run.point.ttft_ms.at_ms(percent).unwrap());
        near(aggregate.tpot_ms.at_ms(percent), run.point.tpot_ms.at_ms(percent).unwrap());
        near(aggregate.e2e_ms.at_ms(percent), run.point.e2e_ms.at_ms(percent).unwrap());
    }
    assert!(run.notes[0].starts_with("3 records of other phases"), "{:?}", run.notes);
}

#[test]
fn a_real_inference_perf_stage_has_its_tpot_doubled_back() {
    let Some(runs) = real("data/measured/kubecon-h100-llama8b/stage_1_lifecycle_metrics.json") else {
        return;
    };
    let point = &runs[0].point;
    let tpot_ms = point.tpot_ms.mean_ms.unwrap();
    assert!((8.3..8.6).contains(&tpot_ms), "{tpot_ms}: the server's own mean was 8.5");
    assert_eq!(point.offered_rate, Some(OfferedRate::Rps(31.4)));
    let path = shared("data/measured/kubecon-h100-llama8b/stage_1_prometheus_metrics.json").unwrap();
    assert!(import("server", &fs::read(path).unwrap(), None).is_err());
}

#[test]
fn an_import_is_a_pack_that_says_so() {
    let scenario = Scenario::new();
    fs::write(scenario.path("result.json"), sample("vllm-detailed.json")).unwrap();
    let manifest = "small/workload-manifest.yaml";
    let arguments = ["import", "result.json", "--out", "pack", "--manifest", manifest, "--class", "chat"];
    let run = scenario.run(&arguments).expect(1);
    assert!(run.out.contains("vllm-bench") && run.out.contains("FAIL"), "{}", run.out);
    for file in ["requests.csv", "points.csv", "import.json", "report.html", "workload-manifest.yaml"] {
        assert!(scenario.path("pack").join(file).exists(), "{file}");
    }
    let report: Value = serde_json::from_str(&scenario.read("pack/slo-report.json")).unwrap();
    assert_eq!(report["origin"], "imported");
    assert_eq!((&report["attempted"], &report["successful"]), (&json!(4), &json!(3)));
    assert_eq!(report["classes"]["chat"]["mean_tpot_ms"], json!(100.0));
    assert_eq!(report["offered_rps"], json!(2.0));
    assert!(scenario.read("pack/report.html").contains("Imported: measured by another tool"));
    let provenance: Value = serde_json::from_str(&scenario.read("pack/import.json")).unwrap();
    assert_eq!(provenance["imported"][0]["source_tool"], "vllm-bench");
    let rows = scenario.read("pack/requests.csv");
    let first = rows.lines().nth(1).unwrap();
    assert!(
        first.starts_with("0,chat,100.000000,100.000000,1100.000000,11,ok,,0.000000000,100,,vllm-bench,"),
        "{first}"
    );

    let analyze = ["analyze", "pack/requests.csv", "--manifest", manifest, "--duration-s", "2"];
    let again = scenario.run(&[&analyze[..], &["--queue-trend", "flat"]].concat()).expect(1).json();
    assert_eq!(again["classes"]["chat"], report["classes"]["chat"], "the file is enough for the analyzer");
    let table = scenario.run(&["import", "pack/points.csv", "--format", "json"]).expect(0).json();
    assert_eq!(table["imported"][0]["point"]["tpot"]["mean_ms"], json!(100.0));
    assert_eq!(table["imported"][0]["source_tool"], "vllm-bench");
}

#[test]
fn results_without_requests_are_points_alone() {
    let scenario = Scenario::new();
    fs::write(scenario.path("a.json"), sample("vllm-append.json")).unwrap();
    let run = scenario.run(&["import", "a.json", "--format", "json"]).expect(0).json();
    assert_eq!(run["pack"], "out/import-a");
    assert_eq!(run["imported"].as_array().unwrap().len(), 2);
    assert_eq!(run["imported"][1]["point"]["offered_rate"], "inf");
    assert_eq!(run["imported"][1]["point"]["tpot"]["mean_ms"], Value::Null);
    assert!(!scenario.path("out/import-a/requests.csv").exists());
}

#[test]
fn the_two_files_of_an_aiperf_run_are_one_point() {
    let scenario = Scenario::new();
    for name in ["aiperf.json", "aiperf.jsonl"] {
        fs::write(scenario.path(name), sample(name)).unwrap();
    }
    let run = scenario.run(&["import", "aiperf.jsonl", "aiperf.json", "--format", "json"]).expect(0).json();
    let [only] = run["imported"].as_array().unwrap().as_slice() else { panic!("{run}") };
    assert_eq!((&only["requests"], &only["point"]["offered_rate"]), (&json!(5), &json!(2.0)));
    assert_eq!(only["files"].as_array().unwrap().len(), 2);
}

#[test]
fn ends_are_mixed_only_on_demand() {
    let scenario = Scenario::new();
    for name in ["aiperf.json", "inference-perf.json"] {
        fs::write(scenario.path(name), sample(name)).unwrap();
    }
    let both = ["import", "aiperf.json", "inference-perf.json"];
    scenario.run(&both).refuses(&["inference-perf.json: e2e: found latencies whose end is stream_end"]);
    scenario.run(&[&both[..], &["--mix-e2e-ends"]].concat()).expect(0);
}

#[test]
fn a_schedule_for_another_tool_replays_the_same_arrivals() {
    let scenario = Scenario::new();
    let write = |tool: &str| {
        let arguments = ["schedule", "small", "--rps", "20", "--as", tool, "--out", "s.jsonl"];
        let run = scenario.run(&[&arguments[..], &["--format", "json"]].concat()).expect(0).json();
        let rows = scenario.read("s.jsonl");
        (run, rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>())
    };
    let csv = scenario.run(&["schedule", "small", "--rps", "20"]).expect(0).out;
    let planned: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for (tool, unit_s, flag) in [
        ("aiperf", 1e-3, "--fixed-schedule"),
        ("vllm-bench", 1e-3, "--timed-trace-sec-multiplier 0.001"),
        ("guidellm", 1.0, "kind=replay"),
    ] {
        let (run, rows) = write(tool);
        assert!(run["command"].as_str().unwrap().contains(flag), "{run}");
        assert_eq!(rows.len(), planned.len());
        for (row, planned) in rows.iter().zip(&planned) {
            let at_s: f64 = planned[4].parse().unwrap();
            assert!((row["timestamp"].as_f64().unwrap() * unit_s - at_s).abs() < 1e-9, "{row} {planned:?}");
            assert_eq!(row["input_length"].to_string(), planned[7]);
            assert_eq!(row["output_length"].to_string(), planned[8]);
        }
    }
}
