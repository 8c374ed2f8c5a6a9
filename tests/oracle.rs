//! The scheduler takes the decisions that the real engine was recorded to take, call by call. docs/engines.md says
//! how to record more.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use scaleproof_sim::engine::oracle;

/// The first difference between a case's recording and a run of it, row by row or as the simulator steps.
fn difference(name: &str, case: &str, expected: &[&str]) -> Option<String> {
    let differs = |how: &str, run: Result<Vec<String>, oracle::OracleError>| match run {
        Ok(got) => oracle::first_difference(expected, &got).map(|found| format!("{name}{how}: {found}")),
        Err(error) => Some(format!("{name}{how}: {error}")),
    };
    differs("", oracle::run(case)).or_else(|| differs(", grouping", oracle::run_grouping(case)))
}

/// The files of a folder that end in `extension`, in order. None if there is no such folder.
fn files(folder: &Path, extension: &str) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).ok()?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Some(paths)
}

fn assert_none(differences: &[String], cases: usize) {
    assert!(cases > 0, "there is no case to run");
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        differences.is_empty(),
        "{} of {cases} cases differ, the first of them:\n{shown}",
        differences.len()
    );
}

#[test]
fn given_cases_are_identical() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/oracle/cases");
    let Some(cases) = files(&folder, "json") else {
        eprintln!("skipped: ../shared is absent");
        return;
    };
    let mut differences = Vec::new();
    for path in &cases {
        let case = fs::read_to_string(path).unwrap();
        let recording = fs::read_to_string(path.with_extension("jsonl")).unwrap();
        let expected: Vec<&str> = recording.lines().collect();
        differences.extend(difference(&path.display().to_string(), &case, &expected));
    }
    assert_none(&differences, cases.len());
}

/// All families of a folder. Returns how many cases there were.
fn check_own_cases(folder: &Path) -> usize {
    let mut count = 0;
    let mut differences = Vec::new();
    for path in files(folder, "gz").unwrap_or_default() {
        let mut text = String::new();
        let file = fs::File::open(&path).expect("listed just now");
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("record.py wrote it");
        for (position, block) in text.split_terminator("\n\n").enumerate() {
            let mut lines = block.lines();
            let case = lines.next().expect("a block has a line");
            let expected: Vec<&str> = lines.collect();
            differences.extend(difference(&format!("{} #{position}", path.display()), case, &expected));
            count += 1;
        }
    }
    assert_none(&differences, count);
    count
}

#[test]
fn own_cases_are_identical() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let count = check_own_cases(&folder);
    assert_eq!(count, 380, "19 families of 20 cases in tests/oracle");
}

/// More cases, of any folder that `record.py write` made: `ORACLE_CASES=FOLDER cargo test --test oracle`.
#[test]
fn further_cases_are_identical() {
    match std::env::var_os("ORACLE_CASES") {
        Some(folder) => println!("{} further cases are identical", check_own_cases(Path::new(&folder))),
        None => println!("skipped: ORACLE_CASES names no folder"),
    }
}
