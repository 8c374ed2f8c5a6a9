//! `scaleproof sweep`: several offered rates, a row each.

use crate::args::{Cache, SweepArgs};
use crate::exit::{CommandError, Outcome};
use crate::point::{Point, PointResult};
use crate::study::{Study, exit_by_gate, shown};
use crate::table::{number, percent, table};
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::capacity::{Capacity, Judgement, capacity};
use scaleproof_pack::report::{ClassReport, Report};
use scaleproof_pack::report_html::{
    ClosedPage, Section, SweepPage, closed_section, study_html, sweep_html, sweep_section,
};
use scaleproof_pack::saturation::{Saturation, saturation};
use scaleproof_pack::schedule::Load;
use serde::Serialize;
use serde_json::json;

/// Runs the command: an experiment for each way to drive the load and each cache state. They answer different
/// questions, and nothing is averaged over them.
pub fn run(args: &SweepArgs) -> Outcome {
    let mut study = Study::open(&args.common, "sweep")?;
    let mut experiments = Vec::new();
    for shared_prefixes in cache_states(args, &study) {
        study.shared_prefixes = shared_prefixes;
        if !args.concurrency.is_empty() {
            experiments.push(closed_loop(&mut study, args)?);
        }
        if args.concurrency.is_empty() || !args.rps.is_empty() {
            experiments.push(open_loop(&mut study, args)?);
        }
    }
    let open: Vec<&Experiment> = experiments.iter().filter(|e| e.capacity.is_some()).collect();
    let capacity_rps = open.first().and_then(|e| e.capacity.as_ref()?.capacity_rps);
    let passed = open.iter().all(|e| e.capacity.as_ref().is_some_and(|found| found.capacity_rps.is_some()));
    let sections: Vec<Section> = experiments.iter().map(|e| e.section.clone()).collect();
    let top = open.first().or(experiments.iter().collect::<Vec<_>>().first()).map_or(0, |e| e.chosen);
    study.finish(top, &study_html(&study.title(), &sections, &study.point_names()))?;
    let text: String = experiments.iter().map(|e| format!("{}\n\n{}\n", e.name, e.text)).collect();
    study.print(
        &json!({"pack": shown(&study.directory), "capacity_rps": capacity_rps, "experiments": experiments}),
        text.trim_end_matches('\n'),
    )?;
    exit_by_gate(passed)
}

/// One experiment of a sweep.
#[derive(Serialize)]
struct Experiment {
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

fn cache_states(args: &SweepArgs, study: &Study) -> Vec<bool> {
    if args.common.cache.is_empty() {
        return vec![study.shared_prefixes];
    }
    let mut states: Vec<bool> = args.common.cache.iter().map(|cache| *cache == Cache::Warm).collect();
    states.dedup();
    states
}

fn reports(study: &Study, grid: &[usize]) -> Vec<Report> {
    grid.iter().map(|&i| study.results[i].report.clone()).collect()
}

fn open_loop(study: &mut Study, args: &SweepArgs) -> Result<Experiment, CommandError> {
    let (grid, found) = simulate_grid(study, args)?;
    let cache = study.cache_word();
    let name = format!("Open loop, {cache} cache: the capacity");
    Ok(Experiment {
        text: format!("{}{}\n{}", rate_table(study, &grid), cache_text(study, &grid), verdict(&found)),
        section: sweep_section(&sweep_page(
            study,
            &name,
            &class_names(study),
            &grid_points(study, &grid),
            &found,
        )),
        chosen: chosen(study, &grid, &found),
        points: reports(study, &grid),
        capacity: Some(found),
        saturation: None,
        name,
        cache,
    })
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
    Ok(Experiment {
        text: format!(
            "{}{}\n{}",
            closed_table(study, &grid),
            cache_text(study, &grid),
            saturation_text(&found)
        ),
        section: closed_section(&page),
        chosen: grid[chosen.unwrap_or(0)],
        points: reports(study, &grid),
        capacity: None,
        saturation: Some(found),
        name,
        cache,
    })
}

/// Simulates the grid's rates with their repeats, and judges them.
pub fn simulate_grid(study: &mut Study, args: &SweepArgs) -> Result<(Vec<usize>, Capacity), CommandError> {
    let experiment = &study.loaded.scenario.experiment;
    let rates = if args.rps.is_empty() { experiment.rates_rps.clone() } else { args.rps.clone() };
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
    capacity: &'a Capacity,
) -> SweepPage<'a> {
    let attainment_min = study.loaded.manifest.acceptance.class_slo_attainment_min;
    SweepPage { title, classes, attainment_min, points, capacity }
}

