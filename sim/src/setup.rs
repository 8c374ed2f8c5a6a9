//! What a run is given, and what it gives back beside its records.

use crate::faults::FaultPlan;
use crate::front_end::FrontEnd;
use crate::replica::ReplicaTotals;
use crate::step_time::{StepTime, StepTimeError};
use scaleproof_pack::failure::Moment;
use scaleproof_pack::record::Outcome;
use scaleproof_pack::schedule::ScheduleError;
use scaleproof_pack::time::{Nanos, TimeError};
use scaleproof_pack::workload::{Enough, RequestRef};
use scaleproof_policy::{AdmissionPolicy, RouterPolicy};
use std::fmt;

/// Everything a run needs beside its schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// Replicas, all alike.
    pub replicas: u32,
    /// What a step costs.
    pub step_time: StepTime,
    /// What the API server adds.
    pub front_end: FrontEnd,
    /// The API server's limits.
    pub limits: ServerLimits,
    /// Who chooses the replica.
    pub router: RouterPolicy,
    /// Who is let in.
    pub gateway: GatewayConfig,
    /// The router goes by loads that are polled this often; None: by its own count in flight.
    pub poll_interval: Option<Nanos>,
    /// The client's time limit for an answer.
    pub timeout: Option<Nanos>,
    /// The client's time limit for the first token.
    pub ttft_timeout: Option<Nanos>,
    /// The timeline's interval.
    pub sample_interval: Nanos,
    /// When the run may end.
    pub enough: Enough,
    /// What disturbs it; None: nothing, and nobody looks whether something does.
    pub faults: Option<Box<FaultPlan>>,
}

/// Admission at the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// The policy.
    pub admission: AdmissionPolicy,
    /// Loads are polled this often for the policy, if the router has no interval of its own; None: it needs none. The
    /// router still goes by its own count.
    pub poll_interval: Option<Nanos>,
    /// Tokens that an engine computes in a step, for policies that look ahead.
    pub batch_tokens: u32,
    /// Whether an engine's host works beside its GPU (asynchronous scheduling), for the same.
    pub overlapped: bool,
}

impl Default for GatewayConfig {
    /// Everybody is let in.
    fn default() -> GatewayConfig {
        GatewayConfig {
            admission: AdmissionPolicy::None,
            poll_interval: None,
            batch_tokens: 8192,
            overlapped: true,
        }
    }
}

impl RunConfig {
    /// How often the replicas are polled, if somebody needs it.
    pub(crate) fn polls(&self) -> Option<Nanos> {
        self.poll_interval.or(self.gateway.poll_interval)
    }
}

/// What the API server refuses, before a request reaches the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Prompt plus output tokens of a request: more is an error.
    pub max_request_tokens: u32,
    /// Unfinished requests (waiting plus running) of a replica: one more is rejected.
    pub max_queued_requests: Option<u64>,
    /// Prompt tokens of requests without a first token: at or above, a request is rejected.
    pub max_queued_tokens: Option<u64>,
}

/// What a run was, beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// When the last attempt ended.
    pub ended: Nanos,
    /// Attempts, warm-up included.
    pub attempts: u64,
    /// Measured requests taken from the schedule's continuation.
    pub continued: u64,
    /// Events handled.
    pub events: u64,
    /// Totals by replica.
    pub replicas: Vec<ReplicaTotals>,
    /// What happened to the fleet itself, in order of time.
    pub moments: Vec<Moment>,
    /// When tries found no connection to a replica, or lost it, in order of time.
    pub connection_failures: Vec<Nanos>,
    /// Whether the observer stopped it early.
    pub stopped: bool,
}

/// Why a run could not be finished.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// Nothing more can happen, and these requests have not ended.
    Stalled {
        /// How many.
        unfinished: usize,
        /// The first of them.
        first: Vec<RequestRef>,
    },
    /// Virtual time went beyond [`Nanos::MAX_SECONDS`].
    TooLong {
        /// Attempts in flight.
        unfinished: usize,
    },
    /// More timeline rows than an observer may be expected to keep.
    TooManySamples {
        /// How many.
        rows: u64,
        /// When.
        now: Nanos,
    },
    /// The schedule could not be continued.
    Schedule(ScheduleError),
    /// The profile gave something that is no time, or less than its GPU needs.
    StepTime(StepTimeError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Stalled { unfinished, first } => {
                let name = |r: &RequestRef| format!("{}{}", if r.warmup { "warm-up " } else { "" }, r.index);
                let names: Vec<String> = first.iter().map(name).collect();
                write!(
                    f,
                    "stalled: {unfinished} requests can never finish (first: {}); expected every request to end; \
                     check the KV blocks and the batch token budget of the engine",
                    names.join(", ")
                )
            }
            RunError::TooLong { unfinished } => write!(
                f,
                "too long: found {unfinished} requests in flight after {:.0} s of the run's time; expected it to \
                 end before; check the units of the profile's step time and of the client's pauses",
                Nanos::MAX_SECONDS
            ),
            RunError::TooManySamples { rows, now } => write!(
                f,
                "too long for its timeline: found {rows} rows in {:.0} s of the run's time; expected fewer; raise \
                 sample_interval_seconds, or check the units of the profile's step time",
                now.seconds()
            ),
            RunError::Schedule(error) => write!(f, "the schedule cannot be continued: {error}"),
            RunError::StepTime(error) => write!(f, "the profile's step time is unusable: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<StepTimeError> for RunError {
    fn from(error: StepTimeError) -> Self {
        RunError::StepTime(error)
    }
}

impl From<TimeError> for RunError {
    fn from(error: TimeError) -> Self {
        RunError::StepTime(error.into())
    }
}

/// What the API server of a replica counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server {
    /// Requests sent here that have not ended.
    pub unfinished: u64,
    /// Prompt tokens of those without a first token.
    pub tokens_without_answer: u64,
    /// Requests whose first token left.
    pub ttft_count: u64,
    /// From their arrival to it, added up.
    pub ttft_sum: Nanos,
}

impl ServerLimits {
    /// Why the API server does not let a request through.
    #[must_use]
    pub fn refusal(&self, server: &Server, input: u32, output: u32) -> Option<(Outcome, &'static str)> {
        if u64::from(input) + u64::from(output) > u64::from(self.max_request_tokens) {
            return Some((Outcome::Error, "longer than the engine's context or KV pool"));
        }
        let requests_full = self.max_queued_requests.is_some_and(|limit| server.unfinished + 1 > limit);
        let tokens_full = self.max_queued_tokens.is_some_and(|limit| server.tokens_without_answer >= limit);
        (requests_full || tokens_full).then_some((Outcome::Rejected, "queue full"))
    }
}
