//! What is run: fleets, rates and repeats, their order, and the reference point between them.

use super::ValidateArgs;
use crate::exit::CommandError;
use crate::files::read_text;
use crate::input::Loaded;
use crate::point::Point;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_pack::verdict::Tolerance;
use scaleproof_pack::workload::Enough;
use std::path::Path;

/// Requests of a run of the reference point, about.
const REFERENCE_REQUESTS: u64 = 24;
/// The repeats of the reference point begin here: no point has so many.
const REFERENCE_RUN: u64 = 1 << 32;

/// The rule that the arguments state.
pub fn rule(args: &ValidateArgs) -> Result<Tolerance, CommandError> {
    let mut rule = Tolerance::default();
    for text in &args.tolerance {
        match text.split_once('=') {
            Some((name, value)) => {
                let said = |error| CommandError::bad_input(format!("--tolerance {text}: {error}"));
                rule.set(name, value).map_err(said)?;
            }
            None => {
                rule =
                    Tolerance::parse(text, &read_text(Path::new(text))?).map_err(CommandError::bad_input)?;
            }
        }
    }
    Ok(rule)
}

/// Fleets and rates.
pub struct Design {
    /// Sizes of the fleet, rising.
    pub fleets: Vec<u32>,
    /// Rates of the manifest's own fleet, rising.
    rates: Vec<f64>,
    /// Replicas of that fleet.
    usual: u32,
    /// Repeats.
    pub repeats: u64,
    shared_prefixes: bool,
}

impl Design {
    /// What the arguments ask for.
    pub fn new(args: &ValidateArgs, loaded: &Loaded, shared_prefixes: bool) -> Result<Design, CommandError> {
        let usual = loaded.manifest.engine.placement.replicas;
        let mut fleets = if args.fleet_sizes.is_empty() { vec![usual] } else { args.fleet_sizes.clone() };
        fleets.sort_unstable();
        fleets.dedup();
        fleets.iter().try_for_each(|&replicas| loaded.check_fleet(replicas))?;
        let mut rates = if args.rps.is_empty() {
            loaded.trace_rate().map_or(loaded.scenario.experiment.rates_rps.clone(), |rps| vec![rps])
        } else {
            args.rps.clone()
        };
        rates.sort_by(f64::total_cmp);
        rates.dedup_by(|a, b| a.total_cmp(b).is_eq());
        Ok(Design { fleets, rates, usual, repeats: args.repeats, shared_prefixes })
    }

    /// The points of one fleet and repeat; each repeat begins at another rate, so that none is always first.
    pub fn points(&self, replicas: u32, run: u64) -> Vec<Point> {
        let scale = f64::from(replicas) / f64::from(self.usual.max(1));
        let point = |rps: &f64| Point {
            load: Load::Open { rps: rps * scale },
            run,
            replicas,
            shared_prefixes: self.shared_prefixes,
        };
        let mut points: Vec<Point> = self.rates.iter().map(point).collect();
        let begin = usize::try_from(run).unwrap_or(0) % points.len().max(1);
        points.rotate_left(begin);
        points
    }

    /// All points of all fleets and repeats.
    pub fn all_points(&self) -> Vec<Point> {
        let runs = self.fleets.iter().flat_map(|&replicas| (0..self.repeats).map(move |run| (replicas, run)));
        runs.flat_map(|(replicas, run)| self.points(replicas, run)).collect()
    }

    /// Live runs of the sweep, the reference point's included.
    pub fn live_runs(&self, fleets: usize) -> usize {
        fleets * self.repeats as usize * (self.rates.len() + 1) + fleets
    }
}

/// A schedule of the reference point: a few requests of every class, each replica one at a time, never the same prompts
/// twice. None for a trace and for sessions, whose counts cannot be divided.
pub fn reference(loaded: &Loaded, replicas: u32, number: u64) -> Result<Option<Schedule>, CommandError> {
    let Some(manifest) = reference_manifest(&loaded.manifest) else { return Ok(None) };
    let load = Load::Closed { concurrency: replicas };
    Schedule::generate(&manifest, load, REFERENCE_RUN + number, None, false)
        .map(Some)
        .map_err(|error| CommandError::bad_input(format!("{}: {error}", loaded.manifest_file())))
}

fn reference_manifest(manifest: &Manifest) -> Option<Manifest> {
    let mut small = manifest.clone();
    let client = &mut small.client;
    if client.class_schedule_counts.is_empty() || manifest.classes.iter().any(|c| c.session.is_some()) {
        return None;
    }
    let part = client.initial_scheduled_requests.div_ceil(REFERENCE_REQUESTS).max(1);
    client.class_schedule_counts.iter_mut().for_each(|count| *count = count.div_ceil(part));
    client.initial_scheduled_requests = client.class_schedule_counts.iter().sum();
    (client.warmup_seconds, client.minimum_duration_seconds) = (0.0, 0.0);
    Some(small)
}

/// A run of the reference point ends with its requests.
pub const REFERENCE_ENOUGH: Enough = Enough { successes: 0, max_requests: 0 };
