//! Does the queue grow? A test for sustained growth of the queue depth over the measured window.
//!
//! A queue has a long memory: at 98 % load its depth wanders like a random walk, and a straight line through it
//! has a "significant" slope most of the time. So the null hypothesis here is the *worst stable case*, a random
//! walk without drift, and the test looks at increments, which have no such memory: the depth is read at equally
//! spaced moments, and a one-sided t-test asks whether its mean increment is above zero. For a random walk that
//! test is exact up to normality; for a stable queue the increments take each other back and it is conservative;
//! bursts widen the increments' spread and so weaken their own evidence.
//!
//! A queue with a limit (its own, or the clients' patience) grows early and then stays up. The test therefore
//! also looks at the window's first half and first quarter, its level divided by the number of looks
//! (Bonferroni), and asks in addition that the depth *ended* materially higher than it began: a peak that drained
//! is not growth.

use crate::interval::t_upper_tail;
use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Increments that the whole window is cut into.
const STEPS: usize = 20;
/// Fewest increments that a look may rest on.
const STEPS_MIN: usize = 5;
/// Fewest samples that say anything.
const SAMPLES_MIN: usize = 8;
/// Level of the test, all looks together.
const LEVEL: f64 = 0.05;
/// Growth that matters: this share of the window's arrivals was left in the queue.
const MATERIAL_SHARE: f64 = 0.002;
/// Growth that matters, in requests, however few arrived.
const MATERIAL_REQUESTS: f64 = 5.0;

/// What the queue did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No sustained growth.
    Flat,
    /// Sustained growth.
    Growing,
    /// Too few samples to tell. Does not pass a gate that asks for a flat queue.
    Undetermined,
}

impl Verdict {
    /// The word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Flat => "flat",
            Verdict::Growing => "growing",
            Verdict::Undetermined => "undetermined",
        }
    }
}

/// The verdict with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The verdict.
    pub verdict: Verdict,
    /// Samples in the window.
    pub samples: usize,
    /// Mean depth in the last of the equal pieces less that in the first, in requests.
    pub growth_requests: Option<f64>,
    /// That growth per second between the middles of those pieces.
    pub growth_per_s: Option<f64>,
    /// The growth that would matter, in requests.
    pub material_requests: f64,
    /// The t statistic of the look with the strongest evidence; null when the increments do not vary.
    pub statistic: Option<f64>,
    /// Its p-value, times the number of looks, at most 1.
    pub p_value: Option<f64>,
    /// What decided, in words.
    pub reason: String,
}

/// Tests the depths, sampled at a fixed interval in order of time, for sustained growth; `arrivals` arrived
/// while they were sampled.
///
/// Undetermined for fewer than eight samples.
#[must_use]
pub fn queue_trend(depths: &[(Nanos, u64)], arrivals: u64) -> Trend {
    let material_requests = (MATERIAL_SHARE * arrivals as f64).max(MATERIAL_REQUESTS);
    if depths.len() < SAMPLES_MIN {
        return Trend {
            verdict: Verdict::Undetermined,
            samples: depths.len(),
            growth_requests: None,
            growth_per_s: None,
            material_requests,
            statistic: None,
            p_value: None,
            reason: format!("{} samples in the window, at least {SAMPLES_MIN} needed", depths.len()),
        };
    }
    let steps = STEPS.min(depths.len() - 1);
    let evidence = strongest(&increments(depths, steps));
    let growth = mean_depth(piece(depths, steps, steps - 1)) - mean_depth(piece(depths, steps, 0));
    let seconds = depths[depths.len() - 1].0.since(depths[0].0).seconds() * (1.0 - 1.0 / steps as f64);
    let (significant, material) = (evidence.p_value < LEVEL, growth >= material_requests);
    let reason = match (significant, material) {
        (true, true) => format!("grew by {growth:.0} requests over {}", evidence.part),
        (true, false) => format!("rose and fell back or hardly rose: {growth:.1} requests in the end"),
        (false, _) => "increments as of a queue without drift".to_string(),
    };
    Trend {
        verdict: if significant && material { Verdict::Growing } else { Verdict::Flat },
        samples: depths.len(),
        growth_requests: Some(growth),
        growth_per_s: (seconds > 0.0).then(|| growth / seconds),
        material_requests,
        statistic: evidence.statistic,
        p_value: Some(evidence.p_value),
        reason,
    }
}

/// Index of the sample at `step` of `steps`.
fn boundary(samples: usize, steps: usize, step: usize) -> usize {
    (samples - 1) * step / steps
}

