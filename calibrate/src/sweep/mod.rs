//! Calibration from outside: experiments on a running engine, designed to a time budget, and the profile that they give.
//!
//! First what the scheduler is set to (`structure`), then what steps cost (`curves`), with a reference point between
//! that shows whether the machine drifts (`drift`); a regression over all of it (`form`, `solve`), and the simulator in
//! the loop of a few loaded points (`loaded`).

mod curves;
mod data;
mod drift;
mod form;
mod front_end;
mod lab;
mod loaded;
mod prior;
pub mod report;
mod solve;
mod store;
mod structure;

#[cfg(test)]
mod tests;

pub use data::{Kind, Measurement, from_csv, to_csv};
pub use drift::Drift;
pub use lab::{Monitor, Reference, SweepError};
pub use loaded::Loaded;
pub use solve::Judged;
pub use structure::Found;

use crate::posterior::Measured;
use crate::trial::Trial;
use curves::Design;
use lab::Lab;
use scaleproof_pack::experiment::Experiment;
use scaleproof_pack::hash::sha256_hex;
use scaleproof_sim::FrontEndProcess;
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::profile::{Profile, ProfileKind, Provenance, Residual, Validity, rounded};
use solve::{Solved, errors_by_kind, solve, steps_waited};

/// What a calibration is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Seconds of experiments at most.
    pub budget_s: f64,
    /// The profile's name.
    pub name: String,
    /// KV blocks, if the engine does not say them and its log does.
    pub num_blocks: Option<u32>,
    /// The longest request, if the engine does not say it.
    pub max_model_len: Option<u32>,
}

/// The least budget.
pub const BUDGET_MIN_S: f64 = 5.0;
/// Of the budget, for the curves; the rest is for what comes before and after.
const CURVES_SHARE: f64 = 0.8;
/// Of the budget, for loaded points.
const LOADED_SHARE: f64 = 0.15;
/// Weighted misfit of the loaded points beyond which the profile does not describe the engine: three deviations each.
pub const MISFIT_MAX: f64 = 9.0;

/// What a sweep measured.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The scheduler.
    pub found: Found,
    /// Times, as measured.
    pub rows: Vec<Measurement>,
    /// The reference point's runs.
    pub references: Vec<Reference>,
    /// Loaded points.
    pub loaded: Vec<Loaded>,
    /// The longest request, in tokens.
    pub longest: u32,
    /// Seconds of experiments.
    pub spent_s: f64,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// A calibrated engine.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The profile.
    pub profile: Profile,
    /// What was measured, drift divided out, with what the fit makes of it.
    pub judged: Vec<Judged>,
    /// The machine's pace.
    pub drift: Drift,
    /// Whether graphs were seen.
    pub graphs: bool,
    /// What stalls add to every step, as a share.
    pub stalls: f64,
    /// Steps that a prompt waits, in the mean.
    pub steps_waited: Option<f64>,
    /// Misfit of the loaded points, by observation; None without them.
    pub misfit: Option<f64>,
    /// The misfit with each process that a front end's work may run on.
    pub front_ends: Vec<(FrontEndProcess, f64)>,
}

/// Runs the experiments. If the user stops them, what was measured until then comes back, if there is a scheduler to
/// fit it with.
///
/// # Errors
/// As [`SweepError`] says.
pub fn sweep(
    experiment: &mut dyn Experiment,
    settings: &Settings,
    monitor: &mut dyn Monitor,
) -> Result<Swept, SweepError> {
    let mut facts = experiment.engine()?;
    if facts.replicas > 1 {
        return Err(SweepError::Unusable(format!(
            "the target: found {} replicas, expected one; name the address of one engine, not of a router",
            facts.replicas
        )));
    }
    facts.num_blocks = facts.num_blocks.or(settings.num_blocks.map(u64::from));
    facts.max_model_len = facts.max_model_len.or(settings.max_model_len);
    let mut lab = Lab::new(experiment, monitor, settings.budget_s);
    let pace = structure::pace(&mut lab, facts.max_model_len.unwrap_or(2048))?;
    lab.say(&format!(
        "pace: {:.2} ms a decode step, {:.1} us a prompt token, {:.2} ms to a first token",
        1e3 * pace.step_s,
        1e6 * pace.token_s,
        1e3 * pace.ttft_s
    ));
    let (found, pace) = structure::find(&mut lab, &facts, pace)?;
    found.notes.iter().for_each(|note| lab.say(note));
    let left_s = settings.budget_s - lab.spent_s;
    let Some(design) = Design::within(&found.scheduler, pace, CURVES_SHARE * left_s) else {
        return Err(SweepError::Unusable(format!(
            "the time: found {left_s:.0} s left of {:.0} s after the scheduler's settings, expected enough for one pass; \
             give a longer --budget",
            settings.budget_s
        )));
    };
    for line in design.describe() {
        lab.say(&format!("plan: {line}"));
    }
    let mut swept = Swept {
        found,
        rows: Vec::new(),
        references: Vec::new(),
        loaded: Vec::new(),
        longest: 0,
        spent_s: 0.0,
        stopped: false,
    };
    let ended = measure(&mut lab, &design, pace, &mut swept);
    (swept.longest, swept.spent_s) = (lab.longest, lab.spent_s);
    believed(&lab, &mut swept.found.notes)?;
    swept.references = std::mem::take(&mut lab.references);
    match ended {
        Ok(()) => Ok(swept),
        Err(SweepError::Stopped) if !swept.rows.is_empty() => Ok(Swept { stopped: true, ..swept }),
        Err(error) => Err(error),
    }
}

