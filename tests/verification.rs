//! `reproduce` leaves what `verify-pack` accepts, and each way to spoil it is refused by the line that it spoils.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use scaleproof_pack::hash::sha256_hex;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::Scenario;

/// A study small enough for a test, with classes large enough for the list.
fn study() -> (Scenario, PathBuf) {
    let scenario = Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 4200")
        .manifest("{chat: 300, batch: 100}", "{chat: 2100, batch: 2100}")
        .manifest("mix: 0.75", "mix: 0.5")
        .manifest("mix: 0.25", "mix: 0.5")
        .manifest("min_successful_samples_per_class: 50", "min_successful_samples_per_class: 2000")
        .prefix_groups([("chats", 48), ("batches", 96)])
        .scenario("sample_interval_seconds: 0.05", "sample_interval_seconds: 0.5");
    let made = scenario.run(&REPRODUCE);
    assert_eq!(made.code, 0, "{}\n{}", made.out, made.err);
    assert!(made.out.contains("\naccepted\n"));
    let folder = scenario.path("study");
    (scenario, folder)
}

const REPRODUCE: [&str; 6] = ["reproduce", "small", "--out", "study", "--failure-rate", "20"];

/// What `verify-pack` says of each line.
fn verdicts(folder: &Path) -> (i32, Vec<(String, String)>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
    let output = command.args(["verify-pack", "--format", "json"]).arg(folder).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines =
        printed["lines"].as_array().unwrap().iter().map(|line| (word(line, "id"), word(line, "verdict")));
    (output.status.code().unwrap(), lines.collect())
}

fn edit(path: &Path, change: impl Fn(&str) -> String) {
    let text = fs::read_to_string(path).unwrap();
    let changed = change(&text);
    assert_ne!(text, changed, "{} was not changed", path.display());
    fs::write(path, changed).unwrap();
}

fn edit_json(path: &Path, change: impl Fn(&mut Value)) {
    edit(path, |text| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        change(&mut value);
        format!("{value:#}\n")
    });
}

/// Makes the seal fit again: a forger would.
fn seal_again(point: &Path) {
    edit_json(&point.join("seal.json"), |seal| {
        for (name, digest) in seal["sha256"].as_object_mut().unwrap() {
            *digest = json!(sha256_hex(&fs::read(point.join(name)).unwrap()));
        }
    });
}

