//! An open-loop sweep over offered rates.

use super::basis;
use super::html::{escape, figure, notes, number, percent};
use super::repeats::{Levels, levels, numbers, series};
use super::study::{Answer, Section};
use super::svg::{Chart, Limit, Measure, Scale, Series};
use super::table::{NONE, Table};
use crate::capacity::Capacity;
use crate::report::{ClassReport, Report};

/// What of a sweep is shown.
#[derive(Clone, Copy, Debug)]
pub struct SweepPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The names of the classes, in the order in which they are drawn.
    pub classes: &'a [&'a str],
    /// The attainment that the gate asks for.
    pub attainment_min: f64,
    /// Offered rate and report of each point, several for a rate that was repeated.
    pub points: &'a [(f64, Report)],
    /// The capacity found in them.
    pub capacity: &'a Capacity,
    /// What else was found about the capacity, in words.
    pub remarks: &'a [String],
}

/// An open-loop sweep as a section of a study's page.
#[must_use]
pub fn sweep_section(input: &SweepPage) -> Section {
    let levels = levels(input.points);
    let schedules = basis::schedules(input.points.iter().map(|(_, report)| &report.facts), "summary.csv");
    let mut body: String = input.remarks.iter().map(|text| format!("<p>{}</p>\n", escape(text))).collect();
    body += &format!("<p class=\"basis\">{}</p>\n<h2>Rates</h2>\n", escape(&schedules));
    body += &point_table("offered, requests/s", input.points);
    body += "<h2>Pictures</h2>\n<p>Lines join the medians of the repeats, bars span them.</p>\n";
    body += "<div class=\"pictures\">\n";
    body += &throughput(input, &levels);
    body += &attainment(input, &levels);
    let ttft = |c: &ClassReport| (c.latency.p95_ttft_ms, c.request_ttft_cutoff_ms);
    body += &against_cutoff(input, &levels, "P95 TTFT", ttft);
    body += &against_cutoff(input, &levels, "P95 TPOT", |c| (c.p95_tpot_ms, c.request_tpot_cutoff_ms));
    body += "</div>\n";
    body += &notes("Before you believe the numbers", &input.capacity.warnings);
    Section {
        heading: input.title.to_owned(),
        verdict: verdict(input.capacity),
        answer: Answer::of(&levels, input.capacity.capacity_rps, "capacity"),
        body,
    }
}

fn verdict(capacity: &Capacity) -> String {
    let above = match (capacity.first_failing_rps, &capacity.first_failing_gate) {
        (Some(rps), Some(gate)) => format!(" {} requests/s fails first on {gate}.", number(rps)),
        _ => String::new(),
    };
    match capacity.capacity_rps {
        Some(rps) => format!(
            "Capacity: {} requests/s, the highest tested rate that passes every gate.{above}",
            number(rps)
        ),
        None => format!("No tested rate passes every gate.{above}"),
    }
}

/// A row a point, every repeat with its own: of an open or a closed loop.
pub(super) fn point_table(level_name: &str, points: &[(f64, Report)]) -> String {
    let mut sorted: Vec<&(f64, Report)> = points.iter().collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = |n: Option<u64>| n.map_or(NONE.to_owned(), |n| n.to_string());
    let weakest = |r: &Report| r.weakest_class().map(|(name, class)| (name.to_owned(), class.clone()));
    let closed = points.iter().any(|(_, report)| report.facts.concurrency.is_some());
    let mut table = Table::of(&sorted)
        .key(level_name, |(level, _)| number(*level))
        .column("repeat", |(_, r)| count(r.facts.run));
    // A closed loop's queue cannot grow, and its gates decide no capacity.
    if !closed {
        table = table
            .text("gates", |(_, r)| match failing_gates(r.failing_gates()) {
                none if none == NONE => "pass".to_owned(),
                some => format!("FAIL {some}"),
            })
            .column("queue", |(_, r)| r.queue_trend.word().to_owned());
    }
    table
        .column("completed, requests/s", |(_, r)| number(r.request_throughput_rps))
        .column("goodput, requests/s", |(_, r)| number(r.observed_goodput_rps))
        .column("attainment", |(_, r)| percent(r.overall_attainment))
        .column("weakest class", |(_, r)| {
            weakest(r)
                .map_or(NONE.to_owned(), |(name, class)| format!("{name} {}", percent(class.attainment)))
        })
        .column("its successes", |(_, r)| count(weakest(r).map(|(_, class)| class.successful_count)))
        .column("errors", |(_, r)| percent(r.error_rate))
        .column("output, tokens/s", |(_, r)| number(r.output_throughput_tps))
        .column("prefix hits", |(_, r)| percent(r.prefix_cache.and_then(|cache| cache.hit_share)))
        .column("seed", |(_, r)| count(r.facts.seed))
        .column("profile's region", |(_, r)| region(r.leaves_validity()))
        .html("Points")
}

