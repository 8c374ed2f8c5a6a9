//! The capacity over draws, with what makes it uncertain.

use super::{Draw, remarks};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::table::counted;
use rayon::prelude::*;
use scaleproof_pack::refine::{Bracket, search_near};
use scaleproof_pack::schedule::Load;
use scaleproof_pack::spread::{Interval, LEVEL, Pair, Spread, share_words};
use serde::Serialize;
use std::collections::BTreeMap;

/// The first step of a search from the guess, in widths of its last bracket. It grows from there: seeds move a capacity
/// little, parameters much.
const FIRST_STEP: f64 = 2.0;
/// Runs that a search takes, about.
const RUNS_PER_SEARCH: u64 = 5;

/// Where to look for the capacities.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// The capacity of the profile's own engine, about.
    pub guess_rps: f64,
    /// How wide a bracket may be, as a share of its failing end.
    pub within: f64,
    /// Replicas.
    pub replicas: u32,
    /// Whether prompts share prefixes.
    pub shared_prefixes: bool,
}

/// The capacity over draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrawnCapacity {
    /// Draws asked for. Fewer are in `draws` if the user asked to stop.
    pub asked: usize,
    /// Replicas.
    pub replicas: u32,
    /// How wide a bracket may be, as a share of its failing end.
    pub within: f64,
    /// Parameter sets that crossed the GPU's bound and were drawn again.
    pub rejected_below_bound: u32,
    /// What the draws say; null if none was finished.
    #[serde(flatten)]
    pub spread: Option<Spread>,
    /// The interval of the capacity of a replica, by division; null for fewer than two draws.
    pub interval_per_replica_rps: Option<Interval>,
    /// The finished draws.
    pub draws: Vec<DrawResult>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// One draw's capacities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrawResult {
    /// The repeat whose random numbers both searches have.
    pub run: u64,
    /// Factors on the profile's costs.
    pub factors: BTreeMap<&'static str, f64>,
    /// With the drawn parameters.
    pub drawn: Bracket,
    /// With the profile's own.
    pub own: Bracket,
    /// Whether the run at an end of either bracket left the profile's validity region.
    pub outside_validity: bool,
}

/// A search's end, and what is to be said of it.
#[derive(Clone, Copy)]
struct Found {
    bracket: Bracket,
    /// Whether a run too short to judge ended it.
    unjudged: bool,
    /// Whether the run at either end left the profile's validity region.
    outside: bool,
}

/// Looks for the capacity of each draw, and for that of the profile's own engine under the same seed, all cores at
/// once. If the user asks to stop, the finished draws are what is found.
///
/// # Errors
/// Those of the runs.
pub fn drawn_capacity(
    base: &Loaded,
    draws: &mut [Draw],
    near: &Near,
    attempts_per_run: u64,
) -> Result<DrawnCapacity, CommandError> {
    let total = attempts_per_run * RUNS_PER_SEARCH * 2 * draws.len() as u64;
    let progress = Progress::start("capacities of the draws", total);
    let both = |draw: &mut Draw| -> Result<Option<(Found, Found)>, CommandError> {
        let run = draw.run;
        let Some(drawn) = draw.with(base, |loaded| search(loaded, run, near, &progress))? else {
            return Ok(None);
        };
        // A profile without uncertainty draws itself.
        let own = if draw.loaded.profile == base.profile {
            progress.advance(attempts_per_run * RUNS_PER_SEARCH);
            Some(drawn)
        } else {
            search(base, run, near, &progress)?
        };
        Ok(own.map(|own| (drawn, own)))
    };
    let found: Vec<Result<Option<(Found, Found)>, CommandError>> =
        draws.par_iter_mut().with_max_len(1).map(both).collect();
    drop(progress);
    let found: Vec<Option<(Found, Found)>> = found.into_iter().collect::<Result<_, _>>()?;
    Ok(summary(base, draws, &found, near))
}

/// None if the user asked to stop.
fn search(
    loaded: &Loaded,
    run: u64,
    near: &Near,
    progress: &Progress,
) -> Result<Option<Found>, CommandError> {
    // What is known of each rate: whether it could not be judged, and whether it left the region.
    let mut tested: Vec<(f64, bool, bool)> = Vec::new();
    let test = |rps: f64| -> Result<bool, Option<CommandError>> {
        let Near { replicas, shared_prefixes, .. } = *near;
        let point = Point { load: Load::Open { rps }, run, replicas, shared_prefixes };
        let report = if interrupted() { None } else { point.report(loaded, progress)? };
        let report = report.ok_or(None)?;
        tested.push((rps, report.too_short_to_judge(), report.leaves_validity()));
        Ok(report.capacity_gate_pass)
    };
    match search_near(near.guess_rps, FIRST_STEP * near.within, near.within, |rate, _, _| rate, test) {
        Err(None) => Ok(None),
        Err(Some(error)) => Err(error),
        Ok(bracket) => {
            let at = |rps: f64| tested.iter().find(|(rate, ..)| rate.total_cmp(&rps).is_eq());
            let unjudged = bracket.failing_rps.and_then(at).is_some_and(|(_, unjudged, _)| *unjudged);
            let ends = [Some(bracket.passing_rps), bracket.failing_rps];
            let outside = ends.into_iter().flatten().filter_map(at).any(|(.., outside)| *outside);
            Ok(Some(Found { bracket, unjudged, outside }))
        }
    }
}

