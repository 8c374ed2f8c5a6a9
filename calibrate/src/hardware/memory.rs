//! How an engine divides a GPU's memory, as vLLM does: a share of what the process sees, less weights, less the peak of
//! a profiling step, is KV cache. Every line of the arithmetic is kept, to be printed.
//!
//! The profiling step runs `max_num_batched_tokens` tokens T, then samples `max_num_seqs` rows S. Its peak is the
//! greater of
//!
//! ```text
//! forward  = T x (3 x hidden + 3 x intermediate / TP) x 2     residual, normed and attention's; gate, up, product
//! sampling = S x vocabulary x 38 + (T + S) x hidden x 2       logits and their sort; the step's result, its rows
//! ```
//!
//! and the workspace of the matrix library. The 38 bytes of a logit: 2 as computed, 4 in FP32, and sorting them for
//! top-k and top-p: values 4 and indices 8 out, indices 8 in, as much scratch as the output, 12. Activations logged by
//! vLLM 0.11 for four models of two vocabularies lie within 0.02 GiB of it; docs/models.md has the comparison.

use super::Precision;
use super::architecture::{Architecture, TpError};
use super::gpu::Gpu;
use std::fmt;

/// An engine's settings that decide how memory is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySettings {
    /// Tensor parallel degree.
    pub tp: u32,
    /// Precision of the layers' weights.
    pub precision: Precision,
    /// Precision of the KV cache.
    pub kv_precision: Precision,
    /// Share of the visible memory that the engine takes, above 0 and at most 1.
    pub gpu_memory_utilization: f64,
    /// Most tokens of a step.
    pub max_num_batched_tokens: u32,
    /// Most requests of a step.
    pub max_num_seqs: u32,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// Memory set aside for CUDA graphs; 0 where the engine records them after the division, as vLLM before 0.21 does.
    pub cudagraph_bytes: u64,
}

impl MemorySettings {
    /// vLLM's usual ones on a GPU: 8,192 tokens and 1,024 requests where a process sees 70 GiB or more and the GPU is
    /// no A100, 2,048 and 256 elsewhere; nine tenths of the memory; blocks of 16.
    #[must_use]
    pub fn usual(gpu: &Gpu, tp: u32, precision: Precision, kv_precision: Precision) -> MemorySettings {
        let large = gpu.visible_bytes >= 70 * 1024 * MIB && !gpu.name.starts_with("a100");
        let (max_num_batched_tokens, max_num_seqs) = if large { (8192, 1024) } else { (2048, 256) };
        MemorySettings {
            tp,
            precision,
            kv_precision,
            gpu_memory_utilization: 0.9,
            max_num_batched_tokens,
            max_num_seqs,
            block_size: 16,
            cudagraph_bytes: 0,
        }
    }
}

const MIB: u64 = 1 << 20;
/// Bytes of a logit at the peak of sampling; see the head of this file.
const SAMPLING_BYTES_PER_LOGIT: u64 = 38;
/// Workspace of the matrix library.
const WORKSPACE_BYTES: u64 = 32 * MIB;
/// What libraries take outside the allocator: 0.13 to 0.14 GiB in vLLM's logs.
const LIBRARIES_BYTES: u64 = 138 * MIB;
/// More with several GPUs, for their communication: 0.41 to 0.42 GiB in vLLM's logs with two.
const COMMUNICATION_BYTES: u64 = 425 * MIB;

/// A line of the arithmetic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What.
    pub label: &'static str,
    /// The formula, with its numbers.
    pub formula: String,
    /// Its value in bytes; those of [`MemoryPlan::lines`] add up to the KV cache.
    pub bytes: i64,
}

/// How the memory of one GPU is divided.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// What the engine takes, and what it takes off that (negative): the sum is the KV cache.
    pub lines: Vec<Line>,
    /// Memory for the KV cache on each GPU; negative if the rest alone does not fit.
    pub kv_bytes: i64,
    /// Bytes of keys and values of a token on each GPU.
    pub kv_bytes_per_token: u64,
    /// KV blocks; 0 if not one fits. One of them the engine keeps for itself.
    pub num_blocks: u64,
    /// Tokens that the blocks hold.
    pub kv_tokens: u64,
}

/// Why a plan cannot be made.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryError {
    /// The model cannot be divided so.
    Tp(TpError),
    /// A setting is outside what it may be.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::Tp(error) => error.fmt(f),
            MemoryError::Setting { name, found, expected } => {
                write!(f, "{name}: found {found}; expected {expected}")
            }
        }
    }
}

impl std::error::Error for MemoryError {}

impl From<TpError> for MemoryError {
    fn from(error: TpError) -> MemoryError {
        MemoryError::Tp(error)
    }
}

impl MemoryPlan {
    /// Divides the memory of `gpu` for `model`.
    ///
    /// # Errors
    /// A degree that does not divide the model, and settings out of range.
    pub fn new(
        model: &Architecture,
        gpu: &Gpu,
        settings: &MemorySettings,
    ) -> Result<MemoryPlan, MemoryError> {
        check(settings)?;
        let mut lines = vec![taken(gpu, settings)];
        lines.extend(weights(model, settings)?);
        lines.extend(working_memory(model, settings));
        let kv_bytes: i64 = lines.iter().map(|line| line.bytes).sum();
        let kv_bytes_per_token = model.kv_bytes_per_token(settings.kv_precision, settings.tp);
        let block_bytes = kv_bytes_per_token * u64::from(settings.block_size);
        let num_blocks = u64::try_from(kv_bytes).unwrap_or(0) / block_bytes;
        let kv_tokens = num_blocks * u64::from(settings.block_size);
        Ok(MemoryPlan { lines, kv_bytes, kv_bytes_per_token, num_blocks, kv_tokens })
    }

