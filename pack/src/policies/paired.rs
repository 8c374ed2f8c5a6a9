//! A difference over paired runs: its interval and its p-value by a symmetric bootstrap-t, and Holm's correction for many.
//!
//! The runs are the units: what happens within one is correlated, above all under overload. Each replicate draws as many
//! differences as there are, with replacement, and gives t* = |mean* - mean| / se*; the interval is the mean and se times
//! the 95th percentile of t*, the p-value the share of t* that reaches |mean| / se. Dividing each replicate by its own
//! standard error makes up for how few runs there are.

use crate::chance::Stream;
use rand::RngExt;

/// A mean difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Mean over the pairs.
    pub mean: f64,
    /// Its 95 % interval; None for fewer than two pairs, or where they are too few to bound it.
    pub ci95: Option<(f64, f64)>,
    /// Probability of a difference as great if there were none.
    pub p: f64,
}

/// Compares pairs by their differences, with so many replicates.
#[must_use]
pub fn paired(differences: &[f64], replicates: usize, chance: &mut Stream) -> Paired {
    let count = differences.len();
    let (mean, se) = mean_and_se(differences.iter().copied(), count);
    if count < 2 {
        return Paired { mean, ci95: None, p: 1.0 };
    }
    if se == 0.0 {
        // All pairs say the same: by the test of signs.
        let p = if mean == 0.0 { 1.0 } else { 0.5f64.powi(count as i32 - 1) };
        return Paired { mean, ci95: Some((mean, mean)), p };
    }
    let mut drawn = vec![0.0; count];
    let mut t: Vec<f64> = (0..replicates)
        .map(|_| {
            drawn.iter_mut().for_each(|value| *value = differences[chance.random_range(0..count)]);
            let (drawn_mean, drawn_se) = mean_and_se(drawn.iter().copied(), count);
            let off = (drawn_mean - mean).abs();
            if off == 0.0 { 0.0 } else { off / drawn_se }
        })
        .collect();
    t.sort_by(f64::total_cmp);
    let reached = t.len() - t.partition_point(|&t| t < mean.abs() / se);
    let quantile = t[((0.95 * replicates as f64).ceil() as usize).clamp(1, replicates) - 1];
    Paired {
        mean,
        ci95: quantile.is_finite().then_some((mean - quantile * se, mean + quantile * se)),
        p: (reached + 1) as f64 / (replicates + 1) as f64,
    }
}

/// Mean, and the standard error of the mean.
fn mean_and_se(values: impl Iterator<Item = f64> + Clone, count: usize) -> (f64, f64) {
    let n = count as f64;
    let mean = values.clone().sum::<f64>() / n;
    let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// Holm's step-down correction: p-values so that a difference is real at 5 % if its own is at most 0.05, with a chance of at
/// most 5 % that any of those that are none is called real.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut corrected, mut greatest) = (vec![1.0; p.len()], 0.0f64);
    for (rank, &index) in order.iter().enumerate() {
        greatest = greatest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        corrected[index] = greatest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{normal, stream};

    #[test]
    fn holm_by_hand() {
        // 3 x 0.01, then 2 x 0.03, then the greater of that and 0.04.
        let corrected = holm(&[0.04, 0.01, 0.03]);
        let expected = [0.06, 0.03, 0.06];
        assert!(corrected.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{corrected:?}");
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    #[test]
    fn few_or_equal_pairs_are_not_made_more_of_than_they_are() {
        let mut chance = stream(1, 0, "t");
        assert_eq!(paired(&[3.0], 99, &mut chance), Paired { mean: 3.0, ci95: None, p: 1.0 });
        assert_eq!(paired(&[0.0; 8], 99, &mut chance).p.to_bits(), 1.0f64.to_bits());
        let same = paired(&[2.0; 6], 99, &mut chance);
        assert_eq!((same.ci95, same.p.to_bits()), (Some((2.0, 2.0)), (1.0f64 / 32.0).to_bits()));
        let one_odd = paired(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0], 9_999, &mut chance);
        assert!(one_odd.p > 0.2, "{one_odd:?}");
    }

    /// Of many comparisons of eight pairs without a difference, the interval misses 0 in about one of twenty; with a
    /// difference of two deviations it nearly always does.
    #[test]
    fn the_error_rate_is_what_it_says() {
        let mut chance = stream(7, 0, "differences");
        let mut missed = |shift: f64| {
            let trials = 400;
            let misses = (0..trials).filter(|_| {
                let pairs: Vec<f64> = (0..8).map(|_| shift + normal(&mut chance)).collect();
                let found = paired(&pairs, 999, &mut chance);
                found.ci95.is_none_or(|(low, high)| low > 0.0 || high < 0.0)
            });
            misses.count()
        };
        let (none, two) = (missed(0.0), missed(2.0));
        assert!((4..=36).contains(&none), "{none} of 400");
        assert!(two > 390, "{two} of 400");
    }
}
