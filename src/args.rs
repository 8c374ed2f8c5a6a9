//! The arguments of every command.

use crate::commands::calibrate::CalibrateArgs;
use crate::commands::compare_policies::ComparePoliciesArgs;
use crate::commands::emulate::EmulateArgs;
use crate::commands::failure_test::args::FailureTestArgs;
use crate::commands::init::InitArgs;
use crate::commands::live::LiveArgs;
use crate::commands::model::ModelArgs;
use crate::commands::observability::ObservabilityArgs;
use crate::commands::reproduce::ReproduceArgs;
use crate::commands::size::SizeArgs;
use crate::commands::validate::ValidateArgs;
use crate::commands::verify_pack::VerifyPackArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use scaleproof_pack::import::Format as ResultFormat;
use std::path::PathBuf;

/// Predict what an LLM serving fleet does under load, from a frozen, seeded schedule.
#[derive(Debug, Parser)]
#[command(name = "scaleproof", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate one operating point and write its pack
    ///
    /// Example: scaleproof simulate scenarios/tp2-dp4 --rps 24
    Simulate(SimulateArgs),
    /// Simulate a scenario at several offered rates or concurrencies and write a study pack
    ///
    /// Example: scaleproof sweep scenarios/tp2-dp4 --rps 16,20,24,28 --concurrency 1,8,64,128 --cache cold,warm
    /// --repeats 3
    Sweep(SweepArgs),
    /// Send a scenario's schedule to real engines and write the same pack as a simulation
    ///
    /// Example: scaleproof live scenarios/tp2-dp4 --target http://localhost:8000 --rps 16,20,24
    Live(Box<LiveArgs>),
    /// Measure an engine from outside within a time budget, and write its profile with its error and its region
    ///
    /// Example: scaleproof calibrate --target http://localhost:8000 --budget 15 --out models/mine.yaml
    Calibrate(Box<CalibrateArgs>),
    /// Find the highest offered rate that passes every gate, and the gate that fails first above it
    ///
    /// Example: scaleproof capacity scenarios/tp2-dp4 --refined --repeats 5
    Capacity(CapacityArgs),
    /// Turn a peak into replicas and GPUs, then simulate that fleet
    ///
    /// Example: scaleproof plan scenarios/tp2-dp4 --peak 36
    Plan(PlanArgs),
    /// Before buying: which GPUs, how many and what they cost, for a model and a peak; from physics alone
    ///
    /// Example: scaleproof size --model llama-3.1-70b --peak 36 --workload scenarios/tp2-dp4 --gpu h100,h200,b200
    /// --tp 2,4,8 --precision bf16,fp8
    Size(Box<SizeArgs>),
    /// Judge a prediction on a live engine: predict, measure the same schedules, and say whether it holds
    ///
    /// Example: scaleproof validate scenarios/tp2-dp4 --target http://localhost:8000 --profile models/mine.yaml
    /// --repeats 5
    Validate(Box<ValidateArgs>),
    /// Explore a grid over anything in a scenario: capacity, headroom and tails of each cell
    ///
    /// Example: scaleproof whatif scenarios/tp2-dp4 --vary replicas=4..12 --vary peak=20..60
    Whatif(WhatifArgs),
    /// Inject one fault at a passing rate, and judge detection, removal, recovery and alerts
    ///
    /// Example: scaleproof failure-test scenarios/tp2-dp4 --fault kill --rate 20 --replica 1
    FailureTest(Box<FailureTestArgs>),
    /// Make a whole study in one command: closed and open sweeps, plan, failure test, and the verdict on its packs
    ///
    /// Example: scaleproof reproduce scenarios/tp2-dp4 --peak 36
    Reproduce(Box<ReproduceArgs>),
    /// Judge the packs of a study against the acceptance list, line by line
    ///
    /// Example: scaleproof verify-pack out/reproduce-tp2-dp4
    VerifyPack(VerifyPackArgs),
    /// Put two packs side by side, with differences and their intervals
    ///
    /// Example: scaleproof compare out/simulate-tp2-dp4 out/simulate-tp2-dp4-2
    Compare(CompareArgs),
    /// Compare routers and admission policies on the same traffic, from half to twice the capacity
    ///
    /// Example: scaleproof compare-policies scenarios/tp2-dp4 --policies
    /// scenarios/policies/none.yaml,scenarios/policies/deadline.yaml
    ComparePolicies(ComparePoliciesArgs),
    /// Judge a requests.csv by a manifest's cutoffs and gates, and print one JSON object
    ///
    /// Example: scaleproof analyze requests.csv --manifest workload-manifest.yaml --duration-s 300
    /// --queue-trend flat
    Analyze(AnalyzeArgs),
    /// Turn other tools' results into a pack with a table of operating points
    ///
    /// Example: scaleproof import rate-4.json rate-8.json --out imported
    Import(ImportArgs),
    /// Write the frozen schedule, as CSV or as another load generator replays it, and print its hash
    ///
    /// Example: scaleproof schedule scenarios/tp2-dp4 --rps 24 --out schedule.csv
    Schedule(ScheduleArgs),
    /// Write a part of a run as a trace for Perfetto or Chrome: replicas' steps and requests' lives
    ///
    /// Example: scaleproof trace scenarios/tp2-dp4 --rps 24 --from-s 90 --for-s 10 --out trace.json
    Trace(TraceArgs),
    /// A scenario's fleet in real time behind HTTP, as an OpenAI-compatible server, with faults on command
    ///
    /// Example: scaleproof emulate scenarios/tp2-dp4 --port 8100 --time-scale 0.1
    Emulate(EmulateArgs),
    /// Find what makes a benchmark configuration worthless, each with reason and repair
    ///
    /// Example: scaleproof lint scenarios/tp2-dp4
    Lint(LintArgs),
    /// Write a commented scenario from flags, from a trace, or from the answers to a few questions
    ///
    /// Example: scaleproof init my-scenario --profile models/fixture/dense-70b-fixture-r1.yaml
    /// --replicas 4 --class chat:0.8:1024:128:500:40 --class report:0.2:8192:256:2500:50
    Init(InitArgs),
    /// Models and GPUs: what fits in memory, step times from physics, and profiles fitted to measurements
    ///
    /// Example: scaleproof model show llama-3.1-70b --gpu h200 --precision fp8 --kv-precision fp8
    Model(ModelArgs),
    /// Write Prometheus alert rules with their unit tests, Grafana dashboards and a scrape configuration
    ///
    /// Example: scaleproof observability --out observability
    Observability(ObservabilityArgs),
    /// Judge the model on measured, served engines: what was fitted on, what was predicted, and the error
    ///
    /// Example: scaleproof accuracy data --out docs/accuracy.md
    Accuracy(AccuracyArgs),
    /// Print a shell's completion script
    ///
    /// Example: scaleproof completions bash > ~/.local/share/bash-completion/completions/scaleproof
    Completions(CompletionsArgs),
    /// Print the man page, or write one for each command
    ///
    /// Example: scaleproof man | man -l -
    Man(ManArgs),
    /// Measure whole runs: CPU seconds, requests per CPU-second, simulated seconds per second, peak memory
    ///
    /// Example: scaleproof bench --quick
    Bench(BenchArgs),
    /// Drive the scheduler through a recorded case, call by call, and print its decisions as JSON lines
    ///
    /// Example: scaleproof oracle case.json
    Oracle(OracleArgs),
}

