//! A closed-loop sweep: the latency-throughput front.

use super::basis;
use super::html::{escape, figure, number};
use super::repeats::{Levels, levels, numbers, over, series};
use super::study::{Answer, Section};
use super::svg::{Chart, Limit, Measure, Point, Scale, Series};
use super::sweep::point_table;
use crate::report::{ClassReport, Report};
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
    let levels = levels(input.points);
    let schedules = basis::schedules(input.points.iter().map(|(_, report)| &report.facts), "summary.csv");
    let mut body = format!("<p>{}</p>\n", escape(&input.saturation.caveat));
    body += &format!("<p class=\"basis\">{}</p>\n<h2>Clients</h2>\n", escape(&schedules));
    body += &point_table("clients", input.points);
    body += "<h2>Pictures</h2>\n<p>Lines join the medians of the repeats, bars span them.</p>\n";
    body += "<div class=\"pictures\">\n";
    body += &throughput(input, &levels);
    body += &front(input, &levels, "TTFT", |c| (c.latency.p95_ttft_ms, c.request_ttft_cutoff_ms));
    body += &front(input, &levels, "TPOT", |c| (c.p95_tpot_ms, c.request_tpot_cutoff_ms));
    body += "</div>\n";
    let word = if input.saturation.reached { "saturated at" } else { "not saturated at" };
    Section {
        heading: input.title.to_owned(),
        verdict: verdict(input.saturation),
        answer: Answer::of(&levels, input.saturation.saturation_concurrency.map(f64::from), word),
        body,
    }
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

/// The saturation point, if it was reached.
fn saturated(input: &ClosedPage) -> Option<f64> {
    input.saturation.saturation_concurrency.filter(|_| input.saturation.reached).map(f64::from)
}

fn throughput(input: &ClosedPage, levels: &Levels) -> String {
    let lines = vec![series("completed, requests/s", levels, |report| report.request_throughput_rps)];
    let numbers = numbers("Throughput by clients", "clients", levels, &lines, number);
    let chart = Chart {
        title: "Completed requests per second by number of clients".into(),
        x: Measure::new("clients", Scale::FromZero),
        y: Measure::new("completed, requests/s", Scale::FromZero),
        series: lines,
        mark: saturated(input).map(|clients| (clients, "saturation".to_owned())),
        ..Chart::default()
    };
    let reading = "Where the line bends, more clients only wait longer.";
    figure("Throughput by clients", reading, &chart.svg(), &numbers)
}

/// A percentile of each class against the throughput at which it was seen, with the class's cutoff.
fn front(
    input: &ClosedPage,
    levels: &Levels,
    name: &str,
    value: impl Fn(&ClassReport) -> (Option<f64>, f64) + Copy,
) -> String {
    let of_class = |report: &Report, class: &str| report.classes.get(class).and_then(|c| value(c).0);
    let throughput = |repeats: &[&Report]| Some(over(repeats, |r| r.request_throughput_rps)?.median);
    let line = |(i, class): (usize, &&str)| {
        let point = |(clients, repeats): &(f64, Vec<&Report>)| {
            let spread = over(repeats, |report| of_class(report, class))?;
            // The numbers of clients stand once: all classes share them.
            let tag = (i == 0).then_some(*clients as u32);
            Some(Point { range: spread.range(), tag, ..Point::at(throughput(repeats)?, spread.median) })
        };
        Series { name: (*class).to_owned(), points: levels.iter().filter_map(point).collect(), apart: false }
    };
    let cutoff = |(i, class): (usize, &&str)| {
        let class = input.points.iter().find_map(|(_, report)| report.classes.get(*class))?;
        let cutoff_ms = value(class).1;
        Some(Limit { value: cutoff_ms, name: format!("cutoff {} ms", number(cutoff_ms)), of_series: Some(i) })
    };
    let by_clients: Vec<Series> =
        input.classes.iter().map(|class| series(class, levels, |report| of_class(report, class))).collect();
    let caption = format!("P95 {name} against throughput");
    let numbers = numbers(&format!("P95 {name}, ms"), "clients", levels, &by_clients, number);
    let at_saturation = levels.iter().find(|(clients, _)| Some(*clients) == saturated(input));
    let chart = Chart {
        title: format!("P95 {name} of each class against throughput, one mark a number of clients"),
        x: Measure::new("completed, requests/s", Scale::FromZero),
        y: Measure::new(format!("P95 {name}, ms"), Scale::Ratio),
        series: input.classes.iter().enumerate().map(line).collect(),
        limits: input.classes.iter().enumerate().filter_map(cutoff).collect(),
        mark: at_saturation.and_then(|(_, repeats)| Some((throughput(repeats)?, "saturation".to_owned()))),
        ..Chart::default()
    };
    let reading = "The front: what one more request per second costs in latency. The small numbers are clients; the \
                   table has it by clients, in ms.";
    figure(&caption, reading, &chart.svg(), &numbers)
}
