//! A profile from physics alone: a model's kernels, one after the other, at the efficiencies that such kernels were
//! measured with. A prior: of no served engine, with the error that `docs/accuracy.md` found such priors to have.

mod errors;

use crate::hardware::architecture::{Architecture, Gemm, Gemms, TpError};
use crate::hardware::gpu::Gpu;
use crate::hardware::memory::{MemoryError, MemoryPlan, MemorySettings};
use crate::hardware::{Found, Precision};
use crate::kernels::{Decode, Kernels, ProductKnot};
use scaleproof_pack::fault::Faults;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::engine::cudagraph::{CudagraphMode, Cudagraphs};
use scaleproof_sim::hardware::Hardware;
use scaleproof_sim::profile::uncertainty::{Factor, Knob, Uncertainty};
use scaleproof_sim::profile::{Profile, ProfileKind, Provenance, Validity, rounded};
use scaleproof_sim::step_time::{Coefficients, GraphSettings, GraphTimes, HostCost, StepTime};
use scaleproof_sim::{FrontEnd, FrontEndProcess};
use std::fmt;

/// What a prior is of.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorSpec {
    /// The model.
    pub architecture: Architecture,
    /// The GPU.
    pub gpu: Gpu,
    /// How memory is divided, tensor parallel degree and precisions among it.
    pub memory: MemorySettings,
    /// KV blocks if known; None: as the memory plan has them.
    pub num_blocks: Option<u32>,
    /// The longest request; None: as much as the model was made for, or the KV cache holds.
    pub max_model_len: Option<u32>,
    /// Whether the host prepares a step while the GPU runs the one before.
    pub async_scheduling: bool,
    /// Whether finished blocks are kept for reuse.
    pub prefix_caching: bool,
    /// Which batches replay a recorded graph.
    pub graphs: CudagraphMode,
}

/// Why there is no prior.
#[derive(Debug)]
pub enum PriorError {
    /// The model cannot be divided so, or a setting is out of range.
    Memory(MemoryError),
    /// Weights and working memory leave no room for one request.
    DoesNotFit(MemoryPlan),
    /// The longest request is to have no token of an answer.
    TooShort(u32),
    /// No kernel of this precision was measured.
    Unmeasured(Precision),
    /// More GPUs than one server's link connects.
    BeyondServer(u32),
    /// More blocks than the GPU's memory holds.
    TooManyBlocks {
        /// How many.
        blocks: u32,
        /// Their bytes on a GPU.
        bytes: f64,
        /// The GPU's.
        memory_bytes: f64,
    },
    /// A shipped file is faulty.
    Catalogue(Faults),
}

/// The shortest context with which an engine answers: a token of a prompt and one of its answer.
const CONTEXT_MIN: u32 = 2;
/// GPUs that one server's link connects; between servers no collective was measured.
const SERVER_GPUS: u32 = 8;

impl fmt::Display for PriorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PriorError::Memory(error) => error.fmt(f),
            PriorError::DoesNotFit(plan) => {
                let (kv, tokens) = (plan.kv_bytes as f64 / 1e9, plan.kv_tokens);
                write!(
                    f,
                    "does not fit: found {kv:.1} GB for the KV cache, {tokens} tokens; expected room for a request; \
                     raise --tp or --gpu-memory-utilization, or take a narrower precision"
                )
            }
            PriorError::TooShort(tokens) => write!(
                f,
                "max_model_len: found {tokens}; expected at least {CONTEXT_MIN}, a token of the prompt and one of the \
                 answer"
            ),
            PriorError::Unmeasured(precision) => {
                write!(f, "precision: found {}; expected one whose kernels were measured", precision.word())
            }
            PriorError::BeyondServer(tp) => write!(
                f,
                "tensor parallel degree: found {tp}; expected at most {SERVER_GPUS}, the GPUs of one server; no \
                 collective between servers was measured"
            ),
            PriorError::TooManyBlocks { blocks, bytes, memory_bytes } => write!(
                f,
                "KV blocks: found {blocks}, {:.1} GB on each GPU; expected no more than its {:.1} GB of memory hold",
                bytes / 1e9,
                memory_bytes / 1e9
            ),
            PriorError::Catalogue(faults) => faults.fmt(f),
        }
    }
}

