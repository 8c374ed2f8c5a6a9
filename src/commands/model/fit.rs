//! `scaleproof model fit`: a profile corrected by measured operating points.

use super::args::{FitArgs, ProvenanceArgs};
use super::command_line;
use super::fit_text::Fitted;
use crate::args::Format;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, MANIFEST, read_text};
use crate::input::directory_of;
use crate::progress::Progress;
use crate::results::{self, Imported};
use crate::study::{print_out, shown};
use rayon::prelude::*;
use scaleproof_calibrate::accuracy::{Comparison, compare, median_error};
use scaleproof_calibrate::points::{Assumed, PointTrial, Spread, point_trial, widen_by_draws};
use scaleproof_calibrate::posterior::{Measured, Posterior, fit_observed, most_requests};
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::manifest::Manifest;
use scaleproof_sim::profile::{Profile, rounded};
use std::path::{Path, PathBuf};

/// Misfit per observation beyond which a fit is none: three of its standard deviations each.
pub const MISFIT_MAX: f64 = 9.0;

/// Corrects a profile by packs and results, with all that `model fit` can be told left as usual.
pub fn fit_points(
    prior: &Path,
    points: &[PathBuf],
    provenance: &ProvenanceArgs,
    out: &Path,
    format: Format,
) -> Outcome {
    run(&FitArgs {
        prior: prior.to_owned(),
        points: points.to_vec(),
        from: None,
        workload: None,
        lengths: Spread::Fixed,
        input_tokens: None,
        output_tokens: None,
        draws: FitArgs::DRAWS,
        hold_out: Vec::new(),
        max_error: None,
        provenance: provenance.clone(),
        out: out.to_owned(),
        format,
    })
}

/// Runs the command: exit 1 if a held-out median error is above `--max-error`, or the misfit of the fitted points above
/// [`MISFIT_MAX`]; then no profile is written.
pub fn run(args: &FitArgs) -> Outcome {
    let prior =
        Profile::parse(&shown(&args.prior), &read_text(&args.prior)?).map_err(CommandError::bad_input)?;
    let imported = results::read(&args.points, args.from)?;
    let trials = trials(&imported, &assumed(args, &prior)?)?;
    let held_out = held_out(&args.hold_out, &trials)?;
    let mut measured: Vec<Measured> = trials.iter().map(|trial| trial.measured.clone()).collect();
    let widened: Result<(), _> = measured.par_iter_mut().try_for_each(|m| {
        let label = m.trial.label.clone();
        widen_by_draws(m, &prior).map_err(|error| CommandError::bad_input(format!("{label}: {error}")))
    });
    widened?;
    let of = |held: bool| measured.iter().zip(&held_out).filter(move |(_, h)| **h == held).map(|(m, _)| m);
    let fitted_on: Vec<Measured> = of(false).cloned().collect();
    let mut posterior = fit(&prior, &fitted_on)?;
    describe(&mut posterior.profile, args, &prior, &imported, fitted_on.len());
    let profile = &posterior.profile;
    let below = |error| CommandError::bad_input(format!("{}: {error}", profile.name));
    profile.check_bound().map_err(below)?;
    let points: Vec<(&Measured, bool)> = measured.iter().zip(&held_out).map(|(m, held)| (m, !held)).collect();
    let comparisons = compare(profile, &points).map_err(CommandError::could_not_run)?;
    let comment = ["Written by the command in its provenance.".to_owned()];
    let describes = posterior.misfit <= MISFIT_MAX;
    if describes {
        files::write(&args.out, profile.to_yaml(&comment).as_bytes())?;
    }
    let missed = missed(&comparisons, args.max_error);
    let fitted = Fitted { prior: &prior, posterior: &posterior, trials: &trials, comparisons: &comparisons };
    print_out(&match args.format {
        Format::Json => format!("{:#}\n", fitted.json(&args.out)),
        Format::Text => fitted.text(&held_out, &missed, &args.out),
    })?;
    Ok(Exit::from_gate(describes && missed.is_empty()))
}

fn assumed(args: &FitArgs, prior: &Profile) -> Result<Assumed, CommandError> {
    let manifest = |path: &Path| {
        let directory = directory_of(path);
        let file = if directory.is_dir() { directory.join(MANIFEST) } else { path.to_owned() };
        let manifest = Manifest::parse(&shown(&file), &read_text(&file)?).map_err(CommandError::bad_input)?;
        let shared = manifest.engine.prefix_cache;
        Ok((manifest, shared))
    };
    Ok(Assumed {
        input_tokens: args.input_tokens,
        output_tokens: args.output_tokens,
        spread: args.lengths,
        draws: args.draws,
        workload: args.workload.as_deref().map(manifest).transpose()?,
        prefix_caching: prior.scheduler.enable_prefix_caching,
    })
}

