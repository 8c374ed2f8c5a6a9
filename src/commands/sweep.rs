//! `scaleproof sweep`: several offered rates, a row each.

use crate::args::SweepArgs;
use crate::exit::{CommandError, Outcome};
use crate::point::{Point, PointResult};
use crate::study::{Study, exit_by_gate, shown};
use crate::table::{number, percent, table};
use scaleproof_pack::capacity::{Capacity, Judgement, capacity};
use scaleproof_pack::report::{ClassReport, Report};
use scaleproof_pack::report_html::{SweepPage, sweep_html};
use scaleproof_pack::schedule::Load;
use serde_json::json;

/// Runs the command.
pub fn run(args: &SweepArgs) -> Outcome {
    let mut study = Study::open(&args.common, "sweep")?;
    let (grid, found) = simulate_grid(&mut study, args)?;
    let text = format!("{}\n{}", rate_table(&study, &grid), verdict(&found));
    study.finish(chosen(&study, &grid, &found), &sweep_page(&study, &grid, &found))?;
    study.print(
        &json!({
            "pack": shown(&study.directory),
            "capacity_rps": found.capacity_rps,
            "capacity": found,
            "points": grid.iter().map(|&i| &study.results[i].report).collect::<Vec<_>>(),
        }),
        &text,
    )?;
    exit_by_gate(found.capacity_rps.is_some())
}

