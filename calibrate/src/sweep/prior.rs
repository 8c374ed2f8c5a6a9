//! What a prior says of an engine before a sweep of it: what the GPU is, and what each coefficient of the step time is
//! expected to be. A coefficient is then held to that with the prior's own deviation: what many times say of it outweighs
//! that, and what no time says anything of stays as it was.

use super::form::Form;
use super::solve::MODEL_SD;
use crate::least_squares::Row;
use nalgebra::DMatrix;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::Knob;
use scaleproof_sim::step_time::{BatchShape, Coefficients, StepTime};

/// Standard deviation of a factor's logarithm where nothing is said of it.
pub const UNKNOWN_SD: f64 = 0.5;
/// A prior is never surer of a factor than this: it was not measured on this engine.
const SD_MIN: f64 = 0.01;

/// A coefficient as a prior has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Expected {
    value: f64,
    /// Of its logarithm.
    sd: f64,
}

/// The deviation of each factor, in the order of [`Knob::ALL`], and before any measurement.
pub fn deviations(prior: Option<&Profile>) -> [(f64, f64); 6] {
    let factors = prior.and_then(|prior| prior.uncertainty.as_ref());
    Knob::ALL.map(|knob| {
        let known = factors.and_then(|known| known.factors.iter().find(|factor| factor.knob == knob));
        known
            .map_or((UNKNOWN_SD, UNKNOWN_SD), |factor| (factor.sd().max(SD_MIN), factor.prior_sd.max(SD_MIN)))
    })
}

/// The covariance of the factors' logarithms before the sweep, in the order of [`Knob::ALL`].
pub fn covariance(prior: Option<&Profile>) -> DMatrix<f64> {
    let own = deviations(prior);
    let factors = prior.and_then(|prior| prior.uncertainty.as_ref());
    let row = |knob: Knob| factors?.factors.iter().find(|factor| factor.knob == knob);
    DMatrix::from_fn(own.len(), own.len(), |i, j| {
        let both = row(Knob::ALL[i]).zip(row(Knob::ALL[j]));
        match both {
            _ if i == j => own[i].0.powi(2),
            Some((a, b)) => a.deviations.iter().zip(&b.deviations).map(|(x, y)| x * y).sum(),
            None => 0.0,
        }
    })
}

/// Rows that hold the form's coefficients to the prior, each with its weight; none for a coefficient that the prior has not.
pub fn rows(form: &Form, prior: &Profile) -> Vec<(Row, f64)> {
    let expected = expected(form, prior);
    let row = |(place, expected): (usize, &Expected)| {
        let mut features = vec![0.0; form.width()];
        features[place] = 1.0;
        (Row { features, target: expected.value }, (MODEL_SD / expected.sd).powi(2))
    };
    expected.iter().enumerate().filter(|(_, e)| e.value > 0.0 && e.value.is_finite()).map(row).collect()
}

/// Every coefficient of the form as the prior has it, 0 where it has none.
fn expected(form: &Form, prior: &Profile) -> Vec<Expected> {
    let sds = deviations(Some(prior)).map(|(sd, _)| sd);
    let sd = |knob: Knob| Knob::ALL.iter().position(|known| *known == knob).map_or(UNKNOWN_SD, |at| sds[at]);
    let of = |value, knob| Expected { value, sd: sd(knob) };
    let (eager, front_end) = (&prior.step_time.eager, &prior.front_end);
    let host_row_us = if form.rows_after() { prior.step_time.host.row_us } else { 0.0 };
    let row_us = eager.row_us + eager.sampled_row_us + host_row_us;
    let mut all = vec![Expected::default(); form.width()];
    all[0] = of(1e6 * (front_end.request + front_end.output_token).seconds(), Knob::FrontEnd);
    all[1] = of(front_end.prompt_token_us, Knob::FrontEnd);
    all[2] = of(row_us, Knob::Rows);
    let mut model = prior.step_time.clone();
    let asynchronous = prior.scheduler.async_scheduling;
    if form.has_launches() {
        let host_us = if asynchronous { 0.0 } else { model.host.base_us };
        all[form.launch_at()] = of(model.eager.launch_us + host_us, Knob::Weights);
        model.eager.launch_us = 0.0;
    }
    for mode in Form::MODES {
        let costs = costs(prior, mode);
        let from = Form::attention_from(mode);
        all[from] = of(costs.decode_context_token_us, Knob::DecodeContext);
        all[from + 1] = of(costs.prefill_pair_us, Knob::PrefillAttention);
        all[from + 2] = of(costs.prefill_context_token_us, Knob::PrefillAttention);
        let knots = form.knots(mode).iter();
        let times: Vec<f64> =
            knots.map(|&tokens| without_context_us(&model, asynchronous, mode, tokens, row_us)).collect();
        let floor = times.first().copied().unwrap_or(0.0);
        for (place, time_us) in (form.knots_from(mode)..).zip(times) {
            let parts = (sd(Knob::Weights) * floor, sd(Knob::Compute) * (time_us - floor));
            let sd = (parts.0.hypot(parts.1) / time_us.max(1e-9)).max(SD_MIN);
            all[place] = Expected { value: time_us, sd };
        }
    }
    all
}