/// The samples from boundary `step` to the next, both included.
fn piece(depths: &[(Nanos, u64)], steps: usize, step: usize) -> &[(Nanos, u64)] {
    &depths[boundary(depths.len(), steps, step)..=boundary(depths.len(), steps, step + 1)]
}

fn mean_depth(piece: &[(Nanos, u64)]) -> f64 {
    piece.iter().map(|&(_, depth)| depth as f64).sum::<f64>() / piece.len() as f64
}

fn increments(depths: &[(Nanos, u64)], steps: usize) -> Vec<f64> {
    let at = |step| depths[boundary(depths.len(), steps, step)].1 as f64;
    (0..steps).map(|step| at(step + 1) - at(step)).collect()
}

/// What the strongest look found.
struct Evidence {
    statistic: Option<f64>,
    p_value: f64,
    part: &'static str,
}

/// The whole window, its first half and its first quarter, as far as they have enough increments.
fn strongest(increments: &[f64]) -> Evidence {
    let looks: Vec<_> =
        [(1, "the window"), (2, "the window's first half"), (4, "the window's first quarter")]
            .into_iter()
            .map(|(divisor, part)| (&increments[..increments.len() / divisor], part))
            .filter(|(part, _)| part.len() >= STEPS_MIN)
            .collect();
    looks
        .iter()
        .map(|&(part, name)| {
            let (statistic, p) = drift_test(part);
            Evidence { statistic, p_value: (p * looks.len() as f64).min(1.0), part: name }
        })
        .min_by(|a, b| a.p_value.total_cmp(&b.p_value))
        .expect("eight samples make at least seven increments, and so at least one look")
}

/// The t statistic of the mean increment (None without variance) and its one-sided p-value.
fn drift_test(increments: &[f64]) -> (Option<f64>, f64) {
    let n = increments.len() as f64;
    let mean = increments.iter().sum::<f64>() / n;
    let variance = increments.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / (n - 1.0);
    if variance <= 0.0 {
        return (None, if mean > 0.0 { 0.0 } else { 1.0 });
    }
    let t = mean / (variance / n).sqrt();
    (Some(t), t_upper_tail(t, n - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: u64, depth: impl Fn(u64) -> u64) -> Vec<(Nanos, u64)> {
        (0..n).map(|i| (Nanos(i * 1_000_000_000), depth(i))).collect()
    }

    fn verdict(n: u64, arrivals: u64, depth: impl Fn(u64) -> u64) -> Verdict {
        queue_trend(&series(n, depth), arrivals).verdict
    }

    #[test]
    fn short_series_are_undetermined() {
        for n in 0..8 {
            assert_eq!(verdict(n, 100, |i| 10 * i), Verdict::Undetermined, "{n} samples");
        }
        assert_eq!(verdict(8, 100, |i| 10 * i), Verdict::Growing);
    }

    #[test]
    fn lines() {
        assert_eq!(verdict(900, 22_000, |_| 0), Verdict::Flat);
        assert_eq!(verdict(900, 22_000, |_| 5_000), Verdict::Flat);
        assert_eq!(verdict(900, 22_000, |i| i), Verdict::Growing);
        assert_eq!(verdict(900, 22_000, |i| 900 - i), Verdict::Flat);
        assert_eq!(verdict(900, 22_000, |i| i / 100), Verdict::Flat, "nine requests do not matter");
    }

    #[test]
    fn one_burst_at_the_end_is_no_trend() {
        assert_eq!(verdict(900, 22_000, |i| if i > 870 { 400 } else { 3 + i % 5 }), Verdict::Flat);
    }

    #[test]
    fn a_peak_that_drained_is_no_trend() {
        assert_eq!(verdict(900, 22_000, |i| if i < 450 { i } else { 900 - i }), Verdict::Flat);
    }

    #[test]
    fn a_queue_that_fills_and_stays_full_has_grown() {
        for full_at in [225, 450, 700] {
            let depth = |i: u64| (i * 1_000 / full_at).min(1_000) + i % 7;
            assert_eq!(verdict(900, 22_000, depth), Verdict::Growing, "full at {full_at} s of 900");
        }
    }

    #[test]
    fn depths_near_the_limits_of_their_type_do_no_harm() {
        let trend = queue_trend(&series(50, |i| if i < 25 { 0 } else { u64::MAX }), u64::MAX);
        assert!(trend.p_value.unwrap().is_finite());
    }
}
