//! A closed-loop sweep: the latency-throughput front.

use super::Section;
use super::html::{escape, figure, number, percent, table_with_region};
use super::svg::{Chart, Point, Series};
use super::sweep::{Rates, numbers_by, rates, series};
use crate::report::Report;
use crate::saturation::Saturation;

/// What the section of a closed-loop sweep shows.
#[derive(Clone, Copy, Debug)]
pub struct ClosedPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The names of the classes, in the order in which they are drawn.
    pub classes: &'a [&'a str],
    /// Concurrency and report of each point, several for a concurrency that was repeated.
    pub points: &'a [(f64, Report)],
    /// The saturation point found in them.
    pub saturation: &'a Saturation,
}

/// The section of a closed-loop sweep.
#[must_use]
pub fn closed_section(input: &ClosedPage) -> Section {
    let levels = rates(input.points);
    let mut body = format!("<p>{}</p>\n", escape(&input.saturation.caveat));
    if let Some((_, report)) = input.points.first() {
        body += &format!("<p>{}</p>\n", escape(&super::origin_sentence(report)));
    }
    body += &summary(&levels);
    body += "<div class=\"pictures\">\n";
    body += &throughput(input, &levels);
    body += &front(input, &levels);
    body += "</div>\n";
    Section { heading: input.title.to_owned(), verdict: verdict(input.saturation), body }
}

fn verdict(found: &Saturation) -> String {
    match (found.saturation_concurrency, found.reached) {
        (Some(clients), true) => format!(
            "Saturates at {clients} clients: within 5 % of the highest throughput, {} requests/s.",
            number(found.highest_throughput_rps)
        ),
        (Some(clients), false) => format!(
            "Not saturated at {clients} clients, the most tested: {} requests/s and still rising.",
            number(found.highest_throughput_rps)
        ),
        (None, _) => "No request succeeded at any tested concurrency.".to_owned(),
    }
}

fn summary(levels: &Rates) -> String {
    let rows: Vec<(Vec<String>, bool)> = levels
        .iter()
        .flat_map(|(clients, repeats)| repeats.iter().map(move |report| (clients, report)))
        .map(|(clients, report)| {
            let row = vec![
                number(*clients),
                report.facts.seed.map_or("–".into(), |seed| seed.to_string()),
                report.facts.run.map_or("–".into(), |run| run.to_string()),
                number(report.request_throughput_rps),
                number(report.output_throughput_tps),
                percent(report.error_rate),
                percent(report.overall_attainment),
            ];
            (row, report.leaves_validity())
        })
        .collect();
    let head = ["clients", "seed", "repeat", "completed/s", "output tok/s", "errors", "attainment"];
    table_with_region(&head, rows)
}

fn throughput(input: &ClosedPage, levels: &Rates) -> String {
    let lines = vec![series("completed", levels, |report| report.request_throughput_rps)];
    let numbers = numbers_by("clients", levels, &lines, number);
    let chart = Chart {
        title: "Completed requests per second by number of clients".into(),
        x_label: "clients",
        y_label: "requests/s",
        series: lines,
        limits: Vec::new(),
        mark: input
            .saturation
            .saturation_concurrency
            .filter(|_| input.saturation.reached)
            .map(|clients| (f64::from(clients), "saturation".to_owned())),
        x_from_zero: true,
        y_from_zero: true,
        y_ratio: false,
    };
    figure(
        "Throughput by clients",
        "Where the line bends, more clients only wait longer.",
        &chart.svg(),
        &numbers,
    )
}

/// Each class's P95 TTFT against the throughput at which it was seen.
fn front(input: &ClosedPage, levels: &Rates) -> String {
    let median = |repeats: &[&Report], value: &dyn Fn(&Report) -> Option<f64>| {
        let mut values: Vec<f64> = repeats.iter().filter_map(|report| value(report)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied()
    };
    let line = |class: &&str| {
        let point = |(_, repeats): &(f64, Vec<&Report>)| {
            let x = median(repeats, &|report| report.request_throughput_rps)?;
            let y = median(repeats, &|report| report.classes.get(*class)?.latency.p95_ttft_ms)?;
            Some(Point { x, y, range: None })
        };
        Series { name: (*class).to_owned(), points: levels.iter().filter_map(point).collect() }
    };
    let lines: Vec<Series> = input.classes.iter().map(line).collect();
    let by_clients: Vec<Series> = input
        .classes
        .iter()
        .map(|class| series(class, levels, |report| report.classes.get(*class)?.latency.p95_ttft_ms))
        .collect();
    let numbers = numbers_by("clients", levels, &by_clients, number);
    let chart = Chart {
        title: "P95 TTFT of each class against throughput, one mark a number of clients".into(),
        x_label: "completed, requests/s",
        y_label: "P95 TTFT, ms",
        series: lines,
        limits: Vec::new(),
        mark: None,
        x_from_zero: true,
        y_from_zero: true,
        y_ratio: false,
    };
    figure(
        "Latency against throughput",
        "The front: what one more request per second costs in latency. The table has it by clients.",
        &chart.svg(),
        &numbers,
    )
}
