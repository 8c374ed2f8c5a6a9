//! The page of one operating point.

use super::basis;
use super::html::{escape, figure, notes, number, page, percent, verdicts, yes};
use super::study::weakest;
use super::svg::{Chart, Measure, Point, Scale, Series};
use super::table::{NONE, Table, pairs};
use crate::report::{Gate, GateValue, Report};
use crate::saturation::CAVEAT;
use crate::timeline::FleetSample;

/// Points that a line over time is thinned to, each the greatest of its interval.
const LINE_POINTS: usize = 240;
/// Rows of the table under a line over time.
const TABLE_ROWS: usize = 12;

/// What the page of a point shows.
#[derive(Clone, Copy, Debug)]
pub struct PointPage<'a> {
    /// What is served.
    pub model: &'a str,
    /// The point's name in its study.
    pub name: &'a str,
    /// The point's report.
    pub report: &'a Report,
    /// The fleet over the whole run, warm-up and drain included, in order of time; may be empty.
    pub samples: &'a [FleetSample],
}

/// The page of a point, as HTML.
#[must_use]
pub fn point_html(input: &PointPage) -> String {
    let report = input.report;
    let mut body = verdicts(&[escape(&verdict(report))]);
    body += &format!("<p>{}</p>\n", escape(&system(input)));
    if report.facts.concurrency.is_some() {
        body += &format!("<p>{}</p>\n", escape(CAVEAT));
    }
    let schedules = basis::schedules([&report.facts].into_iter(), "slo-report.json");
    body +=
        &format!("<p class=\"basis\">{} {}</p>\n", escape(&basis::source(&report.facts)), escape(&schedules));
    body += "<h2>Gates</h2>\n";
    body += &gate_table(report);
    body += "<h2>Classes</h2>\n";
    body += &class_table(report);
    if !input.samples.is_empty() {
        body += "<h2>Over time</h2>\n<div class=\"pictures\">\n";
        body += &over_time(input, "Queue depth", "requests waiting", |s| s.waiting as f64);
        body += &over_time(input, "Running requests", "requests running", |s| s.running as f64);
        body += &over_time(input, "KV blocks in use", "% of all blocks", |s| {
            100.0 * s.kv_blocks_used as f64 / s.kv_blocks_total.max(1) as f64
        });
        body += "</div>\n";
    }
    body += "<h2>Attempts</h2>\n";
    body += &pairs("Attempts", ["of all classes", "value"], &facts(report));
    body += &notes("Before you believe the numbers", &report.warnings);
    page(&title(input), &body)
}

/// `24 requests/s: 4 replicas on 8 GPUs`, or the name where the load is unknown.
fn title(input: &PointPage) -> String {
    let facts = &input.report.facts;
    let fleet =
        facts.system.as_ref().map(|system| format!(": {}", basis::fleet(system.replicas, system.gpus)));
    basis::load(facts).map_or(input.name.to_owned(), |load| load + &fleet.unwrap_or_default())
}

fn system(input: &PointPage) -> String {
    let facts = &input.report.facts;
    let router = facts.system.as_ref().map(|system| format!("; router {}", system.router));
    let repeat = facts.run.filter(|&run| run > 0).map(|run| format!("; repeat {run}"));
    format!(
        "{}. {}{}{}. Point {}.",
        input.model,
        basis::experiment(facts),
        router.unwrap_or_default(),
        repeat.unwrap_or_default(),
        input.name
    )
}

fn verdict(report: &Report) -> String {
    let failing: Vec<_> = report.failing_gates().collect();
    let gates = if failing.is_empty() {
        "Every gate passes.".to_string()
    } else {
        format!("Gates failed: {}.", failing.join(", "))
    };
    match weakest(&[report]) {
        (name, _) if name == NONE => gates,
        (name, attainment) => format!("{gates} Weakest class: {name}, attainment {attainment}."),
    }
}

