//! The workload manifest: what is offered to which system, and the gates it must pass. Checked: a value of these
//! types has passed every test of [`Manifest::parse`]. docs/formats.md lists every field with its bounds.

mod arrivals;
mod client;
mod distribution;
mod parse;
mod workload;

pub(crate) use distribution::lengths;
pub use parse::is_movable;
pub use workload::read_prefix_groups;

use crate::time::Nanos;

/// The greatest length of a prompt or an output, in tokens.
pub const TOKENS_MAX: u32 = 10_000_000;
/// The greatest number of requests in a schedule, warm-up and measured apart.
pub const REQUESTS_MAX: u64 = 10_000_000;
/// The greatest duration in a manifest, in seconds: 115 days.
pub const DURATION_MAX_SECONDS: f64 = 1e7;

/// A checked workload manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The date on which the system was frozen, as written.
    pub cutoff: String,
    /// Optional immutable revision of the workload itself.
    pub workload_revision: Option<String>,
    /// The model under test.
    pub model: Model,
    /// The engine and its placement.
    pub engine: Engine,
    /// The client: arrivals, counts, timeouts.
    pub client: Client,
    /// The classes, in the manifest's order. `Record::class` indexes this.
    pub classes: Vec<Class>,
    /// Groups of prompts that share a prefix, with their frequencies; empty for none.
    pub prefix_groups: Vec<PrefixGroup>,
    /// The gates.
    pub acceptance: Acceptance,
}

/// The model, pinned.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Name.
    pub id: String,
    /// Immutable revision.
    pub revision: String,
    /// Immutable revision of the tokenizer.
    pub tokenizer_revision: String,
    /// Precision of weights and activations, as `bf16`.
    pub precision: String,
    /// Optional revision of the chat template.
    pub chat_template_revision: Option<String>,
}

/// The engine, pinned, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Name.
    pub name: String,
    /// Immutable version.
    pub version: String,
    /// Optional immutable revision of the scheduler or its configuration.
    pub scheduler_revision: Option<String>,
    /// GPUs and replicas.
    pub placement: Placement,
    /// Whether the prefix cache is on.
    pub prefix_cache: bool,
    /// Whether speculative decoding is on.
    pub speculative_decoding: bool,
    /// Whether prefill and decode run on different replicas.
    pub disaggregated_prefill: bool,
}

/// `gpus = replicas x tp x pp`, `dp = replicas`: both checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Tensor parallel degree of a replica.
    pub tp: u32,
    /// Pipeline parallel degree of a replica.
    pub pp: u32,
    /// Independent replicas.
    pub dp: u32,
    /// Independent replicas.
    pub replicas: u32,
    /// GPUs in all.
    pub gpus: u32,
}

/// The load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Where it runs.
    pub location: String,
    /// Whether tokens are streamed.
    pub streaming: bool,
    /// How arrivals are spaced.
    pub arrivals: ArrivalPattern,
    /// Least length of the measured window, in seconds.
    pub minimum_duration_seconds: f64,
    /// Measured requests in the schedule (before any continuation). 0 for a trace whose manifest states none: its
    /// rows are counted then.
    pub initial_scheduled_requests: u64,
    /// Seed of the schedule.
    pub request_schedule_seed: u64,
    /// Requests of each class, in the order of `Manifest::classes`. Empty for a trace whose manifest states none.
    pub class_schedule_counts: Vec<u64>,
    /// Length of the warm-up before the window, in seconds.
    pub warmup_seconds: f64,
    /// The client gives up this long after sending.
    pub timeout: Option<Nanos>,
    /// The client gives up if no token came this long after sending.
    pub ttft_timeout: Option<Nanos>,
    /// Deliberate cancellations.
    pub cancellation: Option<Cancellation>,
    /// Pause of a closed-loop client between an answer and its next request.
    pub think_time: Option<Distribution>,
    /// Whether outputs are forced to their scheduled length (`ignore_eos`), as against stopping by themselves.
    /// Either way the schedule fixes the length; this is what a live client asks the server for.
    pub ignore_eos: bool,
    /// Sampling parameters, passed through to a live server as written; the simulator ignores them.
    pub sampling: Vec<(String, f64)>,
}

/// A share of the attempts is cancelled by its client a while after sending.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancellation {
    /// Share of attempts, 0 to 1.
    pub probability: f64,
    /// How long after sending, in seconds.
    pub after_seconds: Distribution,
}

