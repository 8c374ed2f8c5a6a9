//! `vllm bench serve`: `--save-result`, with `--save-detailed` the requests too, and `--append-result`, one document
//! after the other. Latencies of aggregates are milliseconds, lists are seconds in the order of the schedule.

use super::json::At;
use super::point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
use super::request::{
    Answer, End, ImportedRequest, disagreements, failure, fill, nanos, seconds, throughputs,
};
use super::{Run, concurrency};
use crate::fault::Faults;
use crate::time::Nanos;

/// Shorter waits at the client are its own housekeeping, in seconds.
const HELD_MIN_S: f64 = 0.01;

/// Whether a document is such a result.
pub(super) fn is_result(top: &At<'_>) -> bool {
    ["num_prompts", "completed", "total_input_tokens"].iter().all(|key| top.get(key).is_present())
}

/// Reads one result.
pub(super) fn run(top: &At<'_>) -> Result<Run, Faults> {
    let mut notes = Vec::new();
    let mut point = point(top, &mut notes)?;
    let mut requests = Vec::new();
    if top.get("input_lens").is_present() && top.get("output_lens").is_present() {
        requests = self::requests(top)?;
        notes.extend(disagreements(&point, &requests));
        fill(&mut point, &requests);
        notes.extend(client_queue(top, requests.len())?);
    } else {
        throughputs(&mut point);
    }
    Ok(Run { point, requests, notes })
}

fn source() -> Source {
    Source {
        tool: Tool::VllmBench,
        semantics: "from the send after the client's concurrency limit; E2E to the last token chunk; \
                    TPOT (E2E-TTFT)/(O-1); successes only"
            .to_owned(),
        clock: Clock::Monotonic,
        e2e_end: EndRule::LastToken,
    }
}

fn point(top: &At<'_>, notes: &mut Vec<String>) -> Result<OperatingPoint, Faults> {
    let label = top.get("model_id").text().unwrap_or(top.file());
    let mut point = OperatingPoint::new(label, source());
    let attempted = top.get("num_prompts").count()?;
    let completed_at = top.get("completed");
    let completed = completed_at.count()?;
    if completed > attempted {
        return Err(completed_at.wrong(&format!("at most num_prompts, {attempted}"), ""));
    }
    point.attempted = Some(attempted);
    point.completed = Some(completed);
    point.failed = Some(top.get("failed").optional_count()?.unwrap_or(attempted - completed));
    point.duration_s = top.get("duration").optional_number()?;
    if top.get("ramp_up_strategy").is_present() {
        notes.push("the rate was ramped up: the point has no offered rate".to_owned());
    } else {
        point.offered_rate = rate(&top.get("request_rate"))?;
    }
    point.gamma_shape = top.get("burstiness").optional_number()?.filter(|shape| *shape > 0.0);
    point.concurrency = concurrency(&top.get("max_concurrency"))?;
    point.input_tokens = Tokens::of_total(top.get("total_input_tokens").count()?, completed);
    point.output_tokens = Tokens::of_total(top.get("total_output_tokens").count()?, completed);
    point.request_throughput_rps = top.get("request_throughput").optional_number()?;
    point.output_throughput_tps = top.get("output_throughput").optional_number()?;
    point.total_throughput_tps = top.get("total_token_throughput").optional_number()?;
    point.ttft_ms = summary(top, "ttft")?;
    point.tpot_ms = summary(top, "tpot")?;
    point.e2e_ms = summary(top, "e2el")?;
    Ok(point)
}

fn rate(at: &At<'_>) -> Result<Option<OfferedRate>, Faults> {
    match at.text() {
        Some("inf") => Ok(Some(OfferedRate::Infinite)),
        _ => match at.optional_number() {
            Ok(Some(0.0)) | Err(_) => Err(at.wrong("requests per second above 0, or \"inf\"", "")),
            Ok(rate) => Ok(rate.map(OfferedRate::Rps)),
        },
    }
}

