//! The factors on a prior's costs that measurements ask for, and how well they are then known.
//!
//! Each factor's logarithm is normal about 0 before any measurement, as the prior's uncertainty says; each measurement
//! is log-normal about what the simulator makes of the corrected profile. The most probable factors minimise
//!
//! ```text
//! sum rho((ln simulated - ln measured)/sd) + sum z^2      z: the prior's independent standard normals
//! rho(r) = r^2 up to |r| = 2, 4 |r| - 4 beyond               (Huber 1964: one bad measurement does not bend the rest)
//! ```
//! by the Gauss-Newton method with Levenberg's and Marquardt's damping (Marquardt 1963), from several starts; the
//! posterior is the normal about them with the inverse of J'J as its covariance (Laplace's approximation). A factor that
//! no measurement says anything about keeps its prior, in value and in width.

use crate::trial::{Observation, Served, Trial};
use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;
use scaleproof_sim::profile::uncertainty::{Correction, Factor, Uncertainty};
use scaleproof_sim::profile::{FitError, Profile, ProfileKind, Residual, rounded};
use scaleproof_sim::{Extremes, RunError};
use std::fmt;

/// A trial with what was measured there.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The load.
    pub trial: Trial,
    /// The numbers.
    pub observations: Vec<Observation>,
}

/// What a fit found.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// The corrected profile, with its uncertainty and what the fit left.
    pub profile: Profile,
    /// The factors.
    pub correction: Correction,
    /// Sum of squares at the end, per observation.
    pub misfit: f64,
    /// Simulations run, each of all trials.
    pub evaluations: usize,
}

/// Why a fit failed.
#[derive(Debug)]
pub enum PosteriorError {
    /// The prior states no uncertainty, so nothing can be weighed against the data.
    NoUncertainty,
    /// Nothing was measured.
    NoObservations,
    /// The start cannot be simulated.
    Run(String, RunError),
    /// A trial served nothing that has the number.
    NothingServed(String),
}

impl fmt::Display for PosteriorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PosteriorError::NoUncertainty => f.write_str(
                "the prior: found no uncertainty; expected one, to weigh it against the measurements; write the prior \
                 by `scaleproof model predict`, or add `uncertainty`",
            ),
            PosteriorError::NoObservations => {
                f.write_str("the measurements: found none; expected at least one operating point with a latency")
            }
            PosteriorError::Run(label, error) => write!(f, "{label}: {error}"),
            PosteriorError::NothingServed(label) => write!(
                f,
                "{label}: found a metric that nothing served has in the simulation; expected every measured one"
            ),
        }
    }
}

impl std::error::Error for PosteriorError {}

/// Rounds of Gauss-Newton from one start.
const ROUNDS: usize = 12;
/// A round that lowers the sum of squares by less than this share ends the search.
const ENOUGH: f64 = 1e-4;
/// Standard deviations beyond which a residual counts by its size, not its square.
const HUBER: f64 = 2.0;
/// Step of the numeric derivatives, in standard deviations of the prior: the simulator answers in steps of its own.
const STEP: f64 = 0.1;
/// Starts beside the prior's mean: all factors low, all high, in standard deviations of the prior.
const STARTS: [f64; 3] = [0.0, -0.7, 0.7];

/// Fits the prior's factors to the measurements.
///
/// # Errors
/// A prior without uncertainty, nothing measured, or a prior that cannot be simulated on the trials.
pub fn fit(prior: &Profile, measured: &[Measured]) -> Result<Posterior, PosteriorError> {
    fit_observed(prior, measured, &|_| {})
}

/// The most requests that a fit simulates; one that is sure of its factors sooner ends sooner.
#[must_use]
pub fn most_requests(prior: &Profile, measured: &[Measured]) -> u64 {
    let width = prior.uncertainty.as_ref().map_or(0, |u| u.factors.len());
    let evaluations = STARTS.len() * (ROUNDS + 1) * (2 * width + 1) + 1;
    evaluations as u64 * measured.iter().map(|m| m.trial.requests()).sum::<u64>()
}

