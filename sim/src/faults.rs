//! What may go wrong in a run, as data: the faults and when, how they are noticed, what is tried again, how a replica
//! starts, and what makes the fleet grow and shrink. `run::faults` and its neighbours act on it. docs/failures.md has
//! every default with its source.

mod read;

pub(crate) use read::read_plan;

use scaleproof_pack::failure::Phase;
use scaleproof_pack::time::Nanos;
pub use scaleproof_policy::health::{Breaker, HealthCheck, Retries};

/// All that disturbs a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
    /// How they are noticed and repaired.
    pub resilience: Resilience,
    /// What changes the number of replicas.
    pub autoscaler: Option<Autoscaler>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When it begins, since the run began.
    pub at: Nanos,
    /// Whom it meets. One that is not in the fleet is not met.
    pub replicas: Vec<u32>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// The process ends: what it had in flight is lost, with its KV blocks and its prefix cache.
    Crash,
    /// It neither computes nor answers, and resets nothing. None: until its watchdog ends it.
    Hang(Option<Nanos>),
    /// Each step takes `factor` times as long.
    Slow {
        /// At least 1.
        factor: f64,
        /// For how long.
        lasts: Nanos,
    },
    /// The way to it is bad.
    Link {
        /// Added to each message, each way.
        latency: Nanos,
        /// Share of the connections that cannot be opened, and share of the opened ones that break before the first
        /// token.
        loss: f64,
        /// For how long.
        lasts: Nanos,
    },
    /// A share of its KV blocks cannot be taken.
    KvCut {
        /// From 0 to 1.
        share: f64,
        /// For how long.
        lasts: Nanos,
    },
    /// The replicas are drained and started anew, one after another.
    RollingRestart {
        /// What has not ended so long after the draining began is lost.
        drain: Nanos,
    },
    /// The replica is not there before; it is ordered now and starts cold.
    ColdStart,
    /// Clients give up a share of what the replicas have in flight, all at once.
    Cancellations {
        /// From 0 to 1.
        share: f64,
    },
}

impl FaultKind {
    /// Until when it lasts, if it ends by itself.
    #[must_use]
    pub fn lasts(&self) -> Option<Nanos> {
        match *self {
            FaultKind::Hang(lasts) => lasts,
            FaultKind::Slow { lasts, .. }
            | FaultKind::Link { lasts, .. }
            | FaultKind::KvCut { lasts, .. } => Some(lasts),
            _ => None,
        }
    }

    /// The word of the configuration.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::Hang(_) => "hang",
            FaultKind::Slow { .. } => "slow",
            FaultKind::Link { .. } => "link",
            FaultKind::KvCut { .. } => "kv_cut",
            FaultKind::RollingRestart { .. } => "rolling_restart",
            FaultKind::ColdStart => "cold_start",
            FaultKind::Cancellations { .. } => "cancellations",
        }
    }

    /// Whether it makes a replica worse, so that there is something to notice.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(
            self,
            FaultKind::RollingRestart { .. } | FaultKind::ColdStart | FaultKind::Cancellations { .. }
        )
    }

    /// Whether it keeps a replica from serving, so that the router is expected to remove it.
    #[must_use]
    pub fn takes_replica_down(&self) -> bool {
        match self {
            FaultKind::Crash | FaultKind::Hang(_) => true,
            FaultKind::Link { loss, .. } => *loss >= 1.0,
            _ => false,
        }
    }
}

/// How failures are noticed, what is tried again, and how a replica comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Resilience {
    /// Whose values these are where a scenario says nothing else.
    pub router: RouterKind,
    /// Asks each replica now and then whether it serves.
    pub health_check: HealthCheck,
    /// Cuts a replica off after failures in a row.
    pub breaker: Option<Breaker>,
    /// So long after a process ended, who routes knows it.
    pub exit_seen: Option<Nanos>,
    /// A replica whose metrics are so old gets no work.
    pub stale_metrics: Option<Nanos>,
    /// After so long a connection that is not answered has failed.
    pub connect_timeout: Nanos,
    /// What is tried again.
    pub retries: Retries,
    /// How a process starts.
    pub restart: Restart,
}

/// Who routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouterKind {
    /// vllm-router, and SGLang's gateway with the same defaults.
    #[default]
    VllmRouter,
    /// A Kubernetes service: readiness, and endpoints that vanish with the process.
    Kubernetes,
    /// llm-d's endpoint picker, with the detector of stale metrics as a filter, over Kubernetes.
    LlmD,
}

impl RouterKind {
    /// The words of the configuration.
    pub const WORDS: [(&'static str, RouterKind); 3] = [
        ("vllm_router", RouterKind::VllmRouter),
        ("kubernetes", RouterKind::Kubernetes),
        ("llm_d", RouterKind::LlmD),
    ];
}

/// How a process starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restart {
    /// Whether one that ended by itself is started again.
    pub automatic: bool,
    /// A process that hangs is ended after so long.
    pub watchdog: Nanos,
    /// From its end to the start of the next one.
    pub notice: Nanos,
    /// Loading the program.
    pub imports: Nanos,
    /// Reading the weights: their bytes over the bandwidth.
    pub weights: Nanos,
    /// Compilation.
    pub compile: Nanos,
    /// Graph capture.
    pub graph_capture: Nanos,
    /// The first pass.
    pub warm_up: Nanos,
}

impl Restart {
    /// The phases from the order to the first answer, each with its length.
    #[must_use]
    pub fn phases(&self) -> [(Phase, Nanos); 5] {
        [
            (Phase::Imports, self.imports),
            (Phase::Weights, self.weights),
            (Phase::Compile, self.compile),
            (Phase::Graphs, self.graph_capture),
            (Phase::WarmUp, self.warm_up),
        ]
    }
}

/// What the autoscaler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleTarget {
    /// Requests waiting in the engines, a replica.
    Queue,
    /// Share of the KV blocks in use.
    Kv,
    /// Requests in flight, a replica.
    Concurrency,
}

impl ScaleTarget {
    /// The words of the configuration.
    pub const WORDS: [(&'static str, ScaleTarget); 3] =
        [("queue", ScaleTarget::Queue), ("kv", ScaleTarget::Kv), ("concurrency", ScaleTarget::Concurrency)];
}

/// Keeps a measure of load near its target by the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autoscaler {
    /// What it looks at.
    pub target: ScaleTarget,
    /// What that is to be.
    pub value: f64,
    /// Fewest replicas.
    pub min: u32,
    /// Most replicas.
    pub max: u32,
    /// How often it looks.
    pub interval: Nanos,
    /// From its order until a machine is there; then the replica starts.
    pub provisioning: Nanos,
    /// It takes no replica away so soon after it changed their number.
    pub cool_down: Nanos,
    /// What has not ended so long after a replica was to go is lost.
    pub drain: Nanos,
}