impl std::error::Error for PriorError {}

impl From<MemoryError> for PriorError {
    fn from(error: MemoryError) -> Self {
        PriorError::Memory(error)
    }
}

impl From<TpError> for PriorError {
    fn from(error: TpError) -> Self {
        PriorError::Memory(error.into())
    }
}

impl From<Faults> for PriorError {
    fn from(faults: Faults) -> Self {
        PriorError::Catalogue(faults)
    }
}

/// Bytes that the element-wise kernels of a layer move for a token: each of two norms reads and writes the residual and
/// writes its result, the activation reads gate and up and writes their product; 16 bits each.
#[must_use]
pub fn element_wise_bytes(hidden: f64, intermediate: f64) -> f64 {
    2.0 * (2.0 * 3.0 * hidden + 3.0 * intermediate)
}

/// What the host does for a step beside the GPU, and what the API server adds to a request. Not measured with the
/// kernels; the factors `rows` and `front_end` are as wide as that says.
pub const HOST_US: f64 = 1_500.0;
const HOST_ROW_US: f64 = 12.0;
const REQUEST_MS: f64 = 6.0;
/// Each layer of a step that replays no graph of the whole model. BLIS fitted 32 us a layer to served engines (its
/// inference-sim repository, 2026).
pub(crate) const LAYER_LAUNCH_US: f64 = 32.0;
/// Copying a step's inputs to the GPU and its tokens back.
pub(crate) const INPUTS_US: f64 = 150.0;
/// Sampling, each row.
const SAMPLED_ROW_US: f64 = 1.5;

/// Standard deviations of the logarithm of each factor: what served engines were off by from such priors.
const SPREAD: [(Knob, f64); 6] = [
    (Knob::Weights, 0.10),
    (Knob::Compute, 0.25),
    (Knob::DecodeContext, 0.25),
    (Knob::PrefillAttention, 0.30),
    (Knob::Rows, 0.80),
    (Knob::FrontEnd, 0.70),
];
/// How much wider they are on a GPU whose kernels were not measured.
const CARRIED: f64 = 1.5;

/// The profile that physics gives, and how its memory was divided.
///
/// # Errors
/// A model that does not divide or fit, a precision without kernels.
pub fn prior(spec: &PriorSpec) -> Result<(Profile, MemoryPlan), PriorError> {
    let plan = MemoryPlan::new(&spec.architecture, &spec.gpu, &spec.memory)?;
    if spec.memory.tp > SERVER_GPUS {
        return Err(PriorError::BeyondServer(spec.memory.tp));
    }
    let scheduler = scheduler(spec, &plan)?;
    let (kernels, measured) = Kernels::of(&spec.gpu, spec.memory.precision)?;
    let composer = Composer::new(spec, &kernels)?;
    let step_time = composer.step_time(spec, &scheduler);
    let widen = if measured { 1.0 } else { CARRIED };
    let validity = Validity {
        batch_tokens: (1, scheduler.max_num_batched_tokens),
        rows: (1, scheduler.max_num_seqs),
        context_tokens: (1, scheduler.max_model_len),
    };
    let (model, gpu, memory) = (&spec.architecture, &spec.gpu, &spec.memory);
    let precision = memory.precision.word();
    let profile = Profile {
        name: format!("{}-{}-tp{}-{precision}-prior", model.name, gpu.name, memory.tp),
        kind: ProfileKind::Prior,
        gpu: Some(gpu.name.clone()),
        model_id: model.name.clone(),
        model_revision: "architecture".to_owned(),
        precision: precision.to_owned(),
        tp: memory.tp,
        pp: 1,
        scheduler,
        front_end: FrontEnd {
            process: FrontEndProcess::Parallel,
            request: Nanos::from_millis(REQUEST_MS).expect("a constant"),
            busy: Nanos::from_millis(REQUEST_MS).expect("a constant"),
            prompt_token_us: 0.0,
            output_token: Nanos::default(),
        },
        step_time,
        validity,
        uncertainty: Some(independent(widen)),
        provenance: Provenance {
            method: "roofline of each kernel at measured efficiencies; an uncalibrated prior".to_owned(),
            sources: vec![format!("models/kernels {}", kernels.name), format!("models/gpus {}", gpu.name)],
            expected_relative_error: Some(if measured { 0.1 } else { 0.15 }),
            fit_errors: composer.fit_errors(),
            ..Provenance::default()
        },
    };
    Ok((profile, plan))
}

