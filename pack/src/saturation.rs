//! The saturation point of a closed loop: where more clients bring hardly more throughput. It says nothing about an
//! independent arrival rate: closed-loop clients wait for their answers, and so slow down with the system.

use serde::{Deserialize, Serialize};

/// Throughput within this share of the highest counts as reached.
const REACHED: f64 = 0.95;

/// What a closed-loop sweep must not be read as.
pub const CAVEAT: &str = "A closed loop throttles itself: its clients wait for their answers. It shows where the system \
                          saturates and proves nothing about an independent arrival rate; the capacity comes from the \
                          open loop.";

/// The saturation point of tested concurrencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// The lowest tested concurrency whose throughput is within 5 % of the highest; null without any throughput.
    pub saturation_concurrency: Option<u32>,
    /// The highest mean throughput, in requests per second.
    pub highest_throughput_rps: f64,
    /// False if only the highest tested concurrency reaches it: more clients may bring more.
    pub reached: bool,
    /// What it must not be read as.
    pub caveat: String,
}

/// Finds it in pairs of a concurrency and one repeat's throughput (requests per second), in any order.
#[must_use]
pub fn saturation(tested: &[(u32, f64)]) -> Saturation {
    let mut sorted: Vec<_> = tested.to_vec();
    sorted.sort_by_key(|&(concurrency, _)| concurrency);
    let means: Vec<(u32, f64)> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|repeats| (repeats[0].0, repeats.iter().map(|r| r.1).sum::<f64>() / repeats.len() as f64))
        .collect();
    let highest = means.iter().map(|&(_, rps)| rps).fold(0.0, f64::max);
    let first = means.iter().find(|&&(_, rps)| rps > 0.0 && rps >= REACHED * highest).map(|&(c, _)| c);
    Saturation {
        saturation_concurrency: first,
        highest_throughput_rps: highest,
        reached: first.is_some() && first != means.last().map(|&(c, _)| c),
        caveat: CAVEAT.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_first_concurrency_near_the_top() {
        let found = saturation(&[(1, 2.0), (64, 26.0), (16, 20.0), (32, 25.0), (128, 26.1), (32, 25.2)]);
        assert_eq!((found.saturation_concurrency, found.reached), (Some(32), true));
    }

    #[test]
    fn a_throughput_that_still_rises_is_not_saturated() {
        let found = saturation(&[(1, 2.0), (2, 4.0)]);
        assert_eq!((found.saturation_concurrency, found.reached), (Some(2), false));
        assert_eq!(saturation(&[(1, 0.0)]).saturation_concurrency, None);
        assert_eq!(saturation(&[]).saturation_concurrency, None);
    }
}
