//! `scaleproof plan`: from a peak to replicas and GPUs, by division; then the planned fleet itself is simulated.

mod measured;
mod text;

use super::capacity::{
    Refined, draw_capacities, drawn_text, open_loop_only, refine_points, refined_text, refuse_unfinished,
};
use super::sweep::{
    attainment_text, chosen, judge, rate_table, runs_text, simulate_grid, sweep_report, verdict,
};
use crate::args::PlanArgs;
use crate::draws::{ConfidentFleet, DrawnCapacity, check_enough, confident_fleet, draw};
use crate::exit::{CommandError, Exit, Outcome};
use crate::point::PointResult;
use crate::progress::interrupted;
use crate::study::{Study, exit_by_gate};
use scaleproof_pack::balance::{Balance, balance};
use scaleproof_pack::capacity::Capacity;
use scaleproof_pack::plan::{Plan, PlanInput, fewest_passing, plan};
use scaleproof_pack::report_html::{FleetCapacity, FleetVerdict, PlanPage, PlannedPeak, plan_html};
use scaleproof_pack::spread::draws_to_show;
use serde::Serialize;
use serde_json::json;
use text::peaks_table;

/// Draws where fewer would do: enough for a 95 % interval.
const USUAL_DRAWS: u64 = 40;

/// Runs the command.
pub fn run(args: &PlanArgs) -> Outcome {
    if let Some(study) = &args.measured {
        return measured::run(args, study);
    }
    open_loop_only(&args.capacity.sweep)?;
    let count = draws_wanted(args)?;
    let mut study = Study::open(&args.capacity.sweep.common, "plan")?;
    let (grid, found) = simulate_grid(&mut study, &args.capacity.sweep)?;
    let sweep_text =
        format!("{}\n{}{}", rate_table(&study, &grid), verdict(&found), runs_text(&study, &grid));
    if found.capacity_rps.is_none() {
        study.finish(chosen(&study, &grid, &found), &sweep_report(&study, &grid, &found, &[]))?;
        study.publish(
            "plan",
            &json!({"capacity_rps": null, "capacity": found}),
            &format!("{sweep_text}no plan: no tested rate passes, test lower ones with --rps\n"),
        )?;
        return Ok(Exit::Failed);
    }
    let replicas = study.loaded.manifest.engine.placement.replicas;
    let base = refine_points(&mut study, &grid, replicas, args.capacity.within)?;
    let mut plans = Vec::new();
    for &peak_rps in &args.peak {
        plans.push(plan_peak(&mut study, args, &found, &base, &grid, peak_rps)?);
    }
    let drawn = carry(&mut study, args, count, &base, &mut plans)?;
    let first = &plans[0];
    let drawn_lines = drawn_text(count, drawn.as_ref());
    study.finish(first.at_peak_index, &page(&study, &grid, &base, &plans, &drawn_lines))?;
    let text = format!(
        "{sweep_text}{}{}{drawn_lines}\n{}",
        refined_text(&base),
        if args.capacity.refined {
            ""
        } else {
            "the plan divides the grid's capacity; --refined divides this one\n"
        },
        plans.iter().map(PeakPlan::text).collect::<String>()
    ) + &if plans.len() > 1 { peaks_table(&plans) } else { String::new() };
    study.publish(
        "plan",
        &json!({
            "capacity_rps": found.capacity_rps,
            "capacity_per_replica_rps": first.arithmetic.capacity_per_replica_rps,
            "required_replicas": first.arithmetic.required_replicas,
            "required_gpus": first.arithmetic.required_gpus,
            "capacity": found,
            "capacity_refined": base,
            "drawn": drawn,
            "plans": plans,
        }),
        &text,
    )?;
    refuse_unfinished(&study, !interrupted())?;
    exit_by_gate(plans.iter().all(|planned| planned.holds(args.spare)))
}

/// How many draws to make, if any.
fn draws_wanted(args: &PlanArgs) -> Result<Option<u64>, CommandError> {
    let Some(confidence) = args.at_confidence else { return Ok(args.capacity.draws) };
    let draws = args.capacity.draws.unwrap_or_else(|| draws_to_show(confidence).max(USUAL_DRAWS));
    check_enough(confidence, draws)?;
    Ok(Some(draws))
}

