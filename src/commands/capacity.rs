//! `scaleproof capacity`: the highest passing rate, on the grid and, if asked, between its rates.

use super::sweep::{chosen, rate_table, runs_text, simulate_grid, sweep_report, verdict};
use crate::args::{CapacityArgs, SweepArgs};
use crate::draws::{Draw, DrawnCapacity, Near, draw, drawn_capacity};
use crate::exit::{CommandError, Outcome};
use crate::point::{Point, PointResult};
use crate::study::{Search, Study, exit_by_gate};
use crate::table::counted;
use scaleproof_pack::capacity::Judgement;
use scaleproof_pack::interval::mean_ci95;
use scaleproof_pack::refine::{Bracket, refine};
use scaleproof_pack::schedule::Load;
use serde::Serialize;
use serde_json::json;

/// A capacity between the grid's rates, with its spread over repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refined {
    /// Mean over the repeats of the highest rate found to pass.
    pub capacity_refined_rps: f64,
    /// Its 95 % interval by Student's t; null for fewer than two repeats.
    pub ci95_rps: Option<(f64, f64)>,
    /// Each repeat's bracket: it passes at the first rate and fails at the second.
    pub repeats: Vec<Bracket>,
    /// How wide a bracket may be.
    pub within_rps: f64,
    /// Replicas.
    pub replicas: u32,
    /// The lowest rate found to fail above a capacity, over all repeats.
    pub first_failing_rps: Option<f64>,
    /// The gate that misses by most there.
    pub first_failing_gate: Option<String>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// Runs the command.
pub fn run(args: &CapacityArgs) -> Outcome {
    open_loop_only(&args.sweep)?;
    let mut study = Study::open(&args.sweep.common, "capacity")?;
    let (grid, found) = simulate_grid(&mut study, &args.sweep)?;
    let replicas = study.loaded.manifest.engine.placement.replicas;
    let wanted = args.refined || args.draws.is_some();
    let refined = if wanted { Some(refine_points(&mut study, &grid, replicas, args.within)?) } else { None };
    let drawn = match (args.draws, &refined) {
        (Some(count), Some(refined)) => {
            let mut draws = draw(&study.loaded, count)?;
            draw_capacities(&study, &mut draws, refined)?
        }
        _ => None,
    };
    let remarks =
        refined.iter().map(refined_text).collect::<String>() + &drawn_text(args.draws, drawn.as_ref());
    let text =
        format!("{}\n{}{}{remarks}", rate_table(&study, &grid), verdict(&found), runs_text(&study, &grid));
    let remarks: Vec<String> = remarks.lines().map(str::to_owned).collect();
    study.finish(chosen(&study, &grid, &found), &sweep_report(&study, &grid, &found, &remarks))?;
    study.publish(
        "capacity",
        &json!({
            "capacity_rps": found.capacity_rps,
            "capacity_refined_rps": refined.as_ref().map(|r| r.capacity_refined_rps),
            "capacity_refined_ci95_rps": refined.as_ref().and_then(|r| r.ci95_rps),
            "first_failing_rps": found.first_failing_rps,
            "first_failing_gate": found.first_failing_gate,
            "grid": found,
            "refined": refined,
            "drawn": drawn,
        }),
        &text,
    )?;
    refuse_unfinished(&study, drawn.as_ref().is_none_or(DrawnCapacity::complete))?;
    exit_by_gate(found.capacity_rps.is_some())
}

/// Looks for the capacities of the draws near the refined one. None if that is none: there is nothing to begin at.
pub fn draw_capacities(
    study: &Study,
    draws: &mut [Draw],
    refined: &Refined,
) -> Result<Option<DrawnCapacity>, CommandError> {
    let guess_rps = refined.capacity_refined_rps;
    if guess_rps <= 0.0 {
        return Ok(None);
    }
    let near = Near {
        guess_rps,
        within: refined.within_rps / guess_rps,
        replicas: refined.replicas,
        shared_prefixes: study.shared_prefixes,
    };
    let attempts = study.expected_attempts(&study.at_rate(guess_rps, 0, Some(refined.replicas)));
    let drawn = drawn_capacity(&study.loaded, draws, &near, attempts)?;
    study.refuse_what_is_outside(drawn.outside())?;
    Ok(Some(drawn))
}

