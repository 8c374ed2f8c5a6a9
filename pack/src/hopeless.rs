//! Whether a run has failed already: a class with more misses than its gate forgives among all its scheduled requests
//! cannot pass any more, whatever the rest of them do. A search for a capacity ends such a run there.

use crate::analyze::Success;
use crate::manifest::Manifest;
use crate::record::{Outcome, Record};
use crate::schedule::Schedule;

/// A share of a count is compared with room for rounding: 0.05 of 20 is 1.
const ROUNDING: f64 = 1e-9;

/// Counts what a run has missed so far.
#[derive(Clone, Debug)]
pub struct Hopeless {
    classes: Vec<Class>,
    ended: u64,
    failed: u64,
    failed_max: f64,
}

#[derive(Clone, Debug)]
struct Class {
    name: String,
    ttft_cutoff_ms: f64,
    tpot_cutoff_ms: f64,
    succeeded: u64,
    missed: u64,
    scheduled: u64,
    missed_max: f64,
}

impl Hopeless {
    /// For a schedule of a manifest. The misses that a class is forgiven count over its scheduled requests, those that
    /// would succeed out of time and those that would fail: a class of which fewer succeed is forgiven fewer.
    #[must_use]
    pub fn new(manifest: &Manifest, schedule: &Schedule) -> Hopeless {
        let mut scheduled = vec![0u64; manifest.classes.len()];
        let requests = &schedule.measured.requests;
        requests.iter().for_each(|request| scheduled[usize::from(request.class)] += 1);
        let forgiven = 1.0 - manifest.acceptance.class_slo_attainment_min;
        let class = |(class, &count): (&crate::manifest::Class, &u64)| Class {
            name: class.name.clone(),
            ttft_cutoff_ms: class.request_ttft_cutoff_ms,
            tpot_cutoff_ms: class.request_tpot_cutoff_ms,
            succeeded: 0,
            missed: 0,
            scheduled: count,
            missed_max: forgiven * count as f64 + ROUNDING,
        };
        Hopeless {
            classes: manifest.classes.iter().zip(&scheduled).map(class).collect(),
            ended: 0,
            failed: 0,
            failed_max: manifest.acceptance.error_rate_max * requests.len() as f64 + ROUNDING,
        }
    }

    /// Takes an attempt. Warm-up does not count, nor what ends after the run has failed: when the caller asks makes no
    /// difference.
    ///
    /// # Panics
    /// If the record's class is not one of the manifest's.
    pub fn push(&mut self, record: &Record) {
        if record.warmup || self.has_failed() {
            return;
        }
        self.ended += 1;
        self.failed += u64::from(record.outcome != Outcome::Ok);
        let class = &mut self.classes[usize::from(record.class)];
        let late = |success: Success| !success.in_time(class.ttft_cutoff_ms, class.tpot_cutoff_ms);
        let success = Success::of_record(record);
        class.succeeded += u64::from(success.is_some());
        class.missed += u64::from(success.is_some_and(late));
    }

    /// The greatest of the shares missed so far over the share that is forgiven: above 1, the gate fails if it goes on
    /// like that. Says nothing about the queue.
    #[must_use]
    pub fn strain(&self) -> f64 {
        let ratio = |missed: u64, of: u64, missed_max: f64, scheduled: u64| {
            if of == 0 || scheduled == 0 {
                return 0.0;
            }
            (missed as f64 / of as f64) / (missed_max / scheduled as f64)
        };
        let requests = self.classes.iter().map(|class| class.scheduled).sum();
        let classes = self.classes.iter().map(|c| ratio(c.missed, c.succeeded, c.missed_max, c.scheduled));
        classes.fold(ratio(self.failed, self.ended, self.failed_max, requests), f64::max)
    }

    fn has_failed(&self) -> bool {
        self.failed as f64 > self.failed_max
            || self.classes.iter().any(|class| class.missed as f64 > class.missed_max)
    }

    /// The gate that cannot pass any more, by its name in a report; None while all may.
    #[must_use]
    pub fn gate(&self) -> Option<String> {
        if self.failed as f64 > self.failed_max {
            return Some("error_rate".to_owned());
        }
        let lost = self.classes.iter().find(|class| class.missed as f64 > class.missed_max);
        lost.map(|class| format!("attainment:{}", class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Load;
    use crate::testing::{failed, manifest, ok};

    /// 20 requests, 14 of the first class, with cutoffs of 500 and 40 ms.
    fn counted() -> Hopeless {
        let manifest = manifest(20);
        let schedule = Schedule::generate(&manifest, Load::Open { rps: 1000.0 }, 0, None, false).unwrap();
        let mut hopeless = Hopeless::new(&manifest, &schedule);
        hopeless.classes[0].missed_max = 2.0 + ROUNDING;
        hopeless.failed_max = 1.0;
        hopeless
    }

    #[test]
    fn a_class_is_lost_with_the_first_miss_beyond_what_its_gate_forgives() {
        let mut hopeless = counted();
        let (in_time, late) = (ok(0, 0, 1, 0, 1), ok(0, 0, 10_000_000_000, 0, 1));
        for record in [&late, &in_time, &late, &Record { warmup: true, ..late.clone() }] {
            hopeless.push(record);
            assert_eq!(hopeless.gate(), None);
        }
        let before = hopeless.strain();
        hopeless.push(&late);
        assert_eq!(hopeless.gate().as_deref(), Some("attainment:interactive"));
        assert!(before > 1.0 && hopeless.strain() > before, "three late of four");
    }

    #[test]
    fn failures_count_for_the_error_rate_alone() {
        let mut hopeless = counted();
        hopeless.push(&failed(0, 0, Outcome::Rejected));
        assert_eq!(hopeless.gate(), None);
        hopeless.push(&failed(1, 0, Outcome::Rejected));
        assert_eq!(hopeless.gate().as_deref(), Some("error_rate"));
        assert_eq!(hopeless.classes[0].missed, 0);
    }
}
