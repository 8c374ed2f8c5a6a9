//! One class while its records come in, 24 bytes a success, and its part of the report.

use crate::interval::wilson_95;
use crate::manifest::{Acceptance, Class};
use crate::percentile::nearest_rank;
use crate::record::{Outcome, Record};
use crate::report::{ClassReport, EXPLORATORY_BELOW, Latency, P99_SUCCESSES_MIN};
use crate::requests_csv::ForeignRow;
use crate::time::Nanos;

/// What counts of a success.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Success {
    pub ttft: Nanos,
    /// None for a single token, which passes every TPOT cutoff.
    pub tpot_ms: Option<f64>,
    pub e2e: Nanos,
    /// Sent minus scheduled.
    pub lag: Nanos,
    pub output_tokens: u32,
}

impl Success {
    /// That of a record; None if it did not succeed.
    pub fn of_record(record: &Record) -> Option<Success> {
        (record.outcome == Outcome::Ok).then(|| Success {
            // Without a first token's time the answer came as a whole.
            ttft: record.ttft().unwrap_or(record.e2e()),
            tpot_ms: record.tpot_ms(),
            e2e: record.e2e(),
            lag: record.lag(),
            output_tokens: record.output_tokens,
        })
    }

    /// That of a row without our own columns; None if it did not succeed.
    pub fn of_foreign(row: &ForeignRow) -> Option<Success> {
        (row.outcome == Outcome::Ok).then_some(Success {
            ttft: row.ttft,
            tpot_ms: row.tpot_ms,
            e2e: row.e2e,
            lag: Nanos::ZERO,
            output_tokens: row.output_tokens,
        })
    }

    /// Whether it is inside both cutoffs.
    pub fn in_time(&self, ttft_cutoff_ms: f64, tpot_cutoff_ms: f64) -> bool {
        self.ttft.millis() <= ttft_cutoff_ms && self.tpot_ms.is_none_or(|tpot| tpot <= tpot_cutoff_ms)
    }
}

/// The counts and columns of one class.
#[derive(Debug)]
pub(super) struct ClassTally {
    pub name: String,
    ttft_cutoff_ms: f64,
    tpot_cutoff_ms: f64,
    pub attempted: u64,
    pub passing: u64,
    pub output_tokens: u64,
    ttft_ns: Vec<u64>,
    e2e_ns: Vec<u64>,
    /// Empty as long as every success was sent on schedule, which in a simulation is always.
    lag_ns: Vec<u64>,
    tpot_ms: Vec<f64>,
    /// In picoseconds: a sum of integers does not depend on the order of the records.
    tpot_sum_ps: u128,
}

impl ClassTally {
    pub fn new(class: &Class) -> ClassTally {
        ClassTally {
            name: class.name.clone(),
            ttft_cutoff_ms: class.request_ttft_cutoff_ms,
            tpot_cutoff_ms: class.request_tpot_cutoff_ms,
            attempted: 0,
            passing: 0,
            output_tokens: 0,
            ttft_ns: Vec::new(),
            e2e_ns: Vec::new(),
            lag_ns: Vec::new(),
            tpot_ms: Vec::new(),
            tpot_sum_ps: 0,
        }
    }

    pub fn successful(&self) -> u64 {
        self.ttft_ns.len() as u64
    }

    pub fn success(&mut self, success: Success) {
        if success.lag > Nanos::ZERO || !self.lag_ns.is_empty() {
            self.lag_ns.resize(self.ttft_ns.len(), 0);
            self.lag_ns.push(success.lag.0);
        }
        self.ttft_ns.push(success.ttft.0);
        self.e2e_ns.push(success.e2e.0);
        if let Some(tpot_ms) = success.tpot_ms {
            self.tpot_ms.push(tpot_ms);
            self.tpot_sum_ps = self.tpot_sum_ps.saturating_add((tpot_ms * 1e9).round() as u128);
        }
        self.output_tokens += u64::from(success.output_tokens);
        self.passing += u64::from(success.in_time(self.ttft_cutoff_ms, self.tpot_cutoff_ms));
    }

