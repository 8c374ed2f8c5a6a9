//! Axes: from values to positions, and where the ticks are.

/// Ticks on an axis, about.
const TICKS: f64 = 5.0;
/// A positive range at least this wide is drawn logarithmically, where that is allowed.
const LOG_RATIO: f64 = 30.0;

/// An axis from `low` to `high`.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    pub ticks: Vec<f64>,
}

impl Axis {
    /// From 0 or the least value to the greatest, rounded outward to ticks.
    pub fn linear(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> Axis {
        let (least, greatest) = bounds(values);
        let least = if from_zero { least.min(0.0) } else { least };
        let step = nice_step((greatest - least) / TICKS);
        let low = (least / step).floor() * step;
        let high = ((greatest / step).ceil() * step).max(low + step);
        let count = ((high - low) / step).round() as usize;
        let ticks = (0..=count.min(100)).map(|i| low + step * i as f64).collect();
        Axis { low, high, log: false, ticks }
    }

    /// Logarithmic if all values are positive and far apart, else linear from 0.
    pub fn of_ratios(values: impl Iterator<Item = f64> + Clone) -> Axis {
        let (least, greatest) = bounds(values.clone());
        if least <= 0.0 || greatest / least < LOG_RATIO {
            return Axis::linear(values, true);
        }
        let low = 10f64.powf(least.log10().floor());
        let high = 10f64.powf(greatest.log10().ceil());
        let decades = (high / low).log10().round() as i32;
        let ticks = (0..=decades).map(|i| low * 10f64.powi(i)).collect();
        Axis { low, high, log: true, ticks }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end, never outside.
    pub fn position(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
}

/// The least and the greatest finite value; 0 and 1 for none.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, greatest) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if least > greatest { (0.0, 1.0) } else { (least, greatest) }
}

/// The least of 1, 2, 5 x 10^k that is not below `step`; 1 where there is nothing to divide.
fn nice_step(step: f64) -> f64 {
    if !(step.is_finite() && step > 1e-300) {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= step * 0.999_999).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        let axis = Axis::linear([16.0, 28.0].into_iter(), false);
        assert_eq!(axis.ticks, [15.0, 20.0, 25.0, 30.0]);
        let axis = Axis::linear([0.4, 0.996].into_iter(), true);
        assert_eq!(axis.ticks.len(), 6);
        assert!((axis.position(0.5) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn wide_ratios_are_logarithmic() {
        let axis = Axis::of_ratios([0.4, 60.0].into_iter());
        assert_eq!(axis.ticks.len(), 4);
        assert!((axis.position(1.0) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn odd_values_make_an_axis() {
        for values in [vec![], vec![0.0], vec![f64::NAN, 5.0], vec![1e300], vec![-3.0, -3.0], vec![1e-310]] {
            let axis = Axis::linear(values.iter().copied(), true);
            assert!(axis.ticks.len() >= 2 && axis.position(1.0).is_finite(), "{values:?}: {axis:?}");
        }
    }
}
