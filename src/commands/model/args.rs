//! The arguments of `model`.

use crate::args::{Format, result_format};
use clap::{Args, Subcommand, ValueEnum};
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::hardware::memory::MemorySettings;
use scaleproof_calibrate::points::Spread;
use scaleproof_pack::import::Format as ResultFormat;
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::profile::Profile;
use std::path::PathBuf;

/// Arguments of `model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// What to do
    #[command(subcommand)]
    pub command: ModelCommand,
}

/// The commands under `model`.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Show a model's shape, its bytes of weights and KV cache, and whether it fits, with the arithmetic
    ///
    /// Example: scaleproof model show llama-3.1-70b --gpu h200 --precision fp8 --kv-precision fp8
    Show(ShowArgs),
    /// List the models and GPUs of the catalogue
    ///
    /// Example: scaleproof model list
    List(ListArgs),
    /// Predict step times from physics and measured kernels, and write them as a profile
    ///
    /// Example: scaleproof model predict --gpu h100 --model llama-3.1-70b --tp 2 --precision fp8 --out prior.yaml
    Predict(Box<PredictArgs>),
    /// Correct a profile by measured operating points, with the simulator in the loop, and write what comes out
    ///
    /// Example: scaleproof model fit --prior prior.yaml --points points.csv --hold-out 4 5 --out engine.yaml
    Fit(Box<FitArgs>),
}

/// Precision of the layers' weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WeightPrecision {
    /// 16 bits.
    Bf16,
    /// 8 bits; embedding and output head stay in 16.
    Fp8,
}

impl WeightPrecision {
    /// As the catalogue has it.
    pub fn precision(self) -> Precision {
        match self {
            WeightPrecision::Bf16 => Precision::Bf16,
            WeightPrecision::Fp8 => Precision::Fp8,
        }
    }
}

/// Precision of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KvPrecision {
    /// The model's own 16 bits.
    Auto,
    /// 8 bits.
    Fp8,
}

impl KvPrecision {
    /// As the catalogue has it.
    pub fn precision(self) -> Precision {
        match self {
            KvPrecision::Auto => Precision::Bf16,
            KvPrecision::Fp8 => Precision::Fp8,
        }
    }
}

/// How a model lies on its GPUs.
#[derive(Debug, Args)]
pub struct PlacementArgs {
    /// Tensor parallel degree
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: u32,
    /// Precision of the layers' weights [default: the checkpoint's]
    #[arg(long, value_enum)]
    pub precision: Option<WeightPrecision>,
    /// Precision of the KV cache
    #[arg(long, value_enum, default_value = "auto")]
    pub kv_precision: KvPrecision,
}

/// How an engine divides a GPU's memory.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Share of the GPU's visible memory that the engine takes [default: 0.9]
    #[arg(long, value_name = "SHARE", requires = "gpu", allow_negative_numbers = true)]
    pub gpu_memory_utilization: Option<f64>,
    /// Most tokens of a step [default: vLLM's for the GPU, 8192 or 2048]
    #[arg(long, value_name = "N", requires = "gpu")]
    pub max_num_batched_tokens: Option<u32>,
    /// Most requests of a step [default: vLLM's for the GPU, 1024 or 256]
    #[arg(long, value_name = "N", requires = "gpu")]
    pub max_num_seqs: Option<u32>,
    /// Longest request that must fit, in tokens: prompt and answer
    #[arg(long, value_name = "N", requires = "gpu", value_parser = context)]
    pub max_model_len: Option<u32>,
    /// Memory set aside for CUDA graphs, in GiB: vLLM's estimate from 0.21 on, which its log says [default: 0]
    #[arg(long, value_name = "GIB", requires = "gpu", allow_negative_numbers = true, value_parser = gib)]
    pub cudagraph_gib: Option<f64>,
}

impl MemoryArgs {
    /// The GPU's usual settings with what the arguments change.
    pub fn settings(&self, gpu: &Gpu, placement: &PlacementArgs, precision: Precision) -> MemorySettings {
        let usual = MemorySettings::usual(gpu, placement.tp, precision, placement.kv_precision.precision());
        let graphs = self.cudagraph_gib.map(|gib| (gib * (1u64 << 30) as f64) as u64);
        MemorySettings {
            gpu_memory_utilization: self.gpu_memory_utilization.unwrap_or(usual.gpu_memory_utilization),
            max_num_batched_tokens: self.max_num_batched_tokens.unwrap_or(usual.max_num_batched_tokens),
            max_num_seqs: self.max_num_seqs.unwrap_or(usual.max_num_seqs),
            cudagraph_bytes: graphs.unwrap_or(usual.cudagraph_bytes),
            ..usual
        }
    }
}

/// Arguments of `model show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A name of the catalogue, a Hugging Face config.json, or a YAML file of ours
    pub model: String,
    /// A name of the catalogue or a YAML file: divide its memory. Exit 1 if the model does not fit
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// How the model lies on its GPUs
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// How the engine divides the memory
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// What a profile's provenance says beside how it was made.
#[derive(Clone, Debug, Args)]
pub struct ProvenanceArgs {
    /// The profile's name [default: by what it is of]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Today, as YYYY-MM-DD: left out of the profile unless given
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub date: Option<String>,
    /// The engine and its version
    #[arg(long, value_name = "TEXT")]
    pub engine_version: Option<String>,
}