impl Command {
    /// Whether it looks for a request to stop, to keep what is finished. Ctrl-C ends the others at once.
    pub fn can_stop_midway(&self) -> bool {
        match self {
            Command::Simulate(_)
            | Command::Sweep(_)
            | Command::Live(_)
            | Command::Calibrate(_)
            | Command::Capacity(_)
            | Command::Plan(_)
            | Command::Reproduce(_)
            | Command::Size(_)
            | Command::Validate(_)
            | Command::Whatif(_)
            | Command::FailureTest(_)
            | Command::ComparePolicies(_)
            | Command::Trace(_) => true,
            Command::Compare(_)
            | Command::Analyze(_)
            | Command::Schedule(_)
            | Command::Import(_)
            | Command::Model(_)
            | Command::Observability(_)
            | Command::VerifyPack(_)
            | Command::Accuracy(_)
            | Command::Bench(_)
            | Command::Emulate(_)
            | Command::Lint(_)
            | Command::Init(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Oracle(_) => false,
        }
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Whether prompts share prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// No shared prefix.
    Cold,
    /// The scenario's prefix groups.
    Warm,
}

/// Which scenario, and which schedule of it.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// The scenario: a directory with workload-manifest.yaml and scenario.yaml
    pub scenario: PathBuf,
    /// Replay this trace instead of the file the manifest names
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Cold prompts share nothing; warm ones share the scenario's prefix groups [default: the scenario's]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub cache: Vec<Cache>,
    /// Seed of the schedule [default: the manifest's]
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
}

