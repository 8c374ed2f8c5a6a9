//! AIPerf: `profile_export.jsonl`, a record an attempt, and `profile_export_aiperf.json`, the aggregates. Metrics are
//! found by their tags and carry their units.

use super::json::{At, Document};
use super::point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
use super::request::{Answer, End, ImportedRequest, cancelled, failure, fill, nanos, throughputs};
use super::{Run, concurrency};
use crate::fault::Faults;
use crate::time::Nanos;

/// Whether a document is a line of the export of records.
pub(super) fn is_record(top: &At<'_>) -> bool {
    top.get("metadata").get("benchmark_phase").is_present() && top.get("metrics").is_present()
}

/// Whether a document is the export of aggregates.
pub(super) fn is_aggregate(top: &At<'_>) -> bool {
    top.get("request_latency").get("unit").is_present() && top.get("request_count").get("unit").is_present()
}

fn source() -> Source {
    Source {
        tool: Tool::Aiperf,
        semantics: "from the worker's send, not the credit; E2E to the last content chunk; TPOT (E2E-TTFT)/(O-1), there \
                    inter_token_latency; successes only"
            .to_owned(),
        clock: Clock::Monotonic,
        e2e_end: EndRule::LastToken,
    }
}

/// A record of the profiling phase, before the run's first moment is known.
struct Raw<'a> {
    top: At<'a>,
    sent_ns: u64,
}

/// Reads the records of a run. Other phases than `profiling` are left out, and counted in a note.
pub(super) fn records(file: &str, documents: &[Document]) -> Result<Run, Faults> {
    let mut raw = Vec::new();
    let mut others = 0_u64;
    let mut longest_wait_ns = 0;
    for document in documents {
        let top = At::top(file, Some(document.line), &document.value);
        let metadata = top.get("metadata");
        let phase = metadata.get("benchmark_phase");
        let Some(phase) = phase.text() else { return Err(phase.wrong("a phase, as \"profiling\"", "")) };
        if phase != "profiling" {
            others += 1;
            continue;
        }
        let sent_ns = metadata.get("request_start_ns").epoch_ns()?;
        let credit = metadata.get("credit_issued_ns");
        if credit.is_present() {
            longest_wait_ns = longest_wait_ns.max(sent_ns.saturating_sub(credit.epoch_ns()?));
        }
        raw.push(Raw { top, sent_ns });
    }
    raw.sort_by_key(|record| record.sent_ns);
    let first_ns = raw.first().map_or(0, |record| record.sent_ns);
    let requests = raw.iter().map(|raw| request(raw, first_ns)).collect::<Result<Vec<_>, Faults>>()?;
    let mut notes = Vec::new();
    if others > 0 {
        notes.push(format!("{others} records of other phases than profiling were left out"));
    }
    if longest_wait_ns > 0 {
        notes.push(format!(
            "requests were sent up to {:.3} ms after their credit was issued; the latencies do not count that",
            Nanos(longest_wait_ns).millis()
        ));
    }
    let mut point = OperatingPoint::new(file, source());
    fill(&mut point, &requests);
    Ok(Run { point, requests, notes })
}

fn request(raw: &Raw<'_>, first_ns: u64) -> Result<ImportedRequest, Faults> {
    let (metadata, metrics) = (raw.top.get("metadata"), raw.top.get("metrics"));
    let error = raw.top.get("error");
    let id = metadata.get("x_request_id");
    let Some(id_text) = id.text() else { return Err(id.wrong("the request's id", "")) };
    let end = if metadata.get("was_cancelled").is(true) {
        cancelled("cancelled by the client")
    } else if error.is_present() {
        let text = error.get("message").text().or(error.get("type").text()).unwrap_or("failed");
        failure(error.get("code").optional_count().unwrap_or(None), text)
    } else {
        End::Ok(answer(&metrics)?)
    };
    let since_ns = raw.sent_ns - first_ns;
    if since_ns as f64 > Nanos::MAX_SECONDS * 1e9 {
        let start = metadata.get("request_start_ns");
        return Err(start.wrong("less than a century after the first request", ""));
    }
    let input = metrics.get("input_sequence_length").get("value");
    Ok(ImportedRequest {
        id: id_text.to_owned(),
        class: None,
        scheduled: None,
        sent: Some(Nanos(since_ns)),
        input_tokens: input.is_present().then(|| input.tokens()).transpose()?,
        end,
    })
}

