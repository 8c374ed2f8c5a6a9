//! One pack, as far as a comparison looks at it.

use super::metric::{Picker, Quantity, Tally};
use crate::analyze::Success;
use crate::record::Record;
use crate::report::Report;
use crate::requests_csv::{Reader, RequestsCsvError, Row};
use std::fmt;
use std::io::Read;

/// A class with what its attempts are judged by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cutoffs {
    pub name: String,
    ttft_ms: f64,
    tpot_ms: f64,
}

/// An attempt. Latencies in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// Position in the schedule; in a file without our own columns, in the file.
    pub id: u64,
    class: u16,
    pub ok: bool,
    pub passing: bool,
    /// In the order of [`Quantity::ALL`]; NaN where there is none.
    latency_ms: [f64; 3],
    pub output_tokens: u32,
    pub input_tokens: u32,
    pub cached_tokens: u32,
    pub preemptions: u32,
}

/// One pack: its report and its attempts.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) schedule_hash: Option<String>,
    duration_s: f64,
    pub(super) cutoffs: Vec<Cutoffs>,
    /// In the order of their ids.
    pub(super) attempts: Vec<Attempt>,
    /// Whether ids are positions in the schedule.
    pub(super) has_ids: bool,
}

/// Why a pack cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideError {
    /// Something in requests.csv.
    Row(RequestsCsvError),
    /// The two files are not of one run.
    Counts {
        /// Attempts and successes of requests.csv.
        rows: (u64, u64),
        /// The same of slo-report.json.
        report: (u64, u64),
    },
}

impl fmt::Display for SideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SideError::Row(error) => error.fmt(f),
            SideError::Counts { rows, report } => write!(
                f,
                "found {} attempts, {} of them ok; expected {} and {}, as slo-report.json says; take both files from \
                 one run",
                rows.0, rows.1, report.0, report.1
            ),
        }
    }
}

impl std::error::Error for SideError {}

impl Side {
    /// Reads a pack's requests.csv beside its report.
    ///
    /// # Errors
    /// A faulty row, and rows that are not those of the report.
    pub fn read(report: &Report, requests: impl Read) -> Result<Side, SideError> {
        let names: Vec<&str> = report.classes.keys().map(String::as_str).collect();
        let mut side = Side::of_report(report);
        for row in Reader::new(requests, names).map_err(SideError::Row)? {
            side.push(&row.map_err(SideError::Row)?);
        }
        side.checked(report)
    }

    /// The side of records that have just been observed, in any order; warm-up is left out. Classes are numbered by
    /// `classes`, the manifest's order.
    ///
    /// # Errors
    /// Records that are not those of the report.
    pub fn of_records(report: &Report, classes: &[&str], records: &[Record]) -> Result<Side, SideError> {
        let mut side = Side::of_report(report);
        let place = |name: &&str| side.classes().position(|class| class == *name).unwrap_or(0) as u16;
        let places: Vec<u16> = classes.iter().map(place).collect();
        for record in records.iter().filter(|record| !record.warmup) {
            let class = places.get(usize::from(record.class)).copied().unwrap_or(0);
            side.push_record(record, class);
        }
        side.checked(report)
    }

    fn of_report(report: &Report) -> Side {
        let cutoffs = report.classes.iter().map(|(name, class)| Cutoffs {
            name: name.clone(),
            ttft_ms: class.request_ttft_cutoff_ms,
            tpot_ms: class.request_tpot_cutoff_ms,
        });
        Side {
            schedule_hash: report.facts.schedule_hash.clone(),
            duration_s: report.duration_s,
            cutoffs: cutoffs.collect(),
            attempts: Vec::new(),
            has_ids: true,
        }
    }

    /// In order, if it has the attempts of its report.
    fn checked(mut self, report: &Report) -> Result<Side, SideError> {
        self.attempts.sort_by_key(|attempt| attempt.id);
        let ok = self.attempts.iter().filter(|attempt| attempt.ok).count() as u64;
        let rows = (self.attempts.len() as u64, ok);
        let stated = (report.attempted, report.successful);
        if rows == stated { Ok(self) } else { Err(SideError::Counts { rows, report: stated }) }
    }

