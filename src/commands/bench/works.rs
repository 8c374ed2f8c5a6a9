//! The works that are measured, each with the scenario that it needs.

use crate::exit::CommandError;
use crate::files::{self, MANIFEST, SCENARIO};
use std::ffi::OsString;
use std::path::Path;

const WORKED_MANIFEST: &str = include_str!("../../../scenarios/tp2-dp4/workload-manifest.yaml");
const WORKED_SCENARIO: &str = include_str!("../../../scenarios/tp2-dp4/scenario.yaml");
const REPLAY_MANIFEST: &str = include_str!("../../../scenarios/mooncake-replay/workload-manifest.yaml");
const REPLAY_SCENARIO: &str = include_str!("../../../scenarios/mooncake-replay/scenario.yaml");
const PROFILE: &str = include_str!("../../../models/fixture/dense-70b-fixture-r1.yaml");
/// Where the scenarios above look for it.
const PROFILE_PATH: &str = "models/fixture/dense-70b-fixture-r1.yaml";
const SCENARIO_PATH: &str = "scenarios/bench";

/// One class of short requests; 18.75 requests/s a replica pass every gate, 20 do not.
const SHORT_MANIFEST: &str = "\
cutoff: 2026-08-29
model: {id: dense-70b-class, revision: dense-70b-fixture-r1, tokenizer_revision: dense-70b-tokenizer-fixture-r1, precision: bf16}
engine:
  name: tutorial-engine-fixture
  version: \"1.0\"
  placement: {tp: 2, pp: 1, dp: REPLICAS, replicas: REPLICAS, gpus: GPUS}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: here
  streaming: true
  arrival_pattern: poisson
  minimum_duration_seconds: 0
  initial_scheduled_requests: REQUESTS
  request_schedule_seed: 20260829
  class_schedule_counts: {short: REQUESTS}
  warmup_seconds: 0
workload:
  - {name: short, mix: 1.0, input_tokens: 512, output_tokens: 128, request_ttft_cutoff_ms: 500, request_tpot_cutoff_ms: 40}
acceptance: {class_slo_attainment_min: 0.95, min_successful_samples_per_class: 2000, error_rate_max: 0.01, queue_trend_required: flat, target_utilization: 0.75}
";
const SHORT_SCENARIO: &str = "\
profile: ../../models/fixture/dense-70b-fixture-r1.yaml
router: {policy: least_outstanding}
experiment: {rates_rps: [240], cache: cold}
";
/// 80 % of the capacity, for each replica.
const SHORT_RATE_RPS: u32 = 15;

/// A work.
pub struct Work {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub what: &'static str,
    /// Whether it takes less than a second.
    pub quick: bool,
    kind: Kind,
}

enum Kind {
    Worked { rps: u32, replicas: u32 },
    Short { requests: u32, replicas: u32 },
    Replay { block_size: u32, num_blocks: u32 },
    Study { command: &'static str, options: &'static str, one_thread: bool },
}

/// A study on all cores, or with `one_thread` on one.
const fn study(
    (name, what): (&'static str, &'static str),
    command: &'static str,
    options: &'static str,
    one_thread: bool,
) -> Work {
    Work { name, what, quick: false, kind: Kind::Study { command, options, one_thread } }
}

const CAPACITY: &str = "--refined --repeats 5 --within 0.5";
const SWEEP: &str = "--rps 16,20,24,28 --concurrency 1,8,32,64,128,192,224,288 --cache cold,warm --repeats 3";
const PLAN: &str = "--peak 36 --repeats 5";