/// What was asked of draws, and what they say, a line each.
pub fn drawn_text(asked: Option<u64>, drawn: Option<&DrawnCapacity>) -> String {
    let none = || match asked {
        Some(_) => {
            vec!["no draws: no rate passes with the profile's own parameters; test lower ones".to_owned()]
        }
        None => Vec::new(),
    };
    drawn.map_or_else(none, DrawnCapacity::lines).iter().map(|line| format!("{line}\n")).collect()
}

/// The end of a command that was asked to stop among its draws.
pub fn refuse_unfinished(study: &Study, complete: bool) -> Result<(), CommandError> {
    if complete {
        return Ok(());
    }
    Err(CommandError::could_not_run(format!(
        "interrupted: found a request to stop among the draws; the draws finished until then are valid, in {}",
        study.directory.display()
    )))
}

/// Refuses clients where only offered rates have an answer.
pub fn open_loop_only(args: &SweepArgs) -> Result<(), CommandError> {
    if args.concurrency.is_empty() {
        return Ok(());
    }
    Err(CommandError::bad_input(
        "--concurrency: found clients; expected offered rates alone, because a closed loop proves nothing about an \
         arrival rate; `scaleproof sweep --concurrency` finds where it saturates",
    ))
}

/// The refined capacity in words.
pub fn refined_text(refined: &Refined) -> String {
    let interval = refined.ci95_rps.map_or_else(
        || "no interval from a single repeat; use --repeats".to_owned(),
        |(low, high)| format!("95 % interval {low:.2} to {high:.2}"),
    );
    let first = match (refined.first_failing_rps, &refined.first_failing_gate) {
        (Some(rps), Some(gate)) => format!("first to fail above it: {gate} at {rps} requests/s\n"),
        _ => String::new(),
    };
    format!(
        "refined capacity: {:.2} requests/s on {}, to within {} ({}, {interval})\n{first}{}",
        refined.capacity_refined_rps,
        counted(u64::from(refined.replicas), "replica"),
        refined.within_rps,
        counted(refined.repeats.len() as u64, "repeat"),
        refined.warnings_text()
    )
}

impl Refined {
    /// Its warnings, a line each.
    pub fn warnings_text(&self) -> String {
        self.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect()
    }
}

/// The failing ends of the brackets, a repeat each, with what was found there.
fn failing_ends<'a>(
    study: &'a Study,
    runs: &[u64],
    brackets: &[Bracket],
    replicas: u32,
) -> Vec<(f64, &'a PointResult)> {
    let ends = runs.iter().zip(brackets).filter_map(|(&run, bracket)| Some((run, bracket.failing_rps?)));
    let result = |run, rps| study.position(&study.at_rate(rps, run, Some(replicas)));
    ends.filter_map(|(run, rps)| Some((rps, &study.results[result(run, rps)?]))).collect()
}

/// The lowest failing end of the brackets, and the gate that misses by most there.
fn first_failing(ends: &[(f64, &PointResult)]) -> Option<(f64, String)> {
    let &(rps, result) = ends.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((rps, Judgement::of(&result.report).failing_gates.into_iter().next()?))
}

/// A bracket whose failing rate could not be judged shows how short the run was, not what the fleet can do.
fn unjudged(ends: &[(f64, &PointResult)], replicas: u32) -> Vec<String> {
    let results = ends.iter().map(|&(_, result)| result);
    let short = results.filter(|result| result.report.too_short_to_judge());
    let warning = |result: &PointResult| {
        format!(
            "the search on {} ended at a rate that a run of {:.0} s cannot judge: the capacity may be \
             higher; offer more requests",
            counted(u64::from(replicas), "replica"),
            result.report.duration_s
        )
    };
    short.map(warning).collect()
}

