//! The accuracy document.

use super::{Comparison, Set};
use std::fmt::{self, Write};

/// The sets' part of docs/accuracy.md.
#[must_use]
pub fn markdown(sets: &[Set]) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = summary(&mut out, sets);
    for set in sets {
        let _ = section(&mut out, set);
    }
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn summary(out: &mut String, sets: &[Set]) -> fmt::Result {
    writeln!(out, "| set | fitted on | held-out metric | goal | reached | noise of a repeat |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for set in sets {
        for goal in &set.goals {
            let Some(found) = set.held_out_median(goal.metric) else { continue };
            let mark = if found <= goal.median { "" } else { " (missed)" };
            writeln!(
                out,
                "| {} | {} | {} | {} | {}{mark} | {} |",
                set.name,
                set.fitted_on,
                goal.metric,
                percent(goal.median),
                percent(found),
                goal.noise.map_or("-".to_owned(), percent)
            )?;
        }
    }
    Ok(())
}

fn section(out: &mut String, set: &Set) -> fmt::Result {
    writeln!(out, "\n## {}\n\n{}. Calibrated on: {}.\n", set.name, set.system, set.fitted_on)?;
    for note in &set.notes {
        writeln!(out, "{note}\n")?;
    }
    factors(out, set)?;
    writeln!(out, "| point | metric | measured | predicted | error | |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for c in &set.comparisons {
        let Comparison { point, metric, measured, predicted, fitted } = c;
        let mark = if *fitted { "fitted on" } else { "held out" };
        let error = 100.0 * c.relative_error();
        writeln!(out, "| {point} | {metric} | {measured:.2} | {predicted:.2} | {error:+.1} % | {mark} |")?;
    }
    Ok(())
}

/// Which factors the data told something about.
fn factors(out: &mut String, set: &Set) -> fmt::Result {
    let Some(uncertainty) = &set.profile.uncertainty else { return Ok(()) };
    let known = |wanted: bool| {
        let of: Vec<String> = uncertainty
            .factors
            .iter()
            .filter(|f| f.identified() == wanted)
            .map(|f| format!("{} (sd {} of {})", f.knob.word(), percent(f.sd()), percent(f.prior_sd)))
            .collect();
        if of.is_empty() { "none".to_owned() } else { of.join(", ") }
    };
    writeln!(out, "Factors the data identify: {}. Kept at the prior: {}.\n", known(true), known(false))
}
