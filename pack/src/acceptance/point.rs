//! One operating point as its pack has it, and as its rows say.

use crate::analyze::{Analyzer, Stated};
use crate::manifest::Manifest;
use crate::record::Outcome;
use crate::report::{ClassReport, Report, RunFacts};
use crate::requests_csv::{Reader, Row};
use crate::timeline::read_timeline;

/// The files of a point that are judged; None where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct PointFiles<'a> {
    /// workload-manifest.yaml.
    pub manifest: Option<&'a [u8]>,
    /// requests.csv.
    pub requests: Option<&'a [u8]>,
    /// slo-report.json.
    pub report: Option<&'a [u8]>,
    /// timeline.csv.
    pub timeline: Option<&'a [u8]>,
}

/// A point, read.
#[derive(Clone, Debug)]
pub struct PointPack {
    /// Its directory, as it was given.
    pub name: String,
    /// The report's text, to be compared with the copy at the top of a study.
    pub report_text: String,
    /// Why its seal does not fit; None if it does.
    pub seal_fault: Option<String>,
    /// Its manifest, or what is wrong with it.
    pub manifest: Result<Manifest, String>,
    /// Its report, or what is wrong with it.
    pub report: Result<Report, String>,
    /// How its rows differ from its report; none if they do not.
    pub differences: Vec<String>,
    /// Prompt tokens found in the prefix cache over prompt tokens, of the successes in its rows.
    pub hit_share: Option<f64>,
}

impl PointPack {
    /// Reads a point's files, and counts its rows again.
    #[must_use]
    pub fn read(name: &str, seal_fault: Option<String>, files: PointFiles<'_>) -> PointPack {
        let text = |bytes: Option<&[u8]>, what: &str| {
            let bytes = bytes.ok_or_else(|| format!("{name}: no {what}"))?;
            String::from_utf8(bytes.to_vec()).map_err(|_| format!("{name}/{what}: not UTF-8"))
        };
        let report_text = text(files.report, "slo-report.json");
        let manifest = text(files.manifest, "workload-manifest.yaml").and_then(|text| {
            Manifest::parse(&format!("{name}/workload-manifest.yaml"), &text)
                .map_err(|faults| faults.to_string())
        });
        let report: Result<Report, String> = report_text.clone().and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("{name}/slo-report.json: {error}"))
        });
        let mut point = PointPack {
            name: name.to_owned(),
            report_text: report_text.unwrap_or_default(),
            seal_fault,
            manifest,
            report,
            differences: Vec::new(),
            hit_share: None,
        };
        match point.recount(&files) {
            Ok((counted, hit_share)) => {
                point.hit_share = hit_share;
                if let Ok(report) = &point.report {
                    point.differences = differences(report, &counted);
                }
            }
            Err(fault) => point.differences.push(fault),
        }
        point
    }

    /// The report that the analyzer makes of the rows, and the share of prompt tokens that hit.
    fn recount(&self, files: &PointFiles<'_>) -> Result<(Report, Option<f64>), String> {
        let manifest = self.manifest.as_ref().map_err(|_| "its manifest cannot be read".to_owned())?;
        let bytes = files.requests.ok_or("no requests.csv")?;
        let names = manifest.classes.iter().map(|class| class.name.as_str());
        let fault = |error| format!("requests.csv:{error}");
        let mut analyzer = Analyzer::new(manifest);
        let (mut prompt, mut cached) = (0u64, 0u64);
        for row in Reader::new(bytes, names).map_err(fault)? {
            let row = row.map_err(fault)?;
            if let Row::Own { record, .. } = &row
                && record.outcome == Outcome::Ok
            {
                prompt += u64::from(record.input_tokens);
                cached += u64::from(record.cached_tokens);
            }
            analyzer.push_row(&row);
        }
        let timeline = files.timeline.ok_or("no timeline.csv")?;
        for row in read_timeline(timeline).map_err(|error| format!("timeline.csv: {error}"))? {
            analyzer.push_sample(&row);
        }
        let facts = self.report.as_ref().map_or_else(|_| RunFacts::of_file(), |report| report.facts.clone());
        let hit_share = (prompt > 0).then(|| cached as f64 / prompt as f64);
        let mut counted = analyzer.finish(facts, Stated::default());
        // What the load generator saw of itself stands in no row.
        if let Some(checks) = self.report.as_ref().ok().and_then(|report| report.checks.clone()) {
            counted.take_checks(checks);
        }
        Ok((counted, hit_share))
    }

    /// Why it cannot be taken for what a run gave: a seal that does not fit, a report that cannot be read, or that its rows do
    /// not give.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let faults = self.seal_fault.iter().chain(self.report.as_ref().err()).chain(&self.differences);
        faults.cloned().collect()
    }

    /// Its own word for its cache state, by its report.
    #[must_use]
    pub fn cache(&self) -> Option<&str> {
        Some(self.report.as_ref().ok()?.facts.system.as_ref()?.cache.as_str())
    }
}

/// What the report says and the rows do not.
fn differences(report: &Report, counted: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, said: String, rows: String| {
        if said != rows {
            found.push(format!("{what}: the report says {said}, its rows {rows}"));
        }
    };
    differ("attempted", report.attempted.to_string(), counted.attempted.to_string());
    differ("outcomes", format!("{:?}", report.outcomes), format!("{:?}", counted.outcomes));
    differ("successful", report.successful.to_string(), counted.successful.to_string());
    differ("failed", report.failed.to_string(), counted.failed.to_string());
    for (what, said, rows) in [
        ("error_rate", report.error_rate, counted.error_rate),
        ("overall_attainment", report.overall_attainment, counted.overall_attainment),
        ("request_throughput_rps", report.request_throughput_rps, counted.request_throughput_rps),
        ("observed_goodput_rps", report.observed_goodput_rps, counted.observed_goodput_rps),
        ("output_throughput_tps", report.output_throughput_tps, counted.output_throughput_tps),
    ] {
        differ(what, number(said), number(rows));
    }
    differ("queue_trend", report.queue_trend.word().to_owned(), counted.queue_trend.word().to_owned());
    let gates =
        |report: &Report| report.gates.iter().map(|gate| (gate.name.clone(), gate.pass)).collect::<Vec<_>>();
    differ("gates", format!("{:?}", gates(report)), format!("{:?}", gates(counted)));
    differ(
        "capacity_gate_pass",
        report.capacity_gate_pass.to_string(),
        counted.capacity_gate_pass.to_string(),
    );
    differ("classes", names(report), names(counted));
    for (name, class) in &report.classes {
        if let Some(rows) = counted.classes.get(name) {
            differ(name, of_class(class), of_class(rows));
        }
    }
    found
}

fn names(report: &Report) -> String {
    report.classes.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn of_class(class: &ClassReport) -> String {
    let latency = &class.latency;
    format!(
        "{} attempted, {} ok, {} passing, cutoffs {} and {} ms, TTFT {} / {} ms, TPOT {} / {} ms, E2E {} / {} ms",
        class.attempted_count,
        class.successful_count,
        class.passing_count,
        class.request_ttft_cutoff_ms,
        class.request_tpot_cutoff_ms,
        number(latency.p50_ttft_ms),
        number(latency.p95_ttft_ms),
        number(class.p50_tpot_ms),
        number(class.p95_tpot_ms),
        number(latency.p50_e2e_ms),
        number(latency.p95_e2e_ms)
    )
}

/// To a millionth: what a file's decimals keep.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:.6}"))
}
