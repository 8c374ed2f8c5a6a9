//! What a load generator asks of itself before anybody believes its numbers. docs/live.md has each check with its reason.

use crate::driver::Status;
use crate::scrape::Counters;
use scaleproof_pack::percentile;
use scaleproof_pack::record::{Outcome, Record, TokensFrom};
use scaleproof_pack::report::Check;
use scaleproof_pack::time::Nanos;

/// The most that each check lets pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// 99th percentile of sent minus scheduled.
    pub send_lag_p99_ms: f64,
    /// 99th percentile of how late a timer of the event loop is.
    pub event_loop_lag_p99_ms: f64,
    /// CPU time over the time of the event loop's threads.
    pub cpu_share: f64,
    /// Relative gap between the requests in flight and what the records imply.
    pub littles_law_gap: f64,
    /// Relative gap between tokens counted by the server and tokens scheduled.
    pub token_gap: f64,
    /// Prefix hits per token looked up, on a cold run.
    pub cold_hit_share: f64,
    /// How far the client's mean TTFT is above the server's, as a share of the client's.
    pub ttft_above_server: f64,
}

/// A mean TTFT less than this above the server's is not.
const TTFT_ABOVE_SERVER_MIN_MS: f64 = 10.0;
/// Where the server counted more or fewer first tokens than the client by more than this share, they are not of this run.
const TTFT_COUNT_GAP_MAX: f64 = 0.05;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            send_lag_p99_ms: 5.0,
            event_loop_lag_p99_ms: 25.0,
            cpu_share: 0.7,
            littles_law_gap: 0.1,
            token_gap: 0.01,
            cold_hit_share: 0.01,
            ttft_above_server: 0.2,
        }
    }
}

/// What is counted from the records of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    lags_ns: Vec<u64>,
    first_tokens: u64,
    ttft_ns: u128,
    in_flight_ns: u128,
    prompt: Tokens,
    output: Tokens,
}

/// Tokens as counted by the server and as scheduled.
#[derive(Debug, Default)]
struct Tokens {
    counted: u64,
    scheduled: u64,
}

impl Tokens {
    fn add(&mut self, counted: u32, scheduled: u32) {
        self.counted += u64::from(counted);
        self.scheduled += u64::from(scheduled);
    }

    fn gap(&self) -> Option<f64> {
        let difference = self.counted.abs_diff(self.scheduled);
        (self.scheduled > 0).then(|| difference as f64 / self.scheduled as f64)
    }
}

impl Tally {
    pub(crate) fn push(&mut self, record: &Record) {
        self.in_flight_ns += u128::from(record.e2e().0);
        if let Some(ttft) = record.ttft() {
            self.first_tokens += 1;
            self.ttft_ns += u128::from(ttft.0);
        }
        if !record.warmup {
            self.lags_ns.push(record.lag().0);
        }
        let Some(wire) = record.wire.as_ref().filter(|_| record.outcome == Outcome::Ok) else { return };
        if let Some(prompt) = wire.usage_input_tokens {
            self.prompt.add(prompt, record.input_tokens);
        }
        if wire.tokens_from != TokensFrom::Chunks {
            self.output.add(record.output_tokens, record.requested_tokens);
        }
    }

    /// How far the mean TTFT is above the servers' own, as a share; None where they did not count the same requests.
    fn ttft_above_server(&self, servers: &Counters) -> Option<f64> {
        let counted = servers.ttft_count as f64;
        if self.first_tokens == 0 || (counted / self.first_tokens as f64 - 1.0).abs() > TTFT_COUNT_GAP_MAX {
            return None;
        }
        let mean_ms = self.ttft_ns as f64 / self.first_tokens as f64 / 1e6;
        let above_ms = mean_ms - servers.ttft_mean_ms()?;
        Some(if above_ms < TTFT_ABOVE_SERVER_MIN_MS { 0.0 } else { above_ms / mean_ms })
    }

    /// Requests in flight by the driver's count against the sum of their times; a gap of less than one request says
    /// nothing.
    fn littles_law_gap(&self, status: &Status) -> Option<f64> {
        let implied = self.in_flight_ns as f64 / (status.now.0 as f64).max(1.0);
        let difference = (status.mean_in_flight - implied).abs();
        let larger = status.mean_in_flight.max(implied);
        (larger > 0.0).then(|| if difference < 1.0 { 0.0 } else { difference / larger })
    }
}

/// What is measured beside the records.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// How late the event loop's timers were.
    pub loop_lags_ns: Vec<u64>,
    pub cpu_share: Option<f64>,
    /// Whether answers had a forced length.
    pub forced_length: bool,
    /// Whether prompts share nothing.
    pub cold: bool,
    /// Growth of the targets' own counters.
    pub servers: Counters,
}

/// All checks of a run.
pub(crate) fn checks(limits: &Limits, mut tally: Tally, status: &Status, mut around: Around) -> Vec<Check> {
    let littles_law = tally.littles_law_gap(status);
    let ttft_above = tally.ttft_above_server(&around.servers);
    let hit_share = around.servers.prefix_hit_share().filter(|_| around.cold);
    let output_gap = tally.output.gap().filter(|_| around.forced_length);
    vec![
        Check::at_most("send_lag_p99_ms", p99_ms(&mut tally.lags_ns), limits.send_lag_p99_ms),
        Check::at_most("dropped_arrivals", Some(status.dropped as f64), 0.0),
        Check::at_most(
            "event_loop_lag_p99_ms",
            p99_ms(&mut around.loop_lags_ns),
            limits.event_loop_lag_p99_ms,
        ),
        Check::at_most("cpu_share", around.cpu_share, limits.cpu_share),
        Check::at_most("littles_law_gap", littles_law, limits.littles_law_gap),
        Check::at_most("prompt_token_gap", tally.prompt.gap(), limits.token_gap),
        Check::at_most("output_token_gap", output_gap, limits.token_gap),
        Check::at_most("cold_hit_share", hit_share, limits.cold_hit_share),
        Check::at_most("ttft_above_server", ttft_above, limits.ttft_above_server),
    ]
}

fn p99_ms(values_ns: &mut [u64]) -> Option<f64> {
    if values_ns.is_empty() {
        return None;
    }
    let rank = percentile::rank(values_ns.len(), 99);
    let (_, value, _) = values_ns.select_nth_unstable(rank - 1);
    Some(Nanos(*value).millis())
}