fn edit_report(point: &Path, change: impl Fn(&mut Value)) {
    edit_json(&point.join("slo-report.json"), change);
    seal_again(point);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The point of the open loop whose name has all of `parts`.
fn point(study: &Path, parts: &[&str]) -> PathBuf {
    let mut points: Vec<PathBuf> =
        fs::read_dir(study.join("open/points")).unwrap().map(|entry| entry.unwrap().path()).collect();
    points.sort();
    let has =
        |path: &PathBuf| parts.iter().all(|part| path.file_name().unwrap().to_str().unwrap().contains(part));
    points.into_iter().find(has).unwrap()
}

fn without_rows(text: &str, class: &str, count: usize) -> String {
    let mut left = count;
    let keep = |line: &&str| {
        let drop = left > 0 && line.contains(&format!(",{class},"));
        left -= usize::from(drop);
        !drop
    };
    text.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

type Damage = (&'static str, &'static str, fn(&Path));

/// What is done, the line that must refuse it, how.
const DAMAGES: [Damage; 16] = [
    ("a class is missing", "points", |study| {
        edit_report(&point(study, &["open-cold-60"]), |report| {
            report["classes"].as_object_mut().unwrap().remove("batch").unwrap();
        });
    }),
    ("a revision moves", "revisions", |study| {
        let point = point(study, &["open-cold-20"]);
        edit(&point.join("workload-manifest.yaml"), |text| {
            text.replace("revision: small-r1", "revision: latest")
        });
        seal_again(&point);
    }),
    ("a warm point is called cold", "cache-states", |study| {
        edit_report(&point(study, &["open-warm-60"]), |report| report["system"]["cache"] = json!("cold"));
    }),
    ("a count is altered", "whole", |study| {
        edit_report(&point(study, &["open-cold-60"]), |report| {
            report["outcomes"]["ok"] = json!(report["outcomes"]["ok"].as_u64().unwrap() + 1);
        });
    }),
    ("a row is altered", "whole", |study| {
        let point = point(study, &["open-cold-60"]);
        edit(&point.join("requests.csv"), |text| text.replacen(",ok,", ",error,", 1));
        seal_again(&point);
    }),
    ("a report is edited", "whole", |study| {
        edit_json(&point(study, &["open-warm-20"]).join("slo-report.json"), |report| {
            report["warnings"] = json!(["nothing to see"]);
        });
    }),
    ("the report at the top is of no point", "whole", |study| {
        edit_json(&study.join("open/slo-report.json"), |report| report["error_rate"] = json!(0.0001));
    }),
    ("too few successes", "samples", |study| {
        let point = point(study, &["open-cold-20"]);
        edit(&point.join("requests.csv"), |text| without_rows(text, "batch", 200));
        edit_report(&point, |report| report["classes"]["batch"]["successful_count"] = json!(1900));
    }),
    ("attainment is short", "chosen", |study| {
        edit_report(&point(study, &["open-cold-60"]), |report| {
            report["classes"]["chat"]["attainment"] = json!(0.9)
        });
        fs::copy(point(study, &["open-cold-60"]).join("slo-report.json"), study.join("open/slo-report.json"))
            .unwrap();
    }),
    ("no closed loop", "both-loops", |study| fs::remove_dir_all(study.join("closed")).unwrap()),
    ("no repeats", "repeats", |study| {
        for run in ["-run1", "-run2"] {
            fs::remove_dir_all(point(study, &["open-cold-60", run])).unwrap();
        }
    }),
    ("a plan with fewer GPUs", "plan", |study| {
        edit_json(&study.join("plan/plan.json"), |plan| plan["plans"][0]["required_gpus"] = json!(1));
    }),
    ("no failure test", "failure-test", |study| fs::remove_dir_all(study.join("failure-test")).unwrap()),
    ("a failure test's time is altered", "failure-test", |study| {
        edit_json(&study.join("failure-test/failure-test.json"), |report| {
            report["detected"]["after_s"] = json!(0.001);
        });
    }),
    ("an attempt of a failure test is altered", "failure-test", |study| {
        let point = study.join("failure-test");
        edit(&point.join("requests.csv"), |text| text.replacen(",lost,", ",ok,", 1));
        seal_again(&point);
    }),
    ("a failure test's load generator was late", "failure-test", |study| {
        edit_report(&study.join("failure-test"), |report| {
            let check = json!({"name": "send_lag_p99_ms", "value": 9.0, "limit": 5.0, "pass": false});
            report["checks"] = json!([check]);
            report["invalid"] = json!(["send_lag_p99_ms: found 9.000; expected at most 5"]);
        });
    }),
];

#[test]
fn a_whole_study_is_accepted_and_a_damaged_one_refused() {
    let (scenario, study) = study();
    let (code, lines) = verdicts(&study);
    assert_eq!(code, 0, "{lines:?}");
    assert!(lines.iter().all(|(_, verdict)| verdict == "met"), "{lines:?}");
    for (what, line, damage) in DAMAGES {
        let damaged = scenario.path("damaged");
        copy(&study, &damaged);
        damage(&damaged);
        let (code, lines) = verdicts(&damaged);
        let verdict = &lines.iter().find(|(id, _)| id == line).unwrap().1;
        assert!(code == 1 && verdict != "met", "{what}: {line} is {verdict}: {lines:?}");
        fs::remove_dir_all(&damaged).unwrap();
    }
}

#[test]
fn a_study_that_was_cut_short_is_resumed() {
    let (scenario, study) = study();
    let before = fs::read(study.join("failure-test/requests.csv")).unwrap();
    fs::remove_dir_all(point(&study, &["open-warm-20"])).unwrap();
    fs::remove_file(study.join("open/sweep.json")).unwrap();
    fs::remove_dir_all(study.join("plan")).unwrap();
    let again = scenario.run(&[&REPRODUCE[..], &["--resume"]].concat());
    assert_eq!(again.code, 0, "{}\n{}", again.out, again.err);
    assert!(again.out.contains("\naccepted\n") && again.err.contains("not made again"), "{again:#?}");
    assert_eq!(fs::read(study.join("failure-test/requests.csv")).unwrap(), before);
    scenario.run(&REPRODUCE).refuses(&["found files in it", "--resume"]);
}

#[test]
fn an_empty_directory_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (code, lines) = verdicts(folder.path());
    assert_eq!(code, 1);
    assert!(lines.iter().all(|(_, verdict)| verdict == "not_shown"), "{lines:?}");
}
