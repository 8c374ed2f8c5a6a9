//! The scheduler takes the decisions that the real engine was recorded to take, call by call.

use std::fs;
use std::path::{Path, PathBuf};

use scaleproof_sim::engine::oracle;

/// The first difference between a case's recording and a run of it.
fn difference(name: &str, case: &str, expected: &[&str]) -> Option<String> {
    match oracle::run(case) {
        Ok(got) => oracle::first_difference(expected, &got).map(|difference| format!("{name}: {difference}")),
        Err(error) => Some(format!("{name}: {error}")),
    }
}

fn given_cases() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/oracle/cases");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    Some(cases)
}

#[test]
fn given_cases_are_identical() {
    let Some(cases) = given_cases() else {
        eprintln!("skipped: ../shared is absent");
        return;
    };
    assert!(!cases.is_empty(), "no case in ../shared/oracle/cases");
    let mut failures = Vec::new();
    for path in &cases {
        let case = fs::read_to_string(path).unwrap();
        let recording = fs::read_to_string(path.with_extension("jsonl")).unwrap();
        let expected: Vec<&str> = recording.lines().collect();
        failures.extend(difference(&path.display().to_string(), &case, &expected));
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
