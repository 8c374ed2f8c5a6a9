//! The same inputs give the same bytes, whatever the number of threads; and changing one thing moves no other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::path::Path;
use support::{Run, Scenario, files_below};

/// Runs a command into a pack of its own and returns its output, the pack's name taken out, with the pack's files.
fn pack_of(scenario: &Scenario, arguments: &[&str], out: &str) -> (Run, Vec<(std::path::PathBuf, Vec<u8>)>) {
    let mut run = scenario.run(&[arguments, &["--format", "json", "--out", out]].concat()).expect(0);
    let named = format!("\"pack\": \"{out}\"");
    assert!(run.out.contains(&named), "{}", run.out);
    run.out = run.out.replace(&named, "");
    let files = files_below(&scenario.path(out));
    (run, files)
}

#[track_caller]
fn assert_same_whatever_the_threads(arguments: &[&str], some_files: &[&str]) {
    assert_same_whatever_the_threads_on(&Scenario::new(), arguments, some_files);
}

#[track_caller]
fn assert_same_whatever_the_threads_on(scenario: &Scenario, arguments: &[&str], some_files: &[&str]) {
    let threads = |n| [arguments, &["--threads", n]].concat();
    let (first, files) = pack_of(scenario, &threads("1"), "one");
    for name in some_files {
        assert!(files.iter().any(|(path, _)| path == Path::new(name)), "no {name} in {files:?}");
    }
    for (n, out) in [("1", "again"), ("2", "two"), ("3", "three")] {
        let (other, other_files) = pack_of(scenario, &threads(n), out);
        assert!(first.out == other.out, "standard output differs with {n} threads");
        let names =
            |files: &[(std::path::PathBuf, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&files), names(&other_files), "files with {n} threads");
        for ((name, bytes), (_, other_bytes)) in files.iter().zip(&other_files) {
            assert!(bytes == other_bytes, "{} differs with {n} threads", name.display());
        }
    }
}

const POINT_FILES: [&str; 6] = [
    "requests.csv",
    "timeline.csv",
    "slo-report.json",
    "report.html",
    "workload-manifest.yaml",
    "summary.csv",
];

#[test]
fn a_sweep_with_repeats_is_the_same_pack() {
    let last = ["points/open-cold-400-7-run2/requests.csv"];
    assert_same_whatever_the_threads(
        &["sweep", "small", "--repeats", "3"],
        &[&POINT_FILES[..], &last].concat(),
    );
}

#[test]
fn a_plan_is_the_same_pack() {
    let planned = ["points/open-cold-90-7-x4/requests.csv"];
    let plan = ["plan", "small", "--peak", "90", "--within", "20"];
    assert_same_whatever_the_threads(&plan, &[&POINT_FILES[..], &planned].concat());
}

#[test]
fn draws_are_the_same_whatever_the_threads() {
    let plan = ["plan", "small", "--peak", "90", "--within", "20", "--rps", "60,150", "--draws", "9"];
    let confident = [&plan[..], &["--at-confidence", "0.6"]].concat();
    let uncertainty = "uncertainty:\n  - {factor: weights, prior_sd: 0.5, deviations: [0.2]}\nprovenance:";
    assert_same_whatever_the_threads_on(
        &Scenario::new().profile("provenance:", uncertainty),
        &confident,
        &["plan.json", "report.html"],
    );
}

#[test]
fn routers_that_draw_draw_the_same() {
    for router in ["random", "power_of_two"] {
        let scenario = Scenario::new().scenario("least_outstanding", router);
        let simulate = ["simulate", "small", "--rps", "60"];
        let (first, second) = (pack_of(&scenario, &simulate, "one"), pack_of(&scenario, &simulate, "two"));
        assert!(first.0.out == second.0.out, "{router}: standard output differs");
        assert!(first.1 == second.1, "{router}: the files differ");
    }
}

/// The given columns of a schedule, measured rows only.
fn columns(scenario: &Scenario, rps: &str, wanted: &[&str]) -> Vec<String> {
    let csv = scenario.run(&["schedule", "small", "--rps", rps]).expect(0).out;
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places: Vec<usize> =
        wanted.iter().map(|name| header.iter().position(|column| column == name).unwrap()).collect();
    lines
        .filter(|line| line.contains(",measured,"))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            places.iter().map(|&place| cells[place]).collect::<Vec<_>>().join(",")
        })
        .collect()
}

#[test]
fn changing_the_lengths_does_not_move_the_arrivals() {
    let fixed = Scenario::new();
    let drawn = Scenario::new().manifest(
        "input_tokens: 64, output_tokens: 16",
        "input_tokens: {distribution: uniform, min: 8, max: 90}, output_tokens: 3",
    );
    let what = ["request_id", "class", "at_s"];
    assert_eq!(columns(&fixed, "20", &what), columns(&drawn, "20", &what));
    let lengths = ["input_tokens", "output_tokens"];
    assert_ne!(columns(&fixed, "20", &lengths), columns(&drawn, "20", &lengths));
}

#[test]
fn changing_the_rate_keeps_the_order_of_classes_and_the_lengths() {
    let scenario =
        Scenario::new().manifest("input_tokens: 64,", "input_tokens: {distribution: geometric, mean: 50},");
    let kept = ["request_id", "class", "input_tokens", "output_tokens"];
    assert_eq!(columns(&scenario, "20", &kept), columns(&scenario, "33", &kept));
    let at = |rps: &str| -> Vec<f64> {
        columns(&scenario, rps, &["at_s"]).iter().map(|text| text.parse().unwrap()).collect()
    };
    let (slow, fast) = (at("20"), at("40"));
    for i in 1..slow.len() {
        let (slow_gap, fast_gap) = (slow[i] - slow[i - 1], fast[i] - fast[i - 1]);
        assert!((slow_gap - 2.0 * fast_gap).abs() < 1e-6, "gap {i}: {slow_gap} and {fast_gap}");
    }
}

#[test]
fn another_seed_or_repeat_is_another_schedule() {
    let scenario = Scenario::new();
    let hash =
        |rest: &[&str]| scenario.run(&[&["schedule", "small", "--rps", "20"], rest].concat()).expect(0).err;
    let hashes = [hash(&[]), hash(&["--seed", "8"]), hash(&["--run", "1"])];
    assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2], "{hashes:?}");
    assert_eq!(hashes[0], hash(&["--seed", "7", "--run", "0"]));
}

#[test]
fn a_study_resumed_is_the_study_made_at_once() {
    let scenario = Scenario::new();
    let sweep = ["sweep", "small", "--rps", "20,60", "--repeats", "2"];
    let (whole, files) = pack_of(&scenario, &sweep, "whole");
    pack_of(&scenario, &sweep, "cut");
    // As a kill leaves it: a point not begun, one half written, no summary; and one of another scenario.
    std::fs::remove_dir_all(scenario.path("cut/points/open-cold-20-7")).unwrap();
    std::fs::write(scenario.path("cut/points/open-cold-60-7/slo-report.json"), "{").unwrap();
    std::fs::write(scenario.path("cut/points/open-cold-60-7-run1/scenario.yaml"), "other: 1").unwrap();
    std::fs::remove_file(scenario.path("cut/summary.csv")).unwrap();
    let again = [&sweep[..], &["--out", "cut", "--format", "json"]].concat();
    scenario.run(&again).refuses(&["cut", "found files in it", "--resume"]);
    let (resumed, resumed_files) = pack_of(&scenario, &[&sweep[..], &["--resume"]].concat(), "cut");
    assert_eq!(whole.out, resumed.out);
    assert!(files == resumed_files, "the resumed pack differs");
}
