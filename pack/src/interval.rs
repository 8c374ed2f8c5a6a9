//! Confidence intervals.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The standard normal's 97.5 % point.
const Z_95: f64 = 1.959_963_984_540_054;

/// The Wilson score interval (Wilson 1927) at 95 % for a proportion of `passing` in `n`; None for n = 0 and for
/// more passing than there are.
#[must_use]
pub fn wilson_95(passing: u64, n: u64) -> Option<(f64, f64)> {
    if n == 0 || passing > n {
        return None;
    }
    let (k, n) = (passing as f64, n as f64);
    let z2 = Z_95 * Z_95;
    let centre = (k + z2 / 2.0) / (n + z2);
    let half = Z_95 / (n + z2) * (k * (n - k) / n + z2 / 4.0).sqrt();
    // At k = 0 and k = n one end is exact and only rounding could carry it outside.
    let low = if passing == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if k >= n { 1.0 } else { (centre + half).min(1.0) };
    Some((low, high))
}

/// P(T >= t) of Student's t; 1 for fewer than one degree of freedom, which is no evidence of anything.
#[must_use]
pub fn t_upper_tail(t: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(1.0, |student| student.sf(t))
}

/// The point of Student's t below which the share `p` lies; infinite for fewer than one degree of freedom.
#[must_use]
pub fn t_quantile(p: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(p))
}

/// The point of the standard normal below which the share `p`, between 0 and 1, lies.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// The 95 % interval of a mean by Student's t, from independent values; None for fewer than two.
#[must_use]
pub fn mean_ci95(values: &[f64]) -> Option<(f64, f64)> {
    around_mean(values, |n| 1.0 / n)
}

/// Where one more value lies with 95 %, if all are independent and normal: mean -+ t s sqrt(1 + 1/n). None for fewer than
/// two.
#[must_use]
pub fn prediction_95(values: &[f64]) -> Option<(f64, f64)> {
    around_mean(values, |n| 1.0 + 1.0 / n)
}

/// The mean of values, more and less Student's t times their standard deviation, scaled by the root of `factor` of n.
fn around_mean(values: &[f64], factor: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t * (variance * factor(n)).sqrt();
    Some((mean - half, mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_intervals() {
        let (low, high) = wilson_95(1900, 2000).unwrap();
        assert!((low - 0.939_56).abs() < 1e-5 && (high - 0.958_71).abs() < 1e-5, "{low} {high}");
        let (low, high) = wilson_95(0, 10).unwrap();
        assert!(low.abs() < f64::EPSILON && (high - 0.277_53).abs() < 1e-5, "{high}");
        assert_eq!(wilson_95(0, 0), None);
        assert_eq!(wilson_95(2, 1), None);
    }

    #[test]
    fn the_tail_agrees_with_tables() {
        for (t, dof, tail) in [
            (0.0, 7.0, 0.5),
            (6.313_752, 1.0, 0.05),
            (2.353_363, 3.0, 0.05),
            (2.539_483, 19.0, 0.01),
            (-2.539_483, 19.0, 0.99),
        ] {
            let found = t_upper_tail(t, dof);
            assert!((found - tail).abs() < 1e-6, "t {t}, {dof} degrees: {found}, expected {tail}");
        }
        assert!(t_upper_tail(1e300, 19.0) < 1e-12);
    }

    #[test]
    fn the_quantiles_agree_with_tables() {
        assert!((normal_quantile(0.975) - Z_95).abs() < 1e-6);
        assert!((t_quantile(0.95, 4.0) - 2.131_847).abs() < 1e-4);
        assert!(t_quantile(0.95, 0.0).is_infinite());
    }

    #[test]
    fn a_mean_has_an_interval_from_two_values_on() {
        let (low, high) = mean_ci95(&[24.0, 25.0, 26.0]).unwrap();
        assert!((low - 22.515_9).abs() < 1e-3 && (high - 27.484_1).abs() < 1e-3, "{low} {high}");
        let (low, high) = prediction_95(&[24.0, 25.0, 26.0]).unwrap();
        assert!((low - 20.031_7).abs() < 1e-3 && (high - 29.968_3).abs() < 1e-3, "{low} {high}");
        assert_eq!((mean_ci95(&[24.0]), prediction_95(&[24.0])), (None, None));
        assert_eq!(mean_ci95(&[]), None);
    }

    proptest! {
        #[test]
        fn contains_the_observed_share(n in 1u64..1_000_000_000, share in 0.0f64..=1.0) {
            let k = ((n as f64 * share) as u64).min(n);
            let (low, high) = wilson_95(k, n).unwrap();
            let observed = k as f64 / n as f64;
            prop_assert!(0.0 <= low && low <= observed + 1e-12 && observed <= high + 1e-12 && high <= 1.0);
        }
    }
}
