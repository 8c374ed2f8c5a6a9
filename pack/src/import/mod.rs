//! Other tools' results as this project's records and operating points. docs/formats.md has the conversions.
//!
//! What can be converted by a formula is, and its label says how; what cannot is refused with the reason. What a source
//! does not say is absent, never 0.

mod aiperf;
mod guidellm;
mod inference_perf;
mod json;
mod point;
mod request;
mod seven;
mod table;
mod vllm;

pub use point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
pub use request::{Answer, End, ImportedRequest, write_requests};
pub use table::write_points;

use crate::fault::{Fault, Faults};
use json::{At, Document, documents};

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `vllm bench serve --save-result`, `--save-detailed`, `--append-result`.
    VllmBench,
    /// AIPerf `profile_export.jsonl`.
    AiperfRecords,
    /// AIPerf `profile_export_aiperf.json`.
    AiperfJson,
    /// guidellm `benchmarks.json`.
    Guidellm,
    /// inference-perf `stage_N_lifecycle_metrics.json`.
    InferencePerf,
    /// requests.csv with the seven shared columns, ours included.
    RequestsCsv,
    /// A table of operating points: CSV.
    PointsCsv,
    /// A table of operating points: YAML.
    PointsYaml,
}

impl Format {
    /// All of them, in the order in which their documents are recognised.
    pub const ALL: [Format; 8] = [
        Format::AiperfRecords,
        Format::AiperfJson,
        Format::Guidellm,
        Format::InferencePerf,
        Format::VllmBench,
        Format::RequestsCsv,
        Format::PointsCsv,
        Format::PointsYaml,
    ];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Format::VllmBench => "vllm-bench",
            Format::AiperfRecords => "aiperf-jsonl",
            Format::AiperfJson => "aiperf-json",
            Format::Guidellm => "guidellm",
            Format::InferencePerf => "inference-perf",
            Format::RequestsCsv => "requests-csv",
            Format::PointsCsv => "points-csv",
            Format::PointsYaml => "points-yaml",
        }
    }

    /// Whether `top` looks like a document of this format; false for what is no JSON.
    fn is(self, top: &At<'_>) -> bool {
        match self {
            Format::VllmBench => vllm::is_result(top),
            Format::AiperfRecords => aiperf::is_record(top),
            Format::AiperfJson => aiperf::is_aggregate(top),
            Format::Guidellm => guidellm::is_report(top),
            Format::InferencePerf => inference_perf::is_stage(top),
            Format::RequestsCsv | Format::PointsCsv | Format::PointsYaml => false,
        }
    }
}

/// One run of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The whole of it.
    pub point: OperatingPoint,
    /// Every attempt, in the order of sending where that is known; empty if the source has only aggregates.
    pub requests: Vec<ImportedRequest>,
    /// What a reader should know before using it.
    pub notes: Vec<String>,
}

/// Reads a result. `file` names it in faults, and the system where the result does not. Without a `format` it is found
/// out from the content.
///
/// # Errors
/// What is wrong with the file and where, what cannot be converted and why, or that its format is none of those known.
pub fn import(file: &str, bytes: &[u8], format: Option<Format>) -> Result<Vec<Run>, Faults> {
    let first = bytes.trim_ascii_start().strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes.trim_ascii_start());
    let format = format.or_else(|| text_format(first));
    match format {
        Some(Format::RequestsCsv) => seven::runs(file, bytes),
        Some(Format::PointsCsv) => table::csv(file, bytes),
        Some(Format::PointsYaml) => table::yaml(file, bytes),
        json => of_json(file, &documents(file, bytes)?, json),
    }
}

/// The format of a text that is no JSON; None for JSON.
fn text_format(text: &[u8]) -> Option<Format> {
    if matches!(text.first(), None | Some(b'{' | b'[')) {
        return None;
    }
    let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    let has = |column: &str| header.split(',').any(|name| name.trim().trim_matches('"') == column);
    if has("request_id") {
        Some(Format::RequestsCsv)
    } else if header.contains(',') && (has("rate") || has("concurrency")) {
        Some(Format::PointsCsv)
    } else if header.contains(':') || header.starts_with('#') {
        Some(Format::PointsYaml)
    } else {
        None
    }
}

fn of_json(file: &str, documents: &[Document], format: Option<Format>) -> Result<Vec<Run>, Faults> {
    let Some(first) = documents.first() else {
        return Err(unknown(file, "an empty file"));
    };
    let top = At::top(file, None, &first.value);
    let format = match format {
        Some(format) if format.is(&top) => format,
        Some(format) => {
            let found = "a document of another kind";
            return Err(top.fault(found, format!("a result of {}", format.word()), "leave --from out"));
        }
        None => {
            let found = Format::ALL.into_iter().find(|format| format.is(&top));
            found.ok_or_else(|| unknown(file, "JSON of no known kind"))?
        }
    };
    if format == Format::AiperfRecords {
        return Ok(vec![aiperf::records(file, documents)?]);
    }
    let several = documents.len() > 1;
    let mut runs = Vec::new();
    for document in documents {
        let top = At::top(file, several.then_some(document.line), &document.value);
        if !format.is(&top) {
            return Err(top.fault("another document", format!("one more result of {}", format.word()), ""));
        }
        match format {
            Format::Guidellm => runs.extend(guidellm::runs(&top)?),
            Format::InferencePerf => runs.push(inference_perf::run(&top)?),
            Format::AiperfJson => runs.push(aiperf::aggregate(&top)?),
            _ => runs.push(vllm::run(&top)?),
        }
    }
    Ok(runs)
}

fn unknown(file: &str, found: &str) -> Faults {
    let known = Format::ALL.map(Format::word).join(", ");
    Faults::from(Fault {
        file: file.to_owned(),
        found: found.to_owned(),
        expected: format!("a result of one of {known}"),
        hint: "docs/formats.md describes them".to_owned(),
        ..Fault::default()
    })
}

/// A limit on what is in flight.
fn concurrency(at: &At<'_>) -> Result<Option<u32>, Faults> {
    let limit = at.optional_count()?.map(u32::try_from);
    match limit {
        None => Ok(None),
        Some(Ok(limit)) if limit > 0 => Ok(Some(limit)),
        Some(_) => Err(at.wrong("a whole number of requests in flight, at least 1", "")),
    }
}

/// Refuses points whose end-to-end latencies end at different moments: they are no one metric.
///
/// # Errors
/// The first point whose rule is not the first's.
pub fn one_end_rule<'a>(
    points: impl IntoIterator<Item = (&'a str, &'a OperatingPoint)>,
) -> Result<(), Faults> {
    let mut first: Option<(&str, EndRule)> = None;
    for (file, point) in points {
        let rule = point.source.e2e_end;
        let (first_file, expected) = *first.get_or_insert((file, rule));
        if rule != expected {
            return Err(Fault {
                file: file.to_owned(),
                field: "e2e".to_owned(),
                found: format!("latencies whose end is {}", rule.word()),
                expected: format!("{}, as in {first_file}", expected.word()),
                hint: "import them apart, or with --mix-e2e-ends if no end-to-end latency matters".to_owned(),
                ..Fault::default()
            }
            .into());
        }
    }
    Ok(())
}
