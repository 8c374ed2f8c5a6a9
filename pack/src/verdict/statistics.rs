//! How sure a difference is: the runs' own spread, the spread between repeats, and tests of many metrics at once.
//!
//! A repeat's difference between measured and predicted has the variance v within the run (block bootstrap, both sides
//! drawn together) and the variance t between runs, which no single run shows. t is estimated by what the repeats'
//! differences vary more than v, pooled over the operating points of one metric: noise between runs is the engine's, not
//! the rate's. Where a point's own repeats vary more than that, they are believed instead.
//!
//! To refute a profile, a difference must also be more than the profile's own uncertainty makes it ([`Draws`]): the variance
//! over engines drawn from it is added. To confirm the numbers that were predicted, that does not matter: they are known.

use crate::interval::t_upper_tail;

/// Degrees of freedom that a bootstrap variance is taken to have.
const BOOTSTRAP_DOF: f64 = 100.0;
/// Repeats that vary this many times more than the pooled variance says are believed instead of it.
const OWN_VARIANCE_FROM: f64 = 2.0;

/// The differences of one metric at one operating point, a repeat each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub differences: Vec<f64>,
    /// Mean variance of one of them within its run.
    pub within: f64,
}

/// What the profile's uncertainty does to a metric: its root mean square over so many draws; 0 of a profile that states none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Draws {
    pub sd: f64,
    pub count: usize,
}

/// A mean difference and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub mean: f64,
    /// Standard deviation of one repeat.
    pub repeat_sd: f64,
    pub standard_error: f64,
    pub degrees_of_freedom: f64,
}

/// The estimates of one metric over its operating points.
pub(super) fn estimates(cells: &[Cell]) -> Vec<Estimate> {
    let spread =
        cells.iter().filter_map(|cell| Some((sample_variance(&cell.differences)? - cell.within, cell)));
    let (mut excess, mut freedom) = (0.0, 0.0);
    for (over, cell) in spread {
        let weight = cell.differences.len() as f64 - 1.0;
        excess += over * weight;
        freedom += weight;
    }
    let between = if freedom > 0.0 { (excess / freedom).max(0.0) } else { 0.0 };
    cells.iter().map(|cell| estimate(cell, between, freedom)).collect()
}

fn estimate(cell: &Cell, between: f64, freedom: f64) -> Estimate {
    let repeats = cell.differences.len() as f64;
    let pooled = cell.within + between;
    let satterthwaite =
        pooled.powi(2) / (cell.within.powi(2) / BOOTSTRAP_DOF + between.powi(2) / freedom.max(1.0));
    let own = sample_variance(&cell.differences).filter(|own| *own > OWN_VARIANCE_FROM * pooled);
    let (variance, degrees_of_freedom) = match own {
        Some(own) => (own, repeats - 1.0),
        None if pooled > 0.0 => (pooled, satterthwaite),
        None => (0.0, freedom.max(1.0)),
    };
    Estimate {
        mean: cell.differences.iter().sum::<f64>() / repeats,
        repeat_sd: variance.sqrt(),
        standard_error: (variance / repeats).sqrt(),
        degrees_of_freedom,
    }
}

/// None for fewer than two values.
pub(super) fn sample_variance(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (n > 1.0).then(|| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

impl Estimate {
    /// P-value of "the difference is at least `tolerance`": the larger of two one-sided tests (Schuirmann 1987).
    pub fn p_inside(&self, tolerance: f64) -> f64 {
        self.tail(tolerance - self.mean.abs())
    }

    /// P-value of "the difference is at most `tolerance`", or what `draws` make it.
    pub fn p_outside(&self, tolerance: f64, draws: Draws) -> f64 {
        let (own, drawn) = (self.standard_error.powi(2), draws.sd.powi(2));
        if draws.count == 0 || drawn <= 0.0 {
            return self.tail(self.mean.abs() - tolerance);
        }
        let satterthwaite = (own + drawn).powi(2)
            / (own.powi(2) / self.degrees_of_freedom + drawn.powi(2) / draws.count as f64);
        let both =
            Estimate { standard_error: (own + drawn).sqrt(), degrees_of_freedom: satterthwaite, ..*self };
        both.tail(self.mean.abs() - tolerance)
    }

    fn tail(&self, distance: f64) -> f64 {
        if self.standard_error > 0.0 {
            t_upper_tail(distance / self.standard_error, self.degrees_of_freedom)
        } else {
            f64::from(u8::from(distance <= 0.0))
        }
    }
}

/// Holm's step-down adjustment (Holm 1979): an adjusted value at most p keeps the chance of any false finding among all of
/// them at p, whatever their dependence. In the order given.
pub(super) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut greatest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        greatest = greatest.max(p_values[index] * (p_values.len() - rank) as f64);
        adjusted[index] = greatest.min(1.0);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_by_hand() {
        let adjusted = holm(&[0.04, 0.01, 0.03]);
        for (found, expected) in adjusted.iter().zip([0.06, 0.03, 0.06]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }

    #[test]
    fn the_spread_between_repeats_counts_although_each_run_is_steady() {
        let steady = Cell { differences: vec![0.010, -0.010, 0.012, -0.012], within: 1e-8 };
        let [found] = estimates(std::slice::from_ref(&steady))[..] else { panic!() };
        assert!((found.repeat_sd - 0.012_75).abs() < 1e-4 && found.degrees_of_freedom < 3.1, "{found:?}");
        // A second point doubles what is known of the spread.
        let two = estimates(&[steady.clone(), steady]);
        assert!(two[0].degrees_of_freedom > 5.9 && two[0].degrees_of_freedom < 6.1, "{two:?}");
    }

    #[test]
    fn a_luckily_even_set_of_repeats_is_not_believed() {
        let even = Cell { differences: vec![0.01; 5], within: 0.02f64.powi(2) };
        let [found] = estimates(&[even])[..] else { panic!() };
        assert!((found.standard_error - 0.02 / 5f64.sqrt()).abs() < 1e-12);
        assert!(found.p_inside(0.05) < 0.01 && found.p_outside(0.05, Draws::default()) > 0.99);
    }

    #[test]
    fn what_the_profile_takes_to_be_possible_does_not_refute_it() {
        let far = Estimate { mean: 0.2, repeat_sd: 0.01, standard_error: 0.005, degrees_of_freedom: 20.0 };
        let p = |sd| far.p_outside(0.05, Draws { sd, count: 20 });
        assert!(p(0.0) < 1e-9 && p(0.02) < 1e-4 && p(0.1) > 0.05, "{} {} {}", p(0.0), p(0.02), p(0.1));
        // Twenty draws know a spread no better than Student's t of twenty degrees.
        assert!((p(0.15 / 1.724_718) - 0.05).abs() < 1e-3, "{}", p(0.15 / 1.724_718));
    }

    #[test]
    fn equal_values_are_inside_without_any_spread() {
        let [found] = estimates(&[Cell { differences: vec![0.0; 3], within: 0.0 }])[..] else { panic!() };
        assert!(found.p_inside(0.01) < f64::EPSILON && found.p_outside(0.01, Draws::default()) > 0.99);
    }
}
