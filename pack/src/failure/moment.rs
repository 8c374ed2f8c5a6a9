//! What was seen to happen to a fleet beside its requests: the moments that a failure report is made of.

use crate::time::Nanos;

/// Something that happened, or was seen, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Nanos,
    /// To which replica; None for the whole fleet.
    pub replica: Option<u32>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The fault began.
    Injected,
    /// The fault ended by itself.
    Cleared,
    /// The replica's process ended.
    Stopped,
    /// Who routes, or who watches over the replicas, saw the first sign of the fault.
    Detected(Sign),
    /// The routers send it no new work from here on.
    Removed(Sign),
    /// They do again.
    Readmitted,
    /// A phase of the replica's start began.
    Starting(Phase),
    /// It can serve, and nobody knows yet.
    Ready,
    /// The autoscaler ordered it.
    Ordered,
    /// The autoscaler, or an operator, takes it out of service.
    Drained,
}

impl What {
    /// In words.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            What::Injected => "the fault begins".to_owned(),
            What::Cleared => "the fault ends".to_owned(),
            What::Stopped => "its process ends".to_owned(),
            What::Detected(sign) => format!("detected: {}", sign.words()),
            What::Removed(sign) => format!("removed from the router: {}", sign.words()),
            What::Readmitted => "it takes work again".to_owned(),
            What::Starting(phase) => format!("start: {}", phase.words()),
            What::Ready => "it can serve".to_owned(),
            What::Ordered => "it is ordered".to_owned(),
            What::Drained => "it is drained".to_owned(),
        }
    }
}

/// How a failure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Open connections were reset.
    Reset,
    /// A connection could not be opened.
    Connection,
    /// The server answered with an error.
    ServerError,
    /// A health check failed.
    HealthCheck,
    /// The platform saw the process end.
    Exit,
    /// Its metrics were too old.
    StaleMetrics,
    /// Somebody took it out on purpose.
    Drain,
}

impl Sign {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Sign::Reset => "connections were reset",
            Sign::Connection => "connections failed",
            Sign::ServerError => "the server answered with errors",
            Sign::HealthCheck => "health checks failed",
            Sign::Exit => "its process ended",
            Sign::StaleMetrics => "its metrics were stale",
            Sign::Drain => "it was drained",
        }
    }
}

/// A phase of a replica's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A machine is found for it.
    Provisioning,
    /// The supervisor has not started it yet.
    Waiting,
    /// The program is loaded.
    Imports,
    /// The weights are read.
    Weights,
    /// The model is compiled.
    Compile,
    /// Graphs are captured.
    Graphs,
    /// A first pass for memory and kernels.
    WarmUp,
}

impl Phase {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Phase::Provisioning => "a machine is provided",
            Phase::Waiting => "it waits to be started",
            Phase::Imports => "imports",
            Phase::Weights => "weights are read",
            Phase::Compile => "compilation",
            Phase::Graphs => "graph capture",
            Phase::WarmUp => "warm-up",
        }
    }
}
