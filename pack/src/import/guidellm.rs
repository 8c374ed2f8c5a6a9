//! guidellm `benchmarks.json`: a report of several benchmarks, each an operating point. Its requests carry the moments
//! of their first and last token on the clock of the day, so that all three metrics follow by this project's formulas.

use super::json::At;
use super::point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
use super::request::{
    Answer, End, ImportedRequest, cancelled, disagreements, failure, fill, nanos, throughputs,
};
use super::{Run, concurrency};
use crate::fault::Faults;
use crate::time::Nanos;

/// Whether a document is such a report.
pub(super) fn is_report(top: &At<'_>) -> bool {
    top.get("benchmarks").items().is_ok_and(|items| items.iter().all(|b| b.get("metrics").is_present()))
}

fn source(e2e_end: EndRule) -> Source {
    let end = match e2e_end {
        EndRule::LastToken => "E2E to the last token (its request_latency goes on until the stream closes)",
        _ => "E2E until the stream closes",
    };
    Source {
        tool: Tool::Guidellm,
        semantics: format!(
            "from the send after the client's queue; {end}; TPOT (last-first token)/(O-1), there inter_token_latency_ms; \
             successes only; percentiles by nearest rank where its own"
        ),
        clock: Clock::Wall,
        e2e_end,
    }
}

/// Reads every benchmark of a report.
pub(super) fn runs(top: &At<'_>) -> Result<Vec<Run>, Faults> {
    let label = model(top).unwrap_or(top.file());
    top.get("benchmarks").items()?.iter().map(|benchmark| run(benchmark, label)).collect()
}

/// The model of the run's configuration, which has moved between versions.
fn model<'a>(top: &At<'a>) -> Option<&'a str> {
    let config = top.get("config");
    let places = [config.get("spec").get("backend"), config.get("backend"), top.get("args"), config];
    places.iter().find_map(|place| place.get("model").text())
}

fn run(benchmark: &At<'_>, label: &str) -> Result<Run, Faults> {
    let metrics = benchmark.get("metrics");
    let totals = metrics.get("request_totals");
    let successful = totals.get("successful").count()?;
    let attempted = totals.get("total").count()?;
    let requests = requests(benchmark)?;
    let whole = requests.len() as u64 == attempted && attempted > 0;
    let rule = if whole { EndRule::LastToken } else { EndRule::StreamEnd };
    let mut point = OperatingPoint::new(label, source(rule));
    point.completed = Some(successful);
    point.attempted = Some(attempted);
    point.failed = Some(attempted.saturating_sub(successful));
    load(&benchmark.get("config").get("strategy"), &mut point)?;
    point.duration_s = benchmark.get("duration").optional_number()?;
    point.input_tokens = tokens(&metrics.get("prompt_token_count"))?;
    point.output_tokens = tokens(&metrics.get("output_token_count"))?;
    point.ttft_ms = summary(&metrics.get("time_to_first_token_ms"), 1.0)?;
    point.tpot_ms = summary(&metrics.get("inter_token_latency_ms"), 1.0)?;
    let mut notes = Vec::new();
    if whole {
        notes.extend(disagreements(&point, &requests));
        fill(&mut point, &requests);
        return Ok(Run { point, requests, notes });
    }
    if !requests.is_empty() {
        notes.push(format!(
            "the file lists {} of {attempted} requests: they are left out, and E2E ends where the stream closes",
            requests.len()
        ));
    }
    point.e2e_ms = summary(&metrics.get("request_latency"), 1e3)?;
    throughputs(&mut point);
    Ok(Run { point, requests: Vec::new(), notes })
}

fn load(strategy: &At<'_>, point: &mut OperatingPoint) -> Result<(), Faults> {
    let kind = strategy.get("type_").text();
    match kind {
        Some("constant" | "poisson") => {
            point.offered_rate = Some(OfferedRate::Rps(strategy.get("rate").number()?));
            point.gamma_shape = (kind == Some("poisson")).then_some(1.0);
            point.concurrency = concurrency(&strategy.get("max_concurrency"))?;
        }
        Some("concurrent") => point.concurrency = concurrency(&strategy.get("streams"))?,
        Some("synchronous") => point.concurrency = Some(1),
        Some("throughput") => {
            point.offered_rate = Some(OfferedRate::Infinite);
            point.concurrency = concurrency(&strategy.get("max_concurrency"))?;
        }
        _ => {}
    }
    Ok(())
}

