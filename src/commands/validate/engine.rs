//! What is measured: live targets, or a simulated engine for a rehearsal.

use super::ValidateArgs;
use super::design::Design;
use super::quirks;
use crate::commands::live::{self, TargetArgs, Tuning};
use crate::exit::CommandError;
use crate::input::{self, Loaded};
use scaleproof_calibrate::simulated::Quirks;
use scaleproof_pack::experiment::Experiment;
use std::path::PathBuf;

/// What serves the schedules.
pub enum Engine {
    /// Real engines.
    Live {
        /// Where and how.
        targets: Box<TargetArgs>,
        /// Their addresses, as they may be shown.
        names: Vec<String>,
        /// Replicas behind a single target.
        usual: u32,
    },
    /// The simulator in their place.
    Simulated {
        /// The scenario whose fleet it is.
        path: PathBuf,
        /// That scenario.
        loaded: Box<Loaded>,
        /// What it has beside its profile.
        quirks: Quirks,
    },
}

impl Engine {
    /// The one that the arguments name.
    pub fn of(args: &ValidateArgs, design: &Design, predicted: &Loaded) -> Result<Engine, CommandError> {
        let quirks = quirks::parse(&args.engine, design.live_runs(design.fleets.len()))?;
        if let Some(path) = &args.simulate_engine {
            let loaded = Box::new(input::load_scenario(path)?);
            return Ok(Engine::Simulated { path: path.clone(), loaded, quirks });
        }
        if args.targets.targets.is_empty() {
            return Err(CommandError::bad_input(
                "--target: found none; expected a live engine's URL, or --simulate-engine SCENARIO for a rehearsal; name one",
            ));
        }
        if !args.engine.is_empty() {
            return Err(CommandError::bad_input(format!(
                "--engine {}: found live targets; expected --simulate-engine SCENARIO beside it; leave it out",
                args.engine.join(",")
            )));
        }
        let usual = predicted.manifest.engine.placement.replicas;
        let names =
            live::addresses("--target", &args.targets.targets)?.iter().map(ToString::to_string).collect();
        let engine = Engine::Live { targets: Box::new(args.targets.clone()), names, usual };
        if !design.fleets.iter().any(|&replicas| engine.serves(replicas)) {
            return Err(CommandError::bad_input(format!(
                "--target: found {} of them; expected as many as a fleet of --replicas has, or one with the manifest's {usual} \
                 replicas behind it",
                args.targets.targets.len()
            )));
        }
        Ok(engine)
    }

    /// How outputs call it.
    pub fn name(&self) -> String {
        match self {
            Engine::Live { names, .. } => format!("live engine at {}", names.join(", ")),
            Engine::Simulated { path, loaded, quirks } => format!(
                "simulated engine of {} (profile {}; {quirks})",
                path.display(),
                loaded.profile_sha256.get(..12).unwrap_or_default()
            ),
        }
    }

    /// Whether its records are of a real engine.
    pub fn is_live(&self) -> bool {
        matches!(self, Engine::Live { .. })
    }

    /// Whether it has a fleet of this size: a single target is taken for the manifest's whole fleet, several for a replica
    /// each, of which the first so many make a smaller fleet.
    pub fn serves(&self, replicas: u32) -> bool {
        match self {
            Engine::Live { targets, usual, .. } => match targets.targets.len() {
                1 => replicas == *usual,
                several => replicas as usize <= several,
            },
            Engine::Simulated { .. } => true,
        }
    }

    /// The fleet of this size, if there is one; `run` counts the runs before it.
    pub fn fleet<'a>(
        &'a self,
        replicas: u32,
        predicted: &Loaded,
        run: u64,
    ) -> Result<Option<Box<dyn Experiment + 'a>>, CommandError> {
        match self {
            _ if !self.serves(replicas) => Ok(None),
            Engine::Live { targets, .. } => {
                let mut own = targets.clone();
                if own.replicas.len() == own.targets.len() {
                    own.replicas.truncate(replicas as usize);
                }
                own.targets.truncate(replicas as usize);
                Ok(Some(Box::new(live::engine(&own, Tuning::default(), predicted)?)))
            }
            Engine::Simulated { loaded, quirks, .. } => {
                let at = u32::try_from(run).unwrap_or(u32::MAX);
                Ok(Some(Box::new(quirks::fleet(loaded, replicas, *quirks).after_runs(at))))
            }
        }
    }
}
