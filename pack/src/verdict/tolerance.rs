//! The rule, stated before anything is measured: how far a prediction may be off, and how sure a finding must be.

use crate::compare::{Level, Metric, Quantity};
use crate::fault::{Faults, suggestion};
use crate::fields::{Reader, from_to};
use serde::Serialize;
use std::collections::BTreeMap;

/// Every number of the rule: its name, its default, and what it is.
pub const KEYS: [(&str, f64, &str); 21] = [
    ("ttft_p50", 0.10, "share of the predicted value"),
    ("ttft_p90", 0.15, "share of the predicted value"),
    ("ttft_p95", 0.15, "share of the predicted value"),
    ("ttft_p99", 0.25, "share of the predicted value"),
    ("tpot_p50", 0.05, "share of the predicted value"),
    ("tpot_p90", 0.10, "share of the predicted value"),
    ("tpot_p95", 0.15, "share of the predicted value"),
    ("tpot_p99", 0.25, "share of the predicted value"),
    ("e2e_p50", 0.05, "share of the predicted value"),
    ("e2e_p90", 0.10, "share of the predicted value"),
    ("e2e_p95", 0.15, "share of the predicted value"),
    ("e2e_p99", 0.25, "share of the predicted value"),
    ("throughput", 0.03, "share of the predicted value; requests and output tokens"),
    ("attainment", 0.02, "difference of shares"),
    ("error_rate", 0.01, "difference of shares"),
    ("prefix_hits", 0.01, "difference of shares"),
    ("preemptions", 0.10, "share of the predicted count, or 0.01 an attempt if that is more"),
    ("ttft_floor_ms", 1.0, "a TTFT may differ by this much however short it is"),
    ("drift", 0.05, "change of the reference point over the sweep, as a share"),
    ("refuted_error", 0.05, "chance to refute a true model, all metrics together"),
    ("confirmed_error", 0.05, "chance to confirm a model that is off by more than a tolerance"),
];

/// Preemptions an attempt that may be more or fewer, however few were predicted.
const PREEMPTIONS_FLOOR: f64 = 0.01;

/// The rule of a verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Tolerance {
    values: BTreeMap<&'static str, f64>,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance { values: KEYS.iter().map(|&(name, default, _)| (name, default)).collect() }
    }
}

impl Tolerance {
    /// Changes one number.
    ///
    /// # Errors
    /// An unknown name, and what is no number between 0 and 1000 or, of a chance, not below a half.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let names = || KEYS.iter().map(|(name, ..)| *name);
        let Some(known) = names().find(|known| *known == name) else {
            return Err(format!("{name}: found no tolerance of this name; {}", suggestion(name, names())));
        };
        let most = if known.ends_with("_error") { 0.5 } else { 1000.0 };
        match value.trim().parse::<f64>() {
            Ok(number) if number > 0.0 && number <= most => {
                self.values.insert(known, number);
                Ok(())
            }
            _ => Err(format!("{name}: found {value}; expected a number above 0, at most {most}")),
        }
    }

    /// Reads a file of some of the numbers, a mapping; the others keep their defaults.
    ///
    /// # Errors
    /// All faults, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Tolerance, Faults> {
        Reader::read(file, text, |fields| {
            let mut read = Tolerance::default();
            for (name, ..) in KEYS {
                let most = if name.ends_with("_error") { 0.5 } else { 1000.0 };
                if let Some(value) = fields.opt(name).f64(from_to(f64::MIN_POSITIVE, most)) {
                    read.values.insert(name, value);
                }
            }
            Some(read)
        })
    }

    /// One number, by its name in [`KEYS`].
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// How far `metric` may be off: as a share of the predicted value if [`is_relative`], else in its own unit
    /// (preemptions: an attempt). `predicted` is in milliseconds for a latency.
    #[must_use]
    pub fn of(&self, metric: Metric, predicted: f64) -> f64 {
        match metric {
            Metric::Percentile(quantity, level) => {
                let share = self.get(&format!("{}_{}", quantity.word(), level_word(level)));
                if quantity == Quantity::Ttft && predicted > 0.0 {
                    share.max(self.get("ttft_floor_ms") / predicted)
                } else {
                    share
                }
            }
            Metric::Attainment | Metric::AttemptedAttainment => self.get("attainment"),
            Metric::Goodput | Metric::Throughput | Metric::OutputThroughput => self.get("throughput"),
            Metric::ErrorRate => self.get("error_rate"),
            Metric::PrefixHitShare => self.get("prefix_hits"),
            Metric::Preemptions => (self.get("preemptions") * predicted).max(PREEMPTIONS_FLOOR),
        }
    }
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::P50 => "p50",
        Level::P90 => "p90",
        Level::P95 => "p95",
        Level::P99 => "p99",
    }
}

/// Whether a metric's difference is taken as a share of the predicted value.
#[must_use]
pub fn is_relative(metric: Metric) -> bool {
    !metric.is_share() && metric != Metric::Preemptions
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values as they were written")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_checked_and_every_metric_has_one() {
        let mut rule = Tolerance::default();
        rule.set("tpot_p50", "0.02").unwrap();
        assert_eq!(rule.of(Metric::Percentile(Quantity::Tpot, Level::P50), 20.0), 0.02);
        assert!(rule.set("tpot_p5", "0.02").unwrap_err().contains("tpot_p50"));
        for bad in ["x", "nan", "-1", "0", "inf"] {
            assert!(rule.set("drift", bad).is_err(), "{bad}");
        }
        assert!(rule.set("refuted_error", "0.9").is_err());
        for metric in Metric::all() {
            assert!(rule.of(metric, 10.0) > 0.0, "{}", metric.name());
        }
        assert_eq!(rule.of(Metric::Percentile(Quantity::Ttft, Level::P50), 4.0), 0.25, "1 ms of 4");
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let rule = Tolerance::parse("t.yaml", "throughput: 0.1\n").unwrap();
        assert_eq!((rule.get("throughput"), rule.get("tpot_p50")), (0.1, 0.05));
        assert!(
            Tolerance::parse("t.yaml", "througput: 0.1\n").unwrap_err().to_string().contains("throughput")
        );
        assert!(Tolerance::parse("t.yaml", "drift: .nan\n").is_err());
    }
}