fn summary(base: &Loaded, draws: &[Draw], found: &[Option<(Found, Found)>], near: &Near) -> DrawnCapacity {
    let finished: Vec<(&Draw, &Found, &Found)> = draws
        .iter()
        .zip(found)
        .filter_map(|(draw, found)| found.as_ref().map(|(drawn, own)| (draw, drawn, own)))
        .collect();
    let pair = |(_, drawn, own): &(&Draw, &Found, &Found)| Pair {
        drawn_rps: drawn.bracket.passing_rps,
        own_rps: own.bracket.passing_rps,
    };
    let spread = Spread::of(&finished.iter().map(pair).collect::<Vec<_>>());
    let mut warnings = remarks(base, draws);
    let mut warn = |count: usize, of: &str| {
        if count > 0 {
            warnings.push(format!("{count} of {} {of}", counted(finished.len() as u64, "draw")));
        }
    };
    let many = |of: fn(&Found) -> bool| finished.iter().filter(|(_, drawn, _)| of(drawn)).count();
    warn(
        many(|found| found.unjudged),
        "ended at a rate that so short a run cannot judge: their capacity may be higher; offer more requests",
    );
    warn(
        many(|found| found.bracket.passing_rps <= 0.0),
        "found no rate that passes: their capacity counts as 0",
    );
    warn(
        finished.iter().filter(|(_, drawn, own)| drawn.outside || own.outside).count(),
        "left the profile's validity region at their capacity: extrapolated",
    );
    let replicas = f64::from(near.replicas);
    let share = |i: Interval| Interval { low: i.low / replicas, high: i.high / replicas, ..i };
    DrawnCapacity {
        asked: draws.len(),
        replicas: near.replicas,
        within: near.within,
        rejected_below_bound: draws.iter().map(|draw| draw.rejected).sum(),
        interval_per_replica_rps: spread.and_then(|spread| spread.interval_rps).map(share),
        spread,
        draws: finished
            .iter()
            .map(|(draw, drawn, own)| DrawResult {
                run: draw.run,
                factors: draw.factors(),
                drawn: drawn.bracket,
                own: own.bracket,
                outside_validity: drawn.outside || own.outside,
            })
            .collect(),
        warnings,
    }
}

impl DrawnCapacity {
    /// Whether every draw that was asked for is in it.
    pub fn complete(&self) -> bool {
        self.draws.len() == self.asked
    }

    /// The draws outside the profile's validity region, and in what.
    pub fn outside(&self) -> impl Iterator<Item = (String, String)> {
        let outside = self.draws.iter().filter(|draw| draw.outside_validity);
        outside.map(|draw| (format!("draw {}", draw.run), "a run at its capacity".to_owned()))
    }

    /// `capacity 5.61 to 6.32 requests/s per replica, 95 % of 40 draws ...`, and the warnings, a line each.
    pub fn lines(&self) -> Vec<String> {
        let draws = match self.complete() {
            true => counted(self.asked as u64, "draw"),
            false => format!("{} of {} draws, stopped", self.draws.len(), self.asked),
        };
        let mut lines = vec![match (self.spread, self.interval_per_replica_rps) {
            (Some(spread), Some(of_one)) => self.interval_line(&spread, &of_one, &draws),
            (Some(spread), None) => {
                format!("capacity {:.2} requests/s, no interval from {draws}", spread.median_rps)
            }
            _ => format!("no capacity from {draws}"),
        }];
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines
    }

    fn interval_line(&self, spread: &Spread, of_one: &Interval, draws: &str) -> String {
        let replicas = f64::from(self.replicas);
        let few = if of_one.level < LEVEL { ", too few for 95 %" } else { "" };
        let shares = match (spread.parameters_share, spread.shares_se) {
            (Some(parameters), Some(error)) => format!(
                "of its variance {} from the profile's parameters, the rest from seeds",
                share_words(parameters, error)
            ),
            _ => {
                "neither the profile's parameters nor seeds move it by as much as the searches see".to_owned()
            }
        };
        format!(
            "capacity {:.2} to {:.2} requests/s per replica, {:.0} % ({draws}{few}; {:.2} to {:.2} on {}, median \
             {:.2}); {shares}",
            of_one.low,
            of_one.high,
            100.0 * of_one.level,
            of_one.low * replicas,
            of_one.high * replicas,
            counted(self.replicas.into(), "replica"),
            spread.median_rps,
        )
    }
}