fn tokens(metric: &At<'_>) -> Result<Tokens, Faults> {
    let successful = metric.get("successful");
    let total = successful.get("total_sum").optional_count()?;
    let empty = successful.get("count").optional_count()? == Some(0);
    if empty {
        return Ok(Tokens::default());
    }
    Ok(Tokens { total, mean: successful.get("mean").optional_number()?, lengths: None })
}

/// The successful ones of a metric, in units of `unit_ms` milliseconds. Nobody's metric has zeros, absent here.
fn summary(metric: &At<'_>, unit_ms: f64) -> Result<Summary, Faults> {
    let successful = metric.get("successful");
    if successful.get("count").optional_count()? == Some(0) {
        return Ok(Summary::default());
    }
    let mean_ms = successful.get("mean").optional_number()?.map(|mean| mean * unit_ms);
    let mut summary = Summary { mean_ms, ..Summary::default() };
    let percentiles = successful.get("percentiles");
    for (key, percent) in PERCENTILES {
        if let Some(value) = percentiles.get(key).optional_number()? {
            summary.set(percent, value * unit_ms);
        }
    }
    Ok(summary)
}

/// Its names of percentiles: p001 is the 0.1th.
const PERCENTILES: [(&str, f64); 11] = [
    ("p001", 0.1),
    ("p01", 1.0),
    ("p05", 5.0),
    ("p10", 10.0),
    ("p25", 25.0),
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p999", 99.9),
];

/// The requests of a benchmark, by their sending; none where the file has none.
fn requests(benchmark: &At<'_>) -> Result<Vec<ImportedRequest>, Faults> {
    let mut rows = Vec::new();
    for status in ["successful", "incomplete", "errored"] {
        let list = benchmark.get("requests").get(status);
        if list.is_present() {
            rows.extend(list.items()?.into_iter().map(|row| (status, row)));
        }
    }
    let targeted = matches!(
        benchmark.get("config").get("strategy").get("type_").text(),
        Some("constant" | "poisson" | "trace")
    );
    let mut first_s = f64::INFINITY;
    for (_, row) in &rows {
        let timings = row.get("info").get("timings");
        for moment in ["targeted_start", "request_start"] {
            first_s = first_s.min(timings.get(moment).optional_number()?.unwrap_or(f64::INFINITY));
        }
    }
    let mut requests = Vec::with_capacity(rows.len());
    for (status, row) in rows {
        requests.push(request(status, &row, first_s, targeted)?);
    }
    requests.sort_by_key(|request| request.sent);
    Ok(requests)
}

fn request(status: &str, row: &At<'_>, first_s: f64, targeted: bool) -> Result<ImportedRequest, Faults> {
    let timings = row.get("info").get("timings");
    let since = |name: &str, from_s: f64| {
        let at = timings.get(name);
        let moment = at.optional_number()?.map(|moment_s| Nanos::from_seconds(moment_s - from_s));
        moment.map(|moment| nanos(&at, moment)).transpose()
    };
    let id = row.get("request_id");
    let Some(id_text) = id.text() else { return Err(id.wrong("the request's id", "")) };
    let end = match status {
        "successful" => {
            let start_s = timings.get("request_start").number()?;
            let moment = |name: &str| {
                since(name, start_s)?.ok_or_else(|| timings.get(name).wrong("a moment of a success", ""))
            };
            let (ttft, e2e) = (moment("first_token_iteration")?, moment("last_token_iteration")?);
            End::Ok(Answer::checked(row, ttft, e2e, output_tokens(row)?)?)
        }
        "incomplete" => cancelled("cut at the end of the run"),
        _ => failure(None, row.get("info").get("error").text().unwrap_or("failed")),
    };
    let prompt = row.get("input_metrics").get("text_tokens");
    let prompt = if row.get("prompt_tokens").is_present() { row.get("prompt_tokens") } else { prompt };
    Ok(ImportedRequest {
        id: id_text.to_owned(),
        class: None,
        scheduled: if targeted { since("targeted_start", first_s)? } else { None },
        sent: since("request_start", first_s)?,
        input_tokens: prompt.is_present().then(|| prompt.tokens()).transpose()?,
        end,
    })
}

/// As the tool counts them: those of the answer's usage, else an iteration each.
fn output_tokens(row: &At<'_>) -> Result<u32, Faults> {
    let places = [
        row.get("output_tokens"),
        row.get("output_metrics").get("total_tokens"),
        row.get("output_metrics").get("text_tokens"),
    ];
    let place = places.into_iter().find(At::is_present);
    place.unwrap_or_else(|| row.get("info").get("timings").get("token_iterations")).tokens()
}
