//! `scaleproof calibrate`: an engine measured from outside, and its profile.

mod args;
mod output;

pub use args::CalibrateArgs;

use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{MANIFEST, output_directory, read_text};
use crate::input::directory_of;
use crate::progress::{Progress, interrupted, say};
use crate::study::shown;
use output::Calibrated;
use scaleproof_calibrate::recovery::{Compared, compare};
use scaleproof_calibrate::simulated::{Quirks, SimulatedEngine};
use scaleproof_calibrate::sweep::{Monitor, Settings, SweepError, Swept, fit, sweep};
use scaleproof_pack::experiment::{Experiment, ExperimentError};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::time::Nanos;
use scaleproof_policy::RouterPolicy;
use scaleproof_sim::profile::Profile;
use scaleproof_validate::{Limits, LiveConfig, LiveEngine, Routing};
use std::path::{Path, PathBuf};

/// A sweep in the report's directory.
const SWEEP: &str = "sweep.json";
/// Threads for the connections.
const THREADS: usize = 2;
/// The engine's metrics are read this often.
const SAMPLE_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Runs the command: exit 1 if the profile does not describe the loaded points, or a simulated engine was not recovered.
pub fn run(args: &CalibrateArgs) -> Outcome {
    if !args.from.is_empty() {
        return from(args);
    }
    let system = System::of(args)?;
    let claim = || output_directory(args.report.as_deref(), "calibrate", false);
    match &args.simulate {
        None => {
            let (mut engine, claim) = (live(args)?, claim()?);
            let swept = measure(&mut engine, args)?;
            finish(args, &swept, &claim.path, &system, None)
        }
        Some(path) => {
            let truth = profile(path)?;
            let claim = claim()?;
            let quirks = Quirks { step_sd: args.noise, ..Quirks::default() };
            let mut engine = SimulatedEngine::alone(truth.clone(), quirks).telling_tokens();
            if args.hide_blocks {
                engine = engine.hiding_its_blocks();
            }
            let swept = measure(&mut engine, args)?;
            finish(args, &swept, &claim.path, &system, Some((&truth, quirks)))
        }
    }
}

fn profile(path: &Path) -> Result<Profile, CommandError> {
    Profile::parse(&shown(path), &read_text(path)?).map_err(CommandError::bad_input)
}

/// Fits what was measured before.
fn from(args: &CalibrateArgs) -> Outcome {
    let stored = stored_sweep(&args.from);
    if let (None, Some(prior)) = (&stored, &args.prior) {
        return super::model::fit_points(prior, &args.from, &args.provenance, &args.out, args.format);
    }
    let file = match (stored, &args.from[..]) {
        (Some(stored), _) => stored,
        (None, [only]) if only.is_dir() => only.join(SWEEP),
        (None, [only]) => only.clone(),
        (None, several) => {
            return Err(CommandError::bad_input(format!(
                "--from: found {} paths and no --prior; expected the report directory of one calibration, or --prior with \
                 packs and results",
                several.len()
            )));
        }
    };
    if !file.is_file() {
        return Err(CommandError::bad_input(format!(
            "{}: found no such file; expected a sweep that `calibrate` has written; for packs and other results give --prior",
            file.display()
        )));
    }
    let swept = Swept::from_json(&shown(&file), &read_text(&file)?).map_err(CommandError::bad_input)?;
    let system = System::of(args)?;
    let claim = output_directory(args.report.as_deref(), "calibrate", false)?;
    finish(args, &swept, &claim.path, &system, None)
}

/// The sweep that `--from` names, if it is one: a report's directory, or its file.
fn stored_sweep(from: &[PathBuf]) -> Option<PathBuf> {
    let [only] = from else { return None };
    if only.file_name().is_some_and(|name| name == SWEEP) {
        return Some(only.clone());
    }
    Some(only.join(SWEEP)).filter(|file| file.is_file())
}

/// What is said of the system that cannot be seen from outside, read before anything is measured.
struct System {
    manifest: Option<Manifest>,
    prior: Option<Profile>,
}

impl System {
    fn of(args: &CalibrateArgs) -> Result<System, CommandError> {
        let prior = args.prior.as_deref().map(profile).transpose()?;
        let Some(path) = &args.scenario else { return Ok(System { manifest: None, prior }) };
        let file = directory_of(path).join(MANIFEST);
        let manifest = Manifest::parse(&shown(&file), &read_text(&file)?).map_err(CommandError::bad_input)?;
        if let Some(prior) = &prior {
            let placement = &manifest.engine.placement;
            let words = |tp: u32, pp: u32, precision: &str| format!("tp {tp}, pp {pp} and {precision}");
            let found = words(placement.tp, placement.pp, &manifest.model.precision);
            let expected = words(prior.tp, prior.pp, &prior.precision);
            if found != expected {
                return Err(CommandError::bad_input(format!(
                    "{}: found {found}; expected {expected}, as the prior {} has them; name a prior of this system",
                    shown(&file),
                    prior.name
                )));
            }
        }
        Ok(System { manifest: Some(manifest), prior })
    }
}