/// The swept fleet's capacity over draws, and the fleet of each peak that carries it with the confidence asked for.
fn carry(
    study: &mut Study,
    args: &PlanArgs,
    count: Option<u64>,
    base: &Refined,
    plans: &mut [PeakPlan],
) -> Result<Option<DrawnCapacity>, CommandError> {
    let Some(count) = count else { return Ok(None) };
    let mut draws = draw(&study.loaded, count)?;
    let drawn = draw_capacities(study, &mut draws, base)?;
    let Some(confidence) = args.at_confidence else { return Ok(drawn) };
    for planned in plans {
        let plan = &planned.arithmetic;
        let asked = (plan.peak_rps, confidence, plan.required_replicas);
        let attempts =
            study.expected_attempts(&study.at_rate(plan.peak_rps, 0, Some(plan.required_replicas)));
        let found = confident_fleet(&study.loaded, &mut draws, asked, study.shared_prefixes, attempts)?;
        study.refuse_what_is_outside(found.outside())?;
        planned.at_confidence = Some(found);
    }
    Ok(drawn)
}

/// A plan for one peak, and what the simulation of the planned fleet says of it.
#[derive(Serialize)]
struct PeakPlan {
    #[serde(flatten)]
    arithmetic: Plan,
    /// All planned replicas at the peak.
    at_peak: AtPeak,
    /// The planned replicas less the spare ones, or less one: what is left after a loss.
    after_loss: Option<AtPeak>,
    /// The fewest replicas that carry the peak in a simulation, whatever the utilization.
    smallest_fleet: SmallestFleet,
    /// The fewest replicas that carry the peak with a given probability; null unless asked for.
    at_confidence: Option<ConfidentFleet>,
    /// The planned fleet's own capacity.
    scaling: Scaling,
    #[serde(skip)]
    at_peak_index: usize,
}

/// A fleet simulated at the peak, judged as a tested rate is (`pack::capacity`); the summary is of the first repeat.
#[derive(Serialize)]
struct AtPeak {
    replicas: u32,
    repeats: usize,
    repeats_passing: usize,
    repeats_outside_validity: usize,
    pass: bool,
    failing_gates: Vec<String>,
    summary: String,
}

/// What the search for the smallest fleet found. The plan is not made from it: it has no headroom.
#[derive(Serialize)]
struct SmallestFleet {
    /// Null if twice the required replicas do not pass.
    replicas: Option<u32>,
    gpus: Option<u32>,
    /// The fleets that were simulated at the peak, by replicas.
    simulated: Vec<AtPeak>,
}

/// Division against simulation.
#[derive(Serialize)]
struct Scaling {
    /// The swept fleet's refined capacity, times the ratio of replicas.
    linear_rps: f64,
    /// The planned fleet's refined capacity.
    simulated: Refined,
    /// simulated / linear.
    ratio: f64,
    /// simulated - peak.
    headroom_rps: f64,
    /// peak / simulated.
    utilization: f64,
    /// Evenness of the swept fleet at its capacity, and of the planned one at the same load per replica.
    measured_balance: Option<Balance>,
    planned_balance: Option<Balance>,
    /// Prefix hits of the same two points.
    measured_prefix_hit_share: Option<f64>,
    planned_prefix_hit_share: Option<f64>,
    /// The finding in words.
    finding: String,
}

