//! An engine's profile: its scheduler's settings and what its steps cost, for one model, precision, GPU, tensor
//! parallel degree and engine version. Read from models/*.yaml.

mod bound;
mod read;
pub mod uncertainty;
mod write;

use crate::engine::EngineConfig;
use crate::front_end::FrontEnd;
use crate::hardware::BelowBound;
use crate::replica::{Extremes, ReplicaTotals};
use crate::step_time::StepTime;
pub(crate) use read::read_scheduler;
use read::{read_front_end, read_hardware, read_provenance, read_step_time, read_uncertainty, read_validity};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, mapping, word_of};
use serde::Serialize;
use std::fmt;
use uncertainty::{Correction, Uncertainty};
pub use write::rounded;

/// What a profile rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Parameters made for teaching or tests; of no real hardware.
    Fixture,
    /// From specifications and other systems' measurements; never compared with this engine.
    Prior,
    /// Fitted to measurements of this engine.
    Calibrated,
}

impl ProfileKind {
    const WORDS: [(&'static str, ProfileKind); 3] = [
        ("fixture", ProfileKind::Fixture),
        ("prior", ProfileKind::Prior),
        ("calibrated", ProfileKind::Calibrated),
    ];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// The batches for which a profile's step time was fitted. All bounds are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Tokens of a batch.
    pub batch_tokens: (u32, u32),
    /// Rows of a batch.
    pub rows: (u32, u32),
    /// Tokens of context of a row, its own of the step included.
    pub context_tokens: (u32, u32),
}

impl Validity {
    /// What of the batches seen lies above the region, in words; empty if nothing does.
    #[must_use]
    pub fn exceeded(&self, seen: &Extremes) -> Vec<String> {
        [
            ("batch tokens", seen.batch_tokens, self.batch_tokens.1),
            ("rows", seen.rows, self.rows.1),
            ("context tokens", seen.context_tokens, self.context_tokens.1),
        ]
        .iter()
        .filter(|(_, found, limit)| found > limit)
        .map(|(what, found, limit)| format!("{what} reached {found}, the profile holds to {limit}"))
        .collect()
    }

    /// What of the mean step lies below the region, in words. Every run has small steps at its begin and its end, and
    /// they matter little: below the region is a run whose usual step is.
    #[must_use]
    pub fn fallen_below(&self, totals: &ReplicaTotals) -> Vec<String> {
        let mean = |sum: u64| sum as f64 / totals.steps as f64;
        let mean_row = totals.row_tokens as f64 / totals.rows as f64;
        [
            ("batch tokens", mean(totals.computed_tokens), self.batch_tokens.0),
            ("rows", mean(totals.rows), self.rows.0),
            ("context tokens", mean_row, self.context_tokens.0),
        ]
        .iter()
        .filter(|(_, found, limit)| *found < f64::from(*limit))
        .map(|(what, found, limit)| {
            format!("{what} are {found:.1} in the mean step, the profile holds from {limit}")
        })
        .collect()
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((t0, t1), (r0, r1), (c0, c1)) = (self.batch_tokens, self.rows, self.context_tokens);
        write!(f, "batch tokens {t0} to {t1}, rows {r0} to {r1}, context tokens {c0} to {c1}")
    }
}

/// A checked profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it rests on.
    pub kind: ProfileKind,
    /// The GPU, if it is of a real one.
    pub gpu: Option<String>,
    /// Model id it was made for.
    pub model_id: String,
    /// Model revision it was made for.
    pub model_revision: String,
    /// Precision it was made for.
    pub precision: String,
    /// Tensor and pipeline parallel degrees of a replica.
    pub tp: u32,
    /// See `tp`.
    pub pp: u32,
    /// The scheduler's settings.
    pub scheduler: EngineConfig,
    /// The API server's latency.
    pub front_end: FrontEnd,
    /// What a step costs.
    pub step_time: StepTime,
    /// Where it holds.
    pub validity: Validity,
    /// How well its parts are known; None for a profile that states nothing about it.
    pub uncertainty: Option<Uncertainty>,
    /// How it was made.
    pub provenance: Provenance,
}

