//! `--engine`: what the simulated engine of a rehearsal has beside its profile.

use crate::exit::CommandError;
use crate::input::Loaded;
use scaleproof_calibrate::simulated::{Quirks, SimulatedEngine};

/// Reads `KEY=VALUE`s; `runs` is the length of the sweep that a drift is stated over.
pub fn parse(texts: &[String], runs: usize) -> Result<Quirks, CommandError> {
    let mut quirks = Quirks::default();
    for text in texts {
        let fail = |found: &str, expected: &str| {
            CommandError::bad_input(format!(
                "--engine {text}: found {found}; expected {expected}; scaleproof validate --help lists them"
            ))
        };
        let (name, value) = text.split_once('=').ok_or_else(|| fail("no =", "KEY=VALUE"))?;
        let number: f64 = value.parse().map_err(|_| fail(value, "a number"))?;
        let within = |low: f64, high: f64| {
            let inside = (low..=high).contains(&number);
            if inside { Ok(number) } else { Err(fail(value, &format!("a number from {low} to {high}"))) }
        };
        match name {
            "noise" => (quirks.run_sd, quirks.request_sd) = (within(0.0, 1.0)?, within(0.0, 1.0)?),
            "step_noise" => quirks.step_sd = within(0.0, 1.0)?,
            "hiccups" => quirks.hiccups = within(0.0, 1.0)?,
            "drift" => quirks.drift_per_run = within(-0.9, 10.0)? / runs.max(1) as f64,
            "speed" => quirks.speed = within(0.01, 100.0)?,
            "steps" => quirks.steps = within(0.01, 100.0)?,
            "network_ms" => quirks.network_ms = within(0.0, 1e6)?,
            "pinned" => quirks.pinned = within(0.0, 1.0)?,
            "one_target" => quirks.one_target = within(0.0, 1.0)? > 0.0,
            _ => {
                let known =
                    "noise, step_noise, hiccups, drift, speed, steps, network_ms, pinned or one_target";
                return Err(fail(name, known));
            }
        }
    }
    Ok(quirks)
}

/// A fleet of a scenario's engine.
pub fn fleet(loaded: &Loaded, replicas: u32, quirks: Quirks) -> SimulatedEngine {
    SimulatedEngine::fleet((&loaded.scenario, &loaded.manifest), &loaded.profile, replicas, quirks)
}
