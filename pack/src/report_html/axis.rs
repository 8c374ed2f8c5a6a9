//! Axes: from values to positions, and where the ticks are.

/// Ticks on an axis, about.
const TICKS: f64 = 5.0;
/// A positive range at least this wide is drawn logarithmically, where that is allowed.
const LOG_RATIO: f64 = 30.0;
/// A wider logarithmic axis has a tick a decade only.
const DENSE_RATIO_MAX: f64 = 500.0;
/// A range this wide is not of this world, and drawn linearly.
const DECADES_MAX: i32 = 15;

/// An axis from `low` to `high`.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    pub log: bool,
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
        if least <= 0.0 || !(LOG_RATIO..10f64.powi(DECADES_MAX)).contains(&(greatest / least)) {
            return Axis::linear(values, true);
        }
        let (low, high) = (floor_125(least), ceil_125(greatest));
        let first = 10f64.powf(low.log10().floor());
        // With few decades, 2 and 5 of each have a tick as well.
        let factors: &[f64] = if high / low > DENSE_RATIO_MAX { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let all = (0..=DECADES_MAX + 1).map(|i| first * 10f64.powi(i));
        let ticks = all.flat_map(|power| factors.iter().map(move |factor| factor * power));
        let inside = |tick: &f64| (low * 0.999..=high * 1.001).contains(tick);
        Axis { low, high, log: true, ticks: ticks.filter(inside).collect() }
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

/// [`ceil_125`]; 1 where there is nothing to divide.
fn nice_step(step: f64) -> f64 {
    if step.is_finite() && step > 1e-300 { ceil_125(step) } else { 1.0 }
}

/// The greatest of 1, 2, 5 x 10^k that is not above `value`, which is positive.
fn floor_125(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|f| f * power <= value * 1.000_001).unwrap_or(1.0);
    factor * power
}

/// The least of 1, 2, 5 x 10^k that is not below `step`, which is positive.
fn ceil_125(step: f64) -> f64 {
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
        let rounded: Vec<f64> = axis.ticks.iter().map(|tick| (tick * 10.0).round() / 10.0).collect();
        assert_eq!(rounded, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((axis.position(20f64.sqrt()) - 0.5).abs() < 1e-12);
        assert_eq!(Axis::of_ratios([1.0, 10_000.0].into_iter()).ticks.len(), 5);
        let absurd = Axis::of_ratios([1e-310, 1e300].into_iter());
        assert!(!absurd.log && absurd.position(1e299).is_finite());
    }

    #[test]
    fn odd_values_make_an_axis() {
        for values in [vec![], vec![0.0], vec![f64::NAN, 5.0], vec![1e300], vec![-3.0, -3.0], vec![1e-310]] {
            let axis = Axis::linear(values.iter().copied(), true);
            assert!(axis.ticks.len() >= 2 && axis.position(1.0).is_finite(), "{values:?}: {axis:?}");
        }
    }
}