/// Relative gap that rounding may leave between a profile's hardware and the catalogue's.
const ROUNDING: f64 = 1e-6;

/// Checks what a profile says of a GPU that the catalogue knows, since its bound rests on that.
///
/// # Errors
/// The figure that is not the catalogue's, in words; a faulty catalogue.
pub fn check_hardware(profile: &Profile) -> Result<(), String> {
    let (Some(name), Some(stated)) = (&profile.gpu, &profile.step_time.hardware) else { return Ok(()) };
    let Ok(Found::Entry(gpu)) = Gpu::find(name) else { return Ok(()) };
    let word = |(word, _): &&(&str, Precision)| *word == profile.precision;
    let precision = Precision::WORDS.iter().find(word).map_or(Precision::Bf16, |(_, precision)| *precision);
    let mut figures = vec![
        ("peak_flops_per_s", stated.peak_flops_per_s, gpu.product_peak(precision)),
        ("hbm_bytes_per_s", stated.hbm_bytes_per_s, gpu.hbm_bytes_per_s),
    ];
    if let Ok(Found::Entry(model)) = Architecture::find(&profile.model_id) {
        // The cache's precision is not in a profile: any that there is will do, the nearest is named.
        let of = |(_, kv_precision)| hardware(&model, &gpu, profile.tp, (precision, kv_precision)).ok();
        let gap = |known: &Hardware| (known.kv_bytes_per_token - stated.kv_bytes_per_token).abs();
        let nearest = Precision::WORDS.into_iter().filter_map(of).min_by(|a, b| gap(a).total_cmp(&gap(b)));
        figures.extend(nearest.into_iter().flat_map(|known| {
            [
                ("weight_bytes", stated.weight_bytes, known.weight_bytes),
                ("token_flops", stated.token_flops, known.token_flops),
                ("pair_flops", stated.pair_flops, known.pair_flops),
                ("kv_bytes_per_token", stated.kv_bytes_per_token, known.kv_bytes_per_token),
            ]
        }));
    }
    let differs = |(_, stated, known): &&(&str, f64, f64)| (stated / known - 1.0).abs() > ROUNDING;
    figures.iter().find(differs).map_or(Ok(()), |(field, stated, known)| {
        Err(format!(
            "hardware.{field}: found {stated}; expected {known}, as the catalogue has it for {} in {} on {name} at TP{}; \
             a GPU of another name is not checked against it",
            profile.model_id, profile.precision, profile.tp
        ))
    })
}

/// The prior's uncertainty: each factor on its own.
fn independent(widen: f64) -> Uncertainty {
    let factor = |(row, &(knob, sd)): (usize, &(Knob, f64))| {
        let sd = digits(sd * widen);
        let mut deviations = vec![0.0; row];
        deviations.push(sd);
        Factor { knob, prior_sd: sd, deviations }
    };
    Uncertainty { factors: SPREAD.iter().enumerate().map(factor).collect() }
}

