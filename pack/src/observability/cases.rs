//! Runs in which one thing goes wrong, in whole intervals, for the rules' unit tests.

use crate::alerts::{ALERTS, Fired, Observed, Timing};
use crate::record::{Outcome, Record};
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use std::ops::Range;

/// Scrapes of a case.
const SCRAPES: u64 = 90;
/// While what goes wrong is wrong.
const TROUBLE: Range<u64> = 20..44;
const REPLICAS: u32 = 2;
/// Attempts an interval and replica.
const ATTEMPTS: u64 = 10;
/// What the servers take for a first token.
const TTFT: Nanos = Nanos(200_000_000);

/// A run, and what else Prometheus would have scraped.
pub(super) struct Case {
    pub name: &'static str,
    pub rows: Vec<TimelineRow>,
    pub records: Vec<Record>,
    pub connection_failures: Vec<Nanos>,
    /// A series that a run does not have, and the alert that it raises.
    pub beside: Option<Beside>,
}

/// The series of a signal that no run has: 0, and 1 from the trouble's beginning on.
#[derive(Clone, Copy)]
pub(super) enum Beside {
    GpuErrors,
    FailedTransfers,
}

impl Case {
    pub fn observed(&self) -> Observed<'_> {
        Observed {
            rows: &self.rows,
            records: &self.records,
            connection_failures: self.connection_failures.clone(),
            retired: Vec::new(),
        }
    }
}

/// All cases: a healthy fleet, then one for each alert.
pub(super) fn cases(timing: Timing) -> Vec<Case> {
    let run = Run { timing };
    let healthy = || run.case("a healthy fleet", |_, row| Some(row), |_, record| record);
    let mut broken = run.case("connections break while every replica serves", |_, row| Some(row), |_, r| r);
    let in_trouble = TROUBLE.start * ATTEMPTS..TROUBLE.end * ATTEMPTS;
    broken.connection_failures = in_trouble.map(|attempt| run.at(attempt, ATTEMPTS)).collect();
    vec![
        healthy(),
        run.case("more is offered than the fleet computes", queue(300), |_, record| record),
        run.case("the KV cache is full", queue(980), |_, record| record),
        run.case("preemptions while the KV cache is full", preemptions, |_, record| record),
        run.case("a replica dies, and is back later", death, lost),
        run.case("a replica hangs", hang, |_, record| record),
        run.case("a replica is slow, and requests wait for it", slow_engine, |_, record| record),
        run.case("a replica has four times the requests of the other", busy, |_, record| record),
        run.case("the way to a replica is slow", |_, row| Some(row), slow),
        broken,
        run.case("clients cancel", |_, row| Some(row), cancelled),
        Case { name: "a GPU reports an error", beside: Some(Beside::GpuErrors), ..healthy() },
        Case { name: "a KV transfer fails", beside: Some(Beside::FailedTransfers), ..healthy() },
    ]
}

impl Beside {
    /// Of each scrape.
    pub fn values(self) -> Vec<f64> {
        (0..SCRAPES).map(|scrape| if scrape < TROUBLE.start { 0.0 } else { 1.0 }).collect()
    }

    /// What it raises: at once, until the rise has left the window.
    pub fn fires(self, timing: Timing) -> Fired {
        let (name, window, replica) = match self {
            Beside::GpuErrors => ("GpuError", timing.whole(), None),
            Beside::FailedTransfers => ("KvTransferFails", timing.window(), Some(1)),
        };
        let alert = ALERTS.iter().find(|alert| alert.name == name).expect("a rule of the list");
        // The scrape before the rise must be in the window, too.
        let scrapes = window.0 / timing.interval.0.max(1);
        let at = |scrape: u64| Nanos(timing.interval.0 * scrape);
        Fired {
            alert: alert.name,
            cause: alert.cause,
            at: at(TROUBLE.start),
            cleared_at: Some(at(TROUBLE.start + scrapes)),
            replica,
        }
    }
}

struct Run {
    timing: Timing,
}

impl Run {
    /// `part` of `parts` of an interval each.
    fn at(&self, part: u64, parts: u64) -> Nanos {
        Nanos((u128::from(self.timing.interval.0) * u128::from(part) / u128::from(parts)) as u64)
    }

    fn case(
        &self,
        name: &'static str,
        row: impl Fn(u64, TimelineRow) -> Option<TimelineRow>,
        record: impl Fn(u64, Record) -> Record,
    ) -> Case {
        let healthy = |scrape: u64, replica| TimelineRow {
            at: self.at(scrape, 1),
            replica,
            waiting: u32::from(scrape.is_multiple_of(2)),
            running: 8,
            kv_blocks_used: 300,
            kv_blocks_total: 1000,
            generation_tokens: 500 * scrape,
            ttft_count: ATTEMPTS * scrape,
            ttft_sum: Nanos(TTFT.0 * ATTEMPTS * scrape),
            ..TimelineRow::default()
        };
        let pairs = (0..SCRAPES).flat_map(|scrape| (0..REPLICAS).map(move |replica| (scrape, replica)));
        let records = (0..(SCRAPES - 1) * ATTEMPTS * u64::from(REPLICAS)).map(|id| {
            let turn = id / u64::from(REPLICAS);
            record(turn / ATTEMPTS, self.record(id, self.at(turn, ATTEMPTS)))
        });
        Case {
            name,
            rows: pairs.filter_map(|(scrape, replica)| row(scrape, healthy(scrape, replica))).collect(),
            records: records.collect(),
            connection_failures: Vec::new(),
            beside: None,
        }
    }