/// How arrivals are spaced at a given offered rate.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalPattern {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps of this shape (1 is Poisson, larger is smoother, smaller is burstier).
    Gamma {
        /// Shape, above 0.
        shape: f64,
    },
    /// A rate that changes over time: pieces in order, repeated to the end of the schedule. Factors are
    /// relative and normalised, so that the mean rate over one round is the offered rate. Gaps are Poisson in
    /// operational time.
    Piecewise {
        /// The pieces of one round.
        pieces: Vec<RatePiece>,
    },
    /// Arrivals, classes and lengths from a trace file.
    Trace(TraceSource),
}

/// Part of a piecewise rate: linear from `from` to `to` over `seconds`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePiece {
    /// Length, in seconds.
    pub seconds: f64,
    /// Relative rate at its beginning.
    pub from: f64,
    /// Relative rate at its end.
    pub to: f64,
}

/// A trace file and how it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// Path as written, relative to the manifest's directory.
    pub file: String,
    /// Format.
    pub format: TraceFormat,
    /// Only arrivals in this window of the trace, in seconds from its first arrival.
    pub window_seconds: Option<(f64, f64)>,
    /// Arrivals are this many times as fast as recorded.
    pub rate_scale: f64,
}

/// Trace formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Mooncake JSONL: milliseconds, hash ids of 512-token blocks.
    Mooncake,
    /// Azure LLM inference CSV.
    Azure,
    /// arrival_s,class,input_tokens,output_tokens.
    Csv,
}

/// A distribution of a length (tokens) or a duration (seconds).
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always this.
    Fixed(f64),
    /// Uniform from `min` to `max`, both included for integers.
    Uniform {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// Normal, cut to [`min`, `max`] by drawing again.
    Normal {
        /// Mean before the cut.
        mean: f64,
        /// Standard deviation before the cut.
        sd: f64,
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// Lognormal by its own median and the standard deviation of its logarithm, cut by drawing again.
    Lognormal {
        /// Median before the cut.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// Geometric on 1, 2, ... with this mean.
    Geometric {
        /// Mean, at least 1.
        mean: f64,
    },
    /// Values with weights.
    Empirical {
        /// The values.
        values: Vec<f64>,
        /// Their weights, same length, summing to something positive.
        weights: Vec<f64>,
    },
}

/// A class of requests with its service level.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Share of requests. 0 for a trace whose manifest states none.
    pub mix: f64,
    /// Prompt tokens (for a later turn of a session: the new ones). `Fixed(0.0)` for a trace: its rows have them.
    pub input_tokens: Distribution,
    /// Output tokens. `Fixed(0.0)` for a trace.
    pub output_tokens: Distribution,
    /// TTFT cutoff, in milliseconds.
    pub request_ttft_cutoff_ms: f64,
    /// TPOT cutoff, in milliseconds.
    pub request_tpot_cutoff_ms: f64,
    /// Engine priority: smaller is more urgent.
    pub priority: i32,
    /// Conversations: each request of this class opens one of several turns.
    pub session: Option<Session>,
    /// For traces: which rows belong to this class. None: all that no earlier class took.
    pub rule: Option<LengthRule>,
}

/// Conversations. A class's count counts turns; turn k+1 carries the whole history and is sent a while after
/// turn k's end.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Turns of a session.
    pub turns: u32,
    /// Pause between an answer and the next turn, in seconds.
    pub think_seconds: Distribution,
}

/// Bounds on lengths, all inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRule {
    /// Least prompt tokens.
    pub input_min: u32,
    /// Greatest prompt tokens.
    pub input_max: u32,
    /// Least output tokens.
    pub output_min: u32,
    /// Greatest output tokens.
    pub output_max: u32,
}

/// Prompts that begin with the same tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixGroup {
    /// Name.
    pub name: String,
    /// Shared tokens at the beginning. A prompt not longer than this shares all but its last token.
    pub tokens: u32,
    /// Relative frequency among the requests of its classes.
    pub weight: f64,
    /// Classes whose requests use it; empty for all.
    pub classes: Vec<String>,
}

/// The gates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acceptance {
    /// Least attainment of each class.
    pub class_slo_attainment_min: f64,
    /// Least successes of each class.
    pub min_successful_samples_per_class: u64,
    /// Greatest error rate.
    pub error_rate_max: f64,
    /// Whether the queue trend must be flat.
    pub queue_trend_flat_required: bool,
    /// Share of its capacity at which the planned fleet may run.
    pub target_utilization: f64,
}

#[cfg(test)]
mod tests;
