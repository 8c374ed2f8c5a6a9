//! `scaleproof sweep`: several offered rates, a row each.

mod text;

pub use text::{attainment_text, rate_table, runs_text, verdict};

use crate::args::SweepArgs;
use crate::exit::{CommandError, Outcome};
use crate::point::Point;
use crate::study::{Study, exit_by_gate};
use scaleproof_pack::capacity::{Capacity, Judgement, capacity};
use scaleproof_pack::report::Report;
use scaleproof_pack::report_html::{
    ClosedPage, Section, SweepPage, closed_section, study_html, sweep_section,
};
use scaleproof_pack::saturation::{Saturation, saturation};
use scaleproof_pack::schedule::Load;
use serde::Serialize;
use serde_json::json;
use text::{cache_text, closed_table, saturation_text};

/// Runs the command: an experiment for each way to drive the load and each cache state. They answer different
/// questions, and nothing is averaged over them.
pub fn run(args: &SweepArgs) -> Outcome {
    let mut study = Study::open(&args.common, "sweep")?;
    let mut experiments = Vec::new();
    for shared_prefixes in study.cache_states(&args.common.source.cache) {
        study.shared_prefixes = shared_prefixes;
        if !args.concurrency.is_empty() {
            experiments.push(closed_loop(&mut study, args)?);
        }
        if args.concurrency.is_empty() || !args.rps.is_empty() {
            experiments.push(open_loop(&mut study, args)?);
        }
    }
    publish(&study, "sweep", &experiments)
}

/// Writes the pack of some experiments, prints them, and exits by the open ones' gates.
pub fn publish(study: &Study, command: &str, experiments: &[Experiment]) -> Outcome {
    let open: Vec<&Experiment> = experiments.iter().filter(|e| e.capacity.is_some()).collect();
    let capacity_rps = open.first().and_then(|e| e.capacity.as_ref()?.capacity_rps);
    let passed = open.iter().all(|e| e.capacity.as_ref().is_some_and(|found| found.capacity_rps.is_some()));
    let sections: Vec<Section> = experiments.iter().map(|e| e.section.clone()).collect();
    let top = open.first().or(experiments.iter().collect::<Vec<_>>().first()).map_or(0, |e| e.chosen);
    study.finish(top, &study_html(&study.title(), &sections, &study.point_names()))?;
    let text: String = experiments.iter().map(|e| format!("{}\n\n{}\n", e.name, e.text)).collect();
    study.publish(
        command,
        &json!({"capacity_rps": capacity_rps, "experiments": experiments}),
        text.trim_end_matches('\n'),
    )?;
    exit_by_gate(passed)
}

/// One experiment of a sweep.
#[derive(Serialize)]
pub struct Experiment {
    name: String,
    cache: &'static str,
    /// Open loop only.
    capacity: Option<Capacity>,
    /// Closed loop only.
    saturation: Option<Saturation>,
    points: Vec<Report>,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    section: Section,
    #[serde(skip)]
    chosen: usize,
}

fn reports(study: &Study, grid: &[usize]) -> Vec<Report> {
    grid.iter().map(|&i| study.results[i].report.clone()).collect()
}

fn open_loop(study: &mut Study, args: &SweepArgs) -> Result<Experiment, CommandError> {
    let (grid, found) = simulate_grid(study, args)?;
    Ok(open_experiment(study, &grid, found))
}

/// The experiment of an open loop's points.
pub fn open_experiment(study: &Study, grid: &[usize], found: Capacity) -> Experiment {
    let cache = study.cache_word();
    let name = format!("Open loop, {cache} cache: the capacity");
    Experiment {
        text: format!(
            "{}{}\n{}{}",
            rate_table(study, grid),
            cache_text(study, grid),
            verdict(&found),
            runs_text(study, grid)
        ),
        section: sweep_section(&sweep_page(
            study,
            &name,
            &class_names(study),
            &grid_points(study, grid),
            (&found, &[]),
        )),
        chosen: chosen(study, grid, &found),
        points: reports(study, grid),
        capacity: Some(found),
        saturation: None,
        name,
        cache,
    }
}

fn closed_loop(study: &mut Study, args: &SweepArgs) -> Result<Experiment, CommandError> {
    let repeats = args.repeats.unwrap_or(study.loaded.scenario.experiment.repeats);
    let levels = args.concurrency.iter().flat_map(|&n| (0..repeats).map(move |run| (n, run)));
    let points: Vec<Point> = levels
        .map(|(concurrency, run)| Point {
            load: Load::Closed { concurrency },
            ..study.at_rate(1.0, run, None)
        })
        .collect();
    let grid = study.simulate("closed loop", &points)?;
    Ok(closed_experiment(study, &grid))
}

