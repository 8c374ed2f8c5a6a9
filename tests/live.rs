//! `scaleproof live` against a server in this process: the pack is a simulation's, and nothing that was measured is lost.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../validate/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod server;
mod support;

use server::{Server, Then, answer, serve};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::Scenario;

/// A server that ends every answer after 16 tokens, by itself.
fn good() -> Server {
    serve(true, |stream, _| {
        let _ = stream.write_all(answer(16).replace("length", "stop").as_bytes());
        Then::Keep
    })
}

/// A run of a busy machine may be invalid: then the exit is 3, and all the rest as it should be.
fn live(scenario: &Scenario, server: &Server, arguments: &[&str]) -> support::Run {
    let target = server.target.to_string();
    let run = scenario.run(&[&["live", "small", "--target", &target, "--model", "m"], arguments].concat());
    assert!([0, 1, 3].contains(&run.code) && !run.err.contains("panicked"), "{run:#?}");
    run
}

#[test]
fn a_live_pack_is_a_simulations_pack() {
    let (scenario, server) = (Scenario::new(), good());
    live(&scenario, &server, &["--rps", "400", "--out", "live"]);
    scenario.run(&["simulate", "small", "--rps", "400", "--out", "sim"]);
    let names = |pack: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(scenario.path(pack)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("live"), names("sim"));
    let (rows, simulated) = (scenario.read("live/requests.csv"), scenario.read("sim/requests.csv"));
    assert_eq!(rows.lines().next(), simulated.lines().next());
    assert_eq!(rows.lines().count(), 401, "a row an attempt");
    let report: serde_json::Value = serde_json::from_str(&scenario.read("live/slo-report.json")).unwrap();
    let of_simulation: serde_json::Value =
        serde_json::from_str(&scenario.read("sim/slo-report.json")).unwrap();
    assert_eq!(report["origin"], "live");
    assert_eq!(report["schedule_hash"], of_simulation["schedule_hash"]);
    assert_eq!((&report["attempted"], &report["successful"]), (&400.into(), &400.into()));
    let checks = report["checks"].as_array().unwrap();
    // Sixteen tokens where some should have 32: the server does not do what it was told.
    let output = checks.iter().find(|check| check["name"] == "output_token_gap").unwrap();
    assert_eq!(output["pass"], false);
    assert!(report["invalid"].to_string().contains("output_token_gap"));
    assert!(of_simulation.get("checks").is_none());
    let compared = scenario.run(&["compare", "live", "sim"]).expect(0);
    assert!(compared.out.contains("INVALID"), "{}", compared.out);
    let again = live(&scenario, &server, &["--rps", "400", "--out", "live", "--resume"]);
    assert!(!again.err.contains("run again"), "a whole point is taken as it is: {}", again.err);
    assert_eq!(scenario.read("live/requests.csv"), rows);
}

#[test]
fn a_study_has_its_points_and_their_summary() {
    let (scenario, server) = (Scenario::new(), good());
    live(&scenario, &server, &["--rps", "400,800", "--concurrency", "4", "--out", "p"]);
    let summary = scenario.read("p/summary.csv");
    let points: Vec<&str> = summary.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(points, ["open-cold-400-7", "open-cold-800-7", "closed-cold-4-7"]);
    assert!(points.iter().all(|point| scenario.path(&format!("p/points/{point}/seal.json")).exists()));
}

#[test]
fn a_killed_client_leaves_the_rows_it_had() {
    let (scenario, server) = (Scenario::new(), good());
    let target = server.target.to_string();
    let arguments = ["live", "small", "--target", &target, "--model", "m", "--rps", "20", "--out", "p"];
    let mut child = scenario.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let path = scenario.path("p/requests.csv");
    let rows = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count().saturating_sub(1));
    let started = Instant::now();
    while rows() < 20 {
        assert!(started.elapsed() < Duration::from_secs(60), "no row reached the disk");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (left, manifest) = (rows(), "p/workload-manifest.yaml");
    let arguments =
        ["analyze", "p/requests.csv", "--manifest", manifest, "--duration-s", "1", "--queue-trend", "flat"];
    let analyzed = scenario.run(&arguments);
    assert_eq!(analyzed.json()["attempted"], left, "{analyzed:#?}");
}

#[test]
fn a_full_disk_keeps_whole_rows() {
    let (scenario, server) = (Scenario::new(), good());
    let target = server.target.to_string();
    let arguments = ["live", "small", "--target", &target, "--model", "m", "--rps", "100", "--out", "p"];
    let run = scenario.run_on_a_full_disk(16, &arguments);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("requests.csv: found ") && run.err.contains("free space"), "{}", run.err);
    let rows = scenario.read("p/requests.csv");
    assert!(rows.ends_with('\n') && rows.lines().all(|row| row.split(',').count() == 29), "{rows}");
}
