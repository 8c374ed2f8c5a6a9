//! The worked example: what `plan scenarios/tp2-dp4 --peak 36` has to say, with the manifest's own seed.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use scaleproof_calibrate::worked_example::targets;
use scaleproof_pack::report::Report;
use scaleproof_pack::trend::Verdict;
use scaleproof_sim::profile::Profile;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The files of a pack, failure-test.md excepted: nothing is injected here.
const PACK: [&str; 6] = [
    "workload-manifest.yaml",
    "requests.csv",
    "slo-report.json",
    "timeline.csv",
    "report.html",
    "summary.csv",
];
/// Schedules move only with a change that says so: they decide every number below.
const SCHEDULE_HASH_AT_24: &str = "76192f29181c9c15716c556090b7f678856e9eb4b181bc4964911ef86dad8688";

struct Planned {
    json: Value,
    pack: PathBuf,
}

fn scaleproof(arguments: &[&str], pack: &Path) -> Value {
    if pack.exists() {
        fs::remove_dir_all(pack).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_scaleproof"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .args(["--format", "json", "--out"])
        .arg(pack)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The plan, made once for all tests here. A coarse bisection does: its result is not looked at.
fn planned() -> &'static Planned {
    static PLANNED: OnceLock<Planned> = OnceLock::new();
    PLANNED.get_or_init(|| {
        let pack = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden-plan");
        let json = scaleproof(&["plan", "scenarios/tp2-dp4", "--peak", "36", "--within", "4"], &pack);
        Planned { json, pack }
    })
}

fn read_report(path: &Path) -> Report {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The report of a point by its directory's name.
fn report(name: &str) -> Report {
    read_report(&planned().pack.join("points").join(name).join("slo-report.json"))
}

fn report_at(rps: f64) -> Report {
    report(&format!("open-cold-{rps}-20260829"))
}

#[test]
fn a_peak_of_36_needs_8_replicas_and_16_gpus() {
    let json = &planned().json;
    for (key, expected) in [("capacity_rps", 24.0), ("capacity_per_replica_rps", 6.0)] {
        assert_eq!(json[key].as_f64(), Some(expected), "{key}");
    }
    for (key, expected) in [("required_replicas", 8), ("required_gpus", 16)] {
        assert_eq!(json[key].as_u64(), Some(expected), "{key}");
    }
    let at_peak = &json["plans"][0]["at_peak"];
    assert_eq!((at_peak["replicas"].as_u64(), at_peak["pass"].as_bool()), (Some(8), Some(true)));
    let simulated = report("open-cold-36-20260829-x8");
    assert_eq!(simulated.facts.system.unwrap().replicas, 8);
}

#[test]
fn every_gate_passes_up_to_24() {
    for rps in [16.0, 20.0, 24.0] {
        let report = report_at(rps);
        let failing: Vec<&str> = report.failing_gates().collect();
        assert!(report.capacity_gate_pass && failing.is_empty(), "{rps} requests/s: {failing:?}");
        assert_eq!((report.attempted, report.queue_trend), (22_000, Verdict::Flat));
    }
}

#[test]
fn at_28_attainment_fails() {
    let report = report_at(28.0);
    let failing: Vec<&str> = report.failing_gates().collect();
    println!(
        "at 28 requests/s: errors {:.2} % ({:?}), queue {}, failing gates {failing:?}",
        100.0 * report.error_rate.unwrap(),
        report.failure_reasons,
        report.queue_trend.word()
    );
    assert!(failing.iter().any(|gate| gate.starts_with("attainment:")));
    assert!(report.classes.values().all(|class| class.sample_adequate), "28 fails for want of no sample");
}

/// Interactive P95 TTFT and TPOT to within 15 %, the weakest class to within 1.5 points, 28's throughput to within
/// 5 %; and the profile's file states what is simulated with it.
#[test]
fn the_table_is_met_and_the_profile_states_its_residuals() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/fixture/dense-70b-fixture-r1.yaml");
    let profile = Profile::parse("the fixture", &fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(profile.provenance.residuals.len(), targets().len());
    for (target, stated) in targets().iter().zip(&profile.provenance.residuals) {
        let name = target.name();
        let simulated = target.metric.of(&report_at(target.rps)).unwrap();
        assert!(target.holds(simulated), "{name}: {simulated}, published {}", target.published);
        assert_eq!((&stated.metric, stated.target), (&name, target.published));
        assert!((stated.fitted - simulated).abs() <= 0.0051, "{name}: {simulated}, stated {}", stated.fitted);
    }
}

#[test]
fn the_pack_is_complete() {
    for name in PACK {
        let length = fs::metadata(planned().pack.join(name)).unwrap_or_else(|e| panic!("{name}: {e}")).len();
        assert!(length > 0, "{name} is empty");
    }
    let rows = fs::read_to_string(planned().pack.join("requests.csv")).unwrap();
    let header = "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status";
    assert!(rows.starts_with(header), "{}", rows.lines().next().unwrap_or_default());
}

#[test]
fn the_schedule_is_the_frozen_one() {
    assert_eq!(report_at(24.0).facts.schedule_hash.as_deref(), Some(SCHEDULE_HASH_AT_24));
}

/// scenario.yaml states the share and its arithmetic.
#[test]
fn warm_prompts_hit_what_their_groups_imply() {
    let pack = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden-warm");
    scaleproof(&["simulate", "scenarios/tp2-dp4", "--rps", "24", "--cache", "warm"], &pack);
    let share = read_report(&pack.join("slo-report.json")).prefix_hit_share.unwrap();
    assert!((share - 0.2162).abs() <= 0.01, "{share}");
}