    /// The class's part of the report; `schedule_known` if every success said when it was scheduled.
    pub fn report(mut self, acceptance: &Acceptance, schedule_known: bool) -> ClassReport {
        let successful = self.successful();
        let attainment = share(self.passing, successful);
        let attainment_ci95 = wilson_95(self.passing, successful);
        let required = acceptance.class_slo_attainment_min;
        let sample_adequate = successful >= acceptance.min_successful_samples_per_class;
        let from_schedule = schedule_known.then(|| self.latency_from_schedule());
        let tpot = &mut self.tpot_ms;
        let tpots = tpot.len() as u64;
        ClassReport {
            attempted_count: self.attempted,
            successful_count: successful,
            passing_count: self.passing,
            request_ttft_cutoff_ms: self.ttft_cutoff_ms,
            request_tpot_cutoff_ms: self.tpot_cutoff_ms,
            attainment,
            attainment_ci95,
            resolved: attainment_ci95.is_some_and(|(low, _)| low >= required),
            attempted_attainment: share(self.passing, self.attempted),
            sample_adequate,
            p99_sample_adequate: successful >= P99_SUCCESSES_MIN,
            exploratory: successful < EXPLORATORY_BELOW,
            class_slo_pass: sample_adequate && attainment.is_some_and(|a| a >= required),
            p50_tpot_ms: nearest_rank(tpot, 50, f64::total_cmp),
            p95_tpot_ms: nearest_rank(tpot, 95, f64::total_cmp),
            p99_tpot_ms: (tpots >= P99_SUCCESSES_MIN)
                .then(|| nearest_rank(tpot, 99, f64::total_cmp))
                .flatten(),
            mean_tpot_ms: (tpots > 0).then(|| self.tpot_sum_ps as f64 / 1e9 / tpots as f64),
            latency: latency(&mut self.ttft_ns, &mut self.e2e_ns),
            from_schedule,
            output_tokens: self.output_tokens,
        }
    }

    /// Latencies from the schedule. Must come before anything that reorders the columns.
    fn latency_from_schedule(&self) -> Latency {
        let shifted = |column: &[u64]| -> Vec<u64> {
            let lags = self.lag_ns.iter().copied().chain(std::iter::repeat(0));
            column.iter().zip(lags).map(|(&value, lag)| value.saturating_add(lag)).collect()
        };
        latency(&mut shifted(&self.ttft_ns), &mut shifted(&self.e2e_ns))
    }
}

fn latency(ttft_ns: &mut [u64], e2e_ns: &mut [u64]) -> Latency {
    let p99 = ttft_ns.len() as u64 >= P99_SUCCESSES_MIN;
    let rank =
        |column: &mut [u64], percent| nearest_rank(column, percent, Ord::cmp).map(|ns| Nanos(ns).millis());
    Latency {
        p50_ttft_ms: rank(ttft_ns, 50),
        p95_ttft_ms: rank(ttft_ns, 95),
        p99_ttft_ms: if p99 { rank(ttft_ns, 99) } else { None },
        mean_ttft_ms: mean_ms(ttft_ns),
        p50_e2e_ms: rank(e2e_ns, 50),
        p95_e2e_ms: rank(e2e_ns, 95),
        p99_e2e_ms: if p99 { rank(e2e_ns, 99) } else { None },
        mean_e2e_ms: mean_ms(e2e_ns),
    }
}

fn mean_ms(column_ns: &[u64]) -> Option<f64> {
    let sum: u128 = column_ns.iter().map(|&ns| u128::from(ns)).sum();
    (!column_ns.is_empty()).then(|| sum as f64 / 1e6 / column_ns.len() as f64)
}

/// part / whole; None of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