fn facts(report: &Report) -> Vec<(String, String)> {
    let outcomes = report.outcomes;
    let counts = [
        ("attempted", report.attempted),
        ("ok", outcomes.ok),
        ("error", outcomes.error),
        ("timeout", outcomes.timeout),
        ("rejected", outcomes.rejected),
        ("cancelled", outcomes.cancelled),
        ("lost", outcomes.lost),
    ];
    let values = [
        ("error rate", percent(report.error_rate)),
        ("offered, requests/s", number(report.facts.offered_rps)),
        ("completed, requests/s", number(report.request_throughput_rps)),
        ("goodput, requests/s", number(report.observed_goodput_rps)),
        ("output, tokens/s", number(report.output_throughput_tps)),
        ("attainment, of successes", percent(report.overall_attainment)),
        ("attainment, of attempts", percent(report.attempted_attainment)),
        ("window, s", number(report.duration_s)),
        ("prefix hits, of successes' prompt tokens", percent(report.prefix_hit_share)),
        ("evictions, blocks/s", number(report.prefix_cache.and_then(|cache| cache.evictions_per_s))),
    ];
    let counts = counts.into_iter().map(|(name, count)| (name.to_owned(), count.to_string()));
    let reasons =
        report.failure_reasons.iter().map(|(reason, n)| (format!("failed: {reason}"), n.to_string()));
    counts.chain(reasons).chain(values.into_iter().map(|(name, value)| (name.to_owned(), value))).collect()
}

fn gate_table(report: &Report) -> String {
    let value = |value: &GateValue| match value {
        GateValue::Count(n) => n.to_string(),
        // Three decimals: 94.96 % must not read as if it had reached 95.
        GateValue::Share(share) => share.map_or(NONE.into(), |s| format!("{:.3} %", s * 100.0)),
        GateValue::Word(word) => word.clone(),
    };
    Table::of(&report.gates)
        .key("gate", |gate: &Gate| gate.name.clone())
        .key("observed", |gate| value(&gate.observed))
        .key("required", |gate| format!("{} {}", gate.relation, value(&gate.required)))
        .key("pass", |gate| yes(gate.pass))
        .html("Gates")
}

fn class_table(report: &Report) -> String {
    let classes: Vec<_> = report.classes.iter().collect();
    Table::of(&classes)
        .key("class", |(name, _)| (*name).clone())
        .key("successes", |(_, c)| c.successful_count.to_string())
        .key("attainment", |(_, c)| percent(c.attainment))
        .key("95 % interval", |(_, c)| {
            c.attainment_ci95
                .map_or(NONE.to_string(), |(low, high)| format!("{} to {}", percent(low), percent(high)))
        })
        .key("of attempts", |(_, c)| percent(c.attempted_attainment))
        .key("P50 TTFT, ms", |(_, c)| number(c.latency.p50_ttft_ms))
        .key("P95 TTFT, ms", |(_, c)| number(c.latency.p95_ttft_ms))
        .key("TTFT cutoff, ms", |(_, c)| number(c.request_ttft_cutoff_ms))
        .key("P50 TPOT, ms", |(_, c)| number(c.p50_tpot_ms))
        .key("P95 TPOT, ms", |(_, c)| number(c.p95_tpot_ms))
        .key("TPOT cutoff, ms", |(_, c)| number(c.request_tpot_cutoff_ms))
        .key("P95 E2E, ms", |(_, c)| number(c.latency.p95_e2e_ms))
        .html("Classes")
}

/// What of the time axis is not measured: before the first measured arrival, and after the last.
fn unmeasured(input: &PointPage) -> Vec<(f64, f64, &'static str)> {
    let (Some((first, last)), [begin, .., end]) = (input.report.arrivals_s, input.samples) else {
        return Vec::new();
    };
    let (begin, end) = (begin.at.seconds(), end.at.seconds());
    let spans = [(begin, first, "warm-up"), (last, end, "drain")];
    spans.into_iter().filter(|(from, to, _)| from < to).collect()
}

/// A picture of one quantity over time.
fn over_time(input: &PointPage, name: &str, unit: &'static str, value: fn(&FleetSample) -> f64) -> String {
    let thinned = |parts: usize| -> Vec<Point> {
        let interval = input.samples.len().div_ceil(parts).max(1);
        let greatest = |chunk: &[FleetSample]| {
            let y = chunk.iter().map(value).fold(0.0, f64::max);
            Point::at(chunk[0].at.seconds(), y)
        };
        input.samples.chunks(interval).map(greatest).collect()
    };
    let chart = Chart {
        title: format!("{name} over time"),
        x: Measure::new("time since the run began, s", Scale::Tight),
        y: Measure::new(unit, Scale::FromZero),
        series: vec![Series { name: name.to_string(), points: thinned(LINE_POINTS), apart: false }],
        spans: unmeasured(input),
        ..Chart::default()
    };
    let rows = thinned(TABLE_ROWS);
    let numbers = Table::of(&rows).key("from, s", |p| number(p.x)).key(unit, |p| number(p.y)).html(name);
    let reading = "All replicas together; each point is the greatest value of its interval. Grey: arrivals there are not \
                   measured (warm-up), or there are none any more (drain).";
    figure(name, reading, &chart.svg(), &numbers)
}
