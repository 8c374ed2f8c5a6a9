//! requests.csv: a row a measured attempt. Seven leading columns that other tools share, then our own, from
//! which a record comes back to the nanosecond.
//!
//! Warm-up attempts are left out: a reader that knows only the seven columns must count what the report counts.
//! A failed attempt has 0 in the numeric ones of the seven; our own columns are empty where there is no value.

mod read;
mod write;

pub use read::{ForeignRow, Reader, RequestsCsvError, Row};
pub use write::Writer;

/// The leading columns, the same for every tool.
pub(crate) const SHARED: [&str; 7] =
    ["request_id", "class", "ttft_ms", "tpot_ms", "e2e_ms", "output_tokens", "status"];

/// Our own columns. `received_tokens` is what the client got, also of failed attempts; times are seconds since
/// the run began.
const OWN: [&str; 11] = [
    "scheduled_s",
    "sent_s",
    "first_token_s",
    "ended_s",
    "input_tokens",
    "cached_tokens",
    "requested_tokens",
    "received_tokens",
    "replica",
    "preemptions",
    "reason",
];

/// Columns that only a live run fills, but for `retries`. Times are milliseconds since sending; gaps are those between
/// chunks that brought tokens.
const WIRE: [&str; 11] = [
    "retries",
    "headers_ms",
    "first_byte_ms",
    "done_ms",
    "http_status",
    "tokens_from",
    "usage_input_tokens",
    "itl_p50_ms",
    "itl_p99_ms",
    "zero_gap_share",
    "error",
];

/// Before the number of a request in `request_id`.
const ID_PREFIX: &str = "r-";

#[cfg(test)]
mod tests;
