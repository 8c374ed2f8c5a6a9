//! `scaleproof whatif`: a grid over anything in a scenario.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod small;

use small::{EIGHT_SEATS, Place};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const PEAKS: [&str; 5] = ["whatif", "scenario", "--vary", "replicas=2..4", "--vary"];

/// The cells of a grid as (configuration, rate, basis, pass).
fn cells(json: &serde_json::Value) -> Vec<(usize, f64, String, bool)> {
    let configurations = json["configurations"].as_array().unwrap();
    let of = |(i, configuration): (usize, &serde_json::Value)| -> Vec<(usize, f64, String, bool)> {
        let cells = configuration["cells"].as_array().unwrap().iter();
        let cell = |cell: &serde_json::Value| {
            let basis = cell["basis"].as_str().unwrap().to_owned();
            (i, cell["offered_rps"].as_f64().unwrap(), basis, cell["pass"].as_bool().unwrap())
        };
        cells.map(cell).collect()
    };
    configurations.iter().enumerate().flat_map(of).collect()
}

#[test]
fn what_is_inferred_is_what_a_simulation_says() {
    let place = Place::new();
    let args = [&PEAKS[..], &["peak=8..32..2", "--out", "some"]].concat();
    let some = place.json(&[0], &args);
    let args = [&PEAKS[..], &["peak=8..32..2", "--out", "all", "--every-cell"]].concat();
    let all = place.json(&[0], &args);
    let (some, all) = (cells(&some), cells(&all));
    assert_eq!((some.len(), all.len()), (39, 39));
    assert!(all.iter().all(|cell| cell.2 == "simulated"));
    let inferred = some.iter().filter(|cell| cell.2 == "inferred").count();
    assert!((20..39).contains(&inferred), "{inferred} of 39 are inferred");
    for (a, b) in some.iter().zip(&all) {
        assert_eq!((a.0, a.1, a.3), (b.0, b.1, b.3), "{} by inference", a.2);
    }
    let text = String::from_utf8(place.run(&args[..args.len() - 3]).stdout).unwrap();
    assert!(text.contains("\nsmallest fleet for a peak of 8"), "{text}");
    let rows = place.read("some/summary.csv");
    assert_eq!(rows.lines().count(), 40);
    assert!(rows.starts_with("replicas,replicas_used,gpus,offered_rps,basis,pass,"), "{rows}");
    assert!(place.read("some/report.html").contains("Configurations by peak"));
}

#[test]
fn a_warm_cell_waits_for_its_cache_as_simulate_does() {
    let place = Place::new();
    let brief = ("\nexperiment:\n", "\nexperiment:\n  max_continuation: 1\n");
    place.scenario("warm", &[brief]);
    let manifest =
        place.read("warm/workload-manifest.yaml").replace("warmup_seconds: 60", "warmup_seconds: 1");
    std::fs::write(place.path("warm/workload-manifest.yaml"), manifest).unwrap();
    let warm = ["--cache", "warm", "--out"];
    let simulated = place.json(&[0, 1], &[&["simulate", "warm", "--rps", "14"], &warm[..], &["s"]].concat());
    assert!(simulated["warnings"].to_string().contains("the warm-up was lengthened"), "{simulated}");
    let grid = place.json(&[0], &[&["whatif", "warm", "--vary", "rps=14"], &warm[..], &["g"]].concat());
    let tested = &grid["configurations"][0]["tested"][0];
    assert_eq!(tested["warnings"], simulated["warnings"]);
    for class in ["interactive", "long_context", "generation_heavy"] {
        assert_eq!(tested["classes"][class]["p95_ttft_ms"], simulated["classes"][class]["p95_ttft_ms"]);
    }
}

#[test]
fn threads_do_not_change_a_byte() {
    let place = Place::new();
    for threads in ["1", "4"] {
        let args = [&PEAKS[..], &["peak=10,20,30", "--threads", threads, "--out", threads]].concat();
        assert_eq!(place.run(&args).status.code(), Some(0));
    }
    for file in ["summary.csv", "report.html"] {
        assert_eq!(place.read(&format!("1/{file}")), place.read(&format!("4/{file}")), "{file}");
    }
}

#[test]
fn a_setting_is_as_good_as_an_edit_of_the_file() {
    let place = Place::new();
    let timeout = ("\nexperiment:\n", "\nclient: {timeout_seconds: 9}\nexperiment:\n");
    place.scenario("edited", &[EIGHT_SEATS, timeout]);
    let edited = place.json(&[0, 1], &["simulate", "edited", "--rps", "14", "--out", "simulated"]);
    let args = [
        "whatif",
        "scenario",
        "--vary",
        "engine.max_num_seqs=8,64",
        "--vary",
        "client.timeout_seconds=9",
        "--vary",
        "rps=14",
        "--out",
        "grid",
    ];
    let grid = place.json(&[0], &args);
    let tested = &grid["configurations"][0]["tested"][0];
    for class in ["interactive", "long_context", "generation_heavy"] {
        for metric in ["p95_ttft_ms", "p95_tpot_ms", "attainment"] {
            assert_eq!(
                tested["classes"][class][metric], edited["classes"][class][metric],
                "{class} {metric}"
            );
        }
    }
    assert_eq!(tested["error_rate"], edited["error_rate"]);
    assert_ne!(grid["configurations"][1]["tested"][0]["classes"], tested["classes"]);
}

