//! Bad input: what is wrong with it, said so that it can be repaired.
//!
//! tests/bad_input/cases.toml breaks a valid input in one place and runs a command on it; messages.txt has what each
//! must print. `BLESS=1 cargo test --test bad_input` writes the messages anew: read the difference before keeping it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[derive(Deserialize)]
struct Corpus {
    case: Vec<Case>,
}

/// One broken input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The command line. It runs in a copy of `valid/`.
    run: String,
    #[serde(default = "bad_input")]
    exit: i32,
    /// The file that is broken.
    file: Option<String>,
    /// A text in it, that occurs once, and what stands there instead.
    from: Option<String>,
    to: Option<String>,
    /// Or its whole new contents, as text or as hexadecimal bytes.
    text: Option<String>,
    bytes: Option<String>,
    /// Or its first bytes only.
    keep: Option<usize>,
    /// Or what it becomes.
    becomes: Option<Becomes>,
    /// Standard output is a full disk.
    #[serde(default)]
    full: bool,
    /// The fault is about the file as a whole, so it has no line.
    #[serde(default)]
    whole: bool,
    /// Where the fault is, if not in the file that was broken.
    elsewhere: Option<String>,
}

fn bad_input() -> i32 {
    2
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Becomes {
    Nothing,
    Directory,
    AliasBomb,
    DeepNesting,
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

impl Case {
    /// Breaks the copy of the valid input in `directory`.
    fn break_in(&self, directory: &Path) {
        let Some(file) = &self.file else { return };
        let path = directory.join(file);
        let old = fs::read(&path).unwrap_or_default();
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            let text = String::from_utf8(old).unwrap();
            assert_eq!(text.matches(from.as_str()).count(), 1, "{}: {from:?} must occur once", self.name);
            fs::write(path, text.replace(from.as_str(), to)).unwrap();
        } else if let Some(text) = &self.text {
            fs::write(path, text).unwrap();
        } else if let Some(hex) = &self.bytes {
            let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            fs::write(path, hex.as_bytes().chunks(2).map(digit).collect::<Vec<u8>>()).unwrap();
        } else if let Some(keep) = self.keep {
            fs::write(path, &old[..keep]).unwrap();
        } else {
            self.becomes.unwrap_or_else(|| panic!("{}: says nothing about {file}", self.name)).make(&path);
        }
    }

    fn output(&self, directory: &Path) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
        command.args(self.run.split_whitespace()).current_dir(directory).stdin(Stdio::null());
        if self.full {
            command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        }
        command.output().unwrap()
    }

    /// What the snapshot has: the command, its exit, its messages. And what is wrong with them.
    fn transcript(&self) -> (String, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        copy(&here().join("valid"), directory.path());
        self.break_in(directory.path());
        let output = self.output(directory.path());
        let messages = String::from_utf8(output.stderr).unwrap();
        let exit = output.status.code().unwrap_or(-1);
        let mut problems = self.problems(&messages);
        if exit != self.exit {
            problems.push(format!("exit {exit}, not {}", self.exit));
        }
        if !output.stdout.is_empty() {
            problems.push("a result beside the faults".to_owned());
        }
        let transcript = format!("## {}\n$ scaleproof {}\nexit {exit}\n{messages}\n", self.name, self.run);
        (transcript, problems)
    }

    /// What the messages lack: every one says which file or argument, where, what was found and what was expected.
    fn problems(&self, messages: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut need = |is_there: bool, what: &str| {
            if !is_there {
                problems.push(what.to_owned());
            }
        };
        need(!messages.contains("panicked") && !messages.contains('\u{1b}'), "it must not panic or colour");
        if messages.contains("For more information, try '--help'.") {
            need(messages.contains('\'') || messages.contains('<'), "no argument named");
            let expected = ["expected ", "possible values: ", "not in ", "Usage: "];
            need(expected.iter().any(|word| messages.contains(word)), "nothing expected");
            return problems;
        }
        need(!messages.is_empty(), "no message");
        for line in messages.lines() {
            need(line.starts_with("error: "), "a line that is no error");
            need(line.contains("found "), "nothing found");
            let expected = ["expected ", "did you mean ", "known are "];
            need(expected.iter().any(|word| line.contains(word)), "nothing expected");
        }
        if let Some(file) = self.elsewhere.as_ref().or(self.file.as_ref()) {
            // A profile is named from its scenario's directory.
            let messages = messages.replace("error: s/../", "error: ");
            let rest = messages.strip_prefix(&format!("error: {file}"));
            need(rest.is_some(), "another file named");
            let lined = |rest: &str| {
                rest.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            };
            need(self.whole || self.elsewhere.is_some() || rest.is_none_or(lined), "no line");
        }
        problems
    }
}

impl Becomes {
    fn make(self, path: &Path) {
        match self {
            Becomes::Nothing => fs::remove_file(path).unwrap(),
            Becomes::Directory => {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }
            Becomes::AliasBomb => {
                let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
                for level in 1..12 {
                    let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
                    text += &format!("a{level}: &a{level} [{aliases}]\n");
                }
                fs::write(path, text).unwrap();
            }
            Becomes::DeepNesting => fs::write(path, "[".repeat(100_000)).unwrap(),
        }
    }
}

fn corpus() -> Vec<Case> {
    let text = fs::read_to_string(here().join("cases.toml")).unwrap();
    toml::from_str::<Corpus>(&text).unwrap().case
}

#[test]
fn every_bad_input_gives_its_message() {
    let cases = corpus();
    assert!(cases.len() >= 80, "{} cases", cases.len());
    for (i, case) in cases.iter().enumerate() {
        assert!(cases[..i].iter().all(|earlier| earlier.name != case.name), "two cases {:?}", case.name);
    }
    let (transcripts, problems): (Vec<String>, Vec<Vec<String>>) = cases.iter().map(Case::transcript).unzip();
    let path = here().join("messages.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, transcripts.concat()).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let mut report = String::new();
    for (transcript, mut problems) in transcripts.iter().zip(problems) {
        if !kept.contains(transcript.as_str()) {
            problems.push("messages.txt has another message, or none".to_owned());
        }
        if !problems.is_empty() {
            report += &format!("{transcript}=> {}\n\n", problems.join("; "));
        }
    }
    assert!(report.is_empty(), "{report}");
    assert_eq!(kept, transcripts.concat(), "messages.txt has cases that are gone, or another order");
}

#[test]
fn the_valid_input_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    copy(&here().join("valid"), directory.path());
    for run in [
        "schedule s",
        "schedule csv",
        "schedule mooncake",
        "schedule azure",
        "oracle case.json",
        "simulate s --out new",
        "analyze requests.csv --manifest s/workload-manifest.yaml --duration-s 10 --queue-trend flat",
        "lint settings.yaml",
        "model list",
        "model show config.json --gpu h200",
        "model show model.yaml --gpu gpu.yaml --tp 2",
        "model predict --model model.yaml --gpu gpu.yaml --tp 2 --out new.yaml",
        "import result.json records.jsonl benchmarks.json stage.json points.csv --mix-e2e-ends --out new3",
        "init new2 --profile engine.yaml --class chat:1:64:8:500:40",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
        let output = command.args(run.split_whitespace()).current_dir(directory.path()).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        // A small run fails its gates: exit 1.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{run}: {messages}");
        assert!(!output.stdout.is_empty() && !messages.contains("error"), "{run}: {messages}");
    }
}
