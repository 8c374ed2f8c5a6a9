//! The pack of an import, and what is printed of it.

use super::{CLASS, Imported, Judge, class_name};
use crate::args::ImportArgs;
use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::table::{number, table};
use scaleproof_pack::import::{self, OfferedRate, OperatingPoint, Summary};
use scaleproof_pack::report::Report;
use scaleproof_pack::report_html::{PointPage, point_html};
use serde_json::{Value, json};
use std::path::Path;

/// Writes the pack: the points, where they are from, and each run that has requests.
pub fn write_pack(
    directory: &Path,
    imported: &[Imported],
    reports: &[Option<Report>],
    judge: Option<&Judge>,
    args: &ImportArgs,
) -> Result<(), CommandError> {
    let path = directory.join(files::POINTS);
    let mut points = Pending::create(&path)?;
    import::write_points(&mut points, imported.iter().map(|one| &one.run.point))
        .map_err(|error| unwritable(&path, &error))?;
    points.keep()?;
    let json = json!({"origin": "imported", "imported": provenance(imported)});
    let json = serde_json::to_string_pretty(&json).map_err(CommandError::could_not_run)?;
    files::write(&directory.join(files::IMPORT), format!("{json}\n").as_bytes())?;
    let with_requests = imported.iter().filter(|one| !one.run.requests.is_empty()).count();
    for ((one, report), name) in imported.iter().zip(reports).zip(names(imported)) {
        if one.run.requests.is_empty() {
            continue;
        }
        let place =
            if with_requests == 1 { directory.to_owned() } else { directory.join("points").join(&name) };
        std::fs::create_dir_all(&place).map_err(|error| unwritable(&place, &error))?;
        write_point(&place, &name, one, report.as_ref(), judge, args)?;
    }
    Ok(())
}

/// The runs' names: their files', with a number from the second of a name on.
fn names(imported: &[Imported]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for one in imported {
        let stem = one.file.file_stem().map_or_else(|| "result".into(), |stem| stem.to_string_lossy());
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut candidates = std::iter::once(stem.to_string()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

fn write_point(
    place: &Path,
    name: &str,
    one: &Imported,
    report: Option<&Report>,
    judge: Option<&Judge>,
    args: &ImportArgs,
) -> Result<(), CommandError> {
    let path = place.join(files::REQUESTS);
    // A file whose requests name their classes needs no other.
    let named = one.run.requests.iter().all(|request| request.class.is_some());
    let class = if named { CLASS.to_owned() } else { class_name(judge, args)? };
    let mut requests = Pending::create(&path)?;
    import::write_requests(&mut requests, &one.run.point.source, &class, &one.run.requests)
        .map_err(|error| unwritable(&path, &error))?;
    requests.keep()?;
    let (Some(report), Some(judge)) = (report, judge) else { return Ok(()) };
    let json = serde_json::to_string_pretty(report).map_err(CommandError::could_not_run)?;
    files::write(&place.join(files::REPORT), format!("{json}\n").as_bytes())?;
    files::write(&place.join(files::MANIFEST), judge.text.as_bytes())?;
    let page = PointPage { model: &one.run.point.label, name, report, samples: &[] };
    files::write(&place.join(files::PAGE), point_html(&page).as_bytes())
}

/// What came from where, and what it means.
pub fn provenance(imported: &[Imported]) -> Vec<Value> {
    let files = |one: &Imported| {
        let of = |(name, sha256): &(String, String)| json!({"file": name, "sha256": sha256});
        one.sources.iter().map(of).collect::<Vec<Value>>()
    };
    let of = |one: &Imported| {
        let (point, source) = (&one.run.point, &one.run.point.source);
        json!({
            "files": files(one),
            "source_tool": source.tool.word(),
            "source_metric_semantics": source.semantics,
            "clock": source.clock.word(),
            "e2e_end": source.e2e_end.word(),
            "requests": one.run.requests.len(),
            "point": point_json(point),
            "notes": one.run.notes,
        })
    };
    imported.iter().map(of).collect()
}

fn point_json(point: &OperatingPoint) -> Value {
    let summary = |summary: &Summary| {
        let percentiles: serde_json::Map<String, Value> =
            summary.percentiles_ms.iter().map(|(p, ms)| (format!("p{p}_ms"), json!(ms))).collect();
        json!({"mean_ms": summary.mean_ms, "percentiles": percentiles})
    };
    json!({
        "label": point.label,
        "offered_rate": point.offered_rate.map(|rate| match rate {
            OfferedRate::Rps(rps) => json!(rps),
            OfferedRate::Infinite => json!("inf"),
        }),
        "concurrency": point.concurrency,
        "gamma_shape": point.gamma_shape,
        "prefix_hit_share": point.prefix_hit_share,
        "input_tokens": point.input_tokens.mean,
        "output_tokens": point.output_tokens.mean,
        "attempted": point.attempted,
        "completed": point.completed,
        "failed": point.failed,
        "duration_s": point.duration_s,
        "request_throughput_rps": point.request_throughput_rps,
        "output_throughput_tps": point.output_throughput_tps,
        "total_throughput_tps": point.total_throughput_tps,
        "ttft": summary(&point.ttft_ms),
        "tpot": summary(&point.tpot_ms),
        "e2e": summary(&point.e2e_ms),
    })
}

/// The points as a table, then the gates that fail and what a reader should know.
pub fn text(imported: &[Imported], reports: &[Option<Report>]) -> String {
    let names = names(imported);
    let head = [
        "point",
        "tool",
        "offered/s",
        "clients",
        "input",
        "output",
        "ok",
        "of",
        "TTFT ms",
        "p50",
        "p99",
        "TPOT ms",
        "p50",
        "p99",
        "E2E ms",
        "req/s",
        "tokens/s",
    ];
    let rows: Vec<_> = imported.iter().zip(&names).map(|(one, name)| row(name, one)).collect();
    let mut text = table(&head, &rows);
    for ((one, report), name) in imported.iter().zip(reports).zip(&names) {
        if let Some(report) = report {
            let failing: Vec<&str> = report.failing_gates().collect();
            let verdict = if failing.is_empty() {
                "every gate passes".to_owned()
            } else {
                format!("FAIL {}", failing.join(", "))
            };
            text += &format!("{name}: {verdict}\n");
        }
        for note in &one.run.notes {
            text += &format!("note: {name}: {note}\n");
        }
    }
    text
}

fn row(name: &str, one: &Imported) -> Vec<String> {
    let point = &one.run.point;
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let mut cells = vec![
        name.to_owned(),
        point.source.tool.word().to_owned(),
        point.offered_rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string()),
        count(point.concurrency.map(u64::from)),
        number(point.input_tokens.mean, 1),
        number(point.output_tokens.mean, 1),
        count(point.completed),
        count(point.attempted),
    ];
    for summary in [&point.ttft_ms, &point.tpot_ms] {
        cells.extend([summary.mean_ms, summary.median_ms(), summary.at_ms(99.0)].map(|ms| number(ms, 2)));
    }
    cells.push(number(point.e2e_ms.mean_ms, 1));
    cells.push(number(point.request_throughput_rps, 3));
    cells.push(number(point.output_throughput_tps, 1));
    cells
}