/// Puts into a profile what cannot be seen from outside.
fn state(manifest: &Manifest, profile: &mut Profile) {
    let Manifest { model, engine, .. } = manifest;
    profile.model_id.clone_from(&model.id);
    profile.model_revision.clone_from(&model.revision);
    profile.precision.clone_from(&model.precision);
    (profile.tp, profile.pp) = (engine.placement.tp, engine.placement.pp);
}

/// The engine at the target.
fn live(args: &CalibrateArgs) -> Result<LiveEngine, CommandError> {
    let targets = args.targets();
    let served_at = super::live::addresses("--target", &targets.targets)?;
    let config = LiveConfig {
        tls: super::live::tls(&targets, &served_at)?,
        token: super::live::token(&targets)?,
        targets: served_at,
        replicas: Vec::new(),
        sample_interval: SAMPLE_INTERVAL,
        endpoint: targets.endpoint.into(),
        model: targets.model,
        streaming: true,
        ignore_eos: true,
        sampling: Vec::new(),
        timeout: None,
        ttft_timeout: None,
        ramp: Nanos::ZERO,
        routing: Routing { policy: RouterPolicy::RoundRobin, poll_interval: None },
        threads: THREADS,
        vocabulary: targets.vocabulary,
        limits: Limits::default(),
        resilience: None,
        absent: Vec::new(),
        give_up: None,
    };
    LiveEngine::new(config, 0).map_err(|ExperimentError(error)| CommandError::bad_input(error))
}

fn name(args: &CalibrateArgs) -> String {
    let stem = args.out.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    args.provenance.name.clone().or(stem).unwrap_or_else(|| "calibrated".to_owned())
}

fn measure(experiment: &mut dyn Experiment, args: &CalibrateArgs) -> Result<Swept, CommandError> {
    let budget_s = 60.0 * args.budget;
    say(&format!("calibrate: {} minutes of experiments at most", args.budget));
    let settings = Settings {
        budget_s,
        name: name(args),
        num_blocks: args.num_blocks,
        max_model_len: args.max_model_len,
    };
    let progress = Progress::counting("calibrate", budget_s.ceil() as u64, "seconds of experiments");
    let mut monitor = Shown { progress: &progress, done_s: 0 };
    sweep(experiment, &settings, &mut monitor).map_err(|error| match error {
        SweepError::Unusable(_) => CommandError::bad_input(error),
        SweepError::Experiment(_) | SweepError::Stopped => CommandError::could_not_run(error),
    })
}

struct Shown<'a> {
    progress: &'a Progress,
    done_s: u64,
}

impl Monitor for Shown<'_> {
    fn say(&mut self, line: &str) {
        say(line);
    }

    fn spent(&mut self, spent_s: f64, _budget_s: f64) {
        let now_s = spent_s as u64;
        self.progress.advance(now_s.saturating_sub(self.done_s));
        self.done_s = now_s.max(self.done_s);
    }

    fn stop(&mut self) -> bool {
        interrupted()
    }
}

/// Stores the sweep, fits it, and writes what came out.
fn finish(
    args: &CalibrateArgs,
    swept: &Swept,
    directory: &Path,
    system: &System,
    truth: Option<(&Profile, Quirks)>,
) -> Outcome {
    let stored = directory.join(SWEEP);
    output::store(swept, directory, &stored)?;
    if swept.stopped && args.from.is_empty() {
        return Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; {} holds what was measured until then, which --from fits",
            directory.display()
        )));
    }
    let fitted = fit(swept, &name(args), system.prior.as_ref());
    let mut calibration = fitted.map_err(CommandError::bad_input)?;
    if let Some(manifest) = &system.manifest {
        state(manifest, &mut calibration.profile);
    }
    let provenance = &mut calibration.profile.provenance;
    provenance.command = Some(super::model::command_line());
    let version = provenance.engine_version.clone();
    args.provenance.note_in(&mut calibration.profile);
    calibration.profile.provenance.engine_version = args.provenance.engine_version.clone().or(version);
    let compared: Vec<Compared> = match truth {
        Some((truth, quirks)) => compare(truth, quirks, swept.spent_s, &calibration.profile)
            .map_err(|ExperimentError(error)| CommandError::could_not_run(error))?,
        None => Vec::new(),
    };
    let result = Calibrated { args, swept, calibration: &calibration, compared: &compared, directory };
    result.write()?;
    result.print()?;
    Ok(Exit::from_gate(result.describes() && compared.iter().all(Compared::met)))
}
