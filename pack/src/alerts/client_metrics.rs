//! The metrics that a client exports of its own attempts: what no server can see. `scaleproof live` serves them under
//! these names, and rules and dashboard read them.
//!
//! Labels are bounded: `class` is a class of the manifest, `replica` the fleet's number of it, `result` one of the six
//! outcomes, `kind` one of [`CONNECTION_FAILURES`]. A request id is never a label.

/// What Prometheus calls the kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Exposed as `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// A metric of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientMetric {
    /// Its name, without the suffixes of a histogram.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// The values of the label `kind`.
pub const CONNECTION_FAILURES: [&str; 3] = ["refused", "reset", "timeout"];

/// Attempts by how they ended: counted once, at their end.
pub const ATTEMPTS: &str = "scaleproof_attempts_total";
/// Requests put on the wire, retries included.
pub const TRIES: &str = "scaleproof_tries_total";
/// Tries that found no connection, or lost it before the answer was whole.
pub const CONNECTION_FAILED: &str = "scaleproof_connection_failures_total";
/// From the sending of a try to the first token it brought, counted when that arrives.
pub const TRY_TTFT: &str = "scaleproof_try_ttft_seconds";

/// All of them.
pub const CLIENT_METRICS: [ClientMetric; 16] = [
    metric(ATTEMPTS, Kind::Counter, &["class", "result"], "Attempts, by how they ended."),
    metric(TRIES, Kind::Counter, &["replica"], "Requests put on the wire, retries included."),
    metric(
        CONNECTION_FAILED,
        Kind::Counter,
        &["replica", "kind"],
        "Tries that found no connection, or lost it before the answer was whole.",
    ),
    metric(
        TRY_TTFT,
        Kind::Histogram,
        &["replica"],
        "From the sending of a try to the first token it brought.",
    ),
    metric("scaleproof_retries_total", Kind::Counter, &["class"], "Tries after a failed one."),
    metric(
        "scaleproof_disconnects_total",
        Kind::Counter,
        &["class"],
        "Connections that the client closed before the answer was whole: cancelled or timed out.",
    ),
    metric(
        "scaleproof_slo_passing_total",
        Kind::Counter,
        &["class"],
        "Successes inside both cutoffs of their class.",
    ),
    metric("scaleproof_input_tokens_total", Kind::Counter, &["class"], "Prompt tokens sent."),
    metric("scaleproof_output_tokens_total", Kind::Counter, &["class"], "Output tokens received."),
    metric(
        "scaleproof_ttft_seconds",
        Kind::Histogram,
        &["class"],
        "Time to first token, from the first sending.",
    ),
    metric("scaleproof_tpot_seconds", Kind::Histogram, &["class"], "Time per output token after the first."),
    metric("scaleproof_itl_seconds", Kind::Histogram, &["class"], "Gap between two chunks with tokens."),
    metric("scaleproof_e2e_seconds", Kind::Histogram, &["class"], "From sending to the last token."),
    metric(
        "scaleproof_in_flight",
        Kind::Gauge,
        &["replica"],
        "Attempts in flight, by the client's own count.",
    ),
    metric("scaleproof_router_choices_total", Kind::Counter, &["replica"], "Choices of the client's router."),
    metric("scaleproof_send_lag_seconds", Kind::Histogram, &[], "Sent minus scheduled."),
];

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> ClientMetric {
    ClientMetric { name, kind, labels, help }
}

impl ClientMetric {
    /// The names of its series.
    pub fn series(&self) -> impl Iterator<Item = String> {
        let suffixes: &[&str] = match self.kind {
            Kind::Counter | Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_sum", "_count"],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.name))
    }
}
