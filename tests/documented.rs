//! docs/formats.md names every field that the readers know, and the first example of docs/calibration.md runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use scaleproof_pack::manifest::Manifest;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use support::Scenario as Place;

const MANIFEST: &str = include_str!("bad_input/valid/s/workload-manifest.yaml");
const SCENARIO: &str = include_str!("bad_input/valid/s/scenario.yaml");
const PROFILE: &str = include_str!("bad_input/valid/engine.yaml");
const FORMATS: &str = include_str!("../docs/formats.md");
const CALIBRATION: &str = include_str!("../docs/calibration.md");

/// A field that no reader knows, and that is like none: its fault lists those that are known.
const STRANGER: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";

fn manifest_fault(text: &str) -> String {
    Manifest::parse("m", text).unwrap_err().to_string()
}

fn profile_fault(text: &str) -> String {
    Profile::parse("p", text).unwrap_err().to_string()
}

fn scenario_fault(text: &str) -> String {
    let (manifest, profile) =
        (Manifest::parse("m", MANIFEST).unwrap(), Profile::parse("p", PROFILE).unwrap());
    Scenario::parse("s", text, &profile, &manifest).unwrap_err().to_string()
}

/// The fields that are known in a mapping of `text`, which begins after `opening`.
fn known(text: &str, opening: &str, fault: fn(&str) -> String) -> Vec<String> {
    assert_eq!(text.matches(opening).count(), 1, "{opening}");
    let separator = if opening.ends_with('{') { ": 1, " } else { ": 1\n" };
    let indent = if opening.ends_with(":\n") { "  " } else { "" };
    let faults = fault(&text.replace(opening, &format!("{opening}{indent}{STRANGER}{separator}")));
    let list =
        faults.lines().find_map(|line| line.split_once("known are ")).unwrap_or_else(|| panic!("{faults}")).1;
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_documented() {
    let graphs = PROFILE
        .replace("  host: {", "  cudagraphs: {mode: full, full: {a: 1}, piecewise: {a: 1}}\n  host: {");
    let disturbed = format!(
        "{SCENARIO}\nfaults: [{{kind: link, at_seconds: 1, for_seconds: 1, replica: 0}}]\n\
         resilience: {{health_check: {{}}, circuit_breaker: {{}}, retries: {{}}, restart: {{}}}}\n\
         autoscaler: {{target: kv, value: 1, max_replicas: 9}}\n"
    );
    let mappings = [
        known(&format!("# top\n{MANIFEST}"), "# top\n", manifest_fault),
        known(&format!("# top\n{SCENARIO}"), "# top\n", scenario_fault),
        known(&format!("# top\n{PROFILE}"), "# top\n", profile_fault),
        known(MANIFEST, "model: {", manifest_fault),
        known(MANIFEST, "engine:\n", manifest_fault),
        known(MANIFEST, "placement: {", manifest_fault),
        known(MANIFEST, "client:\n", manifest_fault),
        known(MANIFEST, "cancellation: {", manifest_fault),
        known(&MANIFEST.replace("- {name: chat", "-  {name: chat"), "-  {", manifest_fault),
        known(MANIFEST, "acceptance:\n", manifest_fault),
        known(SCENARIO, "router: {", scenario_fault),
        known(SCENARIO, "engine: {", scenario_fault),
        known(SCENARIO, "client: {", scenario_fault),
        known(SCENARIO, "  - {", scenario_fault),
        known(&disturbed, "faults: [{", scenario_fault),
        known(&disturbed, "resilience: {", scenario_fault),
        known(&disturbed, "health_check: {", scenario_fault),
        known(&disturbed, "circuit_breaker: {", scenario_fault),
        known(&disturbed, "retries: {", scenario_fault),
        known(&disturbed, "restart: {", scenario_fault),
        known(&disturbed, "autoscaler: {", scenario_fault),
        known(SCENARIO, "experiment:\n", scenario_fault),
        known(PROFILE, "model: {", profile_fault),
        known(PROFILE, "scheduler:\n", profile_fault),
        known(PROFILE, "front_end: {", profile_fault),
        known(PROFILE, "step_time:\n", profile_fault),
        known(&graphs, "cudagraphs: {", profile_fault),
        known(PROFILE, "host: {", profile_fault),
        known(PROFILE, "validity: {", profile_fault),
        known(PROFILE, "provenance: {", profile_fault),
    ];
    for field in mappings.iter().flatten() {
        let word =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == field);
        assert!(
            FORMATS.lines().any(|line| line.starts_with('|') && word(line)),
            "docs/formats.md lacks {field}"
        );
    }
}

/// The first block of code in `text` that begins so.
fn block(text: &'static str, begin: &str) -> &'static str {
    let mut blocks = text.split("```\n").skip(1).step_by(2);
    blocks.find(|block| block.starts_with(begin)).unwrap_or_else(|| panic!("no block begins with {begin}"))
}

#[test]
fn the_example_of_a_calibration_runs() {
    let place = Place::new();
    std::fs::write(place.path("points.csv"), block(CALIBRATION, "label,concurrency,")).unwrap();
    let commands = block(CALIBRATION, "scaleproof model predict --gpu h100 ");
    assert_eq!(commands.lines().count(), 3);
    for command in commands.lines() {
        place.run(&command.split_whitespace().skip(1).collect::<Vec<_>>()).expect(0);
    }
    for profile in ["tp2-prior.yaml", "tp2.yaml", "tp4.yaml"] {
        Profile::parse(profile, &place.read(profile)).unwrap();
    }
}