/// Notes the experiments that failed the client's own checks.
fn believed(lab: &Lab<'_>, notes: &mut Vec<String>) -> Result<(), SweepError> {
    let made = lab.runs - lab.repeated;
    if lab.repeated > 0 {
        notes.push(format!(
            "{made} experiments, {} of them made again: the client was late or short",
            lab.repeated
        ));
    }
    let Some(first) = lab.doubtful.first() else { return Ok(()) };
    let text = format!(
        "{} of {made} experiments failed the client's own checks to the end, the first: {first}",
        lab.doubtful.len()
    );
    // Bursts are late by nature, and short runs are not steady; most are neither.
    if lab.doubtful.len() as u64 * 2 > made {
        return Err(SweepError::Unusable(format!(
            "the client: found that {text}; expected at most half; give it a machine of its own"
        )));
    }
    notes.push(text);
    Ok(())
}

fn measure(
    lab: &mut Lab<'_>,
    design: &Design,
    pace: structure::Pace,
    swept: &mut Swept,
) -> Result<(), SweepError> {
    let scheduler = &swept.found.scheduler;
    let until_s = lab.budget_s * (1.0 - LOADED_SHARE);
    for pass in 0..design.passes {
        if !design.pass(lab, scheduler, pace, until_s, &mut swept.rows)? {
            if pass == 0 {
                lab.say("there is no more time for the curves: the rest of the first pass is left out");
            }
            break;
        }
    }
    lab.reference()?;
    let left_s = (lab.budget_s - lab.spent_s).max(LOADED_SHARE * lab.budget_s / 2.0);
    swept.loaded = loaded::measure(lab, scheduler, design, pace, left_s)?;
    lab.reference()?;
    Ok(())
}

/// Fits a profile to what a sweep measured. A `prior` says which GPU, model, precision and placement it is of; what the
/// sweep says little of stays near it.
///
/// # Errors
/// A machine that drifted too much, too little measured, or a profile that cannot be simulated or is faster than the
/// prior's GPU can be.
pub fn fit(swept: &Swept, name: &str, prior: Option<&Profile>) -> Result<Calibration, SweepError> {
    let drift = Drift::of(&swept.references)?;
    let mut rows = swept.rows.clone();
    drift.divide_out(&mut rows);
    let mut scheduler = swept.found.scheduler.clone();
    let has = |kind: Kind| rows.iter().filter(|row| row.kind == kind && !row.held_out).count() >= 2;
    if !(has(Kind::Prompt) && has(Kind::Decode)) {
        return Err(SweepError::Unusable(
            "the measurements: found too few prompts or decode batches, expected two of each; run the sweep longer".to_owned(),
        ));
    }
    rows.extend(drift.reference(&swept.references));
    let unsolved = || SweepError::Unusable("the measurements: found none that can be fitted".to_owned());
    scheduler.async_scheduling = true;
    let mut solved = solve(&rows, &scheduler, prior).ok_or_else(unsolved)?;
    let single = form::Form::front_end(&solved.fit.coefficients)?;
    let front_end_us = |tokens| 1e6 * single.ingest(tokens).map_or(0.0, |time| time.seconds());
    let steps_waited = steps_waited(&rows, front_end_us);
    if steps_waited.is_some_and(|steps| steps <= 1.0) {
        // The host's part of a step then comes after the rest.
        scheduler.async_scheduling = false;
        solved = solve(&rows, &scheduler, prior).ok_or_else(unsolved)?;
    }
    let mut profile = describe(swept, &solved, &rows, scheduler, name)?;
    profile.uncertainty = Some(solved.uncertainty(&rows, prior));
    let stalls = data::stalls(&rows);
    profile.step_time = profile.with_steps_longer(1.0 + stalls)?.step_time;
    if let Some(prior) = prior {
        of_its_hardware(&mut profile, prior);
    }
    possible(&profile)?;
    let mut misfit = None;
    let mut front_ends = Vec::new();
    let points = loaded::at_their_pace(&swept.loaded, &drift);
    if !points.is_empty() {
        let (fitted, misfits) = front_end::fit(&profile, &points)
            .map_err(|error| SweepError::Unusable(format!("the loaded points: {error}")))?;
        profile.step_time = fitted.profile.step_time;
        profile.front_end = fitted.profile.front_end;
        profile.uncertainty = fitted.profile.uncertainty;
        (misfit, front_ends) = (Some(fitted.misfit), misfits);
        possible(&profile)?;
    }
    let judged = solved.judge(&rows);
    let provenance = &mut profile.provenance;
    provenance.fit_errors = errors_by_kind(&judged, false);
    provenance.fit_errors.extend(errors_by_kind(&judged, true));
    let held = provenance.fit_errors.iter().filter(|error| error.kind.ends_with("held out"));
    let worst = held.map(|error| error.median_relative).fold(0.0, f64::max);
    provenance.expected_relative_error = Some(rounded(worst.max(0.005), 2).min(10.0));
    profile.provenance.residuals = loaded_residuals(&profile, &points);
    Ok(Calibration {
        profile,
        judged,
        drift,
        graphs: solved.form.has_graphs(),
        stalls,
        steps_waited,
        misfit,
        front_ends,
    })
}

