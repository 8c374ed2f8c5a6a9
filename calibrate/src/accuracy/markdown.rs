//! The accuracy document.

use super::{Comparison, Set};
use crate::trial::Metric;
use std::fmt::{self, Write};

const HEAD: &str = "\
# How true the model is

Written by `scaleproof accuracy DATA --out docs/accuracy.md`: change that program, not this file.

Each set below is a served engine that other people measured. The simulator is calibrated on some of its points and judged on
the others; no parameter is fitted to data that it is judged on. Goals are on the median absolute error over the held-out
points of a set, signed errors stand beside. The noise of a repeat is what two runs of one such server differ by
(do-h200-llama70b-fp8): no model can be told from a better one below it.

The prior of every set is `scaleproof model predict`'s: kernels at the efficiencies of models/kernels, which were fitted on
kernel measurements of H100 and H200 (aiconfigurator 095f58a5) and carried to other GPUs by their specification. The fit moves
six factors on its parts (docs/calibration.md). What a step without a graph waits for the host's launches is from splitwise-sim's table
of 2023 (8f99e7dc); the last set has the rest of that table.

Choices for all sets alike, made on points that sets were fitted on, but knowing the others: FP8 kernel tables have token counts one above a multiple
of 16 at up to twice the time, which no served point shows, so those rows are left out; all-reduces beyond 8 MiB go through
the communication library; steps that replay no graph of the whole model pay for the launch of each layer; decode attention over an
8-bit cache takes whole waves of multiprocessors.

The data (not part of this repository): do-h200-llama70b-fp8 from DO-Solutions/gtc-2026-doks c70febac (MIT);
h100_dense_points.csv from InferenceMAX 2025-10-30 and others through ai-dynamo/aiconfigurator 095f58a5 (Apache-2.0);
kubecon-h100-llama8b from kubernetes-sigs/inference-perf 7de5ef2e (Apache-2.0); rtxpro6000-llama8b from LLMServingSim 5daddb21
(MIT); a100-llama70b-tp8 from surajssd/llm-k8s 58b61c59 (Apache-2.0); splitwise-sim from Mutinifni/splitwise-sim 8f99e7dc (MIT).

";

/// docs/accuracy.md.
#[must_use]
pub fn document(sets: &[Set]) -> String {
    let mut out = HEAD.to_owned();
    // Writing into a String cannot fail.
    let _ = write_summary(&mut out, sets);
    for set in sets {
        let _ = section(&mut out, set);
    }
    out
}

/// The goals and what was reached, as a table.
#[must_use]
pub fn summary(sets: &[Set]) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_summary(&mut out, sets);
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn write_summary(out: &mut String, sets: &[Set]) -> fmt::Result {
    writeln!(out, "| set | fitted on | held-out metric | goal | reached | signed | noise of a repeat |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for set in sets {
        for goal in &set.goals {
            let Some(found) = set.held_out_median(goal.metric) else { continue };
            let missed = goal.median.is_some_and(|median| found > median);
            let mark = if missed { " (missed)" } else { "" };
            writeln!(
                out,
                "| {} | {} | {} | {} | {}{mark} | {} | {} |",
                set.name,
                set.fitted_on,
                goal.metric,
                goal.median.map_or("none".to_owned(), percent),
                percent(found),
                signed_median(set, goal.metric).map_or("-".to_owned(), |s| format!("{:+.1} %", 100.0 * s)),
                goal.noise.map_or("-".to_owned(), percent)
            )?;
        }
    }
    Ok(())
}

/// Median of the signed errors of a metric over held-out points.
fn signed_median(set: &Set, metric: Metric) -> Option<f64> {
    let held = set.comparisons.iter().filter(|c| !c.fitted && c.metric == metric);
    let mut errors: Vec<f64> = held.map(Comparison::relative_error).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied()
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
            .map(|f| {
                let value = set.profile.provenance.factors.factor(f.knob);
                let (sd, prior_sd) = (percent(f.sd()), percent(f.prior_sd));
                format!("{} {value:.2} (sd {sd} of {prior_sd})", f.knob.word())
            })
            .collect();
        if of.is_empty() { "none".to_owned() } else { of.join(", ") }
    };
    writeln!(out, "Factors the data identify: {}. Kept at the prior: {}.\n", known(true), known(false))
}