impl ProvenanceArgs {
    /// Puts what was given into a profile.
    pub fn note_in(&self, profile: &mut Profile) {
        if let Some(name) = &self.name {
            profile.name.clone_from(name);
        }
        profile.provenance.date.clone_from(&self.date);
        if self.engine_version.is_some() {
            profile.provenance.engine_version.clone_from(&self.engine_version);
        }
    }
}

/// Arguments of `model predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// A name of the catalogue, a Hugging Face config.json, or a YAML file of ours
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// A name of the catalogue or a YAML file
    #[arg(long, value_name = "GPU")]
    pub gpu: String,
    /// How the model lies on its GPUs
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// How the engine divides the memory
    #[command(flatten)]
    pub memory: MemoryArgs,
    /// KV blocks, from the server's log [default: by the memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(EngineConfig::NUM_BLOCKS_MAX)))]
    pub num_blocks: Option<u32>,
    /// The engine prepares no step while the one before runs
    #[arg(long)]
    pub no_async_scheduling: bool,
    /// The engine keeps no blocks for prompts that begin alike
    #[arg(long)]
    pub no_prefix_caching: bool,
    /// The engine records no CUDA graphs
    #[arg(long)]
    pub enforce_eager: bool,
    /// Correct the prior by the factors of this profile, which `model fit` wrote for another TP, GPU or precision
    #[arg(long, value_name = "PROFILE")]
    pub like: Option<PathBuf>,
    /// What the profile says of itself
    #[command(flatten)]
    pub provenance: ProvenanceArgs,
    /// Write the profile here
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `model fit`.
#[derive(Debug, Args)]
pub struct FitArgs {
    /// The profile to correct, with its uncertainty: what `model predict` wrote
    #[arg(long, value_name = "PROFILE")]
    pub prior: PathBuf,
    /// What was measured at one replica: results of vllm bench serve, AIPerf, guidellm or inference-perf, a requests.csv, or tables of
    /// operating points
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub points: Vec<PathBuf>,
    /// The format of every file [default: found out from its content]
    #[arg(long, value_name = "FORMAT", value_parser = result_format())]
    pub from: Option<ResultFormat>,
    /// Take lengths, shared prefixes and sessions of this scenario in place of the points' own
    #[arg(long, value_name = "SCENARIO", conflicts_with_all = ["lengths", "input_tokens", "output_tokens"])]
    pub workload: Option<PathBuf>,
    /// How lengths lie about a mean, where no more is known: fixed, uniform:SHARE of the mean to either side, or
    /// lognormal:SIGMA
    #[arg(long, value_name = "SPREAD", default_value = "fixed", value_parser = spread)]
    pub lengths: Spread,
    /// Mean prompt tokens of points that do not say
    #[arg(long, value_name = "N")]
    pub input_tokens: Option<f64>,
    /// Mean output tokens of points that do not say
    #[arg(long, value_name = "N")]
    pub output_tokens: Option<f64>,
    /// Draws of arrivals and lengths that are not known; metrics are averaged over them
    #[arg(long, value_name = "N", default_value_t = FitArgs::DRAWS, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub draws: u64,
    /// Points to predict and not to fit on: their numbers as printed, or their labels
    #[arg(long, value_name = "POINT", num_args = 1..)]
    pub hold_out: Vec<String>,
    /// Exit 1 if the median error of a held-out metric is above this share
    #[arg(long, value_name = "SHARE", requires = "hold_out", value_parser = share)]
    pub max_error: Option<f64>,
    /// What the profile says of itself
    #[command(flatten)]
    pub provenance: ProvenanceArgs,
    /// Write the profile here
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

impl FitArgs {
    /// Draws unless told otherwise.
    pub const DRAWS: u64 = 3;
}

/// Arguments of `model list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// The length of a request.
fn context(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(tokens) if tokens >= 2 => Ok(tokens),
        Ok(tokens) => {
            Err(format!("found {tokens}; expected at least 2, a token of the prompt and one of the answer"))
        }
        Err(_) => Err("expected a whole number of tokens".to_owned()),
    }
}

/// An amount of memory.
fn gib(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1024.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("found {value}; expected GiB from 0 to 1024")),
        Err(_) => Err("expected a number".to_owned()),
    }
}

/// A day.
fn date(text: &str) -> Result<String, String> {
    match scaleproof_pack::time::civil_day(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected a day that there is, as YYYY-MM-DD".to_owned()),
    }
}

/// A share above 0.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 10.0 => Ok(value),
        _ => Err("expected a share above 0 and at most 10, such as 0.05".to_owned()),
    }
}

/// How lengths lie about their mean.
fn spread(text: &str) -> Result<Spread, String> {
    let expected = "expected fixed, uniform:SHARE with a share from 0 to 1, or lognormal:SIGMA from 0 to 3";
    let (kind, number) = text.split_once(':').map_or((text, None), |(kind, n)| (kind, n.parse::<f64>().ok()));
    match (kind, number) {
        ("fixed", None) if text == "fixed" => Ok(Spread::Fixed),
        ("uniform", Some(share)) if (0.0..=1.0).contains(&share) => Ok(Spread::Uniform(share)),
        ("lognormal", Some(sigma)) if (0.0..=3.0).contains(&sigma) => Ok(Spread::Lognormal(sigma)),
        _ => Err(expected.to_owned()),
    }
}
