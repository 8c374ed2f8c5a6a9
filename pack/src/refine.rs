//! The capacity between two grid rates: bracketing, then sectioning, for one repeat of a schedule. The caller tests
//! rates (in parallel, simulated or live) with the same random numbers, so that a rate differs from its neighbour
//! only in how fast the same requests come.

use serde::{Deserialize, Serialize};

/// A search that has not closed its bracket after this many rounds gives up.
const ROUNDS_MAX: u32 = 60;
/// How far a rate is raised or lowered while no bracket is found.
const STRIDE: f64 = 1.25;
/// Rates below this share of the lowest tried at first count as none.
const FLOOR: f64 = 1e-3;

/// Where the capacity lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// The highest rate found to pass; 0 if none does.
    pub passing_rps: f64,
    /// The lowest rate above it found to fail; null if none was found.
    pub failing_rps: Option<f64>,
}

impl Bracket {
    /// From rates already tested: the highest passing one, and the lowest failing one above it.
    #[must_use]
    pub fn of(tested: &[(f64, bool)]) -> Bracket {
        let passing_rps = tested.iter().filter(|(_, pass)| *pass).map(|(rate, _)| *rate).fold(0.0, f64::max);
        let failing =
            tested.iter().filter(|(rate, pass)| !pass && *rate > passing_rps).map(|(rate, _)| *rate);
        Bracket { passing_rps, failing_rps: failing.min_by(f64::total_cmp) }
    }

    fn narrow(&mut self, rates: &[f64], passes: &[bool]) {
        for (&rate, &pass) in rates.iter().zip(passes) {
            match pass {
                true => self.passing_rps = self.passing_rps.max(rate),
                false => self.failing_rps = Some(self.failing_rps.map_or(rate, |failing| failing.min(rate))),
            }
        }
        // Without a monotone answer the higher rate that passed decides, as it does on a grid.
        self.failing_rps = self.failing_rps.filter(|&failing| failing > self.passing_rps);
    }
}

/// Narrows `start` until it is at most `within` wide, testing `sections` rates a round by `test`, which gives one
/// answer for each.
///
/// # Errors
/// What `test` gives.
pub fn refine<E>(
    start: Bracket,
    within: f64,
    sections: usize,
    mut test: impl FnMut(&[f64]) -> Result<Vec<bool>, E>,
) -> Result<Bracket, E> {
    let mut bracket = start;
    let lowest = if start.passing_rps > 0.0 { start.passing_rps } else { start.failing_rps.unwrap_or(0.0) };
    for _ in 0..ROUNDS_MAX {
        let rates: Vec<f64> = match bracket {
            Bracket { passing_rps, failing_rps: Some(failing) } => {
                let width = failing - passing_rps;
                if width <= within || failing <= lowest * FLOOR {
                    return Ok(bracket);
                }
                (1..=sections).map(|i| passing_rps + width * i as f64 / (sections + 1) as f64).collect()
            }
            Bracket { passing_rps, failing_rps: None } if passing_rps > 0.0 => {
                (1..=sections).map(|i| passing_rps * STRIDE.powi(i as i32)).collect()
            }
            _ => return Ok(bracket),
        };
        let rates: Vec<f64> = rates.into_iter().map(readable).collect();
        let passes = test(&rates)?;
        bracket.narrow(&rates, &passes);
    }
    Ok(bracket)
}