/// Puts into a profile what a prior says that cannot be seen from outside.
fn of_its_hardware(profile: &mut Profile, prior: &Profile) {
    profile.gpu.clone_from(&prior.gpu);
    profile.step_time.hardware.clone_from(&prior.step_time.hardware);
    profile.model_id.clone_from(&prior.model_id);
    profile.model_revision.clone_from(&prior.model_revision);
    profile.precision.clone_from(&prior.precision);
    (profile.tp, profile.pp) = (prior.tp, prior.pp);
    profile.provenance.method += &format!(", with the prior {}", prior.name);
    profile.provenance.sources.extend(prior.provenance.sources.iter().take(98).cloned());
}

/// Refuses a profile that is faster than the GPU that it names.
fn possible(profile: &Profile) -> Result<(), SweepError> {
    profile.check_bound().map_err(|error| {
        SweepError::Unusable(format!(
            "the calibrated profile: {error}; the prior may be of another GPU, model, precision or degree than the engine"
        ))
    })
}

/// What the profile makes of the loaded points.
fn loaded_residuals(profile: &Profile, loaded: &[Measured]) -> Vec<Residual> {
    let mut residuals = Vec::new();
    for point in loaded {
        let Ok(served) = point.trial.serve(profile) else { continue };
        for observation in &point.observations {
            let Some(fitted) = Trial::mean(&served, observation.metric) else { continue };
            residuals.push(Residual {
                metric: format!("{} at {}", observation.metric, point.trial.label),
                target: rounded(observation.value, 4),
                fitted: rounded(fitted, 4),
            });
        }
    }
    residuals
}

fn describe(
    swept: &Swept,
    solved: &Solved,
    rows: &[Measurement],
    scheduler: EngineConfig,
    name: &str,
) -> Result<Profile, SweepError> {
    let visited = |of: fn(&Measurement) -> u32| rows.iter().map(of).max().unwrap_or(1).max(1);
    let budget = scheduler.max_num_batched_tokens;
    let batch_tokens = visited(Measurement::batch_tokens);
    let unknown = || "not stated".to_owned();
    Ok(Profile {
        name: name.to_owned(),
        kind: ProfileKind::Calibrated,
        gpu: None,
        model_id: swept.found.model.clone().unwrap_or_else(unknown),
        model_revision: unknown(),
        precision: unknown(),
        tp: 1,
        pp: 1,
        front_end: form::Form::front_end(&solved.fit.coefficients)?,
        step_time: solved.form.step_time(&solved.fit.coefficients),
        validity: Validity {
            batch_tokens: (1, batch_tokens.min(budget)),
            rows: (1, visited(|row| row.rows)),
            context_tokens: (1, swept.longest.max(1)),
        },
        uncertainty: None,
        scheduler,
        provenance: Provenance {
            method: format!(
                "calibrated from outside in {:.0} s of experiments: {} times of steps and prompts, {} loaded points",
                swept.spent_s,
                rows.len(),
                swept.loaded.len()
            ),
            sources: vec!["measurements of the running engine".to_owned()],
            engine_version: swept.found.version.clone(),
            data_sha256: Some(sha256_hex(to_csv(&swept.rows).as_bytes())),
            ..Provenance::default()
        },
    })
}