#[test]
fn more_long_prompts_and_slower_steps_leave_less_capacity() {
    let place = Place::new();
    let args = [
        "whatif",
        "scenario",
        "--vary",
        "mix.long_context=0.1,0.4",
        "--vary",
        "profile.step_time.base_us=14000,28000",
        "--vary",
        "replicas=2",
        "--out",
        "grid",
    ];
    let grid = place.json(&[0], &args);
    let capacity = |i: usize| grid["configurations"][i]["capacity"]["passing_rps"].as_f64().unwrap();
    assert_eq!(grid["configurations"].as_array().unwrap().len(), 4);
    assert!(capacity(0) > capacity(2) && capacity(0) > capacity(1), "{:?}", [0, 1, 2, 3].map(capacity));
    for configuration in grid["configurations"].as_array().unwrap() {
        let bracket = &configuration["capacity"];
        let (pass, fail) =
            (bracket["passing_rps"].as_f64().unwrap(), bracket["failing_rps"].as_f64().unwrap());
        assert!(fail > pass && fail - pass <= 0.0501 * fail, "{bracket}");
    }
    let text = place.run(&[&args[..9], &["again"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("at target") && text.contains("seed 20260829") && text.contains("pack: again"),
        "{text}"
    );
}

#[test]
fn bad_axes_say_what_is_wrong_before_anything_runs() {
    let place = Place::new();
    let fault = |vary: &[&str]| {
        let vary: Vec<&str> = vary.iter().flat_map(|axis| ["--vary", axis]).collect();
        place.fault(&[&["whatif", "scenario", "--out", "pack"], &vary[..]].concat())
    };
    for (vary, words) in [
        (
            &["engine.max_num_seq=8"][..],
            "engine.max_num_seq: found an unknown field; did you mean max_num_seqs?",
        ),
        (&["replica=8"], "replica: found an unknown field; did you mean replicas?"),
        (&["acceptance.target_utilisation=1"], "did you mean target_utilization?"),
        (
            &["profile.step_time.bas_us=1"],
            "profile.step_time.bas_us=1: step_time.bas_us: found an unknown field; did",
        ),
        (&["workload.chat.mix=0.5"], "no element named chat"),
        (&["mix.chat=0.5"], "no class chat"),
        (&["engine.max_num_seqs=64,0"], "(with --vary engine.max_num_seqs=0):"),
        (&["engine.max_num_seqs=4096"], "(with --vary engine.max_num_seqs=4096):"),
        (
            &["acceptance.target_utilization=1.5"],
            "workload-manifest.yaml (with --vary acceptance.target_utilization=1.5):",
        ),
        (&["router.policy=fastest"], "found \"fastest\"; expected one of:"),
        (&["rps=1,2", "peak=3"], "found peak and rps"),
        (&["replicas=1,2", "replicas=3"], "found it twice"),
        (&["replicas=1..100", "peak=1..100"], "found 100 x 100 = 10000 cells; expected at most 5000"),
        (&["replicas"], "found no =; expected WHAT=VALUES"),
    ] {
        let message = fault(vary);
        assert!(message.contains(words) && message.starts_with("error: "), "{vary:?}: {message}");
    }
    assert!(!place.path("pack").exists());
}

#[test]
fn an_interrupted_grid_keeps_what_is_finished() {
    let place = Place::new();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/tp2-dp4");
    // Far more than is simulated between the first line of progress and the request to stop.
    let seats = "engine.max_num_seqs=40,42,44,46,48,50,52,54,56,58,60,62,64";
    let [fleets, peaks] = ["replicas=4..12", "peak=20..60"];
    let args = ["whatif", scenario, "--vary", fleets, "--vary", seats, "--vary", peaks, "--out", "pack"];
    let mut child = place.command(&args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("whatif: ") && line.contains(" attempts, about "), "{line}");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    errors.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{line}");
    assert!(line.contains("interrupted: found a request to stop; the cells finished"), "{line}");
    let rows = place.read("pack/summary.csv");
    assert_eq!(rows.lines().count(), 1 + 9 * 13 * 41);
    assert!(rows.contains(",unfinished,"), "{rows}");
    assert!(place.read("pack/report.html").contains("were not reached before the request to stop"));
}