fn plan_peak(
    study: &mut Study,
    args: &PlanArgs,
    found: &Capacity,
    base: &Refined,
    grid: &[usize],
    peak_rps: f64,
) -> Result<PeakPlan, CommandError> {
    let arithmetic = plan(&PlanInput {
        capacity_rps: if args.capacity.refined {
            base.capacity_refined_rps
        } else {
            found.capacity_rps.unwrap_or(0.0)
        },
        replicas: study.loaded.manifest.engine.placement.replicas,
        gpus_per_replica: study.loaded.gpus_per_replica(),
        peak_rps,
        target_utilization: study.loaded.manifest.acceptance.target_utilization,
        spare: args.spare,
    })
    .map_err(CommandError::bad_input)?;
    let planned = arithmetic.planned_replicas;
    let left = planned.checked_sub(args.spare.max(1)).filter(|&left| left > 0);
    let required = arithmetic.required_replicas;
    simulate_fleets(
        study,
        grid,
        peak_rps,
        &[planned, left.unwrap_or(planned), required, required.saturating_add(1)],
    )?;
    let (at_peak, at_peak_index) = simulate_at(study, grid, peak_rps, planned)?;
    let after_loss = match left {
        Some(left) => Some(simulate_at(study, grid, peak_rps, left)?.0),
        None => None,
    };
    let smallest_fleet = smallest_fleet(study, grid, peak_rps, required)?;
    let measured = chosen(study, grid, found);
    let scaling = scale(study, args, base, planned, peak_rps, measured, found)?;
    let at_confidence = None;
    Ok(PeakPlan { arithmetic, at_peak, after_loss, smallest_fleet, at_confidence, scaling, at_peak_index })
}

/// Simulates the fleets that will be asked for at the peak, as many of them at once as there are cores. One that no
/// memory holds is left out here, and refused where it is asked for.
fn simulate_fleets(
    study: &mut Study,
    grid: &[usize],
    peak_rps: f64,
    fleets: &[u32],
) -> Result<(), CommandError> {
    let runs = study.runs(grid);
    let held = fleets.iter().copied().filter(|&replicas| study.loaded.check_fleet(replicas).is_ok());
    let points: Vec<_> = held
        .flat_map(|replicas| runs.iter().map(move |&run| (run, replicas)))
        .map(|(run, replicas)| study.at_rate(peak_rps, run, Some(replicas)))
        .collect();
    study.simulate("fleets at the peak", &points).map(|_| ())
}

fn simulate_at(
    study: &mut Study,
    grid: &[usize],
    peak_rps: f64,
    replicas: u32,
) -> Result<(AtPeak, usize), CommandError> {
    let points: Vec<_> =
        study.runs(grid).into_iter().map(|run| study.at_rate(peak_rps, run, Some(replicas))).collect();
    let indices = study.simulate("a fleet at the peak", &points)?;
    let first = &study.results[indices[0]].report;
    let judged = judge(study, &indices);
    let verdict = &judged.rates[0];
    let at_peak = AtPeak {
        replicas,
        repeats: verdict.repeats,
        repeats_passing: verdict.repeats_passing,
        repeats_outside_validity: verdict.repeats_outside_validity,
        pass: verdict.pass,
        failing_gates: verdict.failing_gates.iter().map(|(name, _)| name.clone()).collect(),
        summary: format!("{}, queue {}", attainment_text(first), first.queue_trend.word()),
    };
    Ok((at_peak, indices[0]))
}

/// Simulates the required fleet, that of one replica more, and as many others as it takes to find the smallest that
/// passes.
fn smallest_fleet(
    study: &mut Study,
    grid: &[usize],
    peak_rps: f64,
    required: u32,
) -> Result<SmallestFleet, CommandError> {
    let mut simulated: Vec<AtPeak> = Vec::new();
    let passes = |replicas: u32| -> Result<bool, CommandError> {
        let (at_peak, _) = simulate_at(study, grid, peak_rps, replicas)?;
        let pass = at_peak.pass;
        simulated.push(at_peak);
        Ok(pass)
    };
    let replicas = fewest_passing(required, passes)?;
    let more = required.saturating_add(1);
    if study.loaded.check_fleet(more).is_ok() {
        let (at_peak, _) = simulate_at(study, grid, peak_rps, more)?;
        simulated.push(at_peak);
    }
    simulated.sort_by_key(|at_peak| at_peak.replicas);
    simulated.dedup_by_key(|at_peak| at_peak.replicas);
    let gpus = replicas.map(|replicas| replicas.saturating_mul(study.loaded.gpus_per_replica()));
    Ok(SmallestFleet { replicas, gpus, simulated })
}