/// report.html of one open-loop sweep.
pub fn sweep_report(study: &Study, grid: &[usize], found: &Capacity) -> String {
    let (title, classes, points) = (study.title(), class_names(study), grid_points(study, grid));
    sweep_html(&sweep_page(study, &title, &classes, &points, found))
}

/// The point whose files stand at the top of the pack: the first repeat at the capacity, or the first point.
pub fn chosen(study: &Study, grid: &[usize], found: &Capacity) -> usize {
    let at = |i: &&usize| match study.results[**i].point.load {
        Load::Open { rps } => Some(rps) == found.capacity_rps,
        Load::Closed { .. } => false,
    };
    grid.iter().find(at).or(grid.first()).copied().unwrap_or(0)
}

/// The repeats of each level, in the grid's order.
fn levels<'a>(study: &'a Study, grid: &[usize]) -> Vec<Vec<&'a Report>> {
    let results: Vec<&PointResult> = grid.iter().map(|&i| &study.results[i]).collect();
    let same = results.chunk_by(|a, b| a.point.load == b.point.load);
    same.map(|repeats| repeats.iter().map(|result| &result.report).collect()).collect()
}

fn closed_table(study: &Study, grid: &[usize]) -> String {
    let first_class = study.loaded.manifest.classes[0].name.as_str();
    let (ttft, tpot) = (format!("{first_class} P95 TTFT ms"), "P95 TPOT ms");
    let headers =
        ["clients", "completed", "output tok/s", "errors", "attainment", ttft.as_str(), tpot, "mean E2E ms"];
    let row = |repeats: &Vec<&Report>| {
        let over = |digits: usize, get: &dyn Fn(&Report) -> Option<f64>| range(repeats, digits, get);
        vec![
            repeats[0].facts.concurrency.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            over(2, &|r| r.request_throughput_rps),
            over(0, &|r| r.output_throughput_tps),
            over(1, &|r| r.error_rate.map(|x| 100.0 * x)) + " %",
            over(1, &|r| r.overall_attainment.map(|x| 100.0 * x)) + " %",
            over(0, &|r| r.classes.get(first_class)?.latency.p95_ttft_ms),
            over(1, &|r| r.classes.get(first_class)?.p95_tpot_ms),
            over(0, &|r| r.classes.get(first_class)?.latency.mean_e2e_ms),
        ]
    };
    table(&headers, &levels(study, grid).iter().map(row).collect::<Vec<_>>())
}

/// Hits and evictions of a warm experiment, and of a cold one the proof that it was.
fn cache_text(study: &Study, grid: &[usize]) -> String {
    let caches: Vec<CacheReport> =
        grid.iter().filter_map(|&i| study.results[i].report.prefix_cache).collect();
    let range_of = |get: &dyn Fn(&CacheReport) -> Option<f64>, digits: usize, scale: f64| {
        let mut values: Vec<f64> = caches.iter().filter_map(get).collect();
        values.sort_by(f64::total_cmp);
        match (values.first(), values.last()) {
            (Some(least), Some(most)) => {
                format!("{:.digits$} to {:.digits$}", least * scale, most * scale)
            }
            _ => "unknown".to_owned(),
        }
    };
    let cold = caches.iter().filter(|cache| cache.warm_from_the_start == Some(false)).count();
    let warmth = if cold > 0 {
        format!("; {cold} points were NOT warm when their window began")
    } else {
        String::new()
    };
    format!(
        "prefix hits {} % of prompt tokens (the groups imply {} %), evictions {} blocks/s{warmth}\n",
        range_of(&|cache| cache.hit_share, 2, 100.0),
        range_of(&|cache| cache.expected_hit_share, 2, 100.0),
        range_of(&|cache| cache.evictions_per_s, 0, 1.0),
    )
}

fn saturation_text(found: &Saturation) -> String {
    let point = match (found.saturation_concurrency, found.reached) {
        (Some(clients), true) => format!(
            "saturation: {clients} clients reach 95 % of the highest throughput, {:.2} requests/s",
            found.highest_throughput_rps
        ),
        (Some(clients), false) => {
            format!(
                "saturation: not reached at {clients} clients, the most tested; test more with --concurrency"
            )
        }
        (None, _) => "saturation: no request succeeded".to_owned(),
    };
    format!("{point}\nnote: {}\n", found.caveat)
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
    let rows: Vec<Vec<String>> =
        levels(study, grid).iter().map(|repeats| row(repeats, &first_class)).collect();
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
    let (least, greatest) = (number(Some(*least), digits), number(Some(*greatest), digits));
    if least == greatest { median } else { format!("{median} ({least} to {greatest})") }
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