/// A bracket of which an end left the profile's validity region is extrapolated.
fn outside(study: &Study, runs: &[u64], brackets: &[Bracket], replicas: u32) -> Option<String> {
    let leaves = |run: u64, rps: f64| {
        let position = study.position(&study.at_rate(rps, run, Some(replicas)));
        position.is_some_and(|index| study.results[index].report.leaves_validity())
    };
    let either = |&(&run, bracket): &(&u64, &Bracket)| {
        leaves(run, bracket.passing_rps) || bracket.failing_rps.is_some_and(|rps| leaves(run, rps))
    };
    let count = runs.iter().zip(brackets).filter(either).count();
    (count > 0).then(|| {
        format!(
            "the search on {} is outside the profile's validity region at its end in {count} of {}: its capacity is \
             extrapolated",
            counted(u64::from(replicas), "replica"),
            counted(brackets.len() as u64, "repeat")
        )
    })
}

/// Refines the capacity of a fleet from points already simulated, repeat by repeat, all repeats at once. Each
/// repeat keeps its random numbers at every rate.
pub fn refine_points(
    study: &mut Study,
    tested: &[usize],
    replicas: u32,
    within_rps: f64,
) -> Result<Refined, CommandError> {
    let runs = study.runs(tested);
    // One repeat alone would leave a core idle in a bisection: it tests two rates a round. The number must not
    // depend on the machine, or the result would.
    let sections = if runs.len() == 1 { 2 } else { 1 };
    let mut searches: Vec<Bisection> = Vec::new();
    for &run in &runs {
        let rates: Vec<(f64, bool)> = tested
            .iter()
            .map(|&i| &study.results[i])
            .filter(|result| result.point.run == run)
            .filter_map(|result| match result.point.load {
                Load::Open { rps } => Some((rps, result.report.capacity_gate_pass)),
                Load::Closed { .. } => None,
            })
            .collect();
        let point = study.at_rate(1.0, run, Some(replicas));
        searches.push(Bisection { point, within_rps, sections, tested: rates });
    }
    study.search("refining the capacity", &mut searches)?;
    let brackets: Vec<Bracket> = searches.iter().filter_map(|search| search.next().ok()).collect();
    let ends = failing_ends(study, &runs, &brackets, replicas);
    let first_failing = first_failing(&ends);
    let mut warnings = unjudged(&ends, replicas);
    warnings.extend(outside(study, &runs, &brackets, replicas));
    let rates: Vec<f64> = brackets.iter().map(|bracket| bracket.passing_rps).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    Ok(Refined {
        capacity_refined_rps: mean,
        ci95_rps: mean_ci95(&rates),
        repeats: brackets,
        within_rps,
        replicas,
        first_failing_rps: first_failing.as_ref().map(|(rps, _)| *rps),
        first_failing_gate: first_failing.map(|(_, gate)| gate),
        warnings,
    })
}

/// One repeat's search, with the rates it has tested.
struct Bisection {
    /// The repeat's point, at whatever rate.
    point: Point,
    within_rps: f64,
    /// Rates tested a round.
    sections: usize,
    tested: Vec<(f64, bool)>,
}

impl Bisection {
    /// The bracket so far, or the rates it needs next. Replays the search on what is known: a few floats.
    fn next(&self) -> Result<Bracket, Vec<f64>> {
        let known =
            |rate: &f64| self.tested.iter().find(|(r, _)| r.total_cmp(rate).is_eq()).map(|(_, pass)| *pass);
        let grid = Bracket::of(&self.tested);
        refine(grid, self.within_rps, self.sections, |rates| {
            rates.iter().map(known).collect::<Option<Vec<bool>>>().ok_or_else(|| rates.to_vec())
        })
    }
}

impl Search for Bisection {
    fn wanted(&self) -> Vec<Point> {
        let rates = self.next().err().unwrap_or_default();
        rates.into_iter().map(|rps| Point { load: Load::Open { rps }, ..self.point }).collect()
    }

    fn found(&mut self, result: &PointResult) {
        if let Load::Open { rps } = result.point.load {
            self.tested.push((rps, result.report.capacity_gate_pass));
        }
    }
}