/// Finds the planned fleet's own capacity, starting from what division says.
fn scale(
    study: &mut Study,
    args: &PlanArgs,
    base: &Refined,
    replicas: u32,
    peak_rps: f64,
    measured: usize,
    found: &Capacity,
) -> Result<Scaling, CommandError> {
    let factor = f64::from(replicas) / f64::from(base.replicas);
    let rates = [found.capacity_rps, found.first_failing_rps];
    let run_numbers: Vec<u64> = (0..base.repeats.len() as u64).collect();
    let points: Vec<_> = rates
        .iter()
        .flatten()
        .flat_map(|rps| run_numbers.iter().map(move |&run| (rps * factor, run)))
        .map(|(rps, run)| study.at_rate(rps, run, Some(replicas)))
        .collect();
    let tested = study.simulate("the planned fleet's capacity", &points)?;
    let simulated = refine_points(study, &tested, replicas, args.capacity.within * factor)?;
    let linear_rps = base.capacity_refined_rps * factor;
    let capacity_rps = simulated.capacity_refined_rps;
    let balance_of = |result: &PointResult| {
        let (from, to) = result.report.arrivals_s?;
        let arriving = result.samples.iter().filter(|row| (from..=to).contains(&row.at.seconds()));
        balance(&arriving.copied().collect::<Vec<_>>())
    };
    // The first point tested: as many requests per second and replica as the swept fleet has at its capacity.
    let (measured, planned) = (&study.results[measured], &study.results[tested[0]]);
    let mut scaling = Scaling {
        linear_rps,
        ratio: capacity_rps / linear_rps,
        headroom_rps: capacity_rps - peak_rps,
        utilization: peak_rps / capacity_rps,
        measured_balance: balance_of(measured),
        planned_balance: balance_of(planned),
        measured_prefix_hit_share: measured.report.prefix_hit_share,
        planned_prefix_hit_share: planned.report.prefix_hit_share,
        simulated,
        finding: String::new(),
    };
    scaling.finding = scaling.words(base, factor);
    Ok(scaling)
}

/// report.html of a plan.
fn page(study: &Study, grid: &[usize], base: &Refined, plans: &[PeakPlan], drawn_lines: &str) -> String {
    let peaks: Vec<PlannedPeak> = plans.iter().map(PeakPlan::shown).collect();
    let facts: Vec<_> = study.results.iter().map(|result| &result.report.facts).collect();
    let of_points = grid.iter().flat_map(|&i| &study.results[i].report.warnings);
    let mut remarks: Vec<String> = drawn_lines.lines().map(str::to_owned).collect();
    remarks.extend(base.warnings.iter().cloned());
    for warning in plans.iter().flat_map(|plan| &plan.scaling.simulated.warnings).chain(of_points) {
        if !remarks.contains(warning) {
            remarks.push(warning.clone());
        }
    }
    plan_html(&PlanPage {
        model: &study.loaded.served(),
        peaks: &peaks,
        swept: FleetCapacity { replicas: base.replicas, capacity_rps: base.capacity_refined_rps },
        points: &facts,
        remarks: &remarks,
    })
}

impl PeakPlan {
    /// Whether the planned fleet carries the peak. Spare replicas are planned so that the rest carries it: then the
    /// rest is judged too.
    fn holds(&self, spare: u32) -> bool {
        let after_loss = self.after_loss.as_ref().is_some_and(|left| left.pass);
        self.at_peak.pass && (spare == 0 || after_loss)
    }

    /// As its page shows it.
    fn shown(&self) -> PlannedPeak {
        PlannedPeak {
            plan: self.arithmetic,
            at_peak: self.at_peak.shown(),
            after_loss: self.after_loss.as_ref().map(AtPeak::shown),
            capacity_rps: self.scaling.simulated.capacity_refined_rps,
            by_division_rps: self.scaling.linear_rps,
            finding: self.scaling.finding.clone(),
        }
    }
}

impl AtPeak {
    fn shown(&self) -> FleetVerdict {
        FleetVerdict {
            replicas: self.replicas,
            pass: self.pass,
            failing_gates: self.failing_gates.clone(),
            summary: self.summary.clone(),
        }
    }
}
