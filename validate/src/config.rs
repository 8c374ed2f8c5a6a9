//! How a live run is made, and what comes of it beside its records.

use crate::checks::Limits;
use crate::driver::Status;
use crate::guard::Resilience;
use crate::request::Endpoint;
use crate::route::Routing;
use crate::target::Target;
use scaleproof_pack::report::Check;
use scaleproof_pack::time::Nanos;
use std::sync::Arc;

/// An attempt without a time limit of its own is given up after this.
pub const HARD_LIMIT: Nanos = Nanos(600_000_000_000);
/// How a live run is made.
pub struct LiveConfig {
    /// Where requests go.
    pub targets: Vec<Target>,
    /// For the targets that speak TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The bearer token, if one is needed. Never printed.
    pub token: Option<String>,
    /// Which endpoint.
    pub endpoint: Endpoint,
    /// The model's id; None: the first that the target names.
    pub model: Option<String>,
    /// Whether answers are streamed.
    pub streaming: bool,
    /// Whether the answers' length is forced.
    pub ignore_eos: bool,
    /// Further parameters of each request.
    pub sampling: Vec<(String, f64)>,
    /// The client gives up this long after sending; None: [`HARD_LIMIT`].
    pub timeout: Option<Nanos>,
    /// The client gives up without a first token this long after sending.
    pub ttft_timeout: Option<Nanos>,
    /// The clients of a closed loop begin spread over this.
    pub ramp: Nanos,
    /// The replicas, where they say their metrics. Empty: the targets.
    pub replicas: Vec<Target>,
    /// Metrics are read this often.
    pub sample_interval: Nanos,
    /// Who chooses among several targets.
    pub routing: Routing,
    /// Threads of the event loop.
    pub threads: usize,
    /// Ids of the prompts' tokens are below this; None: asked of the engine.
    pub vocabulary: Option<u32>,
    /// What the self-checks let pass.
    pub limits: Limits,
    /// What is done about targets that fail: they are left out, and requests sent again. None: nothing, each request is
    /// sent once.
    pub resilience: Option<Resilience>,
}

/// What a run was, beside its records.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRun {
    /// The last state.
    pub status: Status,
    /// The self-checks.
    pub checks: Vec<Check>,
    /// Whether the observer stopped it early.
    pub stopped: bool,
    /// Tokens of a KV block, where the targets say so.
    pub block_size: Option<u32>,
    /// What the targets' metrics did not tell, in words.
    pub gaps: Vec<String>,
    /// Connections opened.
    pub connections: u64,
    /// Requests sent on a connection that was open already.
    pub reused: u64,
}

impl LiveConfig {
    /// Who says metrics.
    pub(crate) fn replicas(&self) -> &[Target] {
        if self.replicas.is_empty() { &self.targets } else { &self.replicas }
    }
}
