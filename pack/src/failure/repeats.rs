//! The same test with other seeds: how far its numbers spread.

use super::FailureReport;
use crate::interval::{mean_ci95, prediction_95};
use serde::Serialize;

/// A number over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Which.
    pub name: &'static str,
    /// Its values, a repeat each, where there was one.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// 95 % interval of the mean, from two values on.
    pub mean_ci95: Option<(f64, f64)>,
    /// Where one more run would lie, with 95 %, from two values on.
    pub one_more_95: Option<(f64, f64)>,
}

/// The repeats of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeats {
    /// How many.
    pub runs: usize,
    /// Of those, how many passed.
    pub passed: usize,
    /// What spreads.
    pub spreads: Vec<Spread>,
}

impl Repeats {
    /// Of the reports of all repeats.
    #[must_use]
    pub fn of(reports: &[FailureReport]) -> Repeats {
        type Value = fn(&FailureReport) -> Option<f64>;
        let values: [(&'static str, Value); 8] = [
            ("lost", |r| Some(r.counts.lost as f64)),
            ("retried", |r| Some(r.counts.retried as f64)),
            ("rejected", |r| Some(r.counts.rejected as f64)),
            ("detected after, s", |r| r.detected.as_ref().map(|seen| seen.after_s)),
            ("removed after, s", |r| r.removed.as_ref().map(|seen| seen.after_s)),
            ("taking work again after, s", |r| r.readmitted.as_ref().map(|seen| seen.after_s)),
            ("recovered after, s", |r| r.recovery_s),
            ("queue peak", |r| r.queue_peak.map(|(peak, _)| peak as f64)),
        ];
        let spread = |(name, value): (&'static str, Value)| {
            let values: Vec<f64> = reports.iter().filter_map(value).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            Spread { name, mean, mean_ci95: mean_ci95(&values), one_more_95: prediction_95(&values), values }
        };
        Repeats {
            runs: reports.len(),
            passed: reports.iter().filter(|report| report.pass).count(),
            spreads: values.into_iter().map(spread).collect(),
        }
    }
}
