//! `--resume` and the packs it works on: whole, damaged, left by a kill, or in use.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Scenario, files_below};

const SWEEP: [&str; 6] = ["sweep", "small", "--rps", "20,60", "--out", "p"];
const RESUME: [&str; 7] = ["sweep", "small", "--rps", "20,60", "--out", "p", "--resume"];

/// A scenario whose points take minutes.
fn long() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 2000000")
        .manifest("{chat: 300, batch: 100}", "{chat: 1500000, batch: 500000}")
        .scenario("sample_interval_seconds: 0.05", "sample_interval_seconds: 1")
}

#[test]
fn a_point_that_was_changed_is_made_again_and_said() {
    let scenario = Scenario::new();
    scenario.run(&SWEEP).expect(0);
    let whole = files_below(&scenario.path("p"));
    let point = "p/points/open-cold-20-7";
    for file in ["requests.csv", "slo-report.json", "timeline.csv", "profile.yaml", "report.html"] {
        let path = scenario.path(&format!("{point}/{file}"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let resumed = scenario.run(&RESUME).expect(0);
        let said = format!("note: {point}: {file} is not as it was written; this point is simulated again\n");
        assert_eq!(resumed.err, said);
        assert_eq!(files_below(&scenario.path("p")), whole, "{file}");
    }
    assert_eq!(scenario.run(&RESUME).expect(0).err, "", "a whole study is taken silently");
}

#[test]
fn points_of_other_rates_are_named_and_left_out() {
    let scenario = Scenario::new();
    scenario.run(&SWEEP).expect(0);
    let other = ["sweep", "small", "--rps", "30", "--out", "p", "--resume"];
    let resumed = scenario.run(&other).expect(0);
    assert!(resumed.err.contains("not asked for and are not in summary.csv: open-cold-20-7, open-cold-60-7"));
    assert_eq!(scenario.read("p/summary.csv").lines().count(), 2);
}

#[test]
fn a_directory_in_use_is_refused_and_a_kill_leaves_it_free() {
    let scenario = long();
    let mut command = scenario.command(&["sweep", "small", "--rps", "60", "--out", "p"]);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let point = scenario.path("p/points/open-cold-60-7");
    let unfinished = || {
        let names = fs::read_dir(&point).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".tmp")).count()
    };
    let started = Instant::now();
    while unfinished() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    let words = ["p: found another scaleproof command that writes to it", "no file is to be removed"];
    scenario.run(&["sweep", "small", "--rps", "60", "--out", "p", "--resume"]).fails(3, &words);
    scenario.run(&["simulate", "small", "--rps", "60", "--out", "p"]).fails(3, &words);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(unfinished(), 1, "a killed process cannot clean up");
    let short = scenario
        .manifest("initial_scheduled_requests: 2000000", "initial_scheduled_requests: 400")
        .manifest("{chat: 1500000, batch: 500000}", "{chat: 300, batch: 100}");
    let resumed = short.run(&["sweep", "small", "--rps", "60", "--out", "p", "--resume"]);
    assert!(matches!(resumed.code, 0 | 1), "{resumed:?}");
    assert_eq!(unfinished(), 0);
}

#[test]
fn a_pack_is_a_scenario_again() {
    let scenario = Scenario::new();
    let text = fs::read_to_string(scenario.path("small/scenario.yaml")).unwrap();
    let nested = text.replace("profile: profile.yaml", "profile: '../engines/small engine.yaml' # which\n");
    scenario.write("scenario.yaml", &nested);
    fs::create_dir(scenario.path("engines")).unwrap();
    fs::rename(scenario.path("small/profile.yaml"), scenario.path("engines/small engine.yaml")).unwrap();
    scenario.run(&["simulate", "small", "--rps", "20", "--out", "deep/er/p"]).expect(0);
    assert!(scenario.read("deep/er/p/scenario.yaml").starts_with("profile: profile.yaml # which\n"));
    scenario.run(&["simulate", "deep/er/p/scenario.yaml", "--rps", "20", "--out", "q"]).expect(0);
    assert_eq!(files_below(&scenario.path("deep/er/p")), files_below(&scenario.path("q")));
    scenario.run(&["sweep", "deep/er/p", "--rps", "20", "--out", "study"]).expect(0);
    scenario.run(&["simulate", "study", "--rps", "20"]).expect(0);
}

#[test]
fn a_full_disk_leaves_no_half_files_and_can_be_resumed() {
    let scenario = Scenario::new();
    // requests.csv is longer than eight blocks.
    let run = scenario.run_on_a_full_disk(8, &SWEEP);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("requests.csv: found ") && run.err.contains("free space"), "{}", run.err);
    assert!(run.out.is_empty());
    let left = files_below(&scenario.path("p"));
    assert!(left.iter().all(|(path, _)| !path.ends_with(".tmp") && !path.ends_with("seal.json")), "{left:?}");
    scenario.run(&RESUME).expect(0);
    let whole = Scenario::new();
    whole.run(&SWEEP).expect(0);
    assert_eq!(files_below(&scenario.path("p")), files_below(&whole.path("p")));
}

#[test]
fn the_manifest_of_another_fleet_s_point_says_which() {
    let scenario = Scenario::new();
    scenario.run(&["simulate", "small", "--rps", "60", "--replicas", "3", "--out", "p"]).expect(0);
    let manifest = scenario.read("p/workload-manifest.yaml");
    assert!(manifest.contains("placement: {tp: 2, pp: 1, dp: 3, replicas: 3, gpus: 6}"), "{manifest}");
    scenario.run(&["simulate", "p", "--rps", "60", "--out", "q"]).expect(0);
    assert_eq!(scenario.read("p/requests.csv"), scenario.read("q/requests.csv"));
}

#[test]
fn a_command_that_keeps_nothing_ends_at_once_on_an_interrupt() {
    let scenario = Scenario::new();
    let pipe = scenario.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let rest = ["--manifest", "small/workload-manifest.yaml", "--duration-s", "9", "--queue-trend", "flat"];
    let analyze = scenario.command(&[&["analyze", "pipe"], &rest[..]].concat());
    // Who runs the tests in the background may have them ignore interrupts.
    let mut child = std::process::Command::new("env")
        .arg("--default-signal=INT")
        .arg(analyze.get_program())
        .args(analyze.get_args())
        .current_dir(analyze.get_current_dir().unwrap())
        .spawn()
        .unwrap();
    // Opens once the command waits on the other end.
    let writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), None, "a signal ended it");
    drop(writer);
}