/// All of them.
pub const WORKS: [Work; 14] = [
    Work {
        name: "worked-24",
        what: "worked example, 24/s on 4 replicas",
        quick: true,
        kind: Kind::Worked { rps: 24, replicas: 4 },
    },
    Work {
        name: "worked-48",
        what: "worked example, 48/s on 8 replicas",
        quick: true,
        kind: Kind::Worked { rps: 48, replicas: 8 },
    },
    Work {
        name: "short-100k",
        what: "100,000 of 512/128 on 16 replicas",
        quick: true,
        kind: Kind::Short { requests: 100_000, replicas: 16 },
    },
    Work {
        name: "short-1m",
        what: "1,000,000 of 512/128 on 16 replicas",
        quick: false,
        kind: Kind::Short { requests: 1_000_000, replicas: 16 },
    },
    Work {
        name: "short-10m",
        what: "10,000,000 of 512/128 on 16 replicas",
        quick: false,
        kind: Kind::Short { requests: 10_000_000, replicas: 16 },
    },
    Work {
        name: "fleet-1000",
        what: "1,000,000 of 512/128 on 1,000 replicas",
        quick: false,
        kind: Kind::Short { requests: 1_000_000, replicas: 1000 },
    },
    Work {
        name: "replay-16",
        what: "the trace, 8 replicas, blocks of 16 tokens",
        quick: true,
        kind: Kind::Replay { block_size: 16, num_blocks: 60_001 },
    },
    Work {
        name: "replay-512",
        what: "the trace, 8 replicas, blocks of 512 tokens",
        quick: true,
        kind: Kind::Replay { block_size: 512, num_blocks: 1876 },
    },
    study(
        ("capacity", "capacity of the worked example, 5 repeats, to within 0.5/s"),
        "capacity",
        CAPACITY,
        false,
    ),
    study(("capacity-1", "the same on one thread"), "capacity", CAPACITY, true),
    study(
        ("sweep", "72 points: 4 rates and 8 concurrencies, cold and warm, 3 repeats"),
        "sweep",
        SWEEP,
        false,
    ),
    study(("sweep-1", "the same on one thread"), "sweep", SWEEP, true),
    study(("plan", "plan of the worked example for 36/s, 5 repeats"), "plan", PLAN, false),
    study(("plan-1", "the same on one thread"), "plan", PLAN, true),
];

impl Work {
    /// Whether it replays a trace.
    pub fn replays(&self) -> bool {
        matches!(self.kind, Kind::Replay { .. })
    }

    /// Writes its scenario below `root`, and says what to run there.
    pub fn prepare(&self, root: &Path, trace: Option<&Path>) -> Result<Vec<OsString>, CommandError> {
        let (manifest, scenario) = self.texts();
        let directory = root.join(SCENARIO_PATH);
        let profile = root.join(PROFILE_PATH);
        for folder in [Some(directory.as_path()), profile.parent()].into_iter().flatten() {
            std::fs::create_dir_all(folder).map_err(|error| files::unwritable(folder, &error))?;
        }
        files::write(&profile, PROFILE.as_bytes())?;
        files::write(&directory.join(MANIFEST), manifest.as_bytes())?;
        files::write(&directory.join(SCENARIO), scenario.as_bytes())?;
        let command = match self.kind {
            Kind::Study { command, .. } => command,
            _ => "simulate",
        };
        let mut arguments: Vec<OsString> = vec![command.into(), directory.into()];
        arguments.extend(self.options().map(OsString::from));
        if let Some(trace) = trace {
            arguments.extend(["--trace".into(), trace.as_os_str().to_owned()]);
        }
        Ok(arguments)
    }

    fn texts(&self) -> (String, String) {
        match self.kind {
            Kind::Worked { .. } | Kind::Study { .. } => {
                (WORKED_MANIFEST.to_owned(), WORKED_SCENARIO.to_owned())
            }
            Kind::Short { requests, replicas } => {
                let manifest = SHORT_MANIFEST
                    .replace("REQUESTS", &requests.to_string())
                    .replace("REPLICAS", &replicas.to_string())
                    .replace("GPUS", &(2 * replicas).to_string());
                (manifest, SHORT_SCENARIO.to_owned())
            }
            Kind::Replay { block_size, num_blocks } => {
                let scenario = REPLAY_SCENARIO
                    .replace("block_size: 16 ", &format!("block_size: {block_size} "))
                    .replace("num_blocks: 60001 ", &format!("num_blocks: {num_blocks} "));
                (REPLAY_MANIFEST.to_owned(), scenario)
            }
        }
    }

    fn options(&self) -> impl Iterator<Item = String> {
        let text = match self.kind {
            Kind::Worked { rps, replicas } => format!("--rps {rps} --replicas {replicas}"),
            Kind::Short { replicas, .. } => format!("--rps {}", SHORT_RATE_RPS * replicas),
            Kind::Replay { .. } => String::new(),
            Kind::Study { options, one_thread, .. } => {
                format!("{options} {}", if one_thread { "--threads 1" } else { "" })
            }
        };
        let options: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        options.into_iter()
    }
}