fn answer(metrics: &At<'_>) -> Result<Answer, Faults> {
    let ttft = metrics.get("time_to_first_token");
    if !ttft.is_present() {
        let hint = "a run without --streaming has no first token, and cannot be converted";
        return Err(ttft.wrong("the metric of a streamed answer", hint));
    }
    let latency = metrics.get("request_latency");
    let tokens = metrics.get("output_sequence_length").get("value").tokens()?;
    let time =
        |metric: &At<'_>| nanos(metric, Nanos::from_millis(metric.get("value").number()? * unit_ms(metric)?));
    Answer::checked(&latency, time(&ttft)?, time(&latency)?, tokens)
}

/// Milliseconds of the unit of a metric that is a time.
fn unit_ms(metric: &At<'_>) -> Result<f64, Faults> {
    let unit = metric.get("unit");
    match unit.text() {
        Some("ns") => Ok(1e-6),
        Some("us") => Ok(1e-3),
        Some("ms") => Ok(1.0),
        Some("sec" | "s") => Ok(1e3),
        _ => Err(unit.wrong("one of ns, us, ms, sec", "")),
    }
}

/// Reads the aggregates of a run.
pub(super) fn aggregate(top: &At<'_>) -> Result<Run, Faults> {
    let mut point = OperatingPoint::new(model(top).unwrap_or(top.file()), source());
    let average = |metric: &str| top.get(metric).get("avg");
    let completed = average("request_count").count()?;
    let failed = average("error_request_count").optional_count()?.unwrap_or(0);
    point.completed = Some(completed);
    point.failed = Some(failed);
    point.attempted = Some(completed + failed);
    let duration = top.get("benchmark_duration");
    if duration.is_present() {
        point.duration_s = Some(duration.get("avg").number()? * unit_ms(&duration)? / 1e3);
    }
    load(&profiling_phase(top), &mut point)?;
    point.input_tokens = tokens(&top.get("input_sequence_length"))?;
    point.output_tokens = tokens(&top.get("output_sequence_length"))?;
    point.request_throughput_rps = average("request_throughput").optional_number()?;
    point.output_throughput_tps = average("output_token_throughput").optional_number()?;
    point.total_throughput_tps = average("total_token_throughput").optional_number()?;
    point.ttft_ms = summary(&top.get("time_to_first_token"))?;
    point.tpot_ms = summary(&top.get("inter_token_latency"))?;
    point.e2e_ms = summary(&top.get("request_latency"))?;
    throughputs(&mut point);
    let mut notes = Vec::new();
    if top.get("was_cancelled").is(true) || top.get("is_complete").is(false) {
        notes.push("the run was stopped before its end".to_owned());
    }
    Ok(Run { point, requests: Vec::new(), notes })
}

/// The first model of the run's configuration.
fn model<'a>(top: &At<'a>) -> Option<&'a str> {
    let models = top.get("input_config").get("models").get("items").items().ok()?;
    models.first()?.get("name").text()
}

/// The phase that was measured, as configured; a missing value where the configuration does not say.
fn profiling_phase<'a>(top: &At<'a>) -> At<'a> {
    let phases = top.get("input_config").get("phases");
    let found = phases
        .items()
        .ok()
        .and_then(|phases| phases.into_iter().find(|phase| phase.get("kind").text() == Some("profiling")));
    found.unwrap_or_else(|| phases.get("profiling"))
}

fn load(phase: &At<'_>, point: &mut OperatingPoint) -> Result<(), Faults> {
    let rate = phase.get("rate").optional_number()?.filter(|rate| *rate > 0.0);
    point.offered_rate = rate.map(OfferedRate::Rps);
    point.concurrency = concurrency(&phase.get("concurrency"))?;
    point.gamma_shape = match phase.get("type").text() {
        Some("poisson") => Some(1.0),
        Some("gamma") => phase.get("smoothness").optional_number()?.filter(|shape| *shape > 0.0),
        _ => None,
    };
    Ok(())
}

fn tokens(metric: &At<'_>) -> Result<Tokens, Faults> {
    let total = metric.get("sum").optional_count()?;
    Ok(Tokens { total, mean: metric.get("avg").optional_number()?, lengths: None })
}

/// The members `avg` and `pNN` of a metric that is a time; nothing if the run has no such metric.
fn summary(metric: &At<'_>) -> Result<Summary, Faults> {
    if !metric.is_present() {
        return Ok(Summary::default());
    }
    let unit_ms = unit_ms(metric)?;
    let mean_ms = metric.get("avg").optional_number()?.map(|mean| mean * unit_ms);
    let mut summary = Summary { mean_ms, ..Summary::default() };
    for key in metric.keys() {
        let percent = key.strip_prefix('p').and_then(|text| text.parse::<f64>().ok());
        if let Some(percent) = percent.filter(|p| *p > 0.0 && *p < 100.0)
            && let Some(value) = metric.get(key).optional_number()?
        {
            summary.set(percent, value * unit_ms);
        }
    }
    Ok(summary)
}
