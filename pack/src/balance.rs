//! How evenly a fleet was loaded: what can make a larger one scale better or worse than division says.

use crate::timeline::TimelineRow;
use serde::{Deserialize, Serialize};

/// Unevenness of a fleet's load over its samples. Load is waiting plus running.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// Across replicas: the mean over the samples of (most loaded - mean)/mean. 0 is perfectly even.
    pub across_replicas: f64,
    /// Over time: standard deviation of the whole fleet's load divided by its mean. Bursts raise it; a larger fleet
    /// smooths them.
    pub over_time: f64,
}

/// The balance over `rows`: ordered by time, all replicas of one moment together. None if nothing was ever in
/// flight.
#[must_use]
pub fn balance(rows: &[TimelineRow]) -> Option<Balance> {
    let (mut uneven, mut totals) = (Vec::new(), Vec::new());
    for moment in rows.chunk_by(|a, b| a.at == b.at) {
        let loads = moment.iter().map(|row| f64::from(row.waiting) + f64::from(row.running));
        let total: f64 = loads.clone().sum();
        let mean = total / moment.len() as f64;
        totals.push(total);
        if mean > 0.0 {
            uneven.push((loads.fold(0.0, f64::max) - mean) / mean);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    if uneven.is_empty() {
        return None;
    }
    let level = mean(&totals);
    let variance = mean(&totals.iter().map(|total| (total - level).powi(2)).collect::<Vec<_>>());
    Some(Balance { across_replicas: mean(&uneven), over_time: variance.sqrt() / level })
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values that binary fractions hold exactly")]
mod tests {
    use super::*;
    use crate::time::Nanos;

    fn row(at: u64, replica: u32, running: u32) -> TimelineRow {
        TimelineRow { at: Nanos(at), replica, running, ..TimelineRow::default() }
    }

    #[test]
    fn unevenness_by_hand() {
        let rows = [row(1, 0, 3), row(1, 1, 1), row(2, 0, 6), row(2, 1, 6)];
        let found = balance(&rows).unwrap();
        assert_eq!(found.across_replicas, 0.25, "3 against a mean of 2, then even");
        assert_eq!(found.over_time, 0.5, "4 and 12 around 8");
        assert_eq!(balance(&[row(0, 0, 0)]), None);
    }
}
