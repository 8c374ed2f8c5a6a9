//! The page of a sweep over offered rates.

use super::Section;
use super::html::{escape, figure, notes, number, page, percent, table, table_with_region, yes};
use super::svg::{Chart, Point, Series};
use crate::capacity::Capacity;
use crate::report::{ClassReport, Report};

/// What the page of a sweep shows.
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
    /// What else the reader should know.
    pub remarks: &'a [String],
}

/// The page of a sweep, as HTML.
#[must_use]
pub fn sweep_html(input: &SweepPage) -> String {
    page(input.title, &verdict(input.capacity), &sweep_body(input))
}

/// The same as a section of a study's page.
#[must_use]
pub fn sweep_section(input: &SweepPage) -> Section {
    Section { heading: input.title.to_owned(), verdict: verdict(input.capacity), body: sweep_body(input) }
}

fn sweep_body(input: &SweepPage) -> String {
    let rates = rates(input.points);
    let mut body = String::new();
    if let Some((_, report)) = input.points.first() {
        body = format!("<p>{}</p>\n", escape(&super::origin_sentence(report)));
    }
    body.push_str("<h2>Rates</h2>\n");
    body.push_str(&summary(input));
    body.push_str("<h2>Pictures</h2>\n<p>Lines join the medians of the repeats, bars span them.</p>\n");
    body.push_str("<div class=\"pictures\">\n");
    body.push_str(&throughput(input, &rates));
    body.push_str(&attainment(input, &rates));
    let ttft = |c: &ClassReport| (c.latency.p95_ttft_ms, c.request_ttft_cutoff_ms);
    body.push_str(&against_cutoff(input, &rates, "P95 TTFT", ttft));
    body.push_str(&against_cutoff(input, &rates, "P95 TPOT", |c| (c.p95_tpot_ms, c.request_tpot_cutoff_ms)));
    body.push_str("</div>\n");
    body.push_str(&notes("Remarks", input.remarks));
    body.push_str(&notes("Before you believe the numbers", &input.capacity.warnings));
    body
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

/// The rates (or concurrencies) in ascending order, each with its repeats.
pub(super) type Rates<'a> = Vec<(f64, Vec<&'a Report>)>;

pub(super) fn rates(points: &[(f64, Report)]) -> Rates<'_> {
    let mut sorted: Vec<_> = points.iter().collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
        .chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq())
        .map(|repeats| (repeats[0].0, repeats.iter().map(|(_, report)| report).collect()))
        .collect()
}

fn summary(input: &SweepPage) -> String {
    let mut points: Vec<_> = input.points.iter().collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows: Vec<_> = points
        .iter()
        .map(|(rps, report)| {
            let weakest = report.weakest_class().map(|(_, class)| class);
            let row = vec![
                number(*rps),
                report.facts.seed.map_or("–".into(), |seed| seed.to_string()),
                report.facts.run.map_or("–".into(), |run| run.to_string()),
                number(report.request_throughput_rps),
                percent(report.error_rate),
                percent(report.overall_attainment),
                percent(weakest.and_then(|c| c.attainment)),
                weakest.map_or("–".into(), |c| c.successful_count.to_string()),
                number(report.observed_goodput_rps),
                number(report.output_throughput_tps),
                report.queue_trend.word().into(),
                yes(report.capacity_gate_pass),
            ];
            (row, report.leaves_validity())
        })
        .collect();
    let head = [
        "offered/s",
        "seed",
        "repeat",
        "completed/s",
        "errors",
        "attainment",
        "weakest class",
        "its successes",
        "goodput/s",
        "output tok/s",
        "queue",
        "pass",
    ];
    table_with_region(&head, rows)
}

/// A line through the medians of `value` over the repeats of each rate.
pub(super) fn series(name: &str, rates: &Rates, value: impl Fn(&Report) -> Option<f64>) -> Series {
    let points = rates
        .iter()
        .filter_map(|(rps, repeats)| {
            let mut values: Vec<_> = repeats.iter().filter_map(|r| value(r)).collect();
            values.sort_by(f64::total_cmp);
            let (&low, &high) = (values.first()?, values.last()?);
            let y = values[(values.len() - 1) / 2];
            Some(Point { x: *rps, y, range: (values.len() > 1).then_some((low, high)) })
        })
        .collect();
    Series { name: name.to_string(), points }
}

