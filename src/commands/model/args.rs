//! The arguments of `model`.

use crate::args::Format;
use clap::{Args, Subcommand, ValueEnum};
use scaleproof_calibrate::hardware::Precision;

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

/// Arguments of `model show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A name of the catalogue, a Hugging Face config.json, or a YAML file of ours
    pub model: String,
    /// A name of the catalogue or a YAML file: divide its memory. Exit 1 if the model does not fit
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// Tensor parallel degree
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: u32,
    /// Precision of the layers' weights [default: the checkpoint's]
    #[arg(long, value_enum)]
    pub precision: Option<WeightPrecision>,
    /// Precision of the KV cache
    #[arg(long, value_enum, default_value = "auto")]
    pub kv_precision: KvPrecision,
    /// Share of the GPU's visible memory that the engine takes [default: 0.9]
    #[arg(long, value_name = "SHARE", requires = "gpu", allow_negative_numbers = true)]
    pub gpu_memory_utilization: Option<f64>,
    /// Most tokens of a step [default: vLLM's for the GPU, 8192 or 2048]
    #[arg(long, value_name = "N", requires = "gpu")]
    pub max_num_batched_tokens: Option<u32>,
    /// Most requests of a step [default: vLLM's for the GPU, 1024 or 256]
    #[arg(long, value_name = "N", requires = "gpu")]
    pub max_num_seqs: Option<u32>,
    /// Longest request that must fit, in tokens
    #[arg(long, value_name = "N", requires = "gpu", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_model_len: Option<u32>,
    /// Memory set aside for CUDA graphs, in GiB: vLLM's estimate from 0.21 on, which its log says [default: 0]
    #[arg(long, value_name = "GIB", requires = "gpu", allow_negative_numbers = true, value_parser = gib)]
    pub cudagraph_gib: Option<f64>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `model list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// An amount of memory.
fn gib(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1024.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("found {value}; expected GiB from 0 to 1024")),
        Err(_) => Err("expected a number".to_owned()),
    }
}
