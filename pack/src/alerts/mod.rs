//! The alert rules: one list, from which the Prometheus rules are written and which [`fired`] evaluates over a run's
//! timeline and records, so that a simulated run and a scraped one raise the same alerts.
//!
//! The rules tell causes apart: what a rule of one cause holds against is excluded by the guards of the others. A
//! fleet that has lost a replica is expected to queue, so queue and KV rules hold only while every replica serves.

pub mod client_metrics;
mod evaluate;
mod names;
mod promql;
mod scrapes;
#[cfg(test)]
mod tests;

pub use evaluate::{Fired, fired};
pub(crate) use names::Names;
pub use promql::{duration, expression};
pub use scrapes::Observed;
pub(crate) use scrapes::Scrapes;

use crate::time::Nanos;
use serde::Serialize;

/// What is behind an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// More is offered than the replicas can compute.
    QueueSaturation,
    /// The KV cache is full before the GPU is.
    KvPressure,
    /// A replica or its GPU is gone, or answers its scrapes and serves nothing.
    ReplicaFailure,
    /// The way to or between replicas.
    Network,
    /// The clients themselves.
    Client,
}

impl Cause {
    /// All, in the order of the runbook.
    pub const ALL: [Cause; 5] =
        [Cause::QueueSaturation, Cause::KvPressure, Cause::ReplicaFailure, Cause::Network, Cause::Client];

    /// The value of the rules' label `cause`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Cause::QueueSaturation => "queue_saturation",
            Cause::KvPressure => "kv_pressure",
            Cause::ReplicaFailure => "replica_failure",
            Cause::Network => "network",
            Cause::Client => "client",
        }
    }
}

/// How soon somebody must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Now.
    Critical,
    /// In working hours.
    Warning,
}

impl Severity {
    /// The value of the rules' label `severity`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
        }
    }
}

/// What must hold for an alert. [`expression`] writes it as PromQL, [`fired`] evaluates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    QueueSaturated,
    KvPressure,
    ReplicaDown,
    ReplicaStuck,
    ReplicaSlow,
    GpuError,
    NetworkSlow,
    ConnectionsFail,
    KvTransferFails,
    ClientsGiveUp,
}

/// An alert rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name, which never changes.
    pub name: &'static str,
    /// What is behind it.
    pub cause: Cause,
    /// How soon somebody must look.
    pub severity: Severity,
    /// What it says, in a sentence.
    pub summary: &'static str,
    /// Whether it fires for each replica by itself; otherwise for the fleet.
    pub by_replica: bool,
    /// Intervals for which its condition must hold before it fires.
    pub hold_intervals: u32,
    condition: Condition,
}

impl Alert {
    /// Its section in the runbook.
    #[must_use]
    pub fn runbook(&self) -> String {
        format!("docs/runbook.md#{}", self.name.to_lowercase())
    }
}

/// Every replica's share of KV blocks in use from which on the cache counts as full.
pub const KV_FULL_SHARE: f64 = 0.9;
/// Tokens a second of a running request, over what the other replicas give one, below which a replica counts as slow ...
pub const REPLICA_SLOW_SHARE: f64 = 0.5;
/// ... unless it gives more than so many times the fleet's mean of tokens: then its batch is large, and it is not slow.
pub const REPLICA_SLOW_TOKENS: f64 = 1.1;
/// The client's mean TTFT over the server's own from which on the way between them counts as slow, in seconds.
pub const NETWORK_SLOW_S: f64 = 0.1;
/// The share of tries that find no connection or lose it from which on connections count as failing.
pub const CONNECTIONS_FAIL_SHARE: f64 = 0.02;
/// The share of attempts that their clients cancel from which on clients count as giving up.
pub const CLIENTS_GIVE_UP_SHARE: f64 = 0.2;