/// [`fit`], which tells `simulated` of each trial's requests when they were, from any thread.
///
/// # Errors
/// As [`fit`].
pub fn fit_observed(
    prior: &Profile,
    measured: &[Measured],
    simulated: &(dyn Fn(u64) + Sync),
) -> Result<Posterior, PosteriorError> {
    let uncertainty = prior.uncertainty.as_ref().ok_or(PosteriorError::NoUncertainty)?;
    if measured.iter().all(|m| m.observations.is_empty()) {
        return Err(PosteriorError::NoObservations);
    }
    let problem = Problem { prior, uncertainty, measured, simulated };
    let width = uncertainty.factors.len();
    let descents: Vec<Result<Descent, PosteriorError>> =
        STARTS.par_iter().map(|&start| problem.descend(DVector::from_element(width, start))).collect();
    let mut evaluations = 0;
    let mut best: Option<Descent> = None;
    let mut first_error = None;
    for descent in descents {
        match descent {
            Ok(descent) => {
                evaluations += descent.evaluations;
                if best.as_ref().is_none_or(|b| descent.cost < b.cost) {
                    best = Some(descent);
                }
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let Some(best) = best else { return Err(first_error.unwrap_or(PosteriorError::NoObservations)) };
    problem.posterior(&best, evaluations)
}

struct Problem<'a> {
    prior: &'a Profile,
    uncertainty: &'a Uncertainty,
    measured: &'a [Measured],
    simulated: &'a (dyn Fn(u64) + Sync),
}

/// The end of one search.
struct Descent {
    z: DVector<f64>,
    cost: f64,
    jacobian: DMatrix<f64>,
    evaluations: usize,
}

impl Problem<'_> {
    fn correction(&self, z: &DVector<f64>) -> Correction {
        self.uncertainty.correction(z.as_slice())
    }

    /// What the profile corrected by `z` does at every trial.
    fn serve(&self, z: &DVector<f64>) -> Result<Vec<Vec<Served>>, PosteriorError> {
        let failed = |m: &Measured, error| PosteriorError::Run(m.trial.label.clone(), error);
        let profile = self.prior.corrected(&self.correction(z));
        let profile = profile.map_err(|error| PosteriorError::Run(self.prior.name.clone(), error.into()))?;
        let serve = |m: &Measured| {
            let served = m.trial.serve(&profile).map_err(|error| failed(m, error));
            (self.simulated)(m.trial.requests());
            served
        };
        self.measured.par_iter().map(serve).collect()
    }

    /// Roots of rho of every observation, with its sign, then z itself.
    fn residuals(&self, z: &DVector<f64>) -> Result<DVector<f64>, PosteriorError> {
        let served = self.serve(z)?;
        let mut residuals = Vec::new();
        for (m, served) in self.measured.iter().zip(&served) {
            for observation in &m.observations {
                let simulated = Trial::mean(served, observation.metric).filter(|value| *value > 0.0);
                let nothing = || PosteriorError::NothingServed(m.trial.label.clone());
                let ratio = simulated.ok_or_else(nothing)? / observation.value;
                residuals.push(robust(ratio.ln() / observation.relative_sd));
            }
        }
        residuals.extend(z.iter());
        Ok(DVector::from_vec(residuals))
    }

    /// Central differences about `z`, whose residuals are `here`; a column a factor. Where one side is below the hardware's
    /// bound, the difference to the other.
    fn jacobian(&self, z: &DVector<f64>, here: &DVector<f64>) -> Result<DMatrix<f64>, PosteriorError> {
        let column = |i: usize| {
            let at = |step: f64| {
                let mut moved = z.clone();
                moved[i] += step;
                self.residuals(&moved)
            };
            match (at(STEP), at(-STEP)) {
                (Ok(above), Ok(below)) => Ok((above - below) / (2.0 * STEP)),
                (Ok(above), Err(_)) => Ok((above - here) / STEP),
                (Err(_), Ok(below)) => Ok((here - below) / STEP),
                (Err(error), Err(_)) => Err(error),
            }
        };
        let columns: Result<Vec<DVector<f64>>, PosteriorError> =
            (0..z.len()).into_par_iter().map(column).collect();
        Ok(DMatrix::from_columns(&columns?))
    }

    fn descend(&self, start: DVector<f64>) -> Result<Descent, PosteriorError> {
        let mut z = start;
        let mut residuals = self.residuals(&z)?;
        let mut evaluations = 1;
        let mut damping = 1e-2;
        let mut jacobian = self.jacobian(&z, &residuals)?;
        for _ in 0..ROUNDS {
            evaluations += 2 * z.len() + 1;
            let before = residuals.norm_squared();
            let gram = jacobian.transpose() * &jacobian;
            let gradient = jacobian.transpose() * &residuals;
            let damped = &gram + DMatrix::from_diagonal(&gram.diagonal()) * damping;
            let Some(step) = damped.cholesky().map(|c| c.solve(&gradient)) else { break };
            let next = &z - step;
            // A candidate below the hardware's bound is no candidate.
            let after = self.residuals(&next).ok().filter(|r| r.norm_squared() < before);
            let Some(after) = after else {
                damping *= 10.0;
                if damping > 1e4 {
                    break;
                }
                continue;
            };
            let gained = before - after.norm_squared();
            (z, residuals) = (next, after);
            damping = (damping / 5.0).max(1e-6);
            jacobian = self.jacobian(&z, &residuals)?;
            if gained < ENOUGH * before {
                break;
            }
        }
        Ok(Descent { cost: residuals.norm_squared(), z, jacobian, evaluations })
    }

    fn posterior(&self, best: &Descent, evaluations: usize) -> Result<Posterior, PosteriorError> {
        let correction = self.correction(&best.z);
        let corrected = self.prior.corrected(&correction);
        let mut profile =
            corrected.map_err(|error| PosteriorError::Run(self.prior.name.clone(), error.into()))?;
        let served = self.serve(&best.z)?;
        profile.kind = ProfileKind::Calibrated;
        profile.uncertainty = Some(self.spread(&best.jacobian));
        let (residuals, errors) = self.left(&served);
        profile.provenance.residuals = residuals;
        profile.provenance.fit_errors = errors;
        let seen = served.iter().flatten().fold(Extremes::default(), |seen, s| seen.max(s.extremes));
        profile.validity.batch_tokens.1 = seen.batch_tokens;
        profile.validity.rows.1 = seen.rows;
        profile.validity.context_tokens.1 = seen.context_tokens;
        let observations: usize = self.measured.iter().map(|m| m.observations.len()).sum();
        let misfit = (best.cost - best.z.norm_squared()) / observations.max(1) as f64;
        Ok(Posterior { profile, correction, misfit, evaluations })
    }

    /// The posterior's spread: covariance S (J'J)^-1 S' with the prior's own triangle S, and its triangle.
    fn spread(&self, jacobian: &DMatrix<f64>) -> Uncertainty {
        let factors = &self.uncertainty.factors;
        let width = factors.len();
        let prior =
            DMatrix::from_fn(width, width, |i, j| factors[i].deviations.get(j).copied().unwrap_or(0.0));
        // J has the identity below it, so J'J is positive definite.
        let gram = jacobian.transpose() * jacobian;
        let covariance = gram.try_inverse().map(|inverse| &prior * inverse * prior.transpose());
        let triangle = covariance.and_then(nalgebra::Cholesky::new).map_or(prior, |cholesky| cholesky.l());
        let factor = |i: usize| Factor {
            knob: factors[i].knob,
            prior_sd: factors[i].prior_sd,
            deviations: (0..=i).map(|j| digits(triangle[(i, j)])).collect(),
        };
        Uncertainty { factors: (0..width).map(factor).collect() }
    }

    /// What the fit leaves of each observation, and its median by metric.
    fn left(&self, served: &[Vec<Served>]) -> (Vec<Residual>, Vec<FitError>) {
        let mut residuals = Vec::new();
        let mut by_metric: Vec<(String, Vec<f64>)> = Vec::new();
        for (m, served) in self.measured.iter().zip(served) {
            for observation in &m.observations {
                let Some(fitted) = Trial::mean(served, observation.metric) else { continue };
                let name = observation.metric.to_string();
                residuals.push(Residual {
                    metric: format!("{name} at {}", m.trial.label),
                    target: digits(observation.value),
                    fitted: digits(fitted),
                });
                let error = (fitted / observation.value - 1.0).abs();
                match by_metric.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, errors)) => errors.push(error),
                    None => by_metric.push((name, vec![error])),
                }
            }
        }
        let errors = by_metric.into_iter().map(|(kind, mut errors)| {
            errors.sort_by(f64::total_cmp);
            let median_relative = digits(errors[errors.len() / 2]);
            FitError { kind, count: errors.len() as u32, median_relative }
        });
        (residuals, errors.collect())
    }
}

/// The signed root of Huber's loss.
fn robust(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= HUBER { residual } else { (HUBER * (2.0 * size - HUBER)).sqrt().copysign(residual) }
}

/// Four significant digits, as a file holds them.
fn digits(value: f64) -> f64 {
    rounded(value, 4)
}