/// The members `mean_METRIC_ms`, `median_METRIC_ms` and `pNN_METRIC_ms`. The tool writes zeros where nobody had the
/// metric; those are absent here.
fn summary(top: &At<'_>, metric: &str) -> Result<Summary, Faults> {
    let ending = format!("_{metric}_ms");
    let mut summary =
        Summary { mean_ms: top.get(&format!("mean{ending}")).optional_number()?, ..Summary::default() };
    for key in top.keys() {
        let Some(name) = key.strip_suffix(ending.as_str()) else { continue };
        let percent = match name {
            "median" => Some(50.0),
            _ => name.strip_prefix('p').and_then(|text| text.parse().ok()),
        };
        if let Some(percent) = percent.filter(|p| (0.0..100.0).contains(p) && *p > 0.0)
            && let Some(value) = top.get(key).optional_number()?
        {
            summary.set(percent, value);
        }
    }
    let zeros = summary.percentiles_ms.iter().all(|(_, value)| *value <= 0.0);
    let nobody = zeros && summary.mean_ms.is_none_or(|mean| mean <= 0.0);
    Ok(if nobody { Summary::default() } else { summary })
}

/// The lists of a detailed result.
fn requests(top: &At<'_>) -> Result<Vec<ImportedRequest>, Faults> {
    let inputs = top.get("input_lens").items()?;
    let count = inputs.len();
    let list = |key: &str| top.get(key).column(count, "input_lens");
    let needed = |key: &str| list(key)?.ok_or_else(|| top.get(key).wrong("a list, beside input_lens", ""));
    let (outputs, ttfts) = (needed("output_lens")?, needed("ttfts")?);
    let (itls, latencies) = (list("itls")?, list("latencies")?);
    let (errors, starts) = (list("errors")?, list("start_times")?);
    let sent = starts.map(|starts| since_first(&starts)).transpose()?;
    let mut requests = Vec::with_capacity(count);
    for (i, input) in inputs.iter().enumerate() {
        let error = errors.as_ref().and_then(|errors| errors[i].text()).unwrap_or_default();
        let output_tokens = outputs[i].tokens()?;
        let end = if !error.is_empty() {
            failure(None, error)
        } else if output_tokens == 0 {
            failure(None, "no token came")
        } else {
            let ttft = seconds(&ttfts[i])?;
            let latency = latencies.as_ref().map(|list| &list[i]);
            let e2e = end_to_end(ttft, latency, itls.as_ref().map(|list| &list[i]), &ttfts[i])?;
            End::Ok(Answer::checked(&ttfts[i], ttft, e2e, output_tokens)?)
        };
        requests.push(ImportedRequest {
            id: i.to_string(),
            class: None,
            scheduled: None,
            sent: sent.as_ref().map(|sent| sent[i]),
            input_tokens: Some(input.tokens()?),
            end,
        });
    }
    Ok(requests)
}

/// The stated latency, or TTFT and the gaps between chunks, as files before 0.30 have it.
fn end_to_end(
    ttft: Nanos,
    latency: Option<&At<'_>>,
    gaps: Option<&At<'_>>,
    place: &At<'_>,
) -> Result<Nanos, Faults> {
    if let Some(latency) = latency {
        return seconds(latency);
    }
    let Some(gaps) = gaps else {
        return Err(place.fault("neither latencies nor itls", "one of them, to know the end", ""));
    };
    let mut sum_s = ttft.seconds();
    for gap in gaps.items()? {
        sum_s += gap.number()?;
    }
    nanos(gaps, Nanos::from_seconds(sum_s))
}

/// Times of a clock without a known zero, since the least of them.
fn since_first(times: &[At<'_>]) -> Result<Vec<Nanos>, Faults> {
    let times = times.iter().map(seconds).collect::<Result<Vec<Nanos>, Faults>>()?;
    let first = times.iter().copied().min().unwrap_or_default();
    Ok(times.into_iter().map(|time| time.since(first)).collect())
}

/// A client that held requests back hid that time from its latencies.
fn client_queue(top: &At<'_>, count: usize) -> Result<Option<String>, Faults> {
    let Some(waits) = top.get("queue_times").column(count, "input_lens")? else { return Ok(None) };
    let waits = waits.iter().map(At::number).collect::<Result<Vec<f64>, Faults>>()?;
    let longest_s = waits.into_iter().fold(0.0, f64::max);
    Ok((longest_s > HELD_MIN_S).then(|| {
        format!(
            "the client held requests back for up to {longest_s:.3} s at its concurrency limit; the latencies do not \
             count that"
        )
    }))
}
