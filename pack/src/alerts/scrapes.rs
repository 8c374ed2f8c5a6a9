//! A run as Prometheus would have scraped it: every target once an interval.

use super::Timing;
use crate::record::{Outcome, Record};
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use std::collections::{BTreeMap, BTreeSet};

/// Evaluations of a run at most: a year of seconds.
const SCRAPES_MAX: u64 = 31_536_000;

/// What there is to evaluate.
#[derive(Clone, Debug, Default)]
pub struct Observed<'a> {
    /// The timeline, in order of time. A replica that is dead has no row.
    pub rows: &'a [TimelineRow],
    /// All attempts, warm-up included, in any order.
    pub records: &'a [Record],
    /// When tries found no connection or lost it, in any order.
    pub connection_failures: Vec<Nanos>,
    /// Replicas taken out on purpose, and when: no target any more, until they have a row again.
    pub retired: Vec<(u32, Nanos)>,
}

impl<'a> Observed<'a> {
    /// Of a run whose failed tries are known by their attempts alone: those that were lost with their replica.
    #[must_use]
    pub fn of(rows: &'a [TimelineRow], records: &'a [Record]) -> Observed<'a> {
        let lost = records.iter().filter(|record| record.outcome == Outcome::Lost);
        Observed { rows, records, connection_failures: lost.map(|r| r.ended).collect(), retired: Vec::new() }
    }
}

/// The client's counters at one scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientTotals {
    pub tries: u64,
    pub connection_failures: u64,
    pub ended: u64,
    pub cancelled: u64,
    /// By replica: first tokens, and the time they took, in seconds.
    pub ttft: BTreeMap<u32, (u64, f64)>,
}

/// All scrapes.
pub(crate) struct Scrapes {
    /// By scrape, then by replica: its row if it answered.
    rows: Vec<BTreeMap<u32, TimelineRow>>,
    /// By scrape: the replicas that Prometheus knows.
    targets: Vec<BTreeSet<u32>>,
    client: Vec<ClientTotals>,
    interval: Nanos,
}

impl Scrapes {
    /// Scrapes at 0, one interval, two intervals, ... until the timeline's end.
    pub fn of(observed: &Observed<'_>, timing: Timing) -> Scrapes {
        let interval = timing.interval.0.max(1);
        let last = observed.rows.iter().map(|row| row.at.0).max();
        let count = last.map_or(0, |last| (last / interval + 1).min(SCRAPES_MAX)) as usize;
        let mut scrapes = Scrapes {
            rows: vec![BTreeMap::new(); count],
            targets: Vec::with_capacity(count),
            client: Vec::with_capacity(count),
            interval: Nanos(interval),
        };
        scrapes.take_rows(observed.rows);
        scrapes.take_targets(&observed.retired);
        scrapes.take_client(observed);
        scrapes
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn at(&self, scrape: usize) -> Nanos {
        Nanos(self.interval.0 * scrape as u64)
    }

    /// Each scrape sees the latest round of samples until its time.
    fn take_rows(&mut self, rows: &[TimelineRow]) {
        let mut next = 0;
        let mut round: BTreeMap<u32, TimelineRow> = BTreeMap::new();
        let mut round_at = None;
        for scrape in 0..self.rows.len() {
            let now = self.at(scrape);
            while let Some(row) = rows.get(next).filter(|row| row.at <= now) {
                if round_at != Some(row.at) {
                    round.clear();
                    round_at = Some(row.at);
                }
                round.insert(row.replica, *row);
                next += 1;
            }
            self.rows[scrape] = round.clone();
        }
    }

    /// A replica is a target from its first row on, until it is retired.
    fn take_targets(&mut self, retired: &[(u32, Nanos)]) {
        let mut known = BTreeSet::new();
        let mut gone: Vec<(u32, Nanos)> = retired.to_vec();
        gone.sort_by_key(|&(_, at)| at);
        let mut gone = gone.into_iter().peekable();
        for scrape in 0..self.rows.len() {
            let now = self.at(scrape);
            while let Some((replica, _)) = gone.next_if(|&(_, at)| at <= now) {
                known.remove(&replica);
            }
            known.extend(self.rows[scrape].keys());
            self.targets.push(known.clone());
        }
    }

    fn take_client(&mut self, observed: &Observed<'_>) {
        let mut changes: Vec<(Nanos, Change)> = Vec::with_capacity(3 * observed.records.len());
        for record in observed.records {
            changes.push((record.sent, Change::Tries(1 + u64::from(record.retries))));
            changes.push((record.ended, Change::Ended { cancelled: record.outcome == Outcome::Cancelled }));
            // Of an attempt that was sent again, nobody knows when its last try began.
            if let (Some(at), Some(replica), 0) = (record.first_token, record.replica, record.retries) {
                changes.push((at, Change::FirstToken(replica, at.since(record.sent))));
            }
        }
        changes.extend(observed.connection_failures.iter().map(|&at| (at, Change::ConnectionFailed)));
        changes.sort_by_key(|&(at, _)| at);
        let mut changes = changes.into_iter().peekable();
        let mut totals = ClientTotals::default();
        for scrape in 0..self.rows.len() {
            let now = self.at(scrape);
            while let Some((_, change)) = changes.next_if(|&(at, _)| at <= now) {
                totals.take(change);
            }
            self.client.push(totals.clone());
        }
    }

    /// A replica's row, if it answered this scrape.
    pub fn row(&self, scrape: usize, replica: u32) -> Option<&TimelineRow> {
        self.rows[scrape].get(&replica)
    }

    /// The replicas that Prometheus knows at a scrape.
    pub fn targets(&self, scrape: usize) -> &BTreeSet<u32> {
        &self.targets[scrape]
    }

    /// The scrapes in the window that ends with this one.
    pub fn window(&self, scrape: usize, length: Nanos) -> std::ops::RangeInclusive<usize> {
        scrape.saturating_sub((length.0 / self.interval.0) as usize)..=scrape
    }

    /// The client's counters at a scrape.
    pub fn client_at(&self, scrape: usize) -> &ClientTotals {
        &self.client[scrape]
    }

    /// The client's counters at the first and the last scrape of a window.
    pub fn client(&self, window: &std::ops::RangeInclusive<usize>) -> (&ClientTotals, &ClientTotals) {
        (&self.client[*window.start()], &self.client[*window.end()])
    }
}

enum Change {
    Tries(u64),
    ConnectionFailed,
    Ended { cancelled: bool },
    FirstToken(u32, Nanos),
}

impl ClientTotals {
    fn take(&mut self, change: Change) {
        match change {
            Change::Tries(tries) => self.tries += tries,
            Change::ConnectionFailed => self.connection_failures += 1,
            Change::Ended { cancelled } => {
                self.ended += 1;
                self.cancelled += u64::from(cancelled);
            }
            Change::FirstToken(replica, took) => {
                let (count, sum_s) = self.ttft.entry(replica).or_default();
                *count += 1;
                *sum_s += took.seconds();
            }
        }
    }
}