fn scheduler(spec: &PriorSpec, plan: &MemoryPlan) -> Result<EngineConfig, PriorError> {
    let blocks = spec.num_blocks.map_or(plan.num_blocks, u64::from);
    let num_blocks = blocks.min(u64::from(EngineConfig::NUM_BLOCKS_MAX)) as u32;
    let block_bytes = plan.kv_bytes_per_token as f64 * f64::from(spec.memory.block_size);
    let (bytes, memory_bytes) = (block_bytes * f64::from(num_blocks), spec.gpu.hbm_bytes as f64);
    if bytes > memory_bytes {
        return Err(PriorError::TooManyBlocks { blocks: num_blocks, bytes, memory_bytes });
    }
    let held = blocks.saturating_sub(1) * u64::from(spec.memory.block_size);
    let longest = spec.max_model_len.unwrap_or(spec.architecture.max_position_embeddings);
    if longest < CONTEXT_MIN {
        return Err(PriorError::TooShort(longest));
    }
    let max_model_len = u64::from(longest).min(held) as u32;
    if max_model_len < CONTEXT_MIN {
        return Err(PriorError::DoesNotFit(plan.clone()));
    }
    Ok(EngineConfig {
        num_blocks,
        block_size: spec.memory.block_size,
        max_num_batched_tokens: spec.memory.max_num_batched_tokens,
        max_num_seqs: spec.memory.max_num_seqs,
        max_model_len,
        async_scheduling: spec.async_scheduling,
        enable_prefix_caching: spec.prefix_caching,
        ..EngineConfig::default()
    })
}

/// A model's kernels on one GPU of a replica.
struct Composer<'a> {
    model: &'a Architecture,
    gpu: &'a Gpu,
    memory: &'a MemorySettings,
    kernels: &'a Kernels,
    products: &'a [ProductKnot],
    gemms: Gemms,
    hardware: Hardware,
    layers: f64,
}

impl<'a> Composer<'a> {
    fn new(spec: &'a PriorSpec, kernels: &'a Kernels) -> Result<Self, PriorError> {
        let (model, gpu, memory) = (&spec.architecture, &spec.gpu, &spec.memory);
        let gemms = model.gemms(memory.tp)?;
        let products = kernels.products(memory.precision).ok_or(PriorError::Unmeasured(memory.precision))?;
        let hardware = hardware(model, gpu, memory.tp, (memory.precision, memory.kv_precision))?;
        let layers = f64::from(model.layers);
        Ok(Composer { model, gpu, memory, kernels, products, gemms, hardware, layers })
    }

    fn step_time(&self, spec: &PriorSpec, scheduler: &EngineConfig) -> StepTime {
        let knots = self.products;
        let graphs = GraphSettings { mode: spec.graphs, sizes: Vec::new(), ceiling: Cudagraphs::CEILING };
        // A graph of decode rows holds no prompt's tokens; the others do.
        let full = Coefficients { decode_wave_rows: self.wave_rows(), ..self.coefficients(knots, 0.0) };
        // The same kernels, prompts among the tokens, and attention launched by the host in every layer.
        let mut launched = self.coefficients(knots, self.prefill_token_us());
        launched.base_us = digits(launched.base_us + LAYER_LAUNCH_US * self.layers);
        // Without a graph the host launches every kernel.
        let launch_us = digits(self.layers * self.kernels.launches_us.unwrap_or(0.0));
        StepTime {
            eager: Coefficients { launch_us, ..launched.clone() },
            graphs: (spec.graphs != CudagraphMode::None)
                .then(|| GraphTimes::new(graphs, full, launched, scheduler)),
            host: HostCost { base_us: HOST_US, row_us: HOST_ROW_US },
            hardware: Some(self.hardware.clone()),
        }
    }

    /// Microseconds of a step's matrix products, collectives and element-wise kernels at one number of tokens.
    fn tokens_us(&self, knot: &ProductKnot) -> [f64; 3] {
        let product = |gemm: &Gemm| knot.product_us((gemm.n, gemm.k), self.memory.precision, self.gpu);
        let products_us: f64 = self.gemms.layer.iter().map(product).sum();
        let tokens = f64::from(knot.tokens);
        let (hidden, mlp) = (f64::from(self.model.hidden), f64::from(self.model.intermediate));
        let message_bytes = 2.0 * tokens * hidden;
        let collective = self.kernels.collective.as_ref();
        let reduce_us = collective.map_or(0.0, |c| c.all_reduce_us(message_bytes, self.memory.tp, self.gpu));
        let element_wise = self.kernels.element_wise;
        let bytes = tokens * element_wise_bytes(hidden, mlp / f64::from(self.memory.tp));
        let element_us =
            element_wise.floor_us + 1e6 * bytes / (element_wise.efficiency * self.gpu.hbm_bytes_per_s);
        [products_us, 2.0 * reduce_us, element_us].map(|us| self.layers * us)
    }

