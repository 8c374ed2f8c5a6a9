//! What a calibration writes and prints.

use super::args::CalibrateArgs;
use crate::args::Format;
use crate::exit::CommandError;
use crate::files::{self, PAGE};
use crate::study::print_out;
use crate::table::table;
use scaleproof_calibrate::recovery::Compared;
use scaleproof_calibrate::sweep::{Calibration, Judged, MISFIT_MAX, Swept, report, to_csv};
use scaleproof_pack::report_html::{CalibrationPage, FittedTime, calibration_html};
use serde_json::{Value, json};
use std::path::Path;

/// A calibration with where it came from.
pub struct Calibrated<'a> {
    pub args: &'a CalibrateArgs,
    pub swept: &'a Swept,
    pub calibration: &'a Calibration,
    /// Against a simulated engine's own profile; empty for any other.
    pub compared: &'a [Compared],
    pub directory: &'a Path,
}

/// Writes what was measured.
pub fn store(swept: &Swept, directory: &Path, file: &Path) -> Result<(), CommandError> {
    files::write(file, format!("{:#}\n", swept.to_json()).as_bytes())?;
    files::write(&directory.join("measurements.csv"), to_csv(&swept.rows).as_bytes())
}

impl Calibrated<'_> {
    /// Whether the profile describes the loaded points.
    pub fn describes(&self) -> bool {
        self.calibration.misfit.is_none_or(|misfit| misfit <= MISFIT_MAX)
    }

    /// The report; and the profile, if it describes what was measured.
    pub fn write(&self) -> Result<(), CommandError> {
        let text = report::markdown(self.swept, self.calibration);
        files::write(&self.directory.join("fit-report.md"), text.as_bytes())?;
        files::write(&self.directory.join(PAGE), self.page().as_bytes())?;
        if !self.describes() {
            return Ok(());
        }
        let comment = ["Written by the command in its provenance.".to_owned()];
        files::write(&self.args.out, self.calibration.profile.to_yaml(&comment).as_bytes())
    }

    fn verdict(&self) -> String {
        let profile = &self.calibration.profile;
        match self.calibration.misfit {
            Some(misfit) if misfit > MISFIT_MAX => format!(
                "FAIL: found a misfit of {misfit:.1} per number on the loaded points, expected at most {MISFIT_MAX}: no profile \
                 is written; look at the largest residuals, and measure without other traffic"
            ),
            _ => format!("{}: {}", profile.name, profile.label()),
        }
    }

    fn page(&self) -> String {
        let time = |judged: &Judged| {
            let row = &judged.row;
            FittedTime {
                kind: row.kind.word(),
                label: row.label(),
                tokens: f64::from(row.batch_tokens()),
                measured_ms: row.time_us / 1e3,
                fitted_ms: judged.fitted_us / 1e3,
                held_out: row.held_out,
            }
        };
        let times: Vec<FittedTime> = self.calibration.judged.iter().map(time).collect();
        let reference: Vec<(f64, f64)> =
            self.swept.references.iter().map(|reference| (reference.at_s, reference.step_us)).collect();
        calibration_html(&CalibrationPage {
            title: &format!("Calibration of {}", self.calibration.profile.name),
            verdict: &self.verdict(),
            remarks: &self.swept.found.notes,
            times: &times,
            reference: &reference,
        })
    }

    /// Prints it.
    pub fn print(&self) -> Result<(), CommandError> {
        print_out(&match self.args.format {
            Format::Json => format!("{:#}\n", self.json()),
            Format::Text => self.text(),
        })
    }

    fn json(&self) -> Value {
        let profile = &self.calibration.profile;
        let compared = self.compared.iter().map(|row| {
            json!({
                "load": row.load,
                "metric": row.metric,
                "simulated_engine": row.measured,
                "calibrated": row.predicted,
                "relative_error": row.relative_error(),
                "goal": row.goal,
                "met": row.met(),
            })
        });
        json!({
            "profile": profile.name,
            "written": self.describes().then(|| self.args.out.display().to_string()),
            "report": self.directory.display().to_string(),
            "experiments_s": self.swept.spent_s,
            "scheduler": profile.scheduler,
            "notes": self.swept.found.notes,
            "cuda_graphs": self.calibration.graphs,
            "stalls": self.calibration.stalls,
            "steps_waited": self.calibration.steps_waited,
            "drift_range": self.calibration.drift.range,
            "misfit": self.calibration.misfit,
            "front_ends": self.calibration.front_ends.iter().map(|(p, m)| (p.word(), m)).collect::<Vec<_>>(),
            "fit_errors": profile.provenance.fit_errors,
            "recovered": compared.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let profile = &self.calibration.profile;
        let mut text = format!("{}\n{}\n", self.verdict(), profile.provenance.method);
        for error in &profile.provenance.fit_errors {
            text += &format!(
                "{}: median error {:.2} % over {}\n",
                error.kind,
                100.0 * error.median_relative,
                error.count
            );
        }
        if let Some(misfit) = self.calibration.misfit {
            let process = profile.front_end.process.word();
            text += &format!(
                "loaded points: misfit {misfit:.2} per number, at most {MISFIT_MAX}; front end {process}\n"
            );
        }
        text += &format!("holds for {}\n", profile.validity);
        if !self.compared.is_empty() {
            text += "\nagainst the simulated engine, on loads not seen before:\n";
            text += &table(
                &["load", "number", "engine", "calibrated", "error", "goal", ""],
                &self.compared.iter().map(compared_row).collect::<Vec<_>>(),
            );
        }
        text += &format!("report: {}\n", self.directory.display());
        if self.describes() {
            text += &format!("profile: {}\n", self.args.out.display());
        }
        text
    }
}

fn compared_row(row: &Compared) -> Vec<String> {
    vec![
        row.load.clone(),
        row.metric.to_owned(),
        format!("{:.2}", row.measured),
        format!("{:.2}", row.predicted),
        format!("{:+.2} %", 100.0 * row.relative_error()),
        format!("{:.0} %", 100.0 * row.goal),
        if row.met() { String::new() } else { "MISSED".to_owned() },
    ]
}