/// The experiment of a closed loop's points.
pub fn closed_experiment(study: &Study, grid: &[usize]) -> Experiment {
    let level = |i: &usize| match study.results[*i].point.load {
        Load::Closed { concurrency } => Some((concurrency, &study.results[*i].report)),
        Load::Open { .. } => None,
    };
    let tested: Vec<(u32, f64)> =
        grid.iter().filter_map(level).map(|(n, r)| (n, r.request_throughput_rps.unwrap_or(0.0))).collect();
    let found = saturation(&tested);
    let cache = study.cache_word();
    let name = format!("Closed loop, {cache} cache: the saturation point");
    let points: Vec<(f64, Report)> =
        grid.iter().filter_map(level).map(|(n, report)| (f64::from(n), report.clone())).collect();
    let page = ClosedPage { title: &name, classes: &class_names(study), points: &points, saturation: &found };
    let chosen = grid.iter().position(|i| level(i).map(|(n, _)| n) == found.saturation_concurrency);
    Experiment {
        text: format!(
            "{}{}\n{}{}",
            closed_table(study, grid),
            cache_text(study, grid),
            saturation_text(&found),
            runs_text(study, grid)
        ),
        section: closed_section(&page),
        chosen: grid[chosen.unwrap_or(0)],
        points: reports(study, grid),
        capacity: None,
        saturation: Some(found),
        name,
        cache,
    }
}

/// Simulates the grid's rates with their repeats, and judges them.
pub fn simulate_grid(study: &mut Study, args: &SweepArgs) -> Result<(Vec<usize>, Capacity), CommandError> {
    let experiment = &study.loaded.scenario.experiment;
    let rates = if args.rps.is_empty() { &experiment.rates_rps } else { &args.rps };
    let repeats = args.repeats.unwrap_or(experiment.repeats);
    let pairs = rates.iter().flat_map(|&rps| (0..repeats).map(move |run| (rps, run)));
    let points: Vec<Point> = pairs.map(|(rps, run)| study.at_rate(rps, run, None)).collect();
    let grid = study.simulate("sweep", &points)?;
    let found = judge(study, &grid);
    Ok((grid, found))
}

/// The capacity among simulated points.
pub fn judge(study: &Study, grid: &[usize]) -> Capacity {
    let judged: Vec<(f64, Judgement)> = grid
        .iter()
        .filter_map(|&i| {
            let result = &study.results[i];
            let Load::Open { rps } = result.point.load else { return None };
            Some((rps, Judgement::of(&result.report)))
        })
        .collect();
    capacity(&judged)
}

fn class_names(study: &Study) -> Vec<&str> {
    study.loaded.manifest.classes.iter().map(|class| class.name.as_str()).collect()
}

fn grid_points(study: &Study, grid: &[usize]) -> Vec<(f64, Report)> {
    reports(study, grid).into_iter().filter_map(|report| Some((report.facts.offered_rps?, report))).collect()
}

fn sweep_page<'a>(
    study: &Study,
    title: &'a str,
    classes: &'a [&'a str],
    points: &'a [(f64, Report)],
    (capacity, remarks): (&'a Capacity, &'a [String]),
) -> SweepPage<'a> {
    let attainment_min = study.loaded.manifest.acceptance.class_slo_attainment_min;
    SweepPage { title, classes, attainment_min, points, capacity, remarks }
}

/// report.html of one open-loop sweep, with what else was found about its capacity.
pub fn sweep_report(study: &Study, grid: &[usize], found: &Capacity, remarks: &[String]) -> String {
    let (classes, points) = (class_names(study), grid_points(study, grid));
    let section = sweep_section(&sweep_page(study, "Capacity", &classes, &points, (found, remarks)));
    study_html(&study.title(), &[section], &study.point_names())
}

/// The point whose files stand at the top of the pack: the first repeat at the capacity, or the first point.
pub fn chosen(study: &Study, grid: &[usize], found: &Capacity) -> usize {
    let at = |i: &&usize| match study.results[**i].point.load {
        Load::Open { rps } => Some(rps) == found.capacity_rps,
        Load::Closed { .. } => false,
    };
    grid.iter().find(at).or(grid.first()).copied().unwrap_or(0)
}
