//! What the profile's own uncertainty does to a prediction: engines drawn from it, each beside the profile's own on one
//! schedule, so that the schedule's chance cancels.
//!
//! A drawn engine is one that the profile takes to be possible. So a difference that draws show as well does not refute the
//! profile, however far it is from the numbers that were predicted; it confirms nothing either.

use super::measure::{Run, counted_of, difference};
use super::tolerance::is_relative;
use crate::capacity::Judgement;
use crate::compare::Metric;
use crate::trend;

/// One engine drawn from the profile's uncertainty, at one point.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// What it changes of each metric, as a share of the profile's own value if that is how the metric is judged: scope after
    /// scope, each in the order of [`Metric::all`].
    changes: Vec<Option<f64>>,
    pub(super) judgement: Judgement,
    pub(super) grows: bool,
}

impl Drawn {
    /// Of a run of the profile's own engine and one of the drawn engine.
    ///
    /// # Errors
    /// Runs of different schedules or classes.
    pub fn of(own: &Run, drawn: &Run) -> Result<Drawn, String> {
        let hashes = [own, drawn].map(|run| run.report.facts.schedule_hash.as_ref());
        let (a, b) = (own.side_metrics(), drawn.side_metrics());
        if hashes[0] != hashes[1] || a.len() != b.len() {
            return Err(format!(
                "a draw: found schedules {hashes:?} and {} or {} metrics; expected one schedule and its classes",
                a.len(),
                b.len()
            ));
        }
        let metrics = Metric::all();
        let change = |(place, (a, b)): (usize, (Option<f64>, Option<f64>))| {
            let metric = metrics[place % metrics.len()];
            let (a, b) = match metric {
                Metric::PrefixHitShare | Metric::Preemptions => {
                    (counted_of(own, metric), counted_of(drawn, metric))
                }
                _ => (a, b),
            };
            difference(metric, a?, b?)
        };
        Ok(Drawn {
            changes: a.into_iter().zip(b).enumerate().map(change).collect(),
            judgement: Judgement::of(&drawn.report),
            grows: drawn.report.queue_trend == trend::Verdict::Growing,
        })
    }
}

/// What all draws of a point change of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Changes {
    values: Vec<f64>,
    relative: bool,
}

impl Changes {
    pub fn of(draws: &[Drawn], metric: Metric, place: usize) -> Changes {
        let values = draws.iter().filter_map(|drawn| *drawn.changes.get(place)?).collect();
        Changes { values, relative: is_relative(metric) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Their root mean square: what parameters move the metric by, and how far the profile's own engine is from their middle.
    pub fn sd(&self) -> f64 {
        let squares: f64 = self.values.iter().map(|value| value * value).sum();
        (squares / self.values.len().max(1) as f64).sqrt()
    }

    /// Values that only seeds have moved, moved by the draws as well, one after the other.
    pub fn applied(&self, values: Vec<f64>) -> Vec<f64> {
        if self.values.is_empty() {
            return values;
        }
        let moved = |(value, change): (f64, &f64)| {
            if self.relative { value * (1.0 + change) } else { value + change }
        };
        values.into_iter().zip(self.values.iter().cycle()).map(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_widen_what_seeds_have_spread() {
        let changes = |relative| Changes { values: vec![0.1, -0.1], relative };
        assert_eq!(changes(true).applied(vec![10.0, 20.0, 30.0]), [11.0, 18.0, 33.0]);
        assert_eq!(changes(false).applied(vec![0.5, 0.5]), [0.6, 0.4]);
        assert!((changes(true).sd() - 0.1).abs() < 1e-12);
        let none = Changes::default();
        assert!(none.sd().abs() < 1e-12 && none.applied(vec![1.0]) == [1.0]);
    }
}