/// Simulates the grid's rates with their repeats, and judges them.
pub fn simulate_grid(study: &mut Study, args: &SweepArgs) -> Result<(Vec<usize>, Capacity), CommandError> {
    let experiment = &study.loaded.scenario.experiment;
    let rates = if args.rps.is_empty() { experiment.rates_rps.clone() } else { args.rps.clone() };
    let repeats = args.repeats.unwrap_or(experiment.repeats);
    let points: Vec<Point> = rates
        .iter()
        .flat_map(|&rps| (0..repeats).map(move |run| (rps, run)))
        .map(|(rps, run)| study.at_rate(rps, run, None))
        .collect();
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

/// report.html of a sweep.
pub fn sweep_page(study: &Study, grid: &[usize], found: &Capacity) -> String {
    let manifest = &study.loaded.manifest;
    let classes: Vec<&str> = manifest.classes.iter().map(|class| class.name.as_str()).collect();
    let points: Vec<(f64, Report)> = grid
        .iter()
        .map(|&i| study.results[i].report.clone())
        .filter_map(|report| Some((report.facts.offered_rps?, report)))
        .collect();
    sweep_html(&SweepPage {
        title: &study.title(),
        classes: &classes,
        attainment_min: manifest.acceptance.class_slo_attainment_min,
        points: &points,
        capacity: found,
    })
}

/// The point whose files stand at the top of the pack: the first repeat at the capacity, or the first point.
pub fn chosen(study: &Study, grid: &[usize], found: &Capacity) -> usize {
    let at = |i: &&usize| match study.results[**i].point.load {
        Load::Open { rps } => Some(rps) == found.capacity_rps,
        Load::Closed { .. } => false,
    };
    grid.iter().find(at).or(grid.first()).copied().unwrap_or(0)
}

/// The worked example's table: a row a rate, medians over the repeats with their range.
pub fn rate_table(study: &Study, grid: &[usize]) -> String {
    let first_class = study.loaded.manifest.classes[0].name.clone();
    let headers = [
        "offered",
        "completed",
        "errors",
        "attainment",
        "weakest class",
        "its attainment",
        "its successes",
        "goodput",
        "output tok/s",
        &format!("{first_class} P95 TTFT ms"),
        "P95 TPOT ms",
        "queue",
        "gates",
    ];
    let results: Vec<&PointResult> = grid.iter().map(|&i| &study.results[i]).collect();
    let rows: Vec<Vec<String>> = results
        .chunk_by(|a, b| a.point.load == b.point.load)
        .map(|repeats| row(&repeats.iter().map(|result| &result.report).collect::<Vec<_>>(), &first_class))
        .collect();
    table(&headers, &rows)
}

fn row(repeats: &[&Report], first_class: &str) -> Vec<String> {
    let over = |digits: usize, get: &dyn Fn(&Report) -> Option<f64>| range(repeats, digits, get);
    let class = |report: &Report| report.classes.get(first_class).cloned();
    let (weakest_name, _) = weakest(repeats[0]);
    let trends: Vec<&str> = repeats.iter().map(|report| report.queue_trend.word()).collect();
    let growing = trends.iter().filter(|&&word| word != "flat").count();
    let passing = repeats.iter().filter(|report| report.capacity_gate_pass).count();
    vec![
        number(repeats[0].facts.offered_rps, 2),
        over(1, &|r| r.request_throughput_rps),
        over(1, &|r| r.error_rate.map(|x| 100.0 * x)) + " %",
        over(1, &|r| r.overall_attainment.map(|x| 100.0 * x)) + " %",
        weakest_name.to_owned(),
        over(1, &|r| weakest(r).1.attainment.map(|x| 100.0 * x)) + " %",
        over(0, &|r| Some(weakest(r).1.successful_count as f64)),
        over(2, &|r| r.observed_goodput_rps),
        over(0, &|r| r.output_throughput_tps),
        over(0, &|r| class(r)?.latency.p95_ttft_ms),
        over(1, &|r| class(r)?.p95_tpot_ms),
        if repeats.len() == 1 {
            trends[0].to_owned()
        } else {
            format!("flat {} of {}", trends.len() - growing, trends.len())
        },
        match (repeats.len(), passing) {
            (1, 1) => "pass".to_owned(),
            (1, _) => "fail".to_owned(),
            (all, some) => format!("{some} of {all} pass"),
        },
    ]
}

/// The class with the lowest attainment; one without successes counts as lowest.
fn weakest(report: &Report) -> (&str, &ClassReport) {
    let attainment = |class: &ClassReport| class.attainment.unwrap_or(-1.0);
    report
        .classes
        .iter()
        .min_by(|a, b| attainment(a.1).total_cmp(&attainment(b.1)))
        .map(|(name, class)| (name.as_str(), class))
        .expect("a manifest has classes")
}

/// The median over repeats, with least and greatest behind it.
fn range(repeats: &[&Report], digits: usize, get: &dyn Fn(&Report) -> Option<f64>) -> String {
    let mut values: Vec<f64> = repeats.iter().filter_map(|report| get(report)).collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return "-".to_owned() };
    let median = number(Some(values[(values.len() - 1) / 2]), digits);
    if repeats.len() == 1 {
        return median;
    }
    format!("{median} ({} to {})", number(Some(*least), digits), number(Some(*greatest), digits))
}

/// The capacity in words.
pub fn verdict(found: &Capacity) -> String {
    let mut text = match found.capacity_rps {
        Some(rps) => {
            format!("capacity: {rps} requests/s, the highest of the tested rates that passes every gate\n")
        }
        None => "capacity: none of the tested rates passes every gate\n".to_owned(),
    };
    if let (Some(rps), Some(gate)) = (found.first_failing_rps, &found.first_failing_gate) {
        let all = found.rates.iter().find(|rate| rate.offered_rps.total_cmp(&rps).is_eq());
        let names = all
            .map_or_else(Vec::new, |rate| rate.failing_gates.iter().map(|(name, _)| name.clone()).collect());
        text += &format!(
            "first to fail above it: {gate} at {rps} requests/s (failing there: {})\n",
            names.join(", ")
        );
    }
    for warning in &found.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

/// Attainment, for other commands' texts.
pub fn attainment_text(report: &Report) -> String {
    let (name, class) = weakest(report);
    format!(
        "attainment {}, weakest {name} at {}",
        percent(report.overall_attainment),
        percent(class.attainment)
    )
}
