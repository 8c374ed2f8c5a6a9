//! What one engine's measurements say about another: the factors by which its prior was corrected, on the prior of
//! another tensor parallel degree, GPU or precision.
//!
//! The factors stay as uncertain as they were after that fit, and by half of the prior's standard deviation more: that
//! they are the same elsewhere is itself not measured.

use nalgebra::{Cholesky, DMatrix};
use scaleproof_pack::time::TimeError;
use scaleproof_sim::profile::uncertainty::{Factor, Knob, Uncertainty};
use scaleproof_sim::profile::{Profile, rounded};
use std::fmt;

/// What carrying adds to a factor's standard deviation, as a share of the prior's.
const CARRIED_SHARE: f64 = 0.5;
/// Expected relative error of a carried profile, as a share of the prior's own; never less than what the fit left.
const ERROR_SHARE: f64 = 0.75;

/// Why factors cannot be carried.
#[derive(Debug)]
pub enum CarryError {
    /// The profile that they should come from has none.
    NoFactors,
    /// A scaled latency is no time.
    Time(TimeError),
}

impl fmt::Display for CarryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CarryError::NoFactors => f.write_str(
                "provenance.factors: found none; expected a profile that `scaleproof model fit` wrote",
            ),
            CarryError::Time(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CarryError {}

/// `prior` with the factors of `from`. It stays a prior: nothing of it was measured.
///
/// # Errors
/// If `from` has no factors.
pub fn carry(prior: &Profile, from: &Profile) -> Result<Profile, CarryError> {
    let factors = &from.provenance.factors;
    if factors.factors.is_empty() {
        return Err(CarryError::NoFactors);
    }
    let mut profile = prior.corrected(factors).map_err(CarryError::Time)?;
    if let (Some(own), Some(other)) = (&prior.uncertainty, &from.uncertainty) {
        profile.uncertainty = Some(carried(own, other));
    }
    profile.provenance.method = format!("{}, with the factors of {}", prior.provenance.method, from.name);
    profile.provenance.expected_relative_error = prior.provenance.expected_relative_error.map(|error| {
        let left = from.provenance.expected_relative_error.unwrap_or(0.0);
        rounded((error * ERROR_SHARE).max(left), 2)
    });
    Ok(profile)
}

/// The covariance after the other's fit, where it knows a factor, plus what carrying adds.
fn carried(own: &Uncertainty, other: &Uncertainty) -> Uncertainty {
    let row = |knob: Knob| other.factors.iter().find(|factor| factor.knob == knob);
    let covariance = |a: &Factor, b: &Factor| {
        let shared = match (row(a.knob), row(b.knob)) {
            (Some(a), Some(b)) => a.deviations.iter().zip(&b.deviations).map(|(x, y)| x * y).sum(),
            _ if a.knob == b.knob => a.prior_sd * a.prior_sd,
            _ => 0.0,
        };
        let added = if a.knob == b.knob { (CARRIED_SHARE * a.prior_sd).powi(2) } else { 0.0 };
        shared + added
    };
    let width = own.factors.len();
    let matrix = DMatrix::from_fn(width, width, |i, j| covariance(&own.factors[i], &own.factors[j]));
    let Some(triangle) = Cholesky::new(matrix).map(|cholesky| cholesky.l()) else { return own.clone() };
    let factor = |i: usize| Factor {
        knob: own.factors[i].knob,
        prior_sd: own.factors[i].prior_sd,
        deviations: (0..=i).map(|j| rounded(triangle[(i, j)], 4)).collect(),
    };
    Uncertainty { factors: (0..width).map(factor).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::prior;
    use crate::testing::{engine, small_spec};
    use scaleproof_sim::profile::uncertainty::Correction;

    #[test]
    fn factors_are_carried_and_stay_uncertain() {
        let mut fitted = engine();
        let draw = Correction { factors: vec![(Knob::Weights, 1.2)] };
        fitted = fitted.corrected(&draw).unwrap();
        let uncertainty = fitted.uncertainty.as_mut().unwrap();
        uncertainty.factors[0].deviations = vec![0.01];
        let mut spec = small_spec();
        spec.memory.tp = 2;
        let (other, _) = prior(&spec).unwrap();
        let carried = carry(&other, &fitted).unwrap();
        assert_eq!(carried.provenance.factors.factor(Knob::Weights).to_string(), "1.2");
        let ratio = carried.step_time.eager.base_us / other.step_time.eager.base_us;
        assert!((ratio - 1.2).abs() < 1e-4, "{ratio}");
        let factor = &carried.uncertainty.as_ref().unwrap().factors[0];
        let expected = 0.01_f64.hypot(CARRIED_SHARE * factor.prior_sd);
        assert!((factor.sd() - expected).abs() < 1e-4 && factor.sd() < factor.prior_sd, "{}", factor.sd());
    }

    #[test]
    fn a_profile_without_factors_carries_none() {
        let engine = engine();
        assert!(matches!(carry(&engine, &engine), Err(CarryError::NoFactors)));
    }
}
