//! The worked example, made small: a scenario whose points take a fraction of a second.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const EDITS: [(&str, &str); 4] = [
    ("initial_scheduled_requests: 22000", "initial_scheduled_requests: 1100"),
    (
        "{interactive: 15400, long_context: 4400, generation_heavy: 2200}",
        "{interactive: 770, long_context: 220, generation_heavy: 110}",
    ),
    ("minimum_duration_seconds: 300", "minimum_duration_seconds: 10"),
    ("min_successful_samples_per_class: 2000", "min_successful_samples_per_class: 50"),
];

/// An edit of scenario.yaml: fewer seats.
pub const EIGHT_SEATS: (&str, &str) = ("\nengine:\n", "\nengine:\n  max_num_seqs: 8\n");

/// A folder for a test's scenarios and packs.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// With the small scenario in `scenario`.
    pub fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        place.scenario("scenario", &[]);
        place
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another small scenario, with its scenario.yaml edited.
    pub fn scenario(&self, name: &str, edits: &[(&str, &str)]) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |file: &str| std::fs::read_to_string(root.join("scenarios/tp2-dp4").join(file)).unwrap();
        let edit = |text: String, (from, to): &(&str, &str)| {
            assert!(text.contains(from), "the worked example has changed: no {from}");
            text.replace(from, to)
        };
        let manifest = EDITS.iter().fold(read("workload-manifest.yaml"), edit);
        let profile = root.join("models").display().to_string();
        let scenario = read("scenario.yaml").replace("../../models", &profile);
        let scenario = edits.iter().fold(scenario, edit);
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("workload-manifest.yaml"), manifest).unwrap();
        std::fs::write(folder.join("scenario.yaml"), scenario).unwrap();
    }

    /// The command, to be run in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
        command.current_dir(self.folder.path()).args(args);
        command
    }

    /// Runs the command.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the command, which must exit with one of `codes`, and reads its JSON.
    pub fn json(&self, codes: &[i32], args: &[&str]) -> serde_json::Value {
        let output = self.run(&[args, &["--format", "json"]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{args:?}: {text}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a command that is given bad input says.
    pub fn fault(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(output.stdout.is_empty());
        text
    }

    /// A file of it.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}