/// The points as trials, each with a label of its own.
fn trials(imported: &[Imported], assumed: &Assumed) -> Result<Vec<PointTrial>, CommandError> {
    let mut trials: Vec<PointTrial> = Vec::new();
    for (number, one) in (1..).zip(imported) {
        let file = one.file.display();
        let failed = |error| CommandError::bad_input(format!("{file}: point {number}: {error}"));
        let mut trial = point_trial(&one.run, assumed).map_err(failed)?;
        trial.notes.extend(one.run.notes.iter().cloned());
        let label = trial.measured.trial.label.clone();
        let taken = |label: &str| trials.iter().any(|t| t.measured.trial.label == label);
        let candidates = std::iter::once(label.clone()).chain((2..).map(|n| format!("{label} ({n})")));
        trial.measured.trial.label = candidates.into_iter().find(|label| !taken(label)).unwrap_or(label);
        trials.push(trial);
    }
    Ok(trials)
}

/// Which points are held out.
fn held_out(names: &[String], trials: &[PointTrial]) -> Result<Vec<bool>, CommandError> {
    let mut held = vec![false; trials.len()];
    for name in names {
        let number = name.parse::<usize>().ok();
        let mut found = false;
        for (i, trial) in trials.iter().enumerate() {
            if number == Some(i + 1) || trial.measured.trial.label == *name || trial.system == *name {
                held[i] = true;
                found = true;
            }
        }
        if !found {
            let known: Vec<String> = (1..)
                .zip(trials)
                .map(|(n, t): (usize, _)| format!("{n} ({})", t.measured.trial.label))
                .collect();
            return Err(CommandError::bad_input(format!(
                "--hold-out: found {name:?}; expected a point's number or label: {}",
                known.join(", ")
            )));
        }
    }
    if held.iter().all(|held| *held) {
        return Err(CommandError::bad_input(format!(
            "--hold-out: found all {} points; expected at least one to fit on",
            held.len()
        )));
    }
    Ok(held)
}

fn fit(prior: &Profile, measured: &[Measured]) -> Result<Posterior, CommandError> {
    let progress = Progress::start("fit", most_requests(prior, measured));
    fit_observed(prior, measured, &|requests| progress.advance(requests)).map_err(CommandError::bad_input)
}

/// What the profile says of itself.
fn describe(profile: &mut Profile, args: &FitArgs, prior: &Profile, imported: &[Imported], points: usize) {
    let stem = args.out.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    profile.name = stem.unwrap_or_else(|| format!("{}-fitted", prior.name));
    let mut sources: Vec<&(String, String)> = imported.iter().flat_map(|one| &one.sources).collect();
    sources.dedup();
    let hashes: Vec<&str> = sources.iter().map(|(_, hash)| hash.as_str()).collect();
    let provenance = &mut profile.provenance;
    provenance.method = format!("the factors of {} fitted to {points} operating points", prior.name);
    let of_data = sources.iter().map(|(name, hash)| format!("{name}, SHA-256 {hash}"));
    provenance.sources = prior.provenance.sources.iter().cloned().chain(of_data).take(100).collect();
    provenance.data_sha256 = Some(match hashes[..] {
        [only] => only.to_owned(),
        _ => sha256_hex(hashes.concat().as_bytes()),
    });
    provenance.command = Some(command_line());
    // The worst kind of measurement: a step's own time was not measured.
    let worst = provenance.fit_errors.iter().map(|error| error.median_relative).fold(0.0, f64::max);
    provenance.expected_relative_error = Some(rounded(worst, 2).min(10.0));
    args.provenance.note_in(profile);
}

/// The held-out metrics whose median error is above the goal, each with it.
fn missed(comparisons: &[Comparison], max_error: Option<f64>) -> Vec<String> {
    let Some(goal) = max_error else { return Vec::new() };
    let held: Vec<&Comparison> = comparisons.iter().filter(|c| !c.fitted).collect();
    let mut missed: Vec<String> = Vec::new();
    for comparison in &held {
        let error = median_error(held.iter().copied(), comparison.metric).unwrap_or_default();
        let line = format!("{}: {:.1} %, above {:.1} %", comparison.metric, 100.0 * error, 100.0 * goal);
        if error > goal && !missed.contains(&line) {
            missed.push(line);
        }
    }
    missed
}