/// Finds the capacity from a guess: first away from it in growing steps until one rate passes and another fails, the
/// first step by a share `apart`, which is how far off the guess may be; then by halves, until the two are within a
/// share `within` of each other. `choose` may replace a rate by another strictly between the two given bounds, one
/// that is wanted anyway.
///
/// A rate a thousandth of the guess that fails ends the search with no passing rate; one a hundred times the guess
/// that passes, with no failing one.
///
/// # Errors
/// What `test` gives.
pub fn search_near<E>(
    guess: f64,
    apart: f64,
    within: f64,
    choose: impl Fn(f64, f64, f64) -> f64,
    mut test: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Bracket, E> {
    let mut bracket = Bracket { passing_rps: 0.0, failing_rps: None };
    let mut step = 1.0 + apart;
    let mut wanted = guess;
    for _ in 0..ROUNDS_MAX {
        let (low, high) = (bracket.passing_rps, bracket.failing_rps.unwrap_or(f64::INFINITY));
        let rate = readable(choose(wanted, low, high));
        bracket.narrow(&[rate], &[test(rate)?]);
        wanted = match bracket {
            Bracket { passing_rps, failing_rps: None } => passing_rps * step,
            Bracket { passing_rps, failing_rps: Some(failing) } if passing_rps > 0.0 => {
                if failing - passing_rps <= within * failing * (1.0 + 1e-9) {
                    return Ok(bracket);
                }
                (passing_rps + failing) / 2.0
            }
            Bracket { failing_rps, .. } => failing_rps.unwrap_or(guess) / step,
        };
        if wanted > guess * 1e2 || wanted < guess * FLOOR {
            return Ok(bracket);
        }
        step = (step * step).min(2.0);
    }
    Ok(bracket)
}

/// How steeply a strain rises with the rate where only one is known: as its square. Prompts that wait behind each other
/// make it rise with the rate, a queue near its limit by far more.
const STEEPNESS: f64 = 2.0;
/// How far a single strain may move the search.
const LEAP: f64 = 3.0;

/// A rate to test next, for [`search_near`]'s `choose`: near where the strain (misses over those that are forgiven) of
/// the `tested` rates reaches 1, on the log-log line through the two that enclose it, or through the last at
/// [`STEEPNESS`]. Aims a little below that, and above once that passes, so that two tests close the bracket. `wanted`
/// where the strains say nothing.
#[must_use]
pub fn aim(tested: &[(f64, f64)], within: f64, wanted: f64, low: f64, high: f64) -> f64 {
    const LEAST: f64 = 1e-3;
    let at = |rate: f64| tested.iter().find(|(r, _)| r.total_cmp(&rate).is_eq());
    let estimate = match (at(low), at(high), tested.last()) {
        (Some(&(r0, s0)), Some(&(r1, s1)), _) if s0 < 1.0 && s1 > 1.0 => {
            let (l0, l1) = (s0.max(LEAST).ln(), s1.ln());
            (r0.ln() + (r1 / r0).ln() * -l0 / (l1 - l0)).exp()
        }
        (.., Some(&(rate, strain))) if strain.is_finite() => {
            rate * strain.max(LEAST).powf(-1.0 / STEEPNESS).clamp(1.0 / LEAP, LEAP)
        }
        _ => return wanted,
    };
    let (below, above) = (estimate * (1.0 - 0.45 * within), estimate * (1.0 + 0.45 * within));
    let chosen = if low < below { below } else { above };
    // Nearer to an end than a tenth of the tolerance, a test would hardly narrow the bracket.
    let margin = 0.1 * within;
    if chosen > low * (1.0 + margin) && chosen < high * (1.0 - margin) { chosen } else { wanted }
}

/// To three decimals where that moves the rate by less than a thousandth: people read these rates.
fn readable(rate: f64) -> f64 {
    if rate >= 1.0 { (rate * 1e3).round() / 1e3 } else { rate }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values that binary fractions hold exactly")]
mod tests {
    use super::*;

    fn search(start: Bracket, capacity: f64, sections: usize) -> (Bracket, usize) {
        let mut tests = 0;
        let found = refine(start, 0.25, sections, |rates: &[f64]| {
            tests += rates.len();
            Ok::<_, ()>(rates.iter().map(|&rate| rate <= capacity).collect())
        });
        (found.unwrap(), tests)
    }

    #[test]
    fn a_bracket_closes_on_the_capacity() {
        let start = Bracket::of(&[(16.0, true), (24.0, true), (28.0, false)]);
        assert_eq!(start, Bracket { passing_rps: 24.0, failing_rps: Some(28.0) });
        for sections in [1, 2, 3] {
            let (found, _) = search(start, 25.3, sections);
            assert!(found.passing_rps <= 25.3 && found.failing_rps.unwrap() > 25.3);
            assert!(found.failing_rps.unwrap() - found.passing_rps <= 0.25);
        }
        assert_eq!(search(start, 25.3, 1).1, 4, "4 requests/s halve to 0.25 in four tests");
    }

    #[test]
    fn a_grid_without_a_failure_is_left_upwards_and_one_without_a_pass_downwards() {
        let (up, _) = search(Bracket::of(&[(16.0, true)]), 100.0, 1);
        assert!(up.passing_rps > 99.7 && up.passing_rps <= 100.0);
        let (down, _) = search(Bracket::of(&[(16.0, false), (20.0, false)]), 3.0, 2);
        assert!(down.passing_rps > 2.7 && down.passing_rps <= 3.0);
    }

    #[test]
    fn a_good_guess_needs_few_tests_and_a_bad_one_some_more() {
        for (guess, capacity, tests_max) in
            [(24.0, 24.7, 3), (24.0, 23.4, 3), (24.0, 30.0, 7), (10.0, 60.0, 14), (60.0, 2.0, 14)]
        {
            let mut tests = 0;
            let test = |rate: f64| {
                tests += 1;
                Ok::<_, ()>(rate <= capacity)
            };
            let found = search_near(guess, 0.05, 0.05, |rate, _, _| rate, test).unwrap();
            let failing = found.failing_rps.unwrap();
            assert!(found.passing_rps <= capacity && failing > capacity, "{found:?}");
            assert!(failing - found.passing_rps <= 0.05 * failing + 1e-6, "{found:?}");
            assert!(tests <= tests_max, "{guess} to {capacity}: {tests} tests");
        }
    }

    #[test]
    fn strains_lead_to_the_capacity_in_few_tests() {
        use std::cell::RefCell;
        for (steepness, guess, tests_max) in
            [(1.0, 2.0, 5), (2.0, 4.0, 4), (8.0, 1.3, 6), (30.0, 1.5, 8), (1.0, 0.3, 10), (4.0, 0.1, 7)]
        {
            let tested = RefCell::new(Vec::new());
            let choose = |wanted, low, high| aim(&tested.borrow(), 0.1, wanted, low, high);
            let found = search_near(guess, 0.25, 0.1, choose, |rate| {
                tested.borrow_mut().push((rate, rate.powf(steepness)));
                Ok::<_, ()>(rate <= 1.0)
            })
            .unwrap();
            let tests = tested.borrow().len();
            assert!(found.passing_rps <= 1.0 && found.failing_rps.unwrap() > 1.0, "{found:?}");
            assert!(
                found.failing_rps.unwrap() - found.passing_rps <= 0.1 * found.failing_rps.unwrap() + 1e-6
            );
            assert!(tests <= tests_max, "{steepness} from {guess}: {tests} tests, {:?}", tested.borrow());
        }
        assert_eq!(aim(&[], 0.1, 7.0, 0.0, f64::INFINITY), 7.0);
        assert_eq!(aim(&[(2.0, f64::NAN)], 0.1, 7.0, 0.0, f64::INFINITY), 7.0);
    }

    #[test]
    fn a_search_without_an_end_stops() {
        let search =
            |pass: bool| search_near(10.0, 0.25, 0.05, |rate, _, _| rate, |_| Ok::<_, ()>(pass)).unwrap();
        assert_eq!(search(true).failing_rps, None);
        assert!(search(true).passing_rps >= 100.0);
        assert_eq!(search(false).passing_rps, 0.0);
    }

    #[test]
    fn what_never_fails_and_what_never_passes_end() {
        let (up, _) = search(Bracket::of(&[(16.0, true)]), f64::INFINITY, 1);
        assert_eq!(up.failing_rps, None);
        let (down, _) = search(Bracket::of(&[(16.0, false)]), 0.0, 1);
        assert_eq!(down.passing_rps, 0.0);
        assert_eq!(Bracket::of(&[]), Bracket { passing_rps: 0.0, failing_rps: None });
    }
}
