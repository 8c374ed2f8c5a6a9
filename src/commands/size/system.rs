//! A configuration before the first run: its memory, its profile, and what forbids it.

use super::args::SizeArgs;
use crate::input::Loaded;
use crate::table::grouped;
use scaleproof_calibrate::fluid::forbidden;
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::architecture::Architecture;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::hardware::memory::{Line, MemoryPlan, MemorySettings};
use scaleproof_calibrate::physics::{PriorError, PriorSpec, prior};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::size::{Candidate, Memory, MemoryLine};
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;

/// A GPU, a degree and a precision.
#[derive(Clone, Copy)]
pub struct Configuration<'a> {
    pub gpu: &'a Gpu,
    pub tp: u32,
    pub precision: Precision,
}

/// What all configurations have in common.
pub struct Workload<'a> {
    pub args: &'a SizeArgs,
    pub model: &'a Architecture,
    /// The scenario as it was read.
    pub base: &'a Loaded,
    /// Its requests, at whatever rate.
    pub schedule: &'a Schedule,
    /// Whether prompts share prefixes.
    pub shared_prefixes: bool,
}

impl Workload<'_> {
    /// Prompt and output tokens of each measured request.
    fn lengths(&self) -> impl Iterator<Item = u64> {
        let requests = self.schedule.measured.requests.iter();
        requests.map(|request| u64::from(request.input_tokens) + u64::from(request.output_tokens))
    }

    fn longest_request(&self) -> u64 {
        self.lengths().max().unwrap_or(1)
    }

    fn share_longer_than(&self, tokens: u32) -> f64 {
        let longer = self.lengths().filter(|&length| length > u64::from(tokens)).count();
        longer as f64 / self.schedule.measured.requests.len().max(1) as f64
    }
}

/// A configuration, and the system to simulate unless something forbids it.
pub struct System {
    pub candidate: Candidate,
    pub loaded: Option<Loaded>,
}

impl System {
    /// Divides the memory, makes the prior and looks for what forbids it; nothing is simulated.
    pub fn of(configuration: Configuration<'_>, workload: &Workload<'_>) -> System {
        let Configuration { gpu, tp, precision } = configuration;
        let mut candidate = Candidate {
            name: format!("{} TP{tp} {}", gpu.name, precision.word()),
            gpu: gpu.name.clone(),
            tp,
            precision: precision.word().to_owned(),
            memory: None,
            profile: None,
            capacity: None,
            fleet: None,
            cost: None,
            reason: None,
            warnings: Vec::new(),
        };
        let spec = spec(configuration, workload);
        let loaded = match prior(&spec) {
            Ok((profile, plan)) => {
                candidate.memory = Some(memory(&plan, &spec, workload));
                admit(profile, workload)
            }
            Err(PriorError::DoesNotFit(plan)) => {
                let memory = memory(&plan, &spec, workload);
                let reason = missing(&memory);
                candidate.memory = Some(memory);
                Err(reason)
            }
            Err(error) => Err(error.to_string()),
        };
        if gpu.peak_flops(precision).is_none() {
            candidate.warnings.push(format!(
                "{} has no {} tensor cores: its products are computed in 16 bits",
                gpu.name,
                precision.word()
            ));
        }
        let (loaded, reason) = match loaded {
            Ok(loaded) => (Some(loaded), None),
            Err(reason) => (None, Some(reason)),
        };
        candidate.reason = reason;
        candidate.profile = loaded.as_ref().map(Loaded::profile_facts);
        System { candidate, loaded }
    }
}

fn spec(configuration: Configuration<'_>, workload: &Workload<'_>) -> PriorSpec {
    let Configuration { gpu, tp, precision } = configuration;
    let args = workload.args;
    let usual = MemorySettings::usual(gpu, tp, precision, args.kv_precision.precision());
    PriorSpec {
        architecture: workload.model.clone(),
        gpu: gpu.clone(),
        memory: MemorySettings {
            gpu_memory_utilization: args.gpu_memory_utilization.unwrap_or(usual.gpu_memory_utilization),
            max_num_batched_tokens: args.max_num_batched_tokens.unwrap_or(usual.max_num_batched_tokens),
            max_num_seqs: args.max_num_seqs.unwrap_or(usual.max_num_seqs),
            ..usual
        },
        num_blocks: None,
        max_model_len: None,
        async_scheduling: true,
        prefix_caching: true,
        graphs: CudagraphMode::default(),
    }
}

/// The workload before this system, unless the system cannot serve it whatever its engine.
fn admit(profile: Profile, workload: &Workload<'_>) -> Result<Loaded, String> {
    profile.check_bound().map_err(|error| error.to_string())?;
    let hardware = profile.step_time.hardware.clone();
    let loaded = workload.base.with_system(profile);
    let most = loaded.scenario.max_request_tokens();
    let share = workload.share_longer_than(most);
    if share > loaded.manifest.acceptance.error_rate_max {
        return Err(format!(
            "too little KV cache: a request of {} tokens is the longest that it holds, and {:.1} % are longer, up to \
             {}",
            grouped(most.into()),
            100.0 * share,
            grouped(workload.longest_request())
        ));
    }
    let whole_prompts = !workload.shared_prefixes;
    let bound = hardware
        .and_then(|hardware| forbidden(&hardware, &loaded.manifest, workload.schedule, whole_prompts));
    bound.map_or(Ok(loaded), |bound| Err(format!("physics: {bound}")))
}

fn memory(plan: &MemoryPlan, spec: &PriorSpec, workload: &Workload<'_>) -> Memory {
    let line = |line: &Line| MemoryLine {
        label: line.label.to_owned(),
        formula: line.formula.clone(),
        bytes: line.bytes,
    };
    let taken_bytes = plan.lines.first().map_or(0, |line| line.bytes);
    let weights = spec.architecture.weight_bytes(spec.memory.precision, spec.memory.tp);
    let weight_bytes = weights.map_or(0, |weights| weights.total());
    Memory {
        fits: plan.fits(workload.longest_request()),
        taken_bytes,
        weight_bytes,
        working_bytes: taken_bytes - plan.kv_bytes - weight_bytes as i64,
        kv_bytes_per_token: plan.kv_bytes_per_token,
        lines: plan.lines.iter().map(line).collect(),
        kv_bytes: plan.kv_bytes,
        num_blocks: plan.num_blocks,
        kv_tokens: plan.kv_tokens,
    }
}

/// Why the model does not fit, with the arithmetic.
fn missing(memory: &Memory) -> String {
    let gb = |bytes: i64| bytes as f64 / 1e9;
    format!(
        "does not fit: {:.1} GB of each GPU less {:.1} of weights and {:.1} of working memory leave {:.1} GB for the \
         KV cache",
        gb(memory.taken_bytes),
        gb(memory.weight_bytes as i64),
        gb(memory.working_bytes),
        gb(memory.kv_bytes)
    )
}
