//! Attempts in flight over time, second by second, and when they are as before a fault again.

use super::failed;
use crate::record::Record;
use crate::time::Nanos;

const SECOND: u64 = 1_000_000_000;
/// Seconds over which the number in flight is averaged.
const AVERAGE_S: usize = 10;
/// The steady state is back when it lasts this long.
const STEADY_S: usize = 30;
/// The average may exceed the greatest of before by this factor ...
const ABOVE_BEFORE: f64 = 1.1;
/// ... and by this many requests.
const ABOVE_BEFORE_REQUESTS: f64 = 2.0;
/// Seconds of a run at most: a day. Beyond it, nothing is counted.
const SECONDS_MAX: u64 = 86_400;

/// How many are in flight at the end of each second.
pub(super) struct InFlight {
    counts: Vec<u64>,
}

impl InFlight {
    /// Of all attempts, warm-up included.
    pub fn of(records: &[Record]) -> InFlight {
        let last = records.iter().map(|record| record.ended.0 / SECOND).max().unwrap_or(0).min(SECONDS_MAX);
        let mut changes = vec![0i64; last as usize + 2];
        for record in records {
            // At the end of second k, that is at k + 1, those sent at or before and not ended.
            let place = |at: Nanos| (at.0.div_ceil(SECOND).saturating_sub(1)).min(last + 1) as usize;
            changes[place(record.sent)] += 1;
            changes[place(record.ended)] -= 1;
        }
        let mut now = 0i64;
        let counts = changes.into_iter().map(|change| {
            now += change;
            now.max(0) as u64
        });
        InFlight { counts: counts.collect() }
    }

    /// The most in flight between two times, and when it was first, in seconds.
    pub fn peak(&self, from: Nanos, to: Nanos) -> (u64, f64) {
        let (from, to) = (self.place(from), self.place(to) + 1);
        let inside = self.counts.iter().enumerate().take(to.max(from)).skip(from);
        let peak = inside.rev().max_by_key(|&(_, &count)| count);
        peak.map_or((0, from as f64), |(second, &count)| (count, second as f64 + 1.0))
    }

    fn place(&self, at: Nanos) -> usize {
        ((at.0 / SECOND) as usize).min(self.counts.len().saturating_sub(1))
    }

    /// The mean over the seconds that end with this one.
    fn average(&self, second: usize) -> f64 {
        let from = (second + 1).saturating_sub(AVERAGE_S);
        let part = &self.counts[from..=second];
        part.iter().sum::<u64>() as f64 / part.len() as f64
    }

    /// The first time in the second range from which on no more are in flight than at most in the first, and no greater
    /// share of attempts fails than is forgiven, for as long as counts as steady.
    pub fn back_to_normal(
        &self,
        records: &[Record],
        before: (Nanos, Nanos),
        range: (Nanos, Nanos),
        error_rate_max: f64,
    ) -> Option<Nanos> {
        let before = self.place(before.0)..self.place(before.1).max(self.place(before.0) + 1);
        let usual = before.map(|second| self.average(second)).fold(0.0, f64::max);
        let limit = usual * ABOVE_BEFORE + ABOVE_BEFORE_REQUESTS;
        let end = self.place(range.1);
        let (mut sent, mut lost) = (vec![0u64; self.counts.len()], vec![0u64; self.counts.len()]);
        for record in records {
            let place = self.place(record.sent);
            sent[place] += 1;
            lost[place] += u64::from(failed(record));
        }
        let calm = |second: &usize| self.average(*second) <= limit;
        let mut from = self.place(Nanos(range.0.0 + SECOND - 1));
        while from + STEADY_S <= end {
            let window = from..from + STEADY_S;
            let total = |counts: &[u64]| counts[window.clone()].iter().sum::<u64>() as f64;
            let unrest = window.clone().rev().find(|second| !calm(second));
            let failures = total(&lost) > error_rate_max * total(&sent).max(1.0);
            match unrest {
                Some(second) => from = second + 1,
                None if failures => from += 1,
                None => return Some(Nanos(from as u64 * SECOND).max(range.0)),
            }
        }
        None
    }
}