    fn record(&self, id: u64, sent: Nanos) -> Record {
        Record {
            id,
            class: 0,
            warmup: false,
            scheduled: sent,
            sent,
            first_token: Some(sent + TTFT),
            ended: sent + Nanos(self.timing.interval.0 / 2),
            input_tokens: 100,
            cached_tokens: 0,
            output_tokens: 50,
            requested_tokens: 50,
            outcome: Outcome::Ok,
            replica: Some((id % u64::from(REPLICAS)) as u32),
            preemptions: 0,
            retries: 0,
            computed_tokens: None,
            reason: "",
            wire: None,
        }
    }
}

fn queue(kv_blocks_used: u32) -> impl Fn(u64, TimelineRow) -> Option<TimelineRow> {
    move |scrape, row| {
        let full = TimelineRow { waiting: 40, kv_blocks_used, ..row };
        Some(if TROUBLE.contains(&scrape) { full } else { row })
    }
}

fn preemptions(scrape: u64, row: TimelineRow) -> Option<TimelineRow> {
    let preemptions = scrape.clamp(TROUBLE.start, TROUBLE.end) - TROUBLE.start;
    let kv_blocks_used = if TROUBLE.contains(&scrape) { 990 } else { 300 };
    Some(TimelineRow { waiting: 0, kv_blocks_used, preemptions, ..row })
}

/// Replica 1 dies; the other queues until well after it is back, with its counters at zero.
fn death(scrape: u64, row: TimelineRow) -> Option<TimelineRow> {
    match row.replica {
        1 if TROUBLE.contains(&scrape) => None,
        1 if scrape >= TROUBLE.end => {
            let since = scrape - TROUBLE.end;
            let (ttft_count, ttft_sum) = (ATTEMPTS * since, Nanos(TTFT.0 * ATTEMPTS * since));
            Some(TimelineRow { generation_tokens: 500 * since, ttft_count, ttft_sum, ..row })
        }
        0 if (TROUBLE.start..TROUBLE.end + 12).contains(&scrape) => Some(TimelineRow { waiting: 60, ..row }),
        _ => Some(row),
    }
}

/// What was sent to the dead replica in the interval before it died is lost.
fn lost(interval: u64, record: Record) -> Record {
    match record.replica {
        Some(1) if interval + 1 == TROUBLE.start => Record { outcome: Outcome::Lost, ..record },
        Some(1) if TROUBLE.contains(&interval) => Record { replica: Some(0), ..record },
        _ => record,
    }
}

fn hang(scrape: u64, row: TimelineRow) -> Option<TimelineRow> {
    let hung = row.replica == 1 && TROUBLE.contains(&scrape);
    let stopped = TimelineRow {
        waiting: 20,
        generation_tokens: 500 * TROUBLE.start,
        ttft_count: ATTEMPTS * TROUBLE.start,
        ttft_sum: Nanos(TTFT.0 * ATTEMPTS * TROUBLE.start),
        ..row
    };
    Some(if hung { stopped } else { row })
}

/// Replica 1 gives a fifth of its tokens.
fn slow_engine(scrape: u64, row: TimelineRow) -> Option<TimelineRow> {
    if row.replica != 1 {
        return Some(row);
    }
    let slow = scrape.clamp(TROUBLE.start, TROUBLE.end) - TROUBLE.start;
    let waiting = if TROUBLE.contains(&scrape) { 40 } else { row.waiting };
    Some(TimelineRow { waiting, generation_tokens: row.generation_tokens - 400 * slow, ..row })
}

/// Replica 1 has a large batch: each of its requests gets fewer tokens, all together more.
fn busy(scrape: u64, row: TimelineRow) -> Option<TimelineRow> {
    match row.replica {
        1 => Some(TimelineRow { running: 32, generation_tokens: 800 * scrape, ..row }),
        _ => Some(row),
    }
}

fn slow(interval: u64, record: Record) -> Record {
    let slow = record.replica == Some(1) && TROUBLE.contains(&interval);
    let later = record.first_token.map(|at| at + Nanos(300_000_000));
    if slow { Record { first_token: later, ..record } } else { record }
}

fn cancelled(interval: u64, record: Record) -> Record {
    let outcome = if TROUBLE.contains(&interval) { Outcome::Cancelled } else { record.outcome };
    Record { outcome, ..record }
}
