//! Minimising a function of a few positive parameters, each known to within a factor.

use argmin::core::{CostFunction, Error, Executor, State};
use argmin::solver::neldermead::NelderMead;
use std::cell::RefCell;

/// A start: the logarithm of each parameter is moved, so that none leaves the positive numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name.
    pub name: &'static str,
    /// First guess, above 0.
    pub start: f64,
    /// First step, as a factor above 0, other than 1.
    pub step: f64,
}

/// The cost as argmin wants it. Its simplex method panics when a cost fails, so a failure is kept here, and every
/// later evaluation is spared.
struct InLogarithms<'a> {
    cost: &'a dyn Fn(&[f64]) -> Result<f64, String>,
    failure: &'a RefCell<Option<String>>,
}

impl CostFunction for InLogarithms<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, logarithms: &Vec<f64>) -> Result<f64, Error> {
        if self.failure.borrow().is_some() {
            return Ok(f64::INFINITY);
        }
        let values: Vec<f64> = logarithms.iter().map(|x| x.exp()).collect();
        let cost = (self.cost)(&values).and_then(|cost| {
            if cost.is_nan() { Err(format!("the cost of {values:?} is no number")) } else { Ok(cost) }
        });
        Ok(cost.unwrap_or_else(|failure| {
            *self.failure.borrow_mut() = Some(failure);
            f64::INFINITY
        }))
    }
}

/// The best parameters found by the simplex method (Nelder and Mead 1965) and their cost, from the given starts,
/// in at most `iterations` rounds. Deterministic if `cost` is.
///
/// # Errors
/// What `cost` failed with, or why the optimiser refuses the start, in its words.
pub fn minimize(
    parameters: &[Parameter],
    iterations: u64,
    cost: &dyn Fn(&[f64]) -> Result<f64, String>,
) -> Result<(Vec<f64>, f64), String> {
    let start: Vec<f64> = parameters.iter().map(|p| p.start.ln()).collect();
    let corner = |moved: usize| {
        let mut corner = start.clone();
        corner[moved] += parameters[moved].step.ln();
        corner
    };
    let simplex = std::iter::once(start.clone()).chain((0..start.len()).map(corner)).collect();
    let solver = NelderMead::new(simplex).with_sd_tolerance(1e-4).map_err(|error| error.to_string())?;
    let failure = RefCell::new(None);
    let result = Executor::new(InLogarithms { cost, failure: &failure }, solver)
        .configure(|state| state.max_iters(iterations))
        .run()
        .map_err(|error| error.to_string())?;
    if let Some(failure) = failure.take() {
        return Err(failure);
    }
    let state = result.state();
    let best = state.get_best_param().ok_or("the optimiser found no parameters")?;
    Ok((best.iter().map(|x| x.exp()).collect(), state.get_best_cost()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_bowl() {
        let parameters = [
            Parameter { name: "a", start: 1.0, step: 1.5 },
            Parameter { name: "b", start: 100.0, step: 1.5 },
        ];
        let bowl = |x: &[f64]| Ok((x[0] / 3.0).ln().powi(2) + (x[1] / 50.0).ln().powi(2));
        let (found, cost) = minimize(&parameters, 200, &bowl).unwrap();
        assert!((found[0] / 3.0 - 1.0).abs() < 0.02 && (found[1] / 50.0 - 1.0).abs() < 0.02, "{found:?}");
        assert!(cost < 1e-3);
    }

    #[test]
    fn a_cost_that_fails_ends_the_search_in_its_own_words() {
        let parameters = [Parameter { name: "a", start: 1.0, step: 1.5 }];
        let fails = |_: &[f64]| Err("no such engine".to_owned());
        assert_eq!(minimize(&parameters, 10, &fails).unwrap_err(), "no such engine");
        let fails_later = |x: &[f64]| if x[0] > 2.0 { Err("too far".to_owned()) } else { Ok(-x[0]) };
        assert_eq!(minimize(&parameters, 50, &fails_later).unwrap_err(), "too far");
        let no_number = minimize(&parameters, 10, &|_| Ok(f64::NAN)).unwrap_err();
        assert!(no_number.contains("is no number"), "{no_number}");
    }
}