/// How a profile was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// How.
    pub method: String,
    /// What it was made from.
    pub sources: Vec<String>,
    /// When, as YYYY-MM-DD.
    pub date: Option<String>,
    /// The command that makes it again.
    pub command: Option<String>,
    /// The engine and version that was measured.
    pub engine_version: Option<String>,
    /// SHA-256 of the data it was fitted to, in hexadecimal.
    pub data_sha256: Option<String>,
    /// The relative error to expect of its step times, as a share.
    pub expected_relative_error: Option<f64>,
    /// What the prior's costs were multiplied by; no factors for a profile that was not fitted.
    pub factors: Correction,
    /// What the fit left; empty for a profile that was not fitted.
    pub residuals: Vec<Residual>,
    /// The error by kind of step or metric.
    pub fit_errors: Vec<FitError>,
}

/// How far a fit is from one kind of measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitError {
    /// What kind of step or metric.
    pub kind: String,
    /// Measurements.
    pub count: u32,
    /// Median of |fitted/measured - 1|.
    pub median_relative: f64,
}

/// A measured number and what the fitted profile makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// What, with its unit and where it was measured.
    pub metric: String,
    /// As measured or published.
    pub target: f64,
    /// As simulated with the profile.
    pub fitted: f64,
}

impl Profile {
    /// What it is worth, in words: its kind, the error to expect, and its GPU or that it names none.
    #[must_use]
    pub fn label(&self) -> String {
        let error = self.provenance.expected_relative_error;
        let expected = error.map(|share| format!("expected error {:.0} %", 100.0 * share));
        let kind = match (self.kind, expected) {
            (ProfileKind::Prior, expected) => {
                format!("uncalibrated prior, {}", expected.as_deref().unwrap_or("expected error not stated"))
            }
            (kind, Some(expected)) => format!("{}, {expected}", kind.word()),
            (kind, None) => kind.word().to_owned(),
        };
        match &self.gpu {
            Some(gpu) => format!("{kind}, on {gpu}"),
            None => format!("{kind}, names no GPU, so no hardware bound was checked"),
        }
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Profile, Faults> {
        Profile::of(&Document::parse(file, text)?)
    }

    /// The same for a file that is parsed already.
    ///
    /// # Errors
    /// As [`Profile::parse`].
    pub fn of(document: &Document) -> Result<Profile, Faults> {
        document.read(|fields| {
            let profile = read_profile(fields)?;
            if let Err(error) = profile.check_bound() {
                let expected = format!("at least the {:.1} us of {}", error.bound_us, error.by);
                fields.opt("step_time").fault(error.found(), &expected, BelowBound::ADVICE);
            }
            Some(profile)
        })
    }
}

fn read_profile(fields: &mut Fields<'_>) -> Option<Profile> {
    let name = fields.req("profile").string();
    let kind = fields.req("kind").word(&ProfileKind::WORDS);
    let gpu = fields.opt("gpu").string();
    let model = mapping(&fields.req("model"), |f| {
        let (id, revision) = (f.req("id").string(), f.req("revision").string());
        Some((id?, revision?, f.req("precision").string()?))
    });
    let placement = mapping(&fields.req("placement"), |f| {
        let (tp, pp) = (f.req("tp").u32(1..=1024), f.req("pp").u32(1..=1024));
        Some((tp?, pp?))
    });
    let scheduler = mapping(&fields.req("scheduler"), |f| read_scheduler(f, None));
    let front_end = mapping(&fields.req("front_end"), read_front_end);
    // A profile that names a GPU states what bounds it.
    let hardware_item = fields.field("hardware", gpu.is_some());
    let has_hardware = gpu.is_some() || hardware_item.is_present();
    let hardware = has_hardware.then(|| mapping(&hardware_item, read_hardware));
    let step_time = mapping(&fields.req("step_time"), |f| {
        read_step_time(f, scheduler.as_ref(), hardware.clone().flatten())
    });
    let validity = mapping(&fields.req("validity"), read_validity);
    let uncertainty_item = fields.opt("uncertainty");
    let uncertainty = if uncertainty_item.is_present() {
        read_uncertainty(&uncertainty_item).map(Some)
    } else {
        Some(None)
    };
    let provenance = mapping(&fields.req("provenance"), read_provenance);
    let ((model_id, model_revision, precision), (tp, pp)) = (model?, placement?);
    Some(Profile {
        name: name?,
        kind: kind?,
        gpu,
        model_id,
        model_revision,
        precision,
        tp,
        pp,
        scheduler: scheduler?,
        front_end: front_end?,
        step_time: step_time?,
        validity: validity?,
        uncertainty: uncertainty?,
        provenance: provenance?,
    })
}

#[cfg(test)]
pub(crate) mod tests;
