//! summary.csv: a row for each operating point of a study.

use crate::report::Report;
use std::io;

/// What tells one point of a study from another, beside what its report says.
#[derive(Clone, Debug, PartialEq)]
pub struct PointKey {
    /// The name of its directory.
    pub name: String,
    /// Replicas.
    pub replicas: u32,
    /// `cold` or `warm`.
    pub cache: &'static str,
}

const LEADING: [&str; 19] = [
    "point",
    "replicas",
    "cache",
    "offered_rps",
    "concurrency",
    "seed",
    "run",
    "schedule_hash",
    "attempted",
    "successful",
    "error_rate",
    "overall_attainment",
    "attempted_attainment",
    "request_throughput_rps",
    "observed_goodput_rps",
    "output_throughput_tps",
    "queue_trend",
    "capacity_gate_pass",
    "failing_gates",
];
const BY_CLASS: [&str; 5] = ["successes", "attainment", "p95_ttft_ms", "p95_tpot_ms", "p95_e2e_ms"];

/// Writes the points of a study, all of the same classes; empty fields are undefined values.
///
/// # Errors
/// Those of `out`.
pub fn write<W: io::Write>(out: W, points: &[(PointKey, &Report)]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let classes: Vec<&String> =
        points.first().map_or_else(Vec::new, |(_, report)| report.classes.keys().collect());
    let by_class = classes.iter().flat_map(|class| BY_CLASS.map(|column| format!("{class}_{column}")));
    csv.write_record(LEADING.iter().map(|name| (*name).to_owned()).chain(by_class))?;
    for (key, report) in points {
        csv.write_record(row(key, report))?;
    }
    csv.flush()
}

fn row(key: &PointKey, report: &Report) -> Vec<String> {
    let facts = &report.facts;
    let mut row = vec![
        key.name.clone(),
        key.replicas.to_string(),
        key.cache.to_owned(),
        optional(facts.offered_rps),
        optional(facts.concurrency),
        optional(facts.seed),
        optional(facts.run),
        facts.schedule_hash.clone().unwrap_or_default(),
        report.attempted.to_string(),
        report.successful.to_string(),
        optional(report.error_rate),
        optional(report.overall_attainment),
        optional(report.attempted_attainment),
        optional(report.request_throughput_rps),
        optional(report.observed_goodput_rps),
        optional(report.output_throughput_tps),
        report.queue_trend.word().to_owned(),
        report.capacity_gate_pass.to_string(),
        report.failing_gates().collect::<Vec<_>>().join(" "),
    ];
    for class in report.classes.values() {
        row.push(class.successful_count.to_string());
        row.push(optional(class.attainment));
        row.push(optional(class.latency.p95_ttft_ms));
        row.push(optional(class.p95_tpot_ms));
        row.push(optional(class.latency.p95_e2e_ms));
    }
    row
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
