//! How wide a capacity is when neither the traffic's chance nor the engine's parameters are known, and which of the two
//! makes it so.
//!
//! Draw k has a parameter set of its own and a seed of its own. Its capacity is looked for twice, with the same seed:
//! with the drawn parameters, and with the profile's own.
//!
//! ```text
//! X_k = C(drawn parameters k, seed k)      Y_k = C(the profile's own, seed k)      D_k = X_k - Y_k
//! interval: order statistics of X         parameters' share = var D / (var D + var Y), the seeds' share is the rest
//! ```
//! This is the law of total variance, Var X = E(Var(X | seed)) + Var(E(X | seed)): D has what the parameters do under
//! one seed, interaction included, and Y what the seed does where the parameters stand still. Common random numbers
//! make D free of the seed's noise, and exactly 0 for a profile that is known exactly.

use serde::{Deserialize, Serialize};

/// The level that intervals are made for.
pub const LEVEL: f64 = 0.95;
/// Draws from which on the least and the greatest of them are an interval of [`LEVEL`].
pub const DRAWS_FOR_LEVEL: u64 = 39;

/// The capacity under one seed, with drawn parameters and with the profile's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// X: with the drawn parameters.
    pub drawn_rps: f64,
    /// Y: with the profile's own.
    pub own_rps: f64,
}

/// An interval between two of the values, and how sure it is to hold the next one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower value.
    pub low: f64,
    /// The upper value.
    pub high: f64,
    /// The probability that another value drawn alike lies in it: at least [`LEVEL`] if there are enough values.
    pub level: f64,
}

/// What the draws say of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Draws.
    pub draws: usize,
    /// Median of X.
    pub median_rps: f64,
    /// The interval of X; null for one draw.
    pub interval_rps: Option<Interval>,
    /// Standard deviation of D: what the parameters do.
    pub sd_parameters_rps: Option<f64>,
    /// Standard deviation of Y: what the seed does.
    pub sd_seeds_rps: Option<f64>,
    /// var D / (var D + var Y); null if neither varies.
    pub parameters_share: Option<f64>,
    /// The rest of it.
    pub seeds_share: Option<f64>,
    /// Standard error of either share.
    pub shares_se: Option<f64>,
}

impl Spread {
    /// Of some draws; None for none.
    #[must_use]
    pub fn of(pairs: &[Pair]) -> Option<Spread> {
        let mut drawn: Vec<f64> = pairs.iter().map(|pair| pair.drawn_rps).collect();
        drawn.sort_by(f64::total_cmp);
        let middle = drawn.len() / 2;
        let upper = *drawn.get(middle)?;
        let median_rps = if drawn.len() % 2 == 1 { upper } else { f64::midpoint(drawn[middle - 1], upper) };
        let parameters = variance(pairs.iter().map(|pair| pair.drawn_rps - pair.own_rps));
        let seeds = variance(pairs.iter().map(|pair| pair.own_rps));
        let all = parameters.zip(seeds).map(|(p, s)| p + s).filter(|&all| all > 0.0);
        let share = |part: Option<f64>| Some(part? / all?);
        let parameters_share = share(parameters);
        Some(Spread {
            draws: pairs.len(),
            median_rps,
            interval_rps: interval(&drawn),
            sd_parameters_rps: parameters.map(f64::sqrt),
            sd_seeds_rps: seeds.map(f64::sqrt),
            parameters_share,
            seeds_share: share(seeds),
            shares_se: parameters_share.map(|share| share_se(share, pairs.len())),
        })
    }
}

/// The standard error of a share that two variances of `draws` values make up. The logarithm of a normal's sample
/// variance has variance 2/(n - 1), so the logarithm of the ratio of two has 4/(n - 1); the share is its logistic function,
/// whose slope is share (1 - share).
fn share_se(share: f64, draws: usize) -> f64 {
    let freedom = draws.saturating_sub(1).max(1) as f64;
    share * (1.0 - share) * 2.0 / freedom.sqrt()
}

/// A share with the digits that its standard error leaves it, such as `80 % +- 15`: in steps of 5 %, with two standard
/// errors rounded up. A share that is exact has none.
#[must_use]
pub fn share_words(share: f64, standard_error: f64) -> String {
    const STEP: f64 = 5.0;
    let percent = 100.0 * share;
    if standard_error <= 0.0 {
        return format!("{percent:.0} %");
    }
    let off = (200.0 * standard_error / STEP).ceil().max(1.0) * STEP;
    format!("{:.0} % +- {off:.0}", (percent / STEP).round() * STEP)
}