    /// Whether at least one request of `tokens` fits.
    #[must_use]
    pub fn fits(&self, tokens: u64) -> bool {
        self.kv_tokens >= tokens.max(1)
    }
}

fn check(settings: &MemorySettings) -> Result<(), MemoryError> {
    let wrong = |name, found: String, expected| Err(MemoryError::Setting { name, found, expected });
    let share = settings.gpu_memory_utilization;
    if !(share > 0.0 && share <= 1.0) {
        return wrong("gpu_memory_utilization", share.to_string(), "a number above 0 and at most 1");
    }
    for (name, count) in [
        ("max_num_batched_tokens", settings.max_num_batched_tokens),
        ("max_num_seqs", settings.max_num_seqs),
        ("block_size", settings.block_size),
    ] {
        if count == 0 || count > 1 << 24 {
            return wrong(name, count.to_string(), "a whole number from 1 to 16777216");
        }
    }
    if settings.cudagraph_bytes > 1 << 50 {
        return wrong("cudagraph_bytes", settings.cudagraph_bytes.to_string(), "at most 2^50");
    }
    Ok(())
}

/// A line that is taken off.
fn less(label: &'static str, formula: String, bytes: u64) -> Line {
    Line { label, formula, bytes: -i64::try_from(bytes).unwrap_or(i64::MAX / 16) }
}

fn taken(gpu: &Gpu, settings: &MemorySettings) -> Line {
    let share = settings.gpu_memory_utilization;
    let bytes = (gpu.visible_bytes as f64 * share).ceil() as i64;
    Line { label: "taken", formula: format!("{} visible x {share}", gpu.visible_bytes), bytes }
}

fn weights(model: &Architecture, settings: &MemorySettings) -> Result<Vec<Line>, TpError> {
    let (tp, precision) = (settings.tp, settings.precision);
    let bytes = model.weight_bytes(precision, tp)?;
    let gemms = model.gemms(tp)?;
    let shapes: Vec<String> = gemms.layer.iter().map(|gemm| format!("{} x {}", gemm.n, gemm.k)).collect();
    let matrices = format!("{} layers x ({}) in {}", model.layers, shapes.join(" + "), precision.word());
    let table = format!("{} x {} x 2", gemms.lm_head.n, gemms.lm_head.k);
    let mut lines = vec![less("layer weights", matrices, bytes.matrices)];
    if bytes.scales > 0 {
        let columns: u64 = gemms.layer.iter().map(|gemm| gemm.n).sum();
        lines.push(less("their scales", format!("{} layers x {columns} x 4", model.layers), bytes.scales));
    }
    lines.push(less("embedding", table.clone(), bytes.embedding));
    if !model.tied_embeddings {
        lines.push(less("output head", table, bytes.lm_head));
    }
    lines.push(less("norms, biases", "in 16 bits".to_owned(), bytes.small));
    let rotary = format!("{} positions x {} x 2", model.max_position_embeddings, model.head_dim);
    lines.push(less("rotary table", rotary, bytes.rotary));
    Ok(lines)
}

/// What a step needs beside weights and KV cache.
fn working_memory(model: &Architecture, settings: &MemorySettings) -> Vec<Line> {
    let (tokens, rows) = (u64::from(settings.max_num_batched_tokens), u64::from(settings.max_num_seqs));
    let (hidden, vocab) = (u64::from(model.hidden), u64::from(model.vocab));
    let mlp = u64::from(model.intermediate / settings.tp.max(1));
    let forward = tokens * (3 * hidden + 3 * mlp) * 2;
    // No step samples more rows than it has tokens.
    let rows = rows.min(tokens);
    let sampling = rows * vocab * SAMPLING_BYTES_PER_LOGIT + (tokens + rows) * hidden * 2;
    let peak = if forward > sampling {
        less("forward pass", format!("{tokens} tokens x (3 x {hidden} + 3 x {mlp}) x 2"), forward)
    } else {
        let formula = format!(
            "{rows} rows x {vocab} x {SAMPLING_BYTES_PER_LOGIT} + ({tokens} + {rows}) x {hidden} x 2"
        );
        less("sampling", formula, sampling)
    };
    let mut lines = vec![
        peak,
        less("workspace", "of the matrix library".to_owned(), WORKSPACE_BYTES),
        less("libraries", "as vLLM logs it".to_owned(), LIBRARIES_BYTES),
    ];
    if settings.tp > 1 {
        lines.push(less("communication", "as vLLM logs it with 2 GPUs".to_owned(), COMMUNICATION_BYTES));
    }
    if settings.cudagraph_bytes > 0 {
        lines.push(less("CUDA graphs", "as given".to_owned(), settings.cudagraph_bytes));
    }
    lines
}

#[cfg(test)]
mod tests;
