//! inference-perf `stage_N_lifecycle_metrics.json`: aggregates of a stage, in seconds.
//!
//! Its time_per_output_token is not taken on trust: where a server's chunks did not hold one token each, it has come
//! out as half the truth. What (latency - TTFT)/(output - 1) gives from the stage's own means decides.

use super::Run;
use super::json::At;
use super::point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
use super::request::throughputs;
use crate::fault::Faults;

/// Relative gap from the formula from which on a stated TPOT is another metric. A mean of quotients differs from the
/// quotient of means by the spread of lengths, a halved one by half.
const TPOT_GAP_MAX: f64 = 0.25;

/// Whether a document is a report of a stage, of the client's or the server's side.
pub(super) fn is_stage(top: &At<'_>) -> bool {
    top.get("load_summary").is_present() && top.get("successes").is_present()
}

/// Reads the client's report of a stage.
pub(super) fn run(top: &At<'_>) -> Result<Run, Faults> {
    let successes = top.get("successes");
    let latency = successes.get("latency");
    if !latency.is_present() {
        let hint = "a report of Prometheus metrics is of the server's side, and averages more than the stage";
        return Err(latency.wrong("the client's latencies, as in stage_0_lifecycle_metrics.json", hint));
    }
    let mut point = OperatingPoint::new(top.file(), source());
    let completed = successes.get("count").count()?;
    let failed = top.get("failures").get("count").optional_count()?.unwrap_or(0);
    point.completed = Some(completed);
    point.failed = Some(failed);
    point.attempted = Some(completed + failed);
    let summary_at = top.get("load_summary");
    let requested = summary_at.get("requested_rate").optional_number()?.filter(|rate| *rate > 0.0);
    point.offered_rate = requested.map(OfferedRate::Rps);
    point.concurrency = super::concurrency(&summary_at.get("concurrency"))?;
    let throughput = successes.get("throughput");
    point.request_throughput_rps = throughput.get("requests_per_sec").optional_number()?;
    point.output_throughput_tps = throughput.get("output_tokens_per_sec").optional_number()?;
    point.total_throughput_tps = throughput.get("total_tokens_per_sec").optional_number()?;
    // From the first start to the last end, which the file does not state.
    point.duration_s =
        point.request_throughput_rps.filter(|rps| *rps > 0.0).map(|rps| completed as f64 / rps);
    point.input_tokens = tokens(&successes.get("prompt_len"))?;
    point.output_tokens = tokens(&successes.get("output_len"))?;
    let mut notes = Vec::new();
    if completed > 0 {
        point.ttft_ms = summary(&latency.get("time_to_first_token"))?;
        point.e2e_ms = summary(&latency.get("request_latency"))?;
        point.tpot_ms = tpot(&latency, &point, &mut notes)?;
    }
    throughputs(&mut point);
    Ok(Run { point, requests: Vec::new(), notes })
}

fn source() -> Source {
    Source {
        tool: Tool::InferencePerf,
        semantics: "from the send; TTFT to the first content (reasoning is not counted); E2E until the stream is \
                    processed; TPOT checked against (E2E-TTFT)/(O-1) of the means; tokens by the client's tokenizer; \
                    successes only"
            .to_owned(),
        clock: Clock::Monotonic,
        e2e_end: EndRule::StreamEnd,
    }
}

fn tokens(metric: &At<'_>) -> Result<Tokens, Faults> {
    Ok(Tokens { mean: metric.get("mean").optional_number()?, ..Tokens::default() })
}

/// The members `mean`, `median` and `pNN`, in seconds.
fn summary(metric: &At<'_>) -> Result<Summary, Faults> {
    let mut summary =
        Summary { mean_ms: metric.get("mean").optional_number()?.map(|s| s * 1e3), ..Summary::default() };
    for key in metric.keys() {
        let percent = match key {
            "median" => Some(50.0),
            _ => key.strip_prefix('p').and_then(|text| text.parse().ok()),
        };
        if let Some(percent) = percent.filter(|p| *p > 0.0 && *p < 100.0)
            && let Some(value) = metric.get(key).optional_number()?
        {
            summary.set(percent, value * 1e3);
        }
    }
    Ok(summary)
}

/// The stated TPOT where the formula bears it out, otherwise the formula's mean alone.
fn tpot(latency: &At<'_>, point: &OperatingPoint, notes: &mut Vec<String>) -> Result<Summary, Faults> {
    let at = latency.get("time_per_output_token");
    let stated = summary(&at)?;
    let Some(formula_ms) = tpot_of_means_ms(point) else {
        if stated.is_empty() {
            return Ok(stated);
        }
        return Err(at.wrong(
            "latencies, TTFT and output_len beside it, to check it by (latency - TTFT)/(output - 1)",
            "this tool's time_per_output_token is half the truth where a token came as two chunks, and cannot be converted \
             alone",
        ));
    };
    if let Some(mean_ms) = stated.mean_ms {
        if (mean_ms - formula_ms).abs() <= TPOT_GAP_MAX * formula_ms {
            return Ok(stated);
        }
        notes.push(format!(
            "the stage's time_per_output_token, {mean_ms:.3} ms, is not (latency - TTFT)/(output - 1) of its means, \
             {formula_ms:.3} ms, which is taken instead, without percentiles"
        ));
    }
    Ok(Summary { mean_ms: Some(formula_ms), ..Summary::default() })
}

/// (E2E - TTFT)/(O - 1) of the means. None without them, or for answers of a single token.
fn tpot_of_means_ms(point: &OperatingPoint) -> Option<f64> {
    let gaps = point.output_tokens.mean.map(|mean| mean - 1.0).filter(|gaps| *gaps > 0.0)?;
    let decode_ms = point.e2e_ms.mean_ms? - point.ttft_ms.mean_ms?;
    (decode_ms > 0.0).then(|| decode_ms / gaps)
}