/// Where a run lies, seen from the profile's validity region.
pub(super) fn region(outside: bool) -> String {
    if outside { "OUTSIDE" } else { "inside" }.to_owned()
}

/// The names of failing gates in a cell.
pub(super) fn failing_gates<'a>(names: impl Iterator<Item = &'a str>) -> String {
    match names.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => NONE.to_owned(),
        some => some,
    }
}

/// A chart over the offered rate with the capacity marked.
fn chart(input: &SweepPage, title: String, y: Measure, series: Vec<Series>) -> Chart {
    Chart {
        title,
        x: Measure::new("offered rate, requests/s", Scale::Tight),
        y,
        series,
        mark: input.capacity.capacity_rps.map(|rps| (rps, "capacity".to_string())),
        ..Chart::default()
    }
}

const OFFERED: &str = "offered, requests/s";

fn throughput(input: &SweepPage, levels: &Levels) -> String {
    let lines = vec![
        series("completed", levels, |r| r.request_throughput_rps),
        series("goodput", levels, |r| r.observed_goodput_rps),
    ];
    let caption = "Completed and goodput, requests/s";
    let numbers = numbers(caption, OFFERED, levels, &lines, number);
    let y = Measure::new("requests/s", Scale::FromZero);
    let chart = chart(input, "Completed and goodput by offered rate".into(), y, lines);
    let reading = "Where goodput falls away from what is completed, requests still end, but too late.";
    figure(caption, reading, &chart.svg(), &numbers)
}

fn attainment(input: &SweepPage, levels: &Levels) -> String {
    let lines = by_class(input, levels, |c| c.attainment.map(|a| 100.0 * a));
    let caption = "Attainment by class";
    let numbers = numbers(caption, OFFERED, levels, &lines, |v| percent(v / 100.0));
    let required = 100.0 * input.attainment_min;
    let y = Measure::new("% of successes", Scale::Tight);
    let mut chart = chart(input, "Attainment of each class by offered rate".into(), y, lines);
    chart.limits = vec![Limit::of_all(required, format!("gate, {} %", number(required)))];
    figure(caption, "Share of successes inside both cutoffs of their class.", &chart.svg(), &numbers)
}

/// A percentile of each class as a share of its cutoff: classes have different cutoffs, and so one line shows them
/// all. The table has milliseconds.
fn against_cutoff(
    input: &SweepPage,
    levels: &Levels,
    name: &str,
    value: impl Fn(&ClassReport) -> (Option<f64>, f64) + Copy,
) -> String {
    let ratios = by_class(input, levels, |c| {
        let (observed_ms, cutoff_ms) = value(c);
        observed_ms.map(|ms| ms / cutoff_ms)
    });
    let mut in_ms = by_class(input, levels, |c| value(c).0);
    for (line, class) in in_ms.iter_mut().zip(input.classes) {
        let cutoff = input.points.iter().find_map(|(_, r)| r.classes.get(*class)).map(|c| value(c).1);
        line.name = format!("{class} (cutoff {} ms)", number(cutoff));
    }
    let numbers = numbers(&format!("{name}, ms"), OFFERED, levels, &in_ms, number);
    let title = format!("{name} of each class over its cutoff, by offered rate");
    let mut chart = chart(input, title, Measure::new(format!("{name} / cutoff"), Scale::Ratio), ratios);
    chart.limits = vec![Limit::of_all(1.0, "the cutoff")];
    let reading =
        "1 is the class's cutoff. Explains the attainment, gates nothing. Milliseconds in the table.";
    figure(&format!("{name} against its cutoff"), reading, &chart.svg(), &numbers)
}

fn by_class(
    input: &SweepPage,
    levels: &Levels,
    value: impl Fn(&ClassReport) -> Option<f64> + Copy,
) -> Vec<Series> {
    let line = |class: &&str| series(class, levels, |r| r.classes.get(*class).and_then(value));
    input.classes.iter().map(line).collect()
}
