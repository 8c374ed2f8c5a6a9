//! The fewest replicas that carry a peak with a given probability.

use super::Draw;
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::table::{counted, percent};
use rayon::prelude::*;
use scaleproof_pack::interval::wilson_95;
use scaleproof_pack::plan::fewest_passing;
use scaleproof_pack::schedule::Load;
use scaleproof_pack::spread::{draws_to_show, shown_probability, shows};
use serde::Serialize;

/// Fleets that the search for the smallest one simulates, about.
const FLEETS: u64 = 4;

/// A fleet at the peak, over draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetShare {
    /// Replicas.
    pub replicas: u32,
    /// Draws simulated; fewer than asked for if the user asked to stop.
    pub draws: usize,
    /// Of those, with every gate passed.
    pub passing: usize,
    /// passing / draws.
    pub share: f64,
    /// Its Wilson 95 % interval.
    pub share_ci95: Option<(f64, f64)>,
    /// With which probability another draw passes: passing / (draws + 1).
    pub probability: f64,
    /// Whether that reaches the confidence asked for.
    pub pass: bool,
    /// Draws whose run left the profile's validity region.
    pub outside_validity: usize,
}

/// The smallest fleet that carries the peak with a given probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfidentFleet {
    /// The peak.
    pub peak_rps: f64,
    /// The probability asked for.
    pub confidence: f64,
    /// False if the user asked to stop before it was found.
    pub complete: bool,
    /// Replicas; null if twice those that the division requires do not reach it.
    pub replicas: Option<u32>,
    /// Their GPUs.
    pub gpus: Option<u32>,
    /// The fleets simulated, by replicas.
    pub simulated: Vec<FleetShare>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// Refuses a confidence that so few draws cannot show even if all of them pass.
///
/// # Errors
/// Too few draws.
pub fn check_enough(confidence: f64, draws: u64) -> Result<(), CommandError> {
    let least = draws_to_show(confidence);
    if draws >= least {
        return Ok(());
    }
    Err(CommandError::bad_input(format!(
        "--at-confidence {confidence}: found {}; expected at least {least}: if all n draws pass, another one does \
         with probability n/(n + 1); raise --draws or lower the confidence",
        counted(draws, "draw")
    )))
}

/// Looks for the fewest replicas with which so many of the draws, each with its own parameters and seed, pass every gate
/// at the peak that another one does with probability `confidence`. Begins at `from` replicas. If the user asks to stop,
/// what was simulated until then is what is found.
///
/// # Errors
/// Those of the runs.
pub fn confident_fleet(
    base: &Loaded,
    draws: &mut [Draw],
    (peak_rps, confidence, from): (f64, f64, u32),
    shared_prefixes: bool,
    attempts_per_run: u64,
) -> Result<ConfidentFleet, CommandError> {
    let progress = Progress::start("draws at the peak", attempts_per_run * FLEETS * draws.len() as u64);
    let mut simulated: Vec<FleetShare> = Vec::new();
    let asked = draws.len();
    let search = fewest_passing(from, |replicas| {
        let at = Point { load: Load::Open { rps: peak_rps }, run: 0, replicas, shared_prefixes };
        let fleet = share_at(base, draws, at, confidence, &progress).map_err(Some)?;
        let answer = if fleet.draws < asked { Err(None) } else { Ok(fleet.pass) };
        simulated.push(fleet);
        answer
    });
    drop(progress);
    let (replicas, complete) = match search {
        Ok(found) => (found, true),
        Err(None) => (None, false),
        Err(Some(error)) => return Err(error),
    };
    simulated.sort_by_key(|fleet| fleet.replicas);
    let chosen = simulated.iter().find(|fleet| Some(fleet.replicas) == replicas);
    let mut warnings = Vec::new();
    if !complete {
        warnings.push("the request to stop left the search for this fleet unfinished".to_owned());
    }
    if let Some(outside) = chosen.map(|fleet| fleet.outside_validity).filter(|&outside| outside > 0) {
        warnings.push(format!("{outside} of these draws left the profile's validity region"));
    }
    Ok(ConfidentFleet {
        peak_rps,
        confidence,
        gpus: replicas.map(|replicas| replicas.saturating_mul(base.gpus_per_replica())),
        replicas,
        complete,
        simulated,
        warnings,
    })
}

fn share_at(
    base: &Loaded,
    draws: &mut [Draw],
    at: Point,
    confidence: f64,
    progress: &Progress,
) -> Result<FleetShare, CommandError> {
    base.check_fleet(at.replicas)?;
    let judge = |draw: &mut Draw| {
        let point = Point { run: draw.run, ..at };
        let report = |loaded: &Loaded| if interrupted() { Ok(None) } else { point.report(loaded, progress) };
        let report = draw.with(base, report)?;
        Ok(report.map(|report| (report.capacity_gate_pass, report.leaves_validity())))
    };
    let judged: Vec<Result<Option<(bool, bool)>, CommandError>> =
        draws.par_iter_mut().with_max_len(1).map(judge).collect();
    let judged = judged.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
    let passing = judged.iter().filter(|(pass, _)| *pass).count();
    let (count, draws) = (passing as u64, judged.len() as u64);
    Ok(FleetShare {
        replicas: at.replicas,
        draws: judged.len(),
        passing,
        share: passing as f64 / judged.len().max(1) as f64,
        share_ci95: wilson_95(count, draws),
        probability: shown_probability(count, draws),
        pass: shows(count, draws, confidence),
        outside_validity: judged.iter().filter(|(_, outside)| *outside).count(),
    })
}

impl ConfidentFleet {
    /// The fleets with draws outside the profile's validity region, and how many.
    pub fn outside(&self) -> impl Iterator<Item = (String, String)> {
        let outside = self.simulated.iter().filter(|fleet| fleet.outside_validity > 0);
        outside.map(|fleet| {
            let replicas = counted(fleet.replicas.into(), "replica");
            let which = format!("{replicas} at {} requests/s", self.peak_rps);
            (which, format!("{} of {}", fleet.outside_validity, counted(fleet.draws as u64, "draw")))
        })
    }

    /// In words, with the fleets that were simulated, and the warnings, a line each.
    pub fn lines(&self) -> Vec<String> {
        let tested: Vec<String> = self
            .simulated
            .iter()
            .map(|fleet| format!("{} carries it in {} of {}", fleet.replicas, fleet.passing, fleet.draws))
            .collect();
        let chosen = self.simulated.iter().find(|fleet| Some(fleet.replicas) == self.replicas);
        let found = match (chosen, chosen.and_then(|fleet| fleet.share_ci95)) {
            (Some(fleet), Some((low, high))) => format!(
                "{}, {}: {} of the draws pass (95 % interval {} to {}), another one with {}",
                counted(fleet.replicas.into(), "replica"),
                counted(self.gpus.unwrap_or(0).into(), "GPU"),
                percent(Some(fleet.share)),
                percent(Some(low)),
                percent(Some(high)),
                percent(Some(fleet.probability)),
            ),
            _ if !self.complete => "not found yet".to_owned(),
            _ => "no fleet of up to twice the required replicas".to_owned(),
        };
        let mut lines = vec![format!(
            "at a confidence of {}: {found} ({})",
            percent(Some(self.confidence)),
            tested.join(", ")
        )];
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines
    }
}