/// A chart over the offered rate with the capacity marked.
fn chart(input: &SweepPage, title: String, y_label: &'static str, series: Vec<Series>) -> Chart {
    Chart {
        title,
        x_label: "offered rate, requests/s",
        y_label,
        series,
        limits: Vec::new(),
        mark: input.capacity.capacity_rps.map(|rps| (rps, "capacity".to_string())),
        x_from_zero: false,
        y_from_zero: true,
        y_ratio: false,
    }
}

/// The medians of `series` as a table, a row a rate.
fn numbers(rates: &Rates, series: &[Series], format: fn(Option<f64>) -> String) -> String {
    numbers_by("offered/s", rates, series, format)
}

/// The same over what `first` names.
pub(super) fn numbers_by(
    first: &str,
    rates: &Rates,
    series: &[Series],
    format: fn(Option<f64>) -> String,
) -> String {
    let head: Vec<_> = std::iter::once(first).chain(series.iter().map(|s| s.name.as_str())).collect();
    let rows: Vec<_> = rates
        .iter()
        .map(|(rps, _)| {
            let at = |s: &Series| s.points.iter().find(|p| p.x.total_cmp(rps).is_eq()).map(|p| p.y);
            std::iter::once(number(*rps)).chain(series.iter().map(|s| format(at(s)))).collect()
        })
        .collect();
    table(&head, &rows)
}

fn throughput(input: &SweepPage, rates: &Rates) -> String {
    let lines = vec![
        series("completed", rates, |r| r.request_throughput_rps),
        series("goodput", rates, |r| r.observed_goodput_rps),
    ];
    let numbers = numbers(rates, &lines, number);
    let chart = chart(input, "Completed and goodput by offered rate".into(), "requests/s", lines);
    let reading = "Where goodput falls away from what is completed, requests still end, but too late.";
    figure("Completed and goodput", reading, &chart.svg(), &numbers)
}

fn attainment(input: &SweepPage, rates: &Rates) -> String {
    let lines = by_class(input, rates, |c| c.attainment.map(|a| 100.0 * a));
    let numbers = numbers(rates, &lines, |v| percent(v.map(|v| v / 100.0)));
    let required = 100.0 * input.attainment_min;
    let mut chart = chart(input, "Attainment of each class by offered rate".into(), "% of successes", lines);
    chart.limits = vec![(required, format!("gate, {} %", number(required)))];
    chart.y_from_zero = false;
    figure(
        "Attainment by class",
        "Share of successes inside both cutoffs of their class.",
        &chart.svg(),
        &numbers,
    )
}

/// A percentile of each class as a share of its cutoff: classes have different cutoffs, and so one line shows them
/// all. The table has milliseconds.
fn against_cutoff(
    input: &SweepPage,
    rates: &Rates,
    name: &str,
    value: impl Fn(&ClassReport) -> (Option<f64>, f64) + Copy,
) -> String {
    let ratios = by_class(input, rates, |c| {
        let (observed_ms, cutoff_ms) = value(c);
        observed_ms.map(|ms| ms / cutoff_ms)
    });
    let mut in_ms = by_class(input, rates, |c| value(c).0);
    for (line, class) in in_ms.iter_mut().zip(input.classes) {
        let cutoff = input.points.iter().find_map(|(_, r)| r.classes.get(*class)).map(|c| value(c).1);
        line.name = format!("{class} (cutoff {} ms)", number(cutoff));
    }
    let numbers = numbers(rates, &in_ms, number);
    let mut chart = chart(
        input,
        format!("{name} of each class over its cutoff, by offered rate"),
        "P95 / cutoff",
        ratios,
    );
    chart.limits = vec![(1.0, "the cutoff".to_string())];
    chart.y_ratio = true;
    let reading =
        "1 is the class's cutoff. Explains the attainment, gates nothing. Milliseconds in the table.";
    figure(&format!("{name} against its cutoff"), reading, &chart.svg(), &numbers)
}

fn by_class(
    input: &SweepPage,
    rates: &Rates,
    value: impl Fn(&ClassReport) -> Option<f64> + Copy,
) -> Vec<Series> {
    let line = |class: &&str| series(class, rates, |r| r.classes.get(*class).and_then(value));
    input.classes.iter().map(line).collect()
}
