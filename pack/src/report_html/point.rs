//! The page of one operating point.

use super::html::{escape, figure, notes, number, page, percent, table, yes};
use super::svg::{Chart, Point, Series};
use crate::report::{Gate, GateValue, Report};
use crate::timeline::FleetSample;

/// Points that a line over time is thinned to, each the greatest of its interval.
const LINE_POINTS: usize = 240;
/// Rows of the table under a line over time.
const TABLE_ROWS: usize = 12;

/// What the page of a point shows.
#[derive(Clone, Copy, Debug)]
pub struct PointPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The point's report.
    pub report: &'a Report,
    /// The fleet over the whole run, warm-up and drain included, in order of time; may be empty.
    pub samples: &'a [FleetSample],
}

/// The page of a point, as HTML.
#[must_use]
pub fn point_html(input: &PointPage) -> String {
    let report = input.report;
    let failing: Vec<_> = report.failing_gates().collect();
    let verdict = if failing.is_empty() {
        "Every gate passes.".to_string()
    } else {
        format!("Gates failed: {}.", failing.join(", "))
    };
    let mut body = format!("<p>{}</p>\n", escape(&super::origin_sentence(report)));
    body.push_str(&table(&["attempts", "value"], &facts(report)));
    body.push_str("<h2>Gates</h2>\n");
    let rows: Vec<_> = report.gates.iter().map(gate_row).collect();
    body.push_str(&table(&["gate", "observed", "", "required", "pass"], &rows));
    body.push_str("<h2>Classes</h2>\n");
    body.push_str(&class_table(report));
    if !input.samples.is_empty() {
        body.push_str("<h2>Over time</h2>\n<div class=\"pictures\">\n");
        body.push_str(&over_time(input.samples, "Queue depth", "requests waiting", |s| s.waiting as f64));
        body.push_str(&over_time(input.samples, "Running requests", "requests running", |s| {
            s.running as f64
        }));
        body.push_str(&over_time(input.samples, "KV blocks in use", "% of all blocks", |s| {
            100.0 * s.kv_blocks_used as f64 / s.kv_blocks_total.max(1) as f64
        }));
        body.push_str("</div>\n");
    }
    body.push_str(&notes("Before you believe the numbers", &report.warnings));
    page(input.title, &verdict, &body)
}

fn facts(report: &Report) -> Vec<Vec<String>> {
    let count = |name: &str, n: u64| vec![name.to_string(), n.to_string()];
    let outcomes = report.outcomes;
    vec![
        count("attempted", report.attempted),
        count("ok", outcomes.ok),
        count("error", outcomes.error),
        count("timeout", outcomes.timeout),
        count("rejected", outcomes.rejected),
        count("cancelled", outcomes.cancelled),
        count("lost", outcomes.lost),
        vec!["error rate".into(), percent(report.error_rate)],
        vec!["offered, requests/s".into(), number(report.facts.offered_rps)],
        vec!["completed, requests/s".into(), number(report.request_throughput_rps)],
        vec!["goodput, requests/s".into(), number(report.observed_goodput_rps)],
        vec!["output tokens/s".into(), number(report.output_throughput_tps)],
        vec!["attainment, of successes".into(), percent(report.overall_attainment)],
        vec!["attainment, of attempts".into(), percent(report.attempted_attainment)],
        vec!["window, s".into(), number(report.duration_s)],
        vec!["prefix hit share".into(), percent(report.prefix_hit_share)],
    ]
}

fn gate_row(gate: &Gate) -> Vec<String> {
    let value = |value: &GateValue| match value {
        GateValue::Count(n) => n.to_string(),
        // Three decimals: 94.96 % must not read as if it had reached 95.
        GateValue::Share(share) => share.map_or("–".into(), |s| format!("{:.3} %", s * 100.0)),
        GateValue::Word(word) => word.clone(),
    };
    vec![
        gate.name.clone(),
        value(&gate.observed),
        gate.relation.clone(),
        value(&gate.required),
        yes(gate.pass),
    ]
}

fn class_table(report: &Report) -> String {
    let rows: Vec<_> = report
        .classes
        .iter()
        .map(|(name, class)| {
            let interval = class
                .attainment_ci95
                .map_or("–".to_string(), |(low, high)| format!("{} to {}", percent(low), percent(high)));
            vec![
                name.clone(),
                class.successful_count.to_string(),
                percent(class.attainment),
                interval,
                percent(class.attempted_attainment),
                number(class.latency.p50_ttft_ms),
                number(class.latency.p95_ttft_ms),
                number(class.request_ttft_cutoff_ms),
                number(class.p50_tpot_ms),
                number(class.p95_tpot_ms),
                number(class.request_tpot_cutoff_ms),
                number(class.latency.p95_e2e_ms),
            ]
        })
        .collect();
    let head = [
        "class",
        "successes",
        "attainment",
        "95 % interval",
        "of attempts",
        "P50 TTFT ms",
        "P95 TTFT ms",
        "cutoff",
        "P50 TPOT ms",
        "P95 TPOT ms",
        "cutoff",
        "P95 E2E ms",
    ];
    table(&head, &rows)
}

/// A picture of one quantity over time.
fn over_time(
    samples: &[FleetSample],
    name: &str,
    unit: &'static str,
    value: fn(&FleetSample) -> f64,
) -> String {
    let thinned = |parts: usize| -> Vec<Point> {
        samples
            .chunks(samples.len().div_ceil(parts).max(1))
            .map(|chunk| {
                let y = chunk.iter().map(value).fold(0.0, f64::max);
                Point { x: chunk[0].at.seconds(), y, range: None }
            })
            .collect()
    };
    let chart = Chart {
        title: format!("{name} over time"),
        x_label: "time since the run began, s",
        y_label: unit,
        series: vec![Series { name: name.to_string(), points: thinned(LINE_POINTS) }],
        limits: Vec::new(),
        mark: None,
        x_from_zero: false,
        y_from_zero: true,
        y_ratio: false,
    };
    let rows: Vec<_> = thinned(TABLE_ROWS).iter().map(|p| vec![number(p.x), number(p.y)]).collect();
    let numbers = table(&["from, s", unit], &rows);
    figure(
        name,
        "All replicas together; each point is the greatest value of its interval.",
        &chart.svg(),
        &numbers,
    )
}
