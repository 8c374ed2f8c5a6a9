//! What the tests of the binary share: a small scenario that each test bends to its purpose, and a way to run commands.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod emulated;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A manifest: 400 requests of two classes to two replicas.
const MANIFEST: &str = "\
cutoff: 2026-01-02
model: {id: small, revision: small-r1, tokenizer_revision: small-t1, precision: bf16}
engine:
  name: test-engine
  version: \"1.0\"
  placement: {tp: 2, pp: 1, dp: 2, replicas: 2, gpus: 4}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: here
  streaming: true
  arrival_pattern: poisson
  minimum_duration_seconds: 0
  initial_scheduled_requests: 400
  request_schedule_seed: 7
  class_schedule_counts: {chat: 300, batch: 100}
  warmup_seconds: 1
workload:
  - {name: chat, mix: 0.75, input_tokens: 64, output_tokens: 16, request_ttft_cutoff_ms: 100, request_tpot_cutoff_ms: 20}
  - {name: batch, mix: 0.25, input_tokens: 200, output_tokens: 32, request_ttft_cutoff_ms: 200, request_tpot_cutoff_ms: 20}
acceptance:
  class_slo_attainment_min: 0.95
  min_successful_samples_per_class: 50
  error_rate_max: 0.01
  queue_trend_required: flat
  target_utilization: 0.75
";

/// At 20 and 60 requests/s every gate passes; 400 are about three times what two replicas can do.
const SCENARIO: &str = "\
profile: profile.yaml
router: {policy: least_outstanding}
experiment:
  rates_rps: [20, 60, 400]
  sample_interval_seconds: 0.05
";

/// Eight seats and a step of some 5 ms.
const PROFILE: &str = "\
profile: small-engine
kind: fixture
model: {id: small, revision: small-r1, precision: bf16}
placement: {tp: 2, pp: 1}
scheduler:
  num_blocks: 200
  block_size: 16
  max_num_batched_tokens: 256
  max_num_seqs: 8
  max_model_len: 1024
front_end: {request_ms: 1, prompt_token_us: 1, output_token_ms: 0.5}
step_time:
  base_us: 5000
  batch_token_knots: [[64, 0], [256, 10000]]
  decode_context_token_us: 0.01
  prefill_pair_us: 0.001
  prefill_context_token_us: 0
  row_us: 50
  sampled_row_us: 0
  host: {base_us: 0, row_us: 0}
validity: {batch_tokens: [1, 256], rows: [1, 8], context_tokens: [1, 1024]}
provenance: {method: by hand, sources: [none]}
";

/// A scenario in a temporary directory. Each change is a text replaced, once, in one of its files.
pub struct Scenario {
    root: TempDir,
}

impl Scenario {
    /// The small one.
    pub fn new() -> Scenario {
        let scenario = Scenario { root: TempDir::new().unwrap() };
        fs::create_dir(scenario.directory()).unwrap();
        scenario.write("workload-manifest.yaml", MANIFEST);
        scenario.write("scenario.yaml", SCENARIO);
        scenario.write("profile.yaml", PROFILE);
        scenario
    }

    /// The scenario's directory.
    pub fn directory(&self) -> PathBuf {
        self.root.path().join("small")
    }

    /// A path beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes one of its files, or another beside them.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.directory().join(name), text).unwrap();
    }

    fn replace(self, file: &str, old: &str, new: &str) -> Scenario {
        let text = fs::read_to_string(self.directory().join(file)).unwrap();
        assert_eq!(text.matches(old).count(), 1, "{old:?} is not once in {file}");
        self.write(file, &text.replace(old, new));
        self
    }

    /// Changes the manifest.
    pub fn manifest(self, old: &str, new: &str) -> Scenario {
        self.replace("workload-manifest.yaml", old, new)
    }

    /// Changes scenario.yaml.
    pub fn scenario(self, old: &str, new: &str) -> Scenario {
        self.replace("scenario.yaml", old, new)
    }

    /// Prompts share a prefix of so many tokens, `chat` one and `batch` another.
    pub fn prefix_groups(self, [chat, batch]: [(&str, u32); 2]) -> Scenario {
        let group = |(name, tokens): (&str, u32), class: &str| {
            format!("  - {{name: {name}, tokens: {tokens}, weight: 1, classes: [{class}]}}\n")
        };
        let groups = group(chat, "chat") + &group(batch, "batch");
        self.scenario("router: ", &format!("prefix_groups:\n{groups}router: "))
    }

    /// Changes the profile.
    pub fn profile(self, old: &str, new: &str) -> Scenario {
        self.replace("profile.yaml", old, new)
    }

    /// Runs a command on it from its parent directory, where its default output goes.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run::of(&output)
    }

    /// The same where no file may grow beyond so many blocks of 512 bytes, as if the disk were full.
    pub fn run_on_a_full_disk(&self, blocks: u32, arguments: &[&str]) -> Run {
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let program = env!("CARGO_BIN_EXE_scaleproof");
        let mut shell = Command::new("sh");
        shell.current_dir(self.root.path()).args(["-c", &limited, "sh", program]).args(arguments);
        Run::of(&shell.output().unwrap())
    }

    /// The same, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
        command.current_dir(self.root.path()).args(arguments);
        command
    }

    /// Reads a file below its parent directory.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Run {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Run {
    /// Of a finished process.
    pub fn of(output: &Output) -> Run {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Run { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// It ended with `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Run {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// It refused its input, and said all of `essentials` on standard error and nothing else on standard output.
    #[track_caller]
    pub fn refuses(self, essentials: &[&str]) {
        self.fails(2, essentials);
    }

    /// It ended with `code`, and said all of `essentials` on standard error and nothing on standard output.
    #[track_caller]
    pub fn fails(self, code: i32, essentials: &[&str]) {
        assert_eq!(self.code, code, "{self:#?}");
        for essential in essentials {
            assert!(self.err.contains(essential), "no {essential:?} in {self:#?}");
        }
        assert_eq!(self.out, "", "data although it failed");
    }

    /// Its standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// Every file below a directory with its bytes, in order of their paths.
pub fn files_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                files.push((path.strip_prefix(directory).unwrap().to_owned(), bytes));
            }
        }
    }
    files.sort();
    files
}

/// The repository's own scenario of this name.
pub fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).display().to_string()
}