    /// Decode attention over the cache; 16 bits stand for what was not measured.
    fn decode(&self) -> Option<Decode> {
        self.kernels.decode(self.memory.kv_precision).or(self.kernels.decode(Precision::Bf16))
    }

    /// Rows whose heads fill the multiprocessors once, where decode attention takes whole waves.
    fn wave_rows(&self) -> f64 {
        let heads = f64::from(self.model.kv_heads_per_gpu(self.memory.tp));
        let in_waves = self.decode().is_some_and(|decode| decode.in_waves);
        if in_waves { digits(f64::from(self.gpu.sm_count) / heads) } else { 0.0 }
    }

    /// What attention adds for each token of a prompt, beside its pairs.
    fn prefill_token_us(&self) -> f64 {
        let heads = f64::from(self.model.heads / self.memory.tp);
        self.layers * self.kernels.prefill.token_head_us * heads
    }

    fn coefficients(&self, knots: &[ProductKnot], prefill_token_us: f64) -> Coefficients {
        let (floor_us, row_head_us, read) =
            self.decode().map_or((0.0, 0.0, 1.0), |d| (d.floor_us, d.row_head_us, d.efficiency));
        let kv_heads = f64::from(self.model.kv_heads_per_gpu(self.memory.tp));
        let head = self.gemms.lm_head;
        let head_us = 1e6 * 2.0 * head.weights() as f64 / self.gpu.hbm_bytes_per_s;
        let peak = self.gpu.peak_flops(Precision::Bf16).unwrap_or(f64::INFINITY);
        let head_row_us = 1e6 * 2.0 * head.weights() as f64 / peak;
        let pair_us = 1e6 * self.hardware.pair_flops / (self.kernels.prefill.efficiency * peak);
        let context_us = 1e6 * self.hardware.kv_bytes_per_token / (read * self.gpu.hbm_bytes_per_s);
        let knot = |k: &ProductKnot| {
            let tokens = f64::from(k.tokens);
            (tokens, digits(self.tokens_us(k).iter().sum::<f64>() + prefill_token_us * tokens))
        };
        Coefficients {
            base_us: digits(self.layers * floor_us + head_us + INPUTS_US),
            batch_token_knots: knots.iter().map(knot).collect(),
            decode_context_token_us: digits(context_us),
            prefill_pair_us: digits(pair_us),
            prefill_context_token_us: digits(context_us),
            row_us: digits(self.layers * row_head_us * kv_heads),
            sampled_row_us: digits(head_row_us + SAMPLED_ROW_US),
            launch_us: 0.0,
            decode_wave_rows: 0.0,
        }
    }
}

/// One GPU of a replica and its share of a model, for the bound; the cache in `kv_precision`.
fn hardware(
    model: &Architecture,
    gpu: &Gpu,
    tp: u32,
    (precision, kv_precision): (Precision, Precision),
) -> Result<Hardware, TpError> {
    let matrices: u64 = model.gemms(tp)?.layer.iter().map(Gemm::weights).sum();
    let weights = u64::from(model.layers) * matrices;
    Ok(Hardware {
        peak_flops_per_s: gpu.product_peak(precision),
        hbm_bytes_per_s: gpu.hbm_bytes_per_s,
        weight_bytes: precision.bytes(weights) as f64,
        kv_bytes_per_token: model.kv_bytes_per_token(kv_precision, tp) as f64,
        token_flops: 2.0 * weights as f64,
        pair_flops: model.attention_flops_per_pair() / f64::from(tp),
    })
}

/// Six significant digits: more would say more than is known.
fn digits(value: f64) -> f64 {
    rounded(value, 6)
}

#[cfg(test)]
mod tests;
