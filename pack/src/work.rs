//! What the engines computed, how much of it was for nothing, and what was refused.

use crate::analyze::Success;
use crate::manifest::Manifest;
use crate::record::{Outcome, Record};

/// Tokens computed for measured attempts, and attempts rejected, by class.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    classes: Vec<ClassWork>,
}

/// The same of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassWork {
    ttft_cutoff_ms: f64,
    tpot_cutoff_ms: f64,
    /// For all of its attempts.
    pub computed_tokens: u64,
    /// Attempts that were rejected.
    pub rejected: u64,
    /// Of those tokens, for attempts that failed, were cancelled or missed a cutoff.
    pub wasted_tokens: u64,
}

impl Work {
    /// None yet.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Work {
        let class = |class: &crate::manifest::Class| ClassWork {
            ttft_cutoff_ms: class.request_ttft_cutoff_ms,
            tpot_cutoff_ms: class.request_tpot_cutoff_ms,
            ..ClassWork::default()
        };
        Work { classes: manifest.classes.iter().map(class).collect() }
    }

    /// Takes an attempt. Warm-up does not count, nor does one of which nothing is known.
    pub fn push(&mut self, record: &Record) {
        let Some(class) = self.classes.get_mut(usize::from(record.class)).filter(|_| !record.warmup) else {
            return;
        };
        let tokens = u64::from(record.computed_tokens.unwrap_or_default());
        let good = |success: Success| success.in_time(class.ttft_cutoff_ms, class.tpot_cutoff_ms);
        class.computed_tokens += tokens;
        class.rejected += u64::from(record.outcome == Outcome::Rejected);
        if !Success::of_record(record).is_some_and(good) {
            class.wasted_tokens += tokens;
        }
    }

    /// The classes, in the manifest's order.
    #[must_use]
    pub fn classes(&self) -> &[ClassWork] {
        &self.classes
    }
}

impl ClassWork {
    /// Both together.
    #[must_use]
    pub fn and(self, other: &ClassWork) -> ClassWork {
        ClassWork {
            computed_tokens: self.computed_tokens + other.computed_tokens,
            wasted_tokens: self.wasted_tokens + other.wasted_tokens,
            rejected: self.rejected + other.rejected,
            ..self
        }
    }

    /// wasted / computed; None of nothing.
    #[must_use]
    pub fn wasted_share(&self) -> Option<f64> {
        (self.computed_tokens > 0).then(|| self.wasted_tokens as f64 / self.computed_tokens as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, manifest, ok};

    #[test]
    fn work_for_a_miss_a_failure_or_a_cancellation_is_wasted() {
        let mut work = Work::new(&manifest(20));
        let with = |record: Record, tokens| Record { computed_tokens: Some(tokens), ..record };
        let (in_time, late) = (ok(0, 0, 1, 0, 1), ok(0, 0, 10_000_000_000, 0, 1));
        work.push(&with(in_time.clone(), 100));
        work.push(&with(late, 30));
        work.push(&with(failed(0, 0, Outcome::Cancelled), 7));
        work.push(&failed(0, 0, Outcome::Rejected));
        work.push(&Record { warmup: true, ..with(in_time, 1000) });
        let class = work.classes()[0];
        assert_eq!((class.computed_tokens, class.wasted_tokens, class.rejected), (137, 37, 1));
        assert_eq!(ClassWork::default().wasted_share(), None);
    }
}