/// What every command that writes a pack takes.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Write the pack here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the study in --out: points that are whole and of this very scenario are not simulated again
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Refuse a result of which any run lies outside the profile's validity region
    #[arg(long)]
    pub strict: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Threads to use [default: all cores]. Results are the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    #[command(flatten)]
    pub point: PointArgs,
    /// Replicas [default: the manifest's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replicas: Option<u32>,
}

/// Which point of a scenario.
#[derive(Debug, Args)]
pub struct PointArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Which independent repeat of the schedule; 0 is the manifest's own
    #[arg(long, default_value_t = 0, value_parser = seed)]
    pub run: u64,
}

/// Open or closed loop.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct LoadArgs {
    /// Open loop at this offered rate, in requests per second [default: the scenario's highest]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub rps: Option<f64>,
    /// Closed loop with this many clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub concurrency: Option<u32>,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    /// Open loop: offered rates, in requests per second [default: the scenario's, unless --concurrency is given]
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = rate)]
    pub rps: Vec<f64>,
    /// Closed loop: numbers of clients. Finds where the system saturates; proves nothing about an arrival rate
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub concurrency: Vec<u32>,
    /// Independent repeats of each point [default: the scenario's]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub repeats: Option<u64>,
}

/// Arguments of `capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    #[command(flatten)]
    pub sweep: SweepArgs,
    /// After the grid, find the capacity by bisection, with an interval across the repeats
    #[arg(long)]
    pub refined: bool,
    /// Bisect to within this many requests per second
    #[arg(long, value_name = "R", default_value = "0.25", allow_negative_numbers = true, value_parser = rate)]
    pub within: f64,
    /// Then look for the capacity of N engines whose parameters are drawn from the profile's uncertainty, each with
    /// its own seed: an interval that covers both, 95 % from 39 on. Implies --refined [default: no draws]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub draws: Option<u64>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub capacity: CapacityArgs,
    /// Peak offered rates to plan for, in requests per second
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', required = true, allow_negative_numbers = true, value_parser = rate)]
    pub peak: Vec<f64>,
    /// Divide the capacity that this study of `live` measured at several rates, and simulate nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rps", "repeats", "refined", "draws", "at_confidence", "resume"])]
    pub measured: Option<PathBuf>,
    /// Replicas that may be lost at the peak
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub spare: u32,
    /// Also find the smallest fleet that carries the peak with this probability, over draws of the profile's
    /// parameters and of seeds [default number of --draws: as many as that takes, at least 40]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = confidence)]
    pub at_confidence: Option<f64>,
}

/// Arguments of `whatif`.
#[derive(Debug, Args)]
pub struct WhatifArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    /// What to vary, and its values: a..b, a..b..step (whole numbers) or x,y,z. What: replicas, peak, rps,
    /// mix.CLASS, or a path in the scenario (engine.max_num_seqs), the manifest (workload.CLASS.input_tokens) or
    /// the profile (profile.step_time.base_us). Give it several times for a grid
    #[arg(long, value_name = "WHAT=VALUES", required = true)]
    pub vary: Vec<String>,
    /// Find each capacity to within this share of it. Peaks within half of it of the capacity are simulated, the
    /// others inferred
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = tolerance)]
    pub within: f64,
    /// Simulate every cell of a peak, also those that the capacity decides
    #[arg(long)]
    pub every_cell: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first pack: a directory with requests.csv and slo-report.json
    pub a: PathBuf,
    /// The second pack; differences are second minus first
    pub b: PathBuf,
    /// Compare although the schedules differ, or are not known
    #[arg(long)]
    pub different_schedules: bool,
    /// Seed of the intervals' bootstrap
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// The attempts: request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status
    pub requests: PathBuf,
    /// The workload manifest
    #[arg(long, value_name = "FILE")]
    pub manifest: PathBuf,
    /// Length of the measured window, in seconds
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = rate)]
    pub duration_s: f64,
    /// What the queue did
    #[arg(long, value_enum)]
    pub queue_trend: TypedTrend,
    /// How to print the result
    #[arg(long, value_enum, default_value = "json")]
    pub format: Format,
}