/// The rules.
pub const ALERTS: [Alert; 10] = [
    Alert {
        name: "QueueSaturated",
        cause: Cause::QueueSaturation,
        severity: Severity::Warning,
        summary: "requests wait without a break although KV memory is free and every replica serves",
        by_replica: true,
        hold_intervals: 12,
        condition: Condition::QueueSaturated,
    },
    Alert {
        name: "KvPressure",
        cause: Cause::KvPressure,
        severity: Severity::Warning,
        summary: "the KV cache is full, and requests wait for blocks or lose theirs",
        by_replica: true,
        hold_intervals: 6,
        condition: Condition::KvPressure,
    },
    Alert {
        name: "ReplicaDown",
        cause: Cause::ReplicaFailure,
        severity: Severity::Critical,
        summary: "the replica does not answer its scrapes",
        by_replica: true,
        hold_intervals: 2,
        condition: Condition::ReplicaDown,
    },
    Alert {
        name: "ReplicaStuck",
        cause: Cause::ReplicaFailure,
        severity: Severity::Critical,
        summary: "the replica is up and has requests, and generates no token",
        by_replica: true,
        hold_intervals: 3,
        condition: Condition::ReplicaStuck,
    },
    Alert {
        name: "ReplicaSlow",
        cause: Cause::ReplicaFailure,
        severity: Severity::Warning,
        summary: "the replica serves, and its requests get far fewer tokens a second than those of the others",
        by_replica: true,
        hold_intervals: 6,
        condition: Condition::ReplicaSlow,
    },
    Alert {
        name: "GpuError",
        cause: Cause::ReplicaFailure,
        severity: Severity::Critical,
        summary: "the driver reported an error of the GPU (XID)",
        by_replica: false,
        hold_intervals: 0,
        condition: Condition::GpuError,
    },
    Alert {
        name: "NetworkSlow",
        cause: Cause::Network,
        severity: Severity::Warning,
        summary: "first tokens reach the client much later than they leave the server",
        by_replica: true,
        hold_intervals: 3,
        condition: Condition::NetworkSlow,
    },
    Alert {
        name: "ConnectionsFail",
        cause: Cause::Network,
        severity: Severity::Critical,
        summary: "connections are refused or break although every replica is up and serves",
        by_replica: false,
        hold_intervals: 2,
        condition: Condition::ConnectionsFail,
    },
    Alert {
        name: "KvTransferFails",
        cause: Cause::Network,
        severity: Severity::Critical,
        summary: "transfers of KV blocks between prefill and decode replicas fail",
        by_replica: true,
        hold_intervals: 0,
        condition: Condition::KvTransferFails,
    },
    Alert {
        name: "ClientsGiveUp",
        cause: Cause::Client,
        severity: Severity::Warning,
        summary: "clients cancel an unusual share of their requests",
        by_replica: false,
        hold_intervals: 2,
        condition: Condition::ClientsGiveUp,
    },
];

/// Whose metrics the rules read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// vLLM's names.
    Vllm,
    /// SGLang's names.
    Sglang,
}

/// How often targets are scraped and rules evaluated; every other duration of the rules is a multiple of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two scrapes, and between two evaluations.
    pub interval: Nanos,
}

impl Default for Timing {
    /// Five seconds.
    fn default() -> Self {
        Timing { interval: Nanos(5_000_000_000) }
    }
}

/// Of a window: a fraction of an interval more than whole ones, so that no scrape lies on its edge, where versions of
/// Prometheus differ.
const WINDOW_TENTHS: u64 = 44;
/// Of the window in which every replica must have been up for a fleet to count as whole.
const WHOLE_TENTHS: u64 = 244;

impl Timing {
    /// The window that rates and means are taken over: 4.4 intervals, five scrapes.
    #[must_use]
    pub fn window(self) -> Nanos {
        self.tenths(WINDOW_TENTHS)
    }

    /// How long every replica must have been up for the fleet to count as whole: 24.4 intervals.
    #[must_use]
    pub fn whole(self) -> Nanos {
        self.tenths(WHOLE_TENTHS)
    }

    /// How long an alert's condition must hold.
    #[must_use]
    pub fn hold(self, alert: &Alert) -> Nanos {
        Nanos(self.interval.0.saturating_mul(u64::from(alert.hold_intervals)))
    }

    fn tenths(self, tenths: u64) -> Nanos {
        Nanos(self.interval.0.saturating_mul(tenths) / 10)
    }
}
