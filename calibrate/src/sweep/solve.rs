//! From the rows of a sweep to a step time: which form, its coefficients, and how well they are known.

use super::data::{Kind, Measurement, median};
use super::form::Form;
use super::prior;
use crate::least_squares::{Fit, Row, fit_weighted};
use nalgebra::{Cholesky, DMatrix, DVector};
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::profile::uncertainty::{Factor, Knob, Uncertainty};
use scaleproof_sim::profile::{FitError, Profile, rounded};

/// The steps' costs.
#[derive(Clone, Debug)]
pub struct Solved {
    /// The form.
    pub form: Form,
    /// Its coefficients.
    pub fit: Fit,
    /// How far rows of each kind spread about it, as a share.
    spreads: Vec<(Kind, f64)>,
}

/// A row with what the fit makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// As measured.
    pub row: Measurement,
    /// As fitted.
    pub fitted_us: f64,
}

impl Judged {
    /// Fitted over measured, less 1.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.fitted_us / self.row.time_us - 1.0
    }
}

/// What the form of the model may miss in any step, as a share.
pub(super) const MODEL_SD: f64 = 0.003;

/// Fits each form, and takes the one with the smallest n ln(cost) + k ln(n) of n rows and k coefficients (Schwarz's
/// criterion, 1978). All are held to a prior, if there is one. None if there is nothing to fit.
#[must_use]
pub fn solve(rows: &[Measurement], scheduler: &EngineConfig, prior: Option<&Profile>) -> Option<Solved> {
    let plain = solve_form(rows, Form::new(scheduler, false, rows), prior)?;
    let others =
        [solve_form(rows, Form::new(scheduler, true, rows), prior), with_launches(rows, &plain, prior)];
    let spreads = others[0].as_ref().unwrap_or(&plain).spreads.clone();
    let criterion = |solved: &Solved| {
        let (cost, count) = solved.cost(rows, &spreads);
        let n = count as f64;
        n * cost.max(1e-12).ln() + solved.form.width() as f64 * n.ln()
    };
    let all = std::iter::once(plain).chain(others.into_iter().flatten());
    all.min_by(|a, b| criterion(a).total_cmp(&criterion(b)))
}

/// Errors are taken of what is fitted: of what was measured, a time that is short by chance would count for more than one that is
/// long, and the fit be short by twice the variance. What lies beyond these, measured over fitted, is no chance.
const CHANCE: (f64, f64) = (0.7, 1.4);

/// What launches may take at first, over the shortest step that was measured.
const LAUNCHES: [f64; 3] = [1.05, 1.2, 1.5];
/// Rounds until the same steps wait for them.
const SETTLING: usize = 6;