/// A queue trend typed in by hand, for a file that does not carry the queue's depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TypedTrend {
    /// It did not grow.
    Flat,
    /// It grew.
    Growing,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Results of vllm bench serve, AIPerf, guidellm or inference-perf, a requests.csv, or tables of operating points
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write the pack here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The format of every file [default: found out from its content]
    #[arg(long, value_name = "FORMAT", value_parser = result_format())]
    pub from: Option<ResultFormat>,
    /// The class of requests that name none [default: the manifest's only class, or imported]
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Judge the requests by the cutoffs and gates of this workload manifest
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// What the queue did, which no result says
    #[arg(long, value_enum, requires = "manifest")]
    pub queue_trend: Option<TypedTrend>,
    /// Put results together although their end-to-end latencies end at different moments
    #[arg(long)]
    pub mix_e2e_ends: bool,
    /// How to print the points
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// The formats of results by their words.
pub fn result_format() -> impl TypedValueParser<Value = ResultFormat> {
    let known = PossibleValuesParser::new(ResultFormat::ALL.map(ResultFormat::word));
    known
        .try_map(|word| ResultFormat::ALL.into_iter().find(|format| format.word() == word).ok_or("no format"))
}

/// Another load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Replay {
    /// AIPerf: mooncake_trace, in milliseconds.
    Aiperf,
    /// vllm bench serve: timed_trace, in milliseconds.
    VllmBench,
    /// guidellm: mooncake or trace_synthetic, in seconds.
    Guidellm,
}

/// Arguments of `schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub point: PointArgs,
    /// Write the CSV here [default: standard output, with the hash on standard error]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print what was written to --out
    #[arg(long, value_enum, default_value = "text", requires = "out")]
    pub format: Format,
    /// Write what this load generator replays, with the flags that it needs
    #[arg(long = "as", value_name = "TOOL", value_enum)]
    pub replay: Option<Replay>,
    /// Tokens of the blocks by which --as says what prompts share [default: the tool's own]
    #[arg(long, value_name = "N", requires = "replay", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub block_tokens: Option<u32>,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub point: PointArgs,
    /// Replicas [default: the manifest's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replicas: Option<u32>,
    /// Write the trace here [default: trace.json, if there is no such file yet]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print what was written
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Where the part begins, in seconds of the run (the warm-up counts)
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = seconds)]
    pub from_s: f64,
    /// How long the part is, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub for_s: f64,
}

/// Arguments of `accuracy`.
#[derive(Debug, Args)]
pub struct AccuracyArgs {
    /// A folder with the measured sets and the kernel tables (docs/accuracy.md says which)
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Write the whole document here
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Only what takes less than a second
    #[arg(long)]
    pub quick: bool,
    /// Only the works whose names begin so
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Also replay this trace, of Mooncake's format
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Run each work so often and take the medians
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Run one command and print what it used
    #[arg(last = true, hide = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// Arguments of `oracle`.
#[derive(Debug, Args)]
pub struct OracleArgs {
    /// The case
    pub case: PathBuf,
}

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// A workload manifest, a scenario's directory, or the flat YAML settings of another load generator
    pub file: PathBuf,
    /// How to print the findings
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command here
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Any whole number of 64 bits.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// A time of a run.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        Ok(value) => Err(format!("found {value}; expected seconds from 0 to 1e9")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// A share of a capacity that a search may leave open.
pub fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.001..=0.5).contains(&value) => Ok(value),
        Ok(value) => Err(format!("found {value}; expected a share from 0.001 to 0.5")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// A probability that draws can show.
pub fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.5..=0.999).contains(&value) => Ok(value),
        Ok(value) => Err(format!("found {value}; expected a probability from 0.5 to 0.999")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// A share above 0.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        Ok(value) => Err(format!("found {value}; expected a share above 0 and at most 1")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// A positive, finite number.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        Ok(value) => Err(format!("found {value}; expected a number above 0, at most 1e9")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }
}
