//! Every reader takes any text: it reads it or says what is wrong, and never panics.
//!
//! Texts are the valid inputs of tests/bad_input with pieces cut, doubled and put in. `PROPTEST_CASES=100000 cargo test
//! --release --test fuzz` looks longer; what it finds is kept beside this file and tried first.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use scaleproof_pack::analyze::Analyzer;
use scaleproof_pack::document::Document;
use scaleproof_pack::import::{import, write_points, write_requests};
use scaleproof_pack::lint::{lint, lint_scenario};
use scaleproof_pack::manifest::{Manifest, TraceFormat};
use scaleproof_pack::requests_csv::Reader;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_pack::trace::Trace;
use scaleproof_sim::engine::oracle;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;

const MANIFEST: &str = include_str!("bad_input/valid/s/workload-manifest.yaml");
const SCENARIO: &str = include_str!("bad_input/valid/s/scenario.yaml");
const PROFILE: &str = include_str!("bad_input/valid/engine.yaml");
const REQUESTS: &str = include_str!("bad_input/valid/requests.csv");
const SETTINGS: &str =
    "load_mode: concurrency_only\nconcurrency: 128\nrequest_count: 100\nreport: [mean, p99]\n";
const CSV: &str = include_str!("bad_input/valid/csv/arrivals.csv");
const AZURE: &str = include_str!("bad_input/valid/azure/arrivals-azure.csv");
const MOONCAKE: &str = include_str!("bad_input/valid/mooncake/arrivals.jsonl");
const CASE: &str = include_str!("bad_input/valid/case.json");

const RESULTS: [&str; 7] = [
    include_str!("import/vllm-detailed.json"),
    include_str!("import/aiperf.jsonl"),
    include_str!("import/aiperf.json"),
    include_str!("import/guidellm.json"),
    include_str!("import/inference-perf.json"),
    include_str!("import/points.csv"),
    include_str!("import/points.yaml"),
];

/// Pieces that readers stumble over.
const PIECES: [&str; 30] = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "\n",
    "\n- ",
    "\n  ",
    ",",
    "\"",
    "&a ",
    "*a",
    "!t ",
    "# ",
    "---\n",
    "\t",
    "-1",
    "0",
    "1e308",
    "1e-320",
    ".nan",
    "NaN",
    "inf",
    "18446744073709551615",
    "4294967296",
    "10000000",
    "null",
    "true",
    "\u{feff}",
    "é",
];

#[derive(Clone, Debug)]
enum Edit {
    /// Cut so many bytes.
    Cut(usize),
    /// Put this in place of so many.
    Put(usize, &'static str),
    /// Double so many.
    Double(usize),
    /// Other bytes, UTF-8 or not.
    Bytes(Vec<u8>),
    /// Nothing after this.
    End,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => (0..30usize).prop_map(Edit::Cut),
        6 => (0..20usize, proptest::sample::select(&PIECES[..])).prop_map(|(cut, piece)| Edit::Put(cut, piece)),
        2 => (0..60usize).prop_map(Edit::Double),
        1 => proptest::collection::vec(any::<u8>(), 0..6).prop_map(Edit::Bytes),
        1 => Just(Edit::End),
    ]
}

/// A valid text with a few edits. A digit that is edited makes an absurd number, which is wanted.
fn broken(valid: &'static str) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec((0.0..1.0f64, edit()), 1..6).prop_map(move |edits| {
        let mut bytes = valid.as_bytes().to_vec();
        for (at, edit) in edits {
            let at = (at * bytes.len() as f64) as usize;
            let end = |length: usize| (at + length).min(bytes.len());
            match edit {
                Edit::Cut(length) => drop(bytes.drain(at..end(length))),
                Edit::Put(length, piece) => drop(bytes.splice(at..end(length), piece.bytes())),
                Edit::Double(length) => {
                    let piece = bytes[at..end(length)].to_vec();
                    drop(bytes.splice(at..at, piece));
                }
                Edit::Bytes(piece) => drop(bytes.splice(at..at, piece)),
                Edit::End => bytes.truncate(at),
            }
        }
        bytes
    })
}

/// As the command line hands it to readers of text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn manifest() -> Manifest {
    Manifest::parse("m", MANIFEST).unwrap()
}

proptest! {
    #[test]
    fn manifests(bytes in broken(MANIFEST)) {
        let text = text(&bytes);
        let _ = lint("m", &text).map_err(|faults| faults.to_string());
        if let Ok(manifest) = Manifest::parse("m", &text) {
            let requests = manifest.client.initial_scheduled_requests;
            if requests <= 1_000 && manifest.client.minimum_duration_seconds <= 1_000.0 && manifest.client.warmup_seconds <= 1_000.0 {
                let _ = Schedule::generate(&manifest, Load::Open { rps: 1.0 }, 0, None, true).map_err(|e| e.to_string());
            }
        }
    }

    #[test]
    fn scenarios(bytes in broken(SCENARIO)) {
        let (text, profile, manifest) = (text(&bytes), Profile::parse("p", PROFILE).unwrap(), manifest());
        let path = Document::parse("s", &text).and_then(|document| Scenario::profile_path(&document));
        let _ = path.map_err(|faults| faults.to_string());
        let _ = lint_scenario(("m", MANIFEST), ("s", &text)).map_err(|faults| faults.to_string());
        if let Ok(scenario) = Scenario::parse("s", &text, &profile, &manifest) {
            let _ = scenario.run_config(&manifest, &profile, 2);
        }
    }

    #[test]
    fn profiles(bytes in broken(PROFILE)) {
        if let Ok(profile) = Profile::parse("p", &text(&bytes)) {
            let _ = Scenario::parse("s", SCENARIO, &profile, &manifest()).map_err(|faults| faults.to_string());
        }
    }

    #[test]
    fn requests_files(bytes in broken(REQUESTS)) {
        let manifest = manifest();
        let mut analyzer = Analyzer::new(&manifest);
        if let Ok(reader) = Reader::new(bytes.as_slice(), manifest.classes.iter().map(|class| class.name.as_str())) {
            for row in reader.take_while(Result::is_ok).flatten() {
                analyzer.push_row(&row);
            }
        }
    }

    #[test]
    fn traces(csv in broken(CSV), azure in broken(AZURE), mooncake in broken(MOONCAKE)) {
        for (format, bytes) in
            [(TraceFormat::Csv, csv), (TraceFormat::Azure, azure), (TraceFormat::Mooncake, mooncake)]
        {
            let _ = Trace::parse("t", format, &bytes).map_err(|faults| faults.to_string());
        }
    }

    #[test]
    fn settings(bytes in broken(SETTINGS)) {
        let _ = lint("f", &text(&bytes)).map_err(|faults| faults.to_string());
    }

    #[test]
    fn results(bytes in proptest::sample::select(&RESULTS[..]).prop_flat_map(broken)) {
        match import("f", &bytes, None) {
            Ok(runs) => {
                write_points(std::io::sink(), runs.iter().map(|run| &run.point)).unwrap();
                for run in &runs {
                    write_requests(std::io::sink(), &run.point.source, "c", &run.requests).unwrap();
                }
            }
            Err(faults) => assert!(!faults.to_string().is_empty()),
        }
    }

    #[test]
    fn oracle_cases(bytes in broken(CASE)) {
        let _ = oracle::run(&text(&bytes)).map_err(|error| error.to_string());
    }
}
