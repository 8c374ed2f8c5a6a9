//! What a fit prints.

use super::fit::MISFIT_MAX;
use crate::table::table;
use scaleproof_calibrate::accuracy::Comparison;
use scaleproof_calibrate::points::PointTrial;
use scaleproof_calibrate::posterior::Posterior;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::Factor;
use serde_json::{Value, json};
use std::path::Path;

/// A fit, and what there was before it.
pub struct Fitted<'a> {
    pub prior: &'a Profile,
    pub posterior: &'a Posterior,
    /// In the order of the files.
    pub trials: &'a [PointTrial],
    /// Every number of every point.
    pub comparisons: &'a [Comparison],
}

impl Fitted<'_> {
    fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.posterior.profile.uncertainty.iter().flat_map(|uncertainty| &uncertainty.factors)
    }

    fn describes(&self) -> bool {
        self.posterior.misfit <= MISFIT_MAX
    }

    pub fn json(&self, out: &Path) -> Value {
        let posterior = self.posterior;
        let profile = &posterior.profile;
        let factor = |factor: &Factor| {
            json!({
                "factor": factor.knob.word(),
                "value": posterior.correction.factor(factor.knob),
                "prior_sd": factor.prior_sd,
                "posterior_sd": factor.sd(),
                "identified": factor.identified(),
            })
        };
        let comparison = |c: &Comparison| {
            json!({
                "point": c.point,
                "metric": c.metric.to_string(),
                "measured": c.measured,
                "predicted": c.predicted,
                "relative_error": c.relative_error(),
                "held_out": !c.fitted,
            })
        };
        let validity = &profile.validity;
        json!({
            "profile": profile.name,
            "prior": self.prior.name,
            "written": self.describes().then(|| out.display().to_string()),
            "factors": self.factors().map(factor).collect::<Vec<_>>(),
            "misfit_per_observation": posterior.misfit,
            "evaluations": posterior.evaluations,
            "fit_errors": profile.provenance.fit_errors,
            "validity": {
                "batch_tokens": validity.batch_tokens,
                "rows": validity.rows,
                "context_tokens": validity.context_tokens,
            },
            "data_sha256": profile.provenance.data_sha256,
            "comparisons": self.comparisons.iter().map(comparison).collect::<Vec<_>>(),
            "notes": self.notes(),
        })
    }

    pub fn text(&self, held_out: &[bool], missed: &[String], out: &Path) -> String {
        let posterior = self.posterior;
        let mut text = self.points_text(held_out);
        text += &self.factors_text();
        text += &format!(
            "misfit {:.2} per observation (about 1 if the model is right), {} simulations of all points\n",
            posterior.misfit, posterior.evaluations
        );
        for error in &posterior.profile.provenance.fit_errors {
            let (kind, percent) = (&error.kind, 100.0 * error.median_relative);
            text += &format!("fitted {kind}: median error {percent:.1} % over {}\n", error.count);
        }
        text += &format!("holds for {}\n", posterior.profile.validity);
        for (title, fitted) in [("fitted on", true), ("held out", false)] {
            text += &self.comparisons_text(title, fitted);
        }
        if !self.describes() {
            text += &format!(
                "FAIL misfit {:.0} per observation, above {MISFIT_MAX}: no profile is written\n",
                self.posterior.misfit
            );
        }
        for miss in missed {
            text += &format!("FAIL held-out {miss}\n");
        }
        for note in self.notes() {
            text += &format!("note: {note}\n");
        }
        if self.describes() {
            text += &format!("profile: {}\n", out.display());
        }
        text
    }

    fn points_text(&self, held_out: &[bool]) -> String {
        let rows: Vec<Vec<String>> = (1..)
            .zip(self.trials)
            .zip(held_out)
            .map(|((number, trial), held): ((usize, _), _)| {
                let measured = &trial.measured;
                vec![
                    number.to_string(),
                    measured.trial.label.clone(),
                    (measured.trial.requests() / measured.trial.schedules.len().max(1) as u64).to_string(),
                    measured.trial.schedules.len().to_string(),
                    measured.observations.len().to_string(),
                    if *held { "held out" } else { "fitted on" }.to_owned(),
                ]
            })
            .collect();
        table(&["point", "load", "requests", "draws", "numbers", ""], &rows) + "\n"
    }

    fn factors_text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .factors()
            .map(|factor| {
                let verdict = if factor.identified() { "identified" } else { "the data say little" };
                vec![
                    factor.knob.word().to_owned(),
                    format!("{:.3}", self.posterior.correction.factor(factor.knob)),
                    format!("{:.3}", factor.prior_sd),
                    format!("{:.3}", factor.sd()),
                    verdict.to_owned(),
                ]
            })
            .collect();
        table(&["factor", "value", "sd before", "sd after", ""], &rows)
    }

    fn comparisons_text(&self, title: &str, fitted: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .comparisons
            .iter()
            .filter(|c| c.fitted == fitted)
            .map(|c| {
                vec![
                    c.point.clone(),
                    c.metric.to_string(),
                    format!("{:.2}", c.measured),
                    format!("{:.2}", c.predicted),
                    format!("{:+.1} %", 100.0 * c.relative_error()),
                ]
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        format!("\n{title}:\n") + &table(&["load", "metric", "measured", "simulated", "error"], &rows)
    }

    /// What was taken for what the sources do not say, each once.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        let misfit = self.posterior.misfit;
        if misfit > MISFIT_MAX {
            notes.push(format!(
                "found a misfit of {misfit:.0} per observation, expected about 1: this profile does not describe these \
                 points; check their unit and lengths (--lengths, --workload), the engine's settings, and that they are of \
                 this system"
            ));
        }
        for note in self.trials.iter().flat_map(|trial| &trial.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }
}