/// Fits the form in which no step takes less than the host's launches: which of them wait for those is known when the
/// coefficients are, and so is found in turns, from several beginnings. None where no step does.
fn with_launches(rows: &[Measurement], plain: &Solved, prior: Option<&Profile>) -> Option<Solved> {
    let decode = rows.iter().filter(|row| row.kind == Kind::Decode && !row.held_out && row.time_us > 0.0);
    let least_us = decode.map(|row| row.time_us).fold(f64::INFINITY, f64::min);
    let settled = LAUNCHES.into_iter().filter_map(|factor| {
        let mut coefficients = plain.fit.coefficients.clone();
        coefficients.push(factor * least_us);
        let mut form = plain.form.launched(coefficients);
        for _ in 0..SETTLING {
            let solved = solve_form(rows, form.clone(), prior)?;
            form = form.launched(solved.fit.coefficients.clone());
            let same = rows.iter().all(|row| form.features(row) == solved.form.features(row));
            if same {
                return Some(Solved { form, ..solved });
            }
        }
        None
    });
    let waits = |solved: &Solved| solved.fit.coefficients.last().is_some_and(|launch_us| *launch_us > 0.0);
    let cost = |solved: &Solved| solved.cost(rows, &plain.spreads).0;
    settled.filter(waits).min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

fn solve_form(rows: &[Measurement], form: Form, prior: Option<&Profile>) -> Option<Solved> {
    let usable = |row: &&Measurement| !row.held_out && row.time_us > 0.0;
    let pairs: Vec<(&Measurement, Row)> = rows
        .iter()
        .filter(usable)
        .filter_map(|row| Some((row, Row { features: form.features(row)?, target: row.time_us })))
        .collect();
    let held = prior.map(|prior| prior::rows(&form, prior)).unwrap_or_default();
    let fitted: Vec<Row> =
        pairs.iter().map(|(_, row)| row).chain(held.iter().map(|(row, _)| row)).cloned().collect();
    let of_prior = held.iter().map(|(_, weight)| *weight);
    // First all alike, then each by how far its kind spreads about that.
    let alike: Vec<f64> = pairs.iter().map(|_| 1.0).chain(of_prior.clone()).collect();
    let first = fit_weighted(&fitted, &alike)?;
    let error = |row: &Row| first.predict(&row.features) / row.target - 1.0;
    let spread = |kind: Kind| {
        let of_kind = pairs.iter().filter(|(m, _)| m.kind == kind);
        let errors: Vec<f64> = of_kind.map(|(_, row)| error(row).abs()).collect();
        1.4826 * median(&errors).unwrap_or(0.0)
    };
    let spreads = [Kind::Prompt, Kind::Decode, Kind::Mixed].map(|kind| (kind, spread(kind))).to_vec();
    let measured = pairs.iter().map(|(measured, row)| {
        let ratio = (row.target / first.predict(&row.features)).clamp(CHANCE.0, CHANCE.1);
        (ratio * MODEL_SD / sd(measured, &spreads)).powi(2)
    });
    let weights: Vec<f64> = measured.chain(of_prior).collect();
    let fit = fit_weighted(&fitted, &weights)?;
    Some(Solved { form, fit, spreads })
}

/// A row's relative standard deviation: its own, or that of its kind if it is of too few times to have one.
fn sd(row: &Measurement, spreads: &[(Kind, f64)]) -> f64 {
    let of_kind = spreads.iter().find(|(kind, _)| *kind == row.kind).map_or(0.0, |(_, sd)| *sd);
    let own = if row.samples >= 5 { row.relative_sd } else { of_kind };
    own.hypot(MODEL_SD)
}

impl Solved {
    /// Mean squared residual of the rows that were fitted, in deviations, and how many they are.
    fn cost(&self, rows: &[Measurement], spreads: &[(Kind, f64)]) -> (f64, usize) {
        let judged = self.judge(rows);
        let fitted = judged.iter().filter(|judged| !judged.row.held_out);
        let squares: Vec<f64> = fitted
            .map(|judged| {
                // Beyond three deviations by the size, so that one bad row decides nothing.
                let z = judged.relative_error().abs() / sd(&judged.row, spreads);
                if z < 3.0 { z * z } else { 6.0 * z - 9.0 }
            })
            .collect();
        (squares.iter().sum::<f64>() / squares.len().max(1) as f64, squares.len())
    }

    /// Every row that the form describes, with what it makes of it.
    #[must_use]
    pub fn judge(&self, rows: &[Measurement]) -> Vec<Judged> {
        let judged = |row: &Measurement| {
            let fitted_us = self.fit.predict(&self.form.features(row)?);
            Some(Judged { row: row.clone(), fitted_us })
        };
        rows.iter().filter(|row| row.time_us > 0.0).filter_map(judged).collect()
    }

    /// The joint uncertainty of the factors: with f the logarithms of the factors and C the shares of each row's time
    /// that they scale, C f is normal about the residuals.
    #[must_use]
    pub fn uncertainty(&self, rows: &[Measurement], prior: Option<&Profile>) -> Uncertainty {
        let width = Knob::ALL.len();
        let unknown = |i: usize| prior::deviations(prior)[i];
        let diagonal =
            |power| DMatrix::from_diagonal(&DVector::from_fn(width, |i, _| unknown(i).0.powi(power)));
        let mut gram = prior::covariance(prior).try_inverse().unwrap_or_else(|| diagonal(-2));
        let judged = self.judge(rows);
        let fitted = || judged.iter().filter(|judged| !judged.row.held_out);
        let errors: Vec<f64> = fitted().map(|judged| judged.relative_error().abs()).collect();
        let usual = 1.4826 * median(&errors).unwrap_or(0.0);
        for judged in fitted() {
            let Some(features) = self.form.features(&judged.row) else { continue };
            let parts = self.form.parts(&features, &self.fit.coefficients);
            let shares =
                DVector::from_iterator(width, parts.iter().map(|part| part / judged.fitted_us.max(1e-9)));
            let sd = judged.row.relative_sd.hypot(usual).hypot(MODEL_SD);
            gram += &shares * shares.transpose() / (sd * sd);
        }
        let covariance = gram.try_inverse().and_then(Cholesky::new).map(|cholesky| cholesky.l());
        let deviations = covariance.unwrap_or_else(|| diagonal(1));
        let factor = |i: usize| Factor {
            knob: Knob::ALL[i],
            prior_sd: rounded(unknown(i).1, 4),
            deviations: (0..=i).map(|j| rounded(deviations[(i, j)], 4)).collect(),
        };
        Uncertainty { factors: (0..width).map(factor).collect() }
    }
}

/// The median error by kind of step of the rows that were fitted, or of those held out.
#[must_use]
pub fn errors_by_kind(judged: &[Judged], held_out: bool) -> Vec<FitError> {
    let suffix = if held_out { ", held out" } else { "" };
    let of_kind = |kind: Kind| {
        let of = judged.iter().filter(|j| j.row.kind == kind && j.row.held_out == held_out);
        let errors: Vec<f64> = of.map(|j| j.relative_error().abs()).collect();
        let median_relative = rounded(median(&errors)?, 3);
        Some(FitError {
            kind: format!("{} step{suffix}", kind.word()),
            count: errors.len() as u32,
            median_relative,
        })
    };
    [Kind::Prompt, Kind::Decode, Kind::Mixed].into_iter().filter_map(of_kind).collect()
}

/// How many steps a prompt waits until its first one begins, in the mean, beyond the front end: half a step if the
/// engine schedules a step when the one before has ended, one more if it does so while that runs. None without waits.
#[must_use]
pub fn steps_waited(rows: &[Measurement], front_end_us: impl Fn(u32) -> f64) -> Option<f64> {
    let waits: Vec<f64> = rows
        .iter()
        .filter(|row| row.kind == Kind::Wait && row.context > 0.0)
        // `context` of a wait is the usual step.
        .map(|row| (row.time_us - front_end_us(row.prompt_tokens)) / row.context)
        .collect();
    median(&waits)
}
