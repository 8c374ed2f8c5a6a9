//! What is not known of a profile: log-normal factors on the parts of its costs, and their joint spread.

use super::{Profile, rounded};
use crate::front_end::FrontEnd;
use crate::step_time::{Coefficients, StepTime, StepTimeError};
use scaleproof_pack::chance::{Stream, normal};
use scaleproof_pack::fields::word_of;
use scaleproof_pack::time::{Nanos, TimeError};

/// A part of the costs that is scaled as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// What every step costs, the weights' read before all.
    Weights,
    /// What tokens of a batch add to that.
    Compute,
    /// Decode attention.
    DecodeContext,
    /// Prefill attention.
    PrefillAttention,
    /// Rows, sampled rows, and the host's share.
    Rows,
    /// The API server's latency.
    FrontEnd,
}

impl Knob {
    /// All of them.
    pub const ALL: [Knob; 6] = [
        Knob::Weights,
        Knob::Compute,
        Knob::DecodeContext,
        Knob::PrefillAttention,
        Knob::Rows,
        Knob::FrontEnd,
    ];
    /// Their words in a file.
    pub const WORDS: [(&'static str, Knob); 6] = [
        ("weights", Knob::Weights),
        ("compute", Knob::Compute),
        ("decode_context", Knob::DecodeContext),
        ("prefill_attention", Knob::PrefillAttention),
        ("rows", Knob::Rows),
        ("front_end", Knob::FrontEnd),
    ];

    /// The word in a file.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// A factor on each part of the costs; 1 where nothing is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    /// Knobs and their factors, above 0.
    pub factors: Vec<(Knob, f64)>,
}

impl Correction {
    /// The factor of one knob.
    #[must_use]
    pub fn factor(&self, knob: Knob) -> f64 {
        self.factors.iter().find(|(k, _)| *k == knob).map_or(1.0, |&(_, factor)| factor)
    }

    /// Both, one after the other.
    #[must_use]
    pub fn then(&self, other: &Correction) -> Correction {
        let product = |knob| (knob, rounded(self.factor(knob) * other.factor(knob), DIGITS));
        Correction { factors: Knob::ALL.map(product).to_vec() }
    }
}

/// One factor's uncertainty: the logarithm is normal about 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// Which part.
    pub knob: Knob,
    /// Standard deviation of its logarithm before any measurement.
    pub prior_sd: f64,
    /// Row of a lower triangular matrix L: the logarithms are L z for independent standard normal z.
    pub deviations: Vec<f64>,
}

impl Factor {
    /// Standard deviation of its logarithm.
    #[must_use]
    pub fn sd(&self) -> f64 {
        self.deviations.iter().map(|d| d * d).sum::<f64>().sqrt()
    }

    /// Whether measurements have told more about it than was known before: less than 0.7 of the prior's deviation,
    /// half of its variance, is left.
    #[must_use]
    pub fn identified(&self) -> bool {
        self.sd() < 0.7 * self.prior_sd
    }
}

/// The joint uncertainty of a profile's factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncertainty {
    /// Each factor, in the order of the matrix's rows.
    pub factors: Vec<Factor>,
}

impl Uncertainty {
    /// The correction for standard normal draws, one a factor; missing ones count as 0.
    #[must_use]
    pub fn correction(&self, normal: &[f64]) -> Correction {
        let log = |f: &Factor| f.deviations.iter().zip(normal).map(|(l, z)| l * z).sum::<f64>();
        Correction { factors: self.factors.iter().map(|f| (f.knob, log(f).exp())).collect() }
    }
}

/// Significant digits of a scaled cost.
const DIGITS: usize = 6;

impl Profile {
    /// A profile drawn from the uncertainty of this one, with the factors that make it; the same one with none if it
    /// states no uncertainty.
    ///
    /// # Errors
    /// If what was drawn is not possible: no time, or below the GPU's bound at a step of the validity region. The
    /// posterior given physics is what is left if such draws are drawn again.
    pub fn drawn(&self, chance: &mut Stream) -> Result<(Profile, Correction), StepTimeError> {
        let Some(uncertainty) = &self.uncertainty else { return Ok((self.clone(), Correction::default())) };
        let normals: Vec<f64> = uncertainty.factors.iter().map(|_| normal(chance)).collect();
        let correction = uncertainty.correction(&normals);
        let profile = self.corrected(&correction)?;
        profile.check_bound().map_err(StepTimeError::BelowBound)?;
        Ok((profile, correction))
    }

    /// The same profile with its costs scaled; its provenance says by what, over what they were scaled by before.
    ///
    /// # Errors
    /// If a scaled latency is no time.
    pub fn corrected(&self, correction: &Correction) -> Result<Profile, TimeError> {
        let mut profile = self.clone();
        profile.step_time = corrected_step_time(&self.step_time, correction);
        let scale = correction.factor(Knob::FrontEnd);
        let scaled = |time: Nanos| Nanos::from_seconds(time.seconds() * scale);
        profile.front_end = FrontEnd {
            process: self.front_end.process,
            request: scaled(self.front_end.request)?,
            busy: scaled(self.front_end.busy)?,
            prompt_token_us: rounded(self.front_end.prompt_token_us * scale, DIGITS),
            output_token: scaled(self.front_end.output_token)?,
        };
        profile.provenance.factors = self.provenance.factors.then(correction);
        Ok(profile)
    }
}

impl Profile {
    /// The same engine with every step longer by a factor, above 0; the front end as it is.
    ///
    /// # Errors
    /// As [`Profile::corrected`].
    pub fn with_steps_longer(&self, factor: f64) -> Result<Profile, TimeError> {
        let steps = Knob::ALL.into_iter().filter(|knob| *knob != Knob::FrontEnd);
        let slower = Correction { factors: steps.map(|knob| (knob, factor)).collect() };
        Ok(Profile { step_time: corrected_step_time(&self.step_time, &slower), ..self.clone() })
    }
}

fn corrected_step_time(model: &StepTime, correction: &Correction) -> StepTime {
    let mut scaled = model.clone();
    scale(&mut scaled.eager, correction);
    if let Some(graphs) = &mut scaled.graphs {
        scale(&mut graphs.full, correction);
        scale(&mut graphs.piecewise, correction);
    }
    for cost in [&mut scaled.host.base_us, &mut scaled.host.row_us] {
        *cost = rounded(*cost * correction.factor(Knob::Rows), DIGITS);
    }
    scaled
}

fn scale(costs: &mut Coefficients, correction: &Correction) {
    let [weights, compute, context, attention, rows] =
        [Knob::Weights, Knob::Compute, Knob::DecodeContext, Knob::PrefillAttention, Knob::Rows]
            .map(|knob| correction.factor(knob));
    let floor_us = costs.batch_token_knots.first().map_or(0.0, |knot| knot.1);
    for (_, time_us) in &mut costs.batch_token_knots {
        *time_us = rounded(floor_us * weights + (*time_us - floor_us) * compute, DIGITS);
    }
    for (cost, factor) in [
        (&mut costs.base_us, weights),
        (&mut costs.launch_us, weights),
        (&mut costs.decode_context_token_us, context),
        (&mut costs.prefill_pair_us, attention),
        (&mut costs.prefill_context_token_us, attention),
        (&mut costs.row_us, rows),
        (&mut costs.sampled_row_us, rows),
    ] {
        *cost = rounded(*cost * factor, DIGITS);
    }
}
