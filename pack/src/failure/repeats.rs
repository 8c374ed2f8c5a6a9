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

/// A number of a report; None where it has none.
type Value = fn(&FailureReport) -> Option<f64>;

/// What is compared over repeats, and with a prediction.
const MEASURES: [(&str, Value); 8] = [
    ("lost", |r| Some(r.counts.lost as f64)),
    ("retried", |r| Some(r.counts.retried as f64)),
    ("rejected", |r| Some(r.counts.rejected as f64)),
    ("detected after, s", |r| r.detected.as_ref().map(|seen| seen.after_s)),
    ("removed after, s", |r| r.removed.as_ref().map(|seen| seen.after_s)),
    ("taking work again after, s", |r| r.readmitted.as_ref().map(|seen| seen.after_s)),
    ("recovered after, s", |r| r.recovery_s),
    ("queue peak", |r| r.queue_peak.map(|(peak, _)| peak as f64)),
];

/// A time that was seen counts as inside its range up to this far outside: seconds, or a share of the mean if that is more.
const TIME_SLACK_S: f64 = 0.1;
const TIME_SLACK_SHARE: f64 = 0.1;
/// The most that the duration of the injecting command adds to that, in seconds: one that takes longer does other things too.
const COMMAND_SLACK_MAX_S: f64 = 1.0;

/// A predicted number beside the one that was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Of what.
    pub name: &'static str,
    /// The prediction's mean.
    pub predicted: Option<f64>,
    /// Where one more run of the prediction lies with 95 %.
    pub one_more_95: Option<(f64, f64)>,
    /// What was seen.
    pub seen: Option<f64>,
    /// Whether that lies there, a time within a tenth of the mean; null where either is missing.
    pub inside: Option<bool>,
}

impl Repeats {
    /// These repeats, of a prediction, beside a report.
    #[must_use]
    pub fn beside(&self, report: &FailureReport) -> Vec<Beside> {
        let command_s = report.fault.made_in_s.unwrap_or(0.0).min(COMMAND_SLACK_MAX_S);
        let row = |((name, value), spread): (&(&'static str, Value), &Spread)| {
            let (seen, range) = (value(report), spread.one_more_95);
            // A client sees a moment a little later than it was, and health checks have their own beat.
            let slack = match name.ends_with(", s") {
                true => TIME_SLACK_S.max(TIME_SLACK_SHARE * spread.mean.unwrap_or(0.0)) + command_s,
                false => 0.0,
            };
            let inside =
                |((low, high), seen): ((f64, f64), f64)| (low - slack..=high + slack).contains(&seen);
            let inside = range.zip(seen).map(inside);
            Beside { name, predicted: spread.mean, one_more_95: range, seen, inside }
        };
        MEASURES.iter().zip(&self.spreads).map(row).collect()
    }
}

impl Repeats {
    /// Of the reports of all repeats.
    #[must_use]
    pub fn of(reports: &[FailureReport]) -> Repeats {
        let spread = |(name, value): (&'static str, Value)| {
            let values: Vec<f64> = reports.iter().filter_map(value).collect();
            let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
            // None of them can be below zero.
            let above_zero = |(low, high): (f64, f64)| (low.max(0.0), high);
            let (mean_ci95, one_more_95) =
                (mean_ci95(&values).map(above_zero), prediction_95(&values).map(above_zero));
            Spread { name, mean, mean_ci95, one_more_95, values }
        };
        Repeats {
            runs: reports.len(),
            passed: reports.iter().filter(|report| report.pass).count(),
            spreads: MEASURES.into_iter().map(spread).collect(),
        }
    }
}
