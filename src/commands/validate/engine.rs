//! What is measured: live targets, or a simulated engine for a rehearsal.

use super::ValidateArgs;
use super::design::Design;
use super::simulated::{Quirks, Simulated};
use crate::exit::CommandError;
use crate::input::{self, Loaded};
use scaleproof_pack::experiment::Experiment;
use std::path::PathBuf;

/// What serves the schedules.
pub enum Engine {
    /// The simulator in its place.
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
    pub fn of(args: &ValidateArgs, design: &Design) -> Result<Engine, CommandError> {
        let quirks = Quirks::parse(&args.engine, design.live_runs(design.fleets.len()))?;
        let Some(path) = &args.simulate_engine else {
            let found = if args.target.is_empty() { "none".to_owned() } else { args.target.join(", ") };
            return Err(CommandError::bad_input(format!(
                "--target: found {found}; expected --simulate-engine SCENARIO: this version measures simulated engines \
                 only"
            )));
        };
        let loaded = Box::new(input::load_scenario(path)?);
        Ok(Engine::Simulated { path: path.clone(), loaded, quirks })
    }

    /// How outputs call it.
    pub fn name(&self) -> String {
        match self {
            Engine::Simulated { path, loaded, quirks } => format!(
                "simulated engine of {} (profile {}, {quirks:?})",
                path.display(),
                &loaded.profile_sha256[..12]
            ),
        }
    }

    /// Whether its records are of a real engine.
    pub fn is_live(&self) -> bool {
        false
    }

    /// Whether it has a fleet of this size.
    pub fn serves(&self, _replicas: u32) -> bool {
        true
    }

    /// The fleet of this size, if there is one; `run` counts the runs before it.
    pub fn fleet<'a>(
        &'a self,
        replicas: u32,
        _predicted: &Loaded,
        run: u64,
    ) -> Result<Option<Box<dyn Experiment + 'a>>, CommandError> {
        match self {
            Engine::Simulated { loaded, quirks, .. } => {
                let at = u32::try_from(run).unwrap_or(u32::MAX);
                Ok(Some(Box::new(Simulated::new(loaded, replicas, *quirks).at_run(at))))
            }
        }
    }
}
