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
    /// Replicas that are not there when a run begins: nothing is asked of them before it, and where the client routes by its
    /// rules for targets that fail, they get no work before their health checks pass.
    pub absent: Vec<u32>,
    /// Clients that give up together.
    pub give_up: Option<GiveUp>,
}

/// Clients that give up all at once, each with its request in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct GiveUp {
    /// When, since the run began.
    pub at: Nanos,
    /// How many of those in flight then: from 0 to 1.
    pub share: f64,
    /// At which targets.
    pub targets: Vec<u32>,
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

    /// The replicas that are there when a run begins.
    pub(crate) fn present(&self) -> Vec<Target> {
        let numbered = (0_u32..).zip(self.replicas());
        numbered
            .filter(|(number, _)| !self.absent.contains(number))
            .map(|(_, replica)| replica.clone())
            .collect()
    }

    /// The targets that are not there when a run begins. Behind a router that is the router's affair.
    pub(crate) fn absent_targets(&self) -> &[u32] {
        if self.replicas.is_empty() { &self.absent } else { &[] }
    }

    /// Who is asked what is served.
    pub(crate) fn first_target(&self) -> Option<&Target> {
        let absent = self.absent_targets();
        (0_u32..).zip(&self.targets).find(|(number, _)| !absent.contains(number)).map(|(_, target)| target)
    }
}
