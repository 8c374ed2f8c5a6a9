//! What `scaleproof sweep`, `capacity` and `plan` print of simulated points: tables and verdicts.

use crate::point::PointResult;
use crate::report_text::merged;
use crate::study::Study;
use crate::table::{counted, number, percent, table_with_region};
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::capacity::Capacity;
use scaleproof_pack::percentile::rank;
use scaleproof_pack::report::{ClassReport, Report};
use scaleproof_pack::saturation::Saturation;

/// The repeats of each level, in the grid's order.
fn levels<'a>(study: &'a Study, grid: &[usize]) -> Vec<Vec<&'a Report>> {
    let results: Vec<&PointResult> = grid.iter().map(|&i| &study.results[i]).collect();
    let same = results.chunk_by(|a, b| a.point.load == b.point.load);
    same.map(|repeats| repeats.iter().map(|result| &result.report).collect()).collect()
}

/// A row a number of clients, medians over the repeats with their range.
pub fn closed_table(study: &Study, grid: &[usize]) -> String {
    let first_class = study.loaded.manifest.classes[0].name.as_str();
    let (ttft, tpot) = (format!("{first_class} P95 TTFT ms"), "P95 TPOT ms");
    let headers = [
        "clients",
        "completed rps",
        "output tok/s",
        "errors",
        "attainment",
        ttft.as_str(),
        tpot,
        "mean E2E ms",
    ];
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
    let levels = levels(study, grid);
    let rows = levels.iter().map(|repeats| (row(repeats), region(repeats))).collect();
    table_with_region(&headers, rows)
}

/// Hits and evictions of a warm experiment, and of a cold one the proof that it was.
pub fn cache_text(study: &Study, grid: &[usize]) -> String {
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

/// What the runs of a grid warn of.
pub fn runs_text(study: &Study, grid: &[usize]) -> String {
    let warnings = grid.iter().flat_map(|&i| &study.results[i].report.warnings);
    merged(warnings).iter().map(|warning| format!("warning: some runs: {warning}\n")).collect()
}

/// The saturation point in words.
pub fn saturation_text(found: &Saturation) -> String {
    let point = match (found.saturation_concurrency, found.reached) {
        (Some(clients), true) => format!(
            "saturation: {} reach 95 % of the highest throughput, {:.2} requests/s",
            counted(clients.into(), "client"),
            found.highest_throughput_rps
        ),
        (Some(clients), false) => {
            format!(
                "saturation: not reached at {}, the most tested; test more with --concurrency",
                counted(clients.into(), "client")
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
        "offered rps",
        "completed rps",
        "errors",
        "attainment",
        "weakest class",
        "its attainment",
        "its successes",
        "goodput rps",
        "output tok/s",
        &format!("{first_class} P95 TTFT ms"),
        "P95 TPOT ms",
        "queue",
        "gates",
    ];
    let levels = levels(study, grid);
    let rows = levels.iter().map(|repeats| (row(repeats, &first_class), region(repeats))).collect();
    table_with_region(&headers, rows)
}

/// What a level's row says of the profile's validity region, if any repeat leaves it.
fn region(repeats: &[&Report]) -> Option<String> {
    match (repeats.iter().filter(|report| report.leaves_validity()).count(), repeats.len()) {
        (0, _) => None,
        (1, 1) => Some("OUTSIDE".to_owned()),
        (some, all) => Some(format!("OUTSIDE in {some} of {all}")),
    }
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

/// The class with the lowest attainment.
fn weakest(report: &Report) -> (&str, &ClassReport) {
    report.weakest_class().expect("a manifest has classes")
}

/// The median over repeats, with least and greatest behind it.
fn range(repeats: &[&Report], digits: usize, get: &dyn Fn(&Report) -> Option<f64>) -> String {
    let mut values: Vec<f64> = repeats.iter().filter_map(|report| get(report)).collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else { return "-".to_owned() };
    let median = number(Some(values[rank(values.len(), 50) - 1]), digits);
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