/// The r-th lowest to the r-th highest of n rising values holds the next value with probability (n + 1 - 2r)/(n + 1),
/// whatever the distribution (Wilks 1941). The narrowest of those that reach [`LEVEL`], or else all from the least to
/// the greatest. None for fewer than two values.
#[must_use]
pub fn interval(sorted: &[f64]) -> Option<Interval> {
    let n = sorted.len();
    if n < 2 {
        return None;
    }
    let gaps = (n + 1) as f64;
    // The small addition keeps 0.05 x 40 at 2 however it was rounded.
    let r = (((1.0 - LEVEL) * gaps / 2.0 + 1e-9) as usize).max(1);
    Some(Interval { low: sorted[r - 1], high: sorted[n - r], level: (gaps - 2.0 * r as f64) / gaps })
}

/// The sample variance; None for fewer than two values.
fn variance(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    (n > 1.0).then(|| values.map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// The probability with which another draw does what `count` of `draws` draws did: count/(draws + 1), whatever the
/// distribution. Of n + 1 draws alike each is the last one with the same probability, so the next one lies above the r-th
/// lowest of n with probability (n + 1 - r)/(n + 1) (Wilks 1941).
///
/// This is the one rule by which draws show a confidence: the capacity that `size` plans with, and the fleet of
/// `plan --at-confidence`.
#[must_use]
pub fn shown_probability(count: u64, draws: u64) -> f64 {
    count as f64 / (draws as f64 + 1.0)
}

/// Whether `count` of `draws` draws show a probability of `confidence`.
#[must_use]
pub fn shows(count: u64, draws: u64, confidence: f64) -> bool {
    // The small allowance keeps 9 of 9 at 0.9 however it was rounded.
    shown_probability(count, draws) + 1e-12 >= confidence
}

/// The fewest draws that can show a probability of `confidence`: all of them do it.
#[must_use]
pub fn draws_to_show(confidence: f64) -> u64 {
    // A float of a share below 1 gives at most some 1e16. The allowance keeps 9999 at 0.9999 however it was rounded.
    (confidence / (1.0 - confidence) * (1.0 - 1e-9)).ceil().max(1.0) as u64
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values that binary fractions hold exactly")]
mod tests {
    use super::*;
    use crate::chance::{Stream, normal, stream};
    use crate::interval::wilson_95;

    /// A capacity of about 20 whose logarithm is the parameters' part and the seed's.
    fn pairs(n: usize, parameters_sd: f64, seeds_sd: f64, chance: &mut Stream) -> Vec<Pair> {
        let pair = |_| {
            let seed = seeds_sd * normal(chance);
            let drawn_rps = 20.0 * (parameters_sd * normal(chance) + seed).exp();
            Pair { drawn_rps, own_rps: 20.0 * seed.exp() }
        };
        (0..n).map(pair).collect()
    }

    #[test]
    fn a_profile_known_exactly_has_no_share() {
        let spread = Spread::of(&pairs(40, 0.0, 0.05, &mut stream(1, 0, "test"))).unwrap();
        assert_eq!((spread.parameters_share, spread.seeds_share), (Some(0.0), Some(1.0)));
        assert_eq!(spread.sd_parameters_rps, Some(0.0));
        let still = Spread::of(&[Pair { drawn_rps: 3.0, own_rps: 3.0 }; 5]).unwrap();
        assert_eq!((still.parameters_share, still.seeds_share, still.median_rps), (None, None, 3.0));
    }

    #[test]
    fn the_shares_are_those_of_the_variances() {
        let spread = Spread::of(&pairs(20_000, 0.06, 0.03, &mut stream(2, 0, "test"))).unwrap();
        let share = spread.parameters_share.unwrap();
        assert!((share - 0.8).abs() < 0.02, "{share}: four parts of five expected");
        assert!((spread.sd_seeds_rps.unwrap() - 0.6).abs() < 0.02, "{spread:?}");
    }

    #[test]
    fn a_wider_posterior_widens_the_interval() {
        let width = |sd| {
            let spread = Spread::of(&pairs(200, sd, 0.02, &mut stream(3, 0, "test"))).unwrap();
            let interval = spread.interval_rps.unwrap();
            interval.high - interval.low
        };
        assert!(width(0.05) > 1.5 * width(0.02) && width(0.02) > width(0.0));
    }

    #[test]
    fn the_interval_holds_the_next_draw_as_often_as_it_says() {
        for (draws, level) in [(9, 0.8), (39, 0.95), (40, 39.0 / 41.0), (199, 0.95)] {
            let studies = 4000;
            let held = (0..studies).filter(|&study| {
                let mut all = pairs(draws + 1, 0.2, 0.1, &mut stream(4, study, "test"));
                let next = all.pop().unwrap().drawn_rps;
                let interval = Spread::of(&all).unwrap().interval_rps.unwrap();
                assert!((interval.level - level).abs() < 1e-12, "{draws}: {interval:?}");
                (interval.low..=interval.high).contains(&next)
            });
            let (low, high) = wilson_95(held.count() as u64, studies).unwrap();
            assert!(low - 0.005 <= level && level <= high + 0.005, "{draws}: {low} to {high} for {level}");
        }
    }

    #[test]
    fn few_draws_have_what_interval_they_can() {
        assert_eq!(interval(&[1.0]), None);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(interval(&[1.0, 2.0, 4.0]), Some(Interval { low: 1.0, high: 4.0, level: 0.5 }));
        let most: Vec<f64> = (1..DRAWS_FOR_LEVEL).map(|n| n as f64).collect();
        assert!(interval(&most).unwrap().level < LEVEL);
        let one = Spread::of(&[Pair { drawn_rps: 3.0, own_rps: 4.0 }]).unwrap();
        assert_eq!((one.median_rps, one.parameters_share, one.sd_seeds_rps), (3.0, None, None));
    }

    #[test]
    fn as_many_draws_show_a_confidence_as_all_of_them_need() {
        for confidence in [0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999] {
            let n = draws_to_show(confidence);
            assert!(shows(n, n, confidence), "{confidence}: {n}");
            assert!(n == 1 || !shows(n - 1, n - 1, confidence), "{confidence}: fewer than {n} do");
        }
        assert_eq!(
            [0.5, 0.9, 0.95, 0.99].map(draws_to_show),
            [1, 9, 19, 99],
            "the r-th lowest of n is reached with (n + 1 - r)/(n + 1)"
        );
    }

    /// How often the next draw passes, where k of n passed: never less often than is said.
    #[test]
    fn the_next_draw_does_it_as_often_as_is_shown() {
        let (draws, studies) = (19, 20_000);
        // A fleet is chosen as the smallest with which 18 of 19 draws pass: at the second highest of their needs.
        let mut passed = 0;
        for study in 0..studies {
            let mut chance = stream(5, study, "test");
            let mut needs: Vec<f64> = (0..draws).map(|_| normal(&mut chance)).collect();
            needs.sort_by(f64::total_cmp);
            passed += u64::from(normal(&mut chance) <= needs[draws - 2]);
        }
        let (low, high) = wilson_95(passed, studies).unwrap();
        let shown = shown_probability(18, 19);
        assert!(low - 0.005 <= shown && shown <= high + 0.005, "{low} to {high} for {shown}");
    }

    #[test]
    fn shares_have_the_digits_that_their_draws_support() {
        let words = |share, draws| share_words(share, share_se(share, draws));
        assert_eq!(words(0.823, 40), "80 % +- 10");
        assert_eq!(words(0.823, 9), "80 % +- 25");
        assert_eq!(words(0.823, 4000), "80 % +- 5");
        assert_eq!((words(1.0, 40), words(0.0, 40)), ("100 %".to_owned(), "0 %".to_owned()));
        // The error is that of the shares themselves.
        let shares: Vec<f64> = (0..400)
            .map(|study| Spread::of(&pairs(40, 0.05, 0.05, &mut stream(6, study, "test"))).unwrap())
            .map(|spread| spread.parameters_share.unwrap())
            .collect();
        let sd = variance(shares.iter().copied()).unwrap().sqrt();
        assert!((sd / share_se(0.5, 40) - 1.0).abs() < 0.2, "{sd}");
    }
}
