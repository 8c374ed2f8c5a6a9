//! A calibration for people: what was found, what was measured, what the fit leaves.

use super::{Calibration, MISFIT_MAX, Swept};
use std::fmt::Write;

/// The fit report, in Markdown.
#[must_use]
pub fn markdown(swept: &Swept, calibration: &Calibration) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write(&mut text, swept, calibration);
    text
}

/// What the engine said of itself, and what of its settings was found.
fn write_engine(out: &mut String, swept: &Swept, calibration: &Calibration) -> std::fmt::Result {
    let profile = &calibration.profile;
    writeln!(out, "## The engine\n")?;
    for (what, value) in [("version", &swept.found.version), ("model", &swept.found.model)] {
        writeln!(out, "- {what}: {}", value.as_deref().unwrap_or("not told"))?;
    }
    for note in &swept.found.notes {
        writeln!(out, "- {note}")?;
    }
    let scheduling = if profile.scheduler.async_scheduling { "asynchronous" } else { "synchronous" };
    match calibration.steps_waited {
        Some(steps) => writeln!(
            out,
            "- scheduling {scheduling}: a prompt waits {steps:.2} steps until its first (0.5 synchronous, 1.5 asynchronous)"
        )?,
        None => writeln!(out, "- scheduling {scheduling}: taken, no prompt was seen waiting")?,
    }
    let graphs = if calibration.graphs { "seen, steps are padded to their sizes" } else { "not seen" };
    writeln!(out, "- CUDA graphs: {graphs}")?;
    let launch_us = profile.step_time.eager.launch_us;
    if launch_us > 0.0 {
        writeln!(out, "- launches: no step takes less than {:.3} ms, however small", launch_us / 1e3)?;
    }
    let drift = &calibration.drift;
    let what = if drift.paces.is_empty() { "no more than noise" } else { "divided out" };
    writeln!(
        out,
        "- drift: the reference point, run {} times, moved by {:.1} %, {what}\n",
        swept.references.len(),
        100.0 * drift.range
    )?;
    if calibration.stalls > 0.0 {
        let share = 100.0 * calibration.stalls;
        writeln!(
            out,
            "Steps that take far longer than others of their kind come again and again: every step of the profile is \
             {share:.2} % longer than the typical ones, so that the mean is right\n"
        )?;
    }
    Ok(())
}

fn write(out: &mut String, swept: &Swept, calibration: &Calibration) -> std::fmt::Result {
    let profile = &calibration.profile;
    writeln!(out, "# Calibration of {}\n\n{}\n", profile.name, profile.provenance.method)?;
    write_engine(out, swept, calibration)?;
    writeln!(out, "## Error by kind of step\n\n| kind | measurements | median error |\n|---|---|---|")?;
    for error in &profile.provenance.fit_errors {
        writeln!(out, "| {} | {} | {:.2} % |", error.kind, error.count, 100.0 * error.median_relative)?;
    }
    writeln!(out, "\n## Factors\n\n| part | standard deviation | |\n|---|---|---|")?;
    for factor in profile.uncertainty.iter().flat_map(|uncertainty| &uncertainty.factors) {
        let verdict = if factor.identified() { "identified" } else { "the data say little: about as before" };
        writeln!(out, "| {} | {:.2} % | {verdict} |", factor.knob.word(), 100.0 * factor.sd())?;
    }
    if let Some(misfit) = calibration.misfit {
        writeln!(out, "\n## Loaded points, the simulator in the loop\n")?;
        writeln!(
            out,
            "Misfit {misfit:.2} per number (about 1 if the model is right, at most {MISFIT_MAX}).\n"
        )?;
        let fits = calibration.front_ends.iter();
        let fits: Vec<String> =
            fits.map(|(process, misfit)| format!("{} {misfit:.2}", process.word())).collect();
        let process = profile.front_end.process.word();
        writeln!(out, "Front end: {process}. Misfit by process: {}.\n", fits.join(", "))?;
        writeln!(out, "| | measured | simulated | error |\n|---|---|---|---|")?;
        for residual in &profile.provenance.residuals {
            let error = 100.0 * (residual.fitted / residual.target - 1.0);
            let (measured, fitted) = (residual.target, residual.fitted);
            writeln!(out, "| {} | {measured} | {fitted} | {error:+.1} % |", residual.metric)?;
        }
    }
    writeln!(
        out,
        "\n## The largest residuals\n\n| | measured ms | fitted ms | error | samples | outliers |\n|---|---|---|---|---|---|"
    )?;
    let mut judged: Vec<_> = calibration.judged.iter().collect();
    judged.sort_by(|a, b| b.relative_error().abs().total_cmp(&a.relative_error().abs()));
    for judged in judged.into_iter().take(20) {
        let row = &judged.row;
        writeln!(
            out,
            "| {}{} | {:.3} | {:.3} | {:+.1} % | {} | {} |",
            row.label(),
            if row.held_out { ", held out" } else { "" },
            row.time_us / 1e3,
            judged.fitted_us / 1e3,
            100.0 * judged.relative_error(),
            row.samples,
            row.outliers
        )?;
    }
    writeln!(out, "\nHolds for {}.", profile.validity)
}