    /// The sorted latencies of a scope in milliseconds: 0 for all attempts, then the classes by name.
    #[must_use]
    pub fn latencies(&self, quantity: Quantity, scope: usize) -> Vec<f64> {
        let in_scope = |attempt: &&Attempt| scope == 0 || usize::from(attempt.class) + 1 == scope;
        let values =
            self.attempts.iter().filter(in_scope).map(|attempt| attempt.latency_ms[quantity as usize]);
        let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// Attempts and successes of a scope.
    #[must_use]
    pub fn counts(&self, scope: usize) -> (u64, u64) {
        let in_scope = self.attempts.iter().filter(|a| scope == 0 || usize::from(a.class) + 1 == scope);
        in_scope.fold((0, 0), |(all, ok), attempt| (all + 1, ok + u64::from(attempt.ok)))
    }

    /// Every metric: scope after scope (all attempts, then the classes by name), each in the order of [`Metric::all`].
    ///
    /// [`Metric::all`]: super::Metric::all
    #[must_use]
    pub fn metrics(&self) -> Vec<Option<f64>> {
        let positions: Vec<u32> = (0u32..).take(self.attempts.len()).collect();
        Sorted::new(self, &positions).evaluate(&vec![1; positions.len()])
    }

    /// The names of its classes, in order.
    pub(super) fn classes(&self) -> impl Iterator<Item = &str> {
        self.cutoffs.iter().map(|class| class.name.as_str())
    }

    fn push(&mut self, row: &Row) {
        match row {
            Row::Own { record, .. } => self.push_record(record, record.class),
            Row::Foreign(foreign) => {
                self.has_ids = false;
                let attempt = self.attempt(foreign.class, Success::of_foreign(foreign));
                self.attempts.push(attempt);
            }
        }
    }

    fn push_record(&mut self, record: &Record, class: u16) {
        let mut attempt = self.attempt(class, Success::of_record(record));
        attempt.id = record.id;
        attempt.preemptions = record.preemptions;
        if attempt.ok {
            (attempt.input_tokens, attempt.cached_tokens) = (record.input_tokens, record.cached_tokens);
        }
        self.attempts.push(attempt);
    }

    /// What a row of either kind says; its number is its place in the file.
    fn attempt(&self, class: u16, success: Option<Success>) -> Attempt {
        let cutoffs = &self.cutoffs[usize::from(class)];
        Attempt {
            id: self.attempts.len() as u64,
            class,
            ok: success.is_some(),
            passing: success.is_some_and(|success| success.in_time(cutoffs.ttft_ms, cutoffs.tpot_ms)),
            latency_ms: success.map_or([f64::NAN; 3], |success| {
                [success.ttft.millis(), success.tpot_ms.unwrap_or(f64::NAN), success.e2e.millis()]
            }),
            output_tokens: success.map_or(0, |success| success.output_tokens),
            input_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
        }
    }
}

/// A latency of one attempt.
#[derive(Clone, Copy, Debug)]
struct Entry {
    value_ms: f64,
    position: u32,
    class: u16,
}

/// A side's attempts at their positions among the weights, with its latencies in order.
#[derive(Debug)]
pub(super) struct Sorted<'a> {
    side: &'a Side,
    positions: &'a [u32],
    columns: [Vec<Entry>; 3],
}

impl<'a> Sorted<'a> {
    /// `positions` holds each attempt's place among the weights.
    pub fn new(side: &'a Side, positions: &'a [u32]) -> Sorted<'a> {
        let column = |quantity: usize| {
            let mut entries: Vec<Entry> = side
                .attempts
                .iter()
                .zip(positions)
                .map(|(attempt, &position)| Entry {
                    value_ms: attempt.latency_ms[quantity],
                    position,
                    class: attempt.class,
                })
                .filter(|entry| !entry.value_ms.is_nan())
                .collect();
            entries.sort_by(|x, y| x.value_ms.total_cmp(&y.value_ms));
            entries
        };
        Sorted { side, positions, columns: [column(0), column(1), column(2)] }
    }

    /// All metrics of the attempts, each counted as often as its weight says.
    pub fn evaluate(&self, weights: &[u32]) -> Vec<Option<f64>> {
        let scopes = self.side.cutoffs.len() + 1;
        let mut tallies = vec![Tally::default(); scopes];
        for (attempt, &position) in self.side.attempts.iter().zip(self.positions) {
            tallies[usize::from(attempt.class) + 1].add(attempt, u64::from(weights[position as usize]));
        }
        let of_all = tallies[1..].iter().fold(Tally::default(), |sum, tally| sum.and(tally));
        tallies[0] = of_all;
        let found = [0, 1, 2].map(|quantity| percentiles(&self.columns[quantity], weights, scopes));
        let scope = |(scope, tally): (usize, &Tally)| {
            let percentiles: Vec<_> = found.iter().flat_map(|pickers| pickers[scope].found).collect();
            percentiles.into_iter().chain(tally.rates(self.side.duration_s, self.side.has_ids))
        };
        tallies.iter().enumerate().flat_map(scope).collect()
    }
}

fn percentiles(column: &[Entry], weights: &[u32], scopes: usize) -> Vec<Picker> {
    let mut totals = vec![0u64; scopes];
    for entry in column {
        totals[usize::from(entry.class) + 1] += u64::from(weights[entry.position as usize]);
    }
    totals[0] = totals.iter().sum();
    let mut pickers: Vec<Picker> = totals.into_iter().map(Picker::new).collect();
    for entry in column {
        let weight = u64::from(weights[entry.position as usize]);
        if weight > 0 {
            pickers[0].take(entry.value_ms, weight);
            pickers[usize::from(entry.class) + 1].take(entry.value_ms, weight);
        }
    }
    pickers
}
