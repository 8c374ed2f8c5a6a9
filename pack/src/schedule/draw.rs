//! Draws from the manifest's distributions. A fixed value draws nothing from its stream.

use crate::chance::{Stream, normal};
use crate::manifest::{Distribution, TOKENS_MAX};
use crate::time::{Nanos, TimeError};
use rand::RngExt;

/// A cut distribution is drawn again until it hits. The manifest's checks leave at least a two-hundredth inside,
/// so this many misses in a row do not happen; after them the last value is clamped.
const DRAWS_MAX: u32 = 100_000;

/// Draws values of one distribution.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    distribution: Distribution,
    /// Sums of an empirical distribution's weights.
    cumulative: Vec<f64>,
    /// Whether values are whole numbers.
    whole: bool,
}

impl Sampler {
    /// Of lengths in tokens.
    pub(super) fn tokens(distribution: &Distribution) -> Sampler {
        Sampler::new(distribution, true)
    }

    /// Of durations in seconds.
    pub(super) fn seconds(distribution: &Distribution) -> Sampler {
        Sampler::new(distribution, false)
    }

    fn new(distribution: &Distribution, whole: bool) -> Sampler {
        let weights = match distribution {
            Distribution::Empirical { weights, .. } => weights.as_slice(),
            _ => &[],
        };
        Sampler { distribution: distribution.clone(), cumulative: cumulative(weights), whole }
    }

    /// A length from 1 to [`TOKENS_MAX`].
    pub(super) fn draw_tokens(&self, stream: &mut Stream) -> u32 {
        self.draw(stream).round().clamp(1.0, f64::from(TOKENS_MAX)) as u32
    }

    /// A duration.
    pub(super) fn draw_time(&self, stream: &mut Stream) -> Result<Nanos, TimeError> {
        Nanos::from_seconds(self.draw(stream))
    }

    fn draw(&self, stream: &mut Stream) -> f64 {
        match &self.distribution {
            Distribution::Fixed(value) => *value,
            Distribution::Uniform { min, max } if self.whole => {
                (min + ((max - min + 1.0) * stream.random::<f64>()).floor()).min(*max)
            }
            Distribution::Uniform { min, max } => min + (max - min) * stream.random::<f64>(),
            Distribution::Normal { mean, sd, min, max } => {
                self.cut(*min, *max, || mean + sd * normal(stream))
            }
            Distribution::Lognormal { median, sigma, min, max } => {
                self.cut(*min, *max, || median * (sigma * normal(stream)).exp())
            }
            Distribution::Geometric { mean } => self.cut(1.0, f64::from(TOKENS_MAX), || {
                // Inversion: the number of trials with success probability 1/mean up to the first success.
                1.0 + ((-stream.random::<f64>()).ln_1p() / (-1.0 / mean).ln_1p()).floor()
            }),
            Distribution::Empirical { values, .. } => {
                pick(&self.cumulative, stream).map_or(0.0, |index| values[index])
            }
        }
    }

    fn cut(&self, min: f64, max: f64, mut draw: impl FnMut() -> f64) -> f64 {
        let mut value = min;
        for _ in 0..DRAWS_MAX {
            value = draw();
            if self.whole {
                value = value.round();
            }
            if min <= value && value <= max {
                return value;
            }
        }
        value.max(min).min(max)
    }
}

/// The running sums of `weights`.
pub(super) fn cumulative(weights: &[f64]) -> Vec<f64> {
    let sum = |sum: &mut f64, weight: &f64| {
        *sum += weight;
        Some(*sum)
    };
    weights.iter().scan(0.0, sum).collect()
}

/// An index with a probability by its weight, given the weights' running sums. Weights of 0 are never picked. None,
/// and no draw, if all of them are 0.
pub(super) fn pick(cumulative: &[f64], stream: &mut Stream) -> Option<usize> {
    let total = cumulative.last().copied().filter(|total| *total > 0.0)?;
    let point = stream.random::<f64>() * total;
    Some(cumulative.partition_point(|sum| *sum <= point).min(cumulative.partition_point(|sum| *sum < total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::stream;

    fn draws(distribution: &Distribution, whole: bool) -> Vec<f64> {
        let sampler = Sampler::new(distribution, whole);
        let mut stream = stream(1, 0, "test");
        (0..200_000).map(|_| sampler.draw(&mut stream)).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn means_are_those_of_the_formulas() {
        let close = |distribution: Distribution, whole, expected: f64| {
            let found = mean(&draws(&distribution, whole));
            assert!((found / expected - 1.0).abs() < 0.01, "{distribution:?}: {found}, not {expected}");
        };
        close(Distribution::Uniform { min: 1.0, max: 4.0 }, true, 2.5);
        close(Distribution::Uniform { min: 1.0, max: 2.0 }, false, 1.5);
        close(Distribution::Normal { mean: 90.0, sd: 10.0, min: 1.0, max: 1e6 }, true, 90.0);
        close(
            Distribution::Lognormal { median: 50.0, sigma: 0.5, min: 0.0, max: 1e6 },
            false,
            50.0 * 0.125_f64.exp(),
        );
        close(Distribution::Geometric { mean: 1000.0 }, true, 1000.0);
        close(Distribution::Geometric { mean: 1.0 }, true, 1.0);
        close(
            Distribution::Empirical { values: vec![1.0, 5.0, 9.0], weights: vec![1.0, 0.0, 3.0] },
            true,
            7.0,
        );
    }

    #[test]
    fn geometric_variance_and_its_least_value() {
        let values = draws(&Distribution::Geometric { mean: 4.0 }, true);
        let variance = mean(&values.iter().map(|v| (v - 4.0).powi(2)).collect::<Vec<f64>>());
        assert!((variance - 12.0).abs() < 0.3, "mean x (mean - 1) = 12, found {variance}");
        let ones = values.iter().filter(|v| **v < 1.5).count() as f64 / values.len() as f64;
        assert!((ones - 0.25).abs() < 0.01, "{ones}");
    }

    #[test]
    fn cuts_hold_and_every_whole_value_is_hit() {
        let values = draws(&Distribution::Normal { mean: 3.0, sd: 50.0, min: 2.0, max: 4.0 }, true);
        for whole in [2.0, 3.0, 4.0] {
            assert!(values.iter().any(|v| (v - whole).abs() < 1e-9), "{whole}");
        }
        assert!(values.iter().all(|v| (2.0..=4.0).contains(v)));
    }

    #[test]
    fn a_fixed_value_draws_nothing() {
        let (mut used, untouched) = (stream(1, 0, "test"), stream(1, 0, "test"));
        assert_eq!(Sampler::tokens(&Distribution::Fixed(7.0)).draw_tokens(&mut used), 7);
        assert_eq!(pick(&[0.0, 0.0], &mut used), None);
        assert_eq!(used, untouched);
    }
}
