//! Percentiles by nearest rank: always one of the values, never a mixture of two.

use std::cmp::Ordering;

/// Which value of `n` sorted ones is the percentile, counted from 1: the least k with k/n >= `percent`/100. The
/// percentage is whole and the arithmetic integer, since 0.95 x 20 is not 19 in every floating-point order.
///
/// `n` is at least 1; percentages outside 1..=100 give the first or the last value.
#[must_use]
pub fn rank(n: usize, percent: u32) -> usize {
    let exact = (n as u128 * u128::from(percent)).div_ceil(100);
    usize::try_from(exact).unwrap_or(usize::MAX).clamp(1, n.max(1))
}

/// The nearest-rank percentile of `values`, which are reordered; None if there are none. Linear time.
pub fn nearest_rank<T: Copy>(
    values: &mut [T],
    percent: u32,
    compare: impl FnMut(&T, &T) -> Ordering,
) -> Option<T> {
    if values.is_empty() {
        return None;
    }
    let index = rank(values.len(), percent) - 1;
    let (_, value, _) = values.select_nth_unstable_by(index, compare);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_exact() {
        assert_eq!(rank(20, 95), 19);
        assert_eq!(rank(21, 95), 20);
        assert_eq!(rank(100, 95), 95);
        assert_eq!(rank(1, 50), 1);
        assert_eq!(rank(10_000, 99), 9_900);
        assert_eq!(rank(3, 0), 1);
        assert_eq!(rank(3, 400), 3);
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(nearest_rank(&mut [] as &mut [u64], 50, Ord::cmp), None);
    }

    proptest! {
        /// The definition: the least value such that at least p per cent of the values do not exceed it.
        #[test]
        fn agrees_with_the_definition(values in prop::collection::vec(0u64..50, 1..80), percent in 1u32..=100) {
            let n = values.len() as u64;
            let reaches = |v: u64| values.iter().filter(|&&x| x <= v).count() as u64 * 100 >= n * u64::from(percent);
            let naive = *values.iter().filter(|&&v| reaches(v)).min().unwrap();
            prop_assert_eq!(nearest_rank(&mut values.clone(), percent, Ord::cmp), Some(naive));
        }
    }
}
