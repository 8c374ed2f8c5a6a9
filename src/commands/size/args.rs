//! The arguments of `size`.

use crate::args::{Cache, Format, ScenarioArgs, SourceArgs, confidence, rate, seed, share, tolerance};
use crate::commands::model::{KvPrecision, WeightPrecision};
use clap::Args;
use scaleproof_pack::spread::draws_to_show;
use std::path::PathBuf;

/// Arguments of `size`.
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// A name of the catalogue, a Hugging Face config.json, or a YAML file of ours
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Peak offered rate to size for, in requests per second
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub peak: f64,
    /// Where classes, lengths, arrivals, gates and router come from: a directory with workload-manifest.yaml and
    /// scenario.yaml. Its own model, engine, placement and profile are replaced by each configuration's
    #[arg(long, value_name = "SCENARIO")]
    pub workload: PathBuf,
    /// GPUs to compare: names of the catalogue or YAML files
    #[arg(long, value_name = "GPU,GPU,...", value_delimiter = ',', required = true)]
    pub gpu: Vec<String>,
    /// Tensor parallel degrees to compare
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', required = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Vec<u32>,
    /// Precisions of the layers' weights to compare [default: the checkpoint's]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub precision: Vec<WeightPrecision>,
    /// Precision of the KV cache
    #[arg(long, value_enum, default_value = "auto")]
    pub kv_precision: KvPrecision,
    /// Prices of GPU hours (YAML: currency, per_gpu_hour): sort by cost
    #[arg(long, value_name = "FILE")]
    pub price: Option<PathBuf>,
    /// Share of its capacity at which the fleet may run at the peak [default: the manifest's]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = share)]
    pub target_utilization: Option<f64>,
    /// Probability with which the fleet is to carry the peak, over what is not known of the engine
    #[arg(long, value_name = "P", default_value = "0.9", allow_negative_numbers = true, value_parser = confidence)]
    pub at_confidence: f64,
    /// Parameter sets drawn from each profile's uncertainty, a seed each. 9 are the fewest that show a confidence of
    /// 0.9, 19 one of 0.95 [default: as many as --at-confidence takes, at least 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub draws: Option<u64>,
    /// Find each capacity to within this share of it
    #[arg(long, value_name = "SHARE", default_value = "0.1", allow_negative_numbers = true, value_parser = tolerance)]
    pub within: f64,
    /// Share of a GPU's visible memory that the engine takes [default: 0.9]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = share)]
    pub gpu_memory_utilization: Option<f64>,
    /// Most tokens of a step [default: vLLM's for the GPU, 8192 or 2048]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub max_num_batched_tokens: Option<u32>,
    /// Most requests of a step [default: vLLM's for the GPU, 1024 or 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub max_num_seqs: Option<u32>,
    /// Replay this trace instead of the file the manifest names
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Cold prompts share nothing; warm ones share the scenario's prefix groups [default: the scenario's]
    #[arg(long, value_enum)]
    pub cache: Option<Cache>,
    /// Seed of the schedule and of the draws [default: the manifest's]
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
    /// Write the pack here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Threads to use [default: all cores]. Results are the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Draws where fewer would do.
const USUAL_DRAWS: u64 = 9;

impl SizeArgs {
    /// How many draws to make.
    pub fn draws(&self) -> u64 {
        self.draws.unwrap_or_else(|| draws_to_show(self.at_confidence).max(USUAL_DRAWS))
    }

    /// The part that every command with a scenario has.
    pub fn scenario(&self) -> ScenarioArgs {
        ScenarioArgs {
            source: SourceArgs {
                scenario: self.workload.clone(),
                trace: self.trace.clone(),
                cache: self.cache.into_iter().collect(),
                seed: self.seed,
            },
            out: self.out.clone(),
            resume: false,
            strict: false,
            format: self.format,
            threads: self.threads,
        }
    }
}