/// The prior's costs of a mode: eager, full, piecewise.
fn costs(prior: &Profile, mode: usize) -> &Coefficients {
    let model = &prior.step_time;
    match (&model.graphs, mode) {
        (Some(graphs), 1) => &graphs.full,
        (Some(graphs), _) => &graphs.piecewise,
        (None, _) => &model.eager,
    }
}

/// What the prior makes of a step of so many tokens without any context, less its rows. A full graph is of decode rows, of
/// which each has a token; what the host takes is in it.
fn without_context_us(model: &StepTime, asynchronous: bool, mode: usize, tokens: u32, row_us: f64) -> f64 {
    let rows = if mode == 1 { tokens } else { 1 };
    let shape = BatchShape { tokens: tokens.into(), rows, sampled: rows, ..BatchShape::default() };
    let step_us = model.step_us(&shape, asynchronous);
    (step_us - row_us * f64::from(rows)).max(0.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::super::data::{Kind, Measurement, Robust};
    use super::super::solve::solve;
    use super::*;
    use crate::testing::engine;

    /// Decode batches over no context, each of which takes `factor` times what the prior says.
    fn decode(prior: &Profile, factor: f64) -> Vec<Measurement> {
        let row = |rows: u32| {
            let shape = BatchShape { tokens: rows.into(), rows, sampled: rows, ..BatchShape::default() };
            let time = Robust {
                mean: factor * prior.step_time.step_us(&shape, true),
                relative_sd: 0.002,
                samples: 50,
                outliers: 0,
                stalls: 0.0,
            };
            Measurement { rows, ..Measurement::new(Kind::Decode, 0.0, time, false) }
        };
        [1, 2, 4, 8, 16, 32, 64].map(row).to_vec()
    }

    #[test]
    fn what_no_time_tells_of_stays_with_the_prior_and_the_rest_does_not() {
        let prior = engine();
        let rows = decode(&prior, 1.3);
        let with = solve(&rows, &prior.scheduler, Some(&prior)).unwrap();
        let full = Form::attention_from(1);
        let costs = &prior.step_time.graphs.as_ref().unwrap().full;
        assert!((with.fit.coefficients[full] / costs.decode_context_token_us - 1.0).abs() < 1e-6);
        let without = solve(&rows, &prior.scheduler, None).unwrap();
        assert!(without.fit.coefficients[Form::attention_from(0)].abs() < 1e-12);
        for judged in with.judge(&rows) {
            assert!(judged.relative_error().abs() < 0.01, "{judged:?}");
        }
        let known = with.uncertainty(&rows, Some(&prior));
        let factor = |knob: Knob| known.factors.iter().find(|factor| factor.knob == knob).unwrap();
        assert!(factor(Knob::Weights).identified() && !factor(Knob::DecodeContext).identified());
        let before = prior.uncertainty.as_ref().unwrap();
        let before = before.factors.iter().find(|factor| factor.knob == Knob::DecodeContext).unwrap();
        assert!((factor(Knob::DecodeContext).sd() / before.sd() - 1.0).abs() < 0.01, "{known:?}");
    }
}
