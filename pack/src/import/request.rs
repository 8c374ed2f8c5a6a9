//! One attempt as another tool recorded it: the seven columns that every tool shares, and what it knows beyond.

use super::json::At;
use super::point::{EndRule, OperatingPoint, Source, Summary, Tokens};
use crate::fault::Faults;
use crate::record::Outcome;
use crate::requests_csv::{ForeignRow, SHARED};
use crate::time::{Nanos, TimeError};
use std::io;

/// The columns of an imported requests.csv after the seven shared ones. Times are seconds since the first request.
const COLUMNS: [&str; 8] = [
    "scheduled_s",
    "sent_s",
    "input_tokens",
    "reason",
    "source_tool",
    "source_metric_semantics",
    "clock",
    "e2e_end",
];
/// Relative gap between a stated mean and that of the requests from which on it is noted.
const MEAN_GAP_MAX: f64 = 0.01;
/// Characters of a failure's text that are kept.
const REASON_CHARS: usize = 80;

/// An attempt as imported. What the source does not say is None, never 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedRequest {
    /// The source's own id, or the position in its lists.
    pub id: String,
    /// Its class, where the source has classes.
    pub class: Option<String>,
    /// When the source's schedule wanted it sent, since the run's first moment.
    pub scheduled: Option<Nanos>,
    /// When it was sent, since the run's first moment.
    pub sent: Option<Nanos>,
    /// Prompt tokens.
    pub input_tokens: Option<u32>,
    /// How it ended.
    pub end: End,
}

/// How an imported attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With an answer.
    Ok(Answer),
    /// Without one.
    Failed {
        /// Any but [`Outcome::Ok`].
        outcome: Outcome,
        /// Why, on one line, shortened.
        reason: String,
    },
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// From sending to the first token; at most `e2e`.
    pub ttft: Nanos,
    /// From sending to the end, by the source's rule.
    pub e2e: Nanos,
    /// Time per output token after the first, in milliseconds; None for a single token.
    pub tpot_ms: Option<f64>,
    /// Tokens, at least 1.
    pub output_tokens: u32,
}

impl Answer {
    /// An answer with TPOT by this project's formula, (E2E - TTFT)/(O - 1). None unless 0 <= TTFT <= E2E and O >= 1.
    #[must_use]
    pub fn of(ttft: Nanos, e2e: Nanos, output_tokens: u32) -> Option<Answer> {
        let gaps = output_tokens.checked_sub(1)?;
        let decode_ms = e2e.0.checked_sub(ttft.0)? as f64 / 1e6;
        Some(Answer { ttft, e2e, tpot_ms: (gaps > 0).then(|| decode_ms / f64::from(gaps)), output_tokens })
    }

    /// The same, where a fault at `place` says which of the conditions fails.
    pub(super) fn checked(
        place: &At<'_>,
        ttft: Nanos,
        e2e: Nanos,
        output_tokens: u32,
    ) -> Result<Answer, Faults> {
        Answer::of(ttft, e2e, output_tokens).ok_or_else(|| {
            let found = format!(
                "a success with {output_tokens} output tokens, TTFT {} ms and E2E {} ms",
                ttft.millis(),
                e2e.millis()
            );
            place.fault(found, "at least 1 token, and a first token no later than the end", "")
        })
    }
}

impl ImportedRequest {
    /// The seven shared columns, for the analyzer.
    #[must_use]
    pub fn row(&self, class: u16) -> ForeignRow {
        match &self.end {
            End::Ok(answer) => ForeignRow {
                class,
                outcome: Outcome::Ok,
                ttft: answer.ttft,
                tpot_ms: answer.tpot_ms,
                e2e: answer.e2e,
                output_tokens: answer.output_tokens,
            },
            End::Failed { outcome, .. } => ForeignRow {
                class,
                outcome: *outcome,
                ttft: Nanos::ZERO,
                tpot_ms: None,
                e2e: Nanos::ZERO,
                output_tokens: 0,
            },
        }
    }

    /// The answer of a success.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match &self.end {
            End::Ok(answer) => Some(answer),
            End::Failed { .. } => None,
        }
    }
}

/// The end of an attempt that failed with an HTTP status, if known, and a text.
pub(super) fn failure(status: Option<u64>, text: &str) -> End {
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let outcome = if matches!(status, Some(429 | 503)) || says(&["too many requests", "service unavailable"])
    {
        Outcome::Rejected
    } else if matches!(status, Some(408 | 504)) || says(&["timeout", "timed out"]) {
        Outcome::Timeout
    } else {
        Outcome::Error
    };
    End::Failed { outcome, reason: reason_of(text) }
}

/// The end of an attempt that was given up on purpose.
pub(super) fn cancelled(reason: &str) -> End {
    End::Failed { outcome: Outcome::Cancelled, reason: reason_of(reason) }
}

/// The last line of a text that says something: of a traceback, its error.
fn reason_of(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("failed");
    line.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect()
}

/// Seconds as a time, or a fault at `place`.
pub(super) fn seconds(place: &At<'_>) -> Result<Nanos, Faults> {
    nanos(place, Nanos::from_seconds(place.number()?))
}

/// A computed time, or a fault at `place`.
pub(super) fn nanos(place: &At<'_>, time: Result<Nanos, TimeError>) -> Result<Nanos, Faults> {
    time.map_err(|error| place.fault(error.to_string(), "a time of less than a century", ""))
}

/// Writes an imported requests.csv: the seven shared columns, then what else is known, empty where it is not. A request
/// without a class of its own is of `class`.
///
/// # Errors
/// Those of the writer.
pub fn write_requests(
    out: impl io::Write,
    source: &Source,
    class: &str,
    requests: &[ImportedRequest],
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(SHARED.iter().chain(&COLUMNS))?;
    let seconds = |time: Option<Nanos>| time.map_or(String::new(), |t| format!("{:.9}", t.seconds()));
    for request in requests {
        let (times, tokens, outcome, reason) = match &request.end {
            End::Ok(a) => {
                let times = [a.ttft.millis(), a.tpot_ms.unwrap_or(0.0), a.e2e.millis()];
                (times.map(|ms| format!("{ms:.6}")), a.output_tokens, Outcome::Ok, "")
            }
            End::Failed { outcome, reason } => {
                (["0", "0", "0"].map(str::to_owned), 0, *outcome, reason.as_str())
            }
        };
        let [ttft, tpot, e2e] = times;
        csv.write_record([
            request.id.as_str(),
            request.class.as_deref().unwrap_or(class),
            &ttft,
            &tpot,
            &e2e,
            &tokens.to_string(),
            outcome.word(),
            &seconds(request.scheduled),
            &seconds(request.sent),
            &request.input_tokens.map_or(String::new(), |n| n.to_string()),
            reason,
            source.tool.word(),
            &source.semantics,
            source.clock.word(),
            source.e2e_end.word(),
        ])?;
    }
    csv.flush()
}

/// Fills in what `point` does not say from all of its run's requests: counts, tokens, and whole metrics.
pub(super) fn fill(point: &mut OperatingPoint, requests: &[ImportedRequest]) {
    let answers: Vec<(&ImportedRequest, &Answer)> =
        requests.iter().filter_map(|request| Some((request, request.answer()?))).collect();
    let (attempted, completed) = (requests.len() as u64, answers.len() as u64);
    point.attempted.get_or_insert(attempted);
    point.completed.get_or_insert(completed);
    point.failed.get_or_insert(attempted - completed);
    if point.output_tokens.mean.is_none() {
        let total = answers.iter().map(|(_, answer)| u64::from(answer.output_tokens)).sum();
        point.output_tokens = Tokens::of_total(total, completed);
    }
    let prompts: Option<u64> = answers.iter().map(|(request, _)| request.input_tokens.map(u64::from)).sum();
    if let (None, Some(total)) = (point.input_tokens.mean, prompts) {
        point.input_tokens = Tokens::of_total(total, completed);
    }
    let own = Metrics::of(&answers);
    for (summary, own) in [
        (&mut point.ttft_ms, own.ttft_ms),
        (&mut point.tpot_ms, own.tpot_ms),
        (&mut point.e2e_ms, own.e2e_ms),
    ] {
        if summary.is_empty() {
            *summary = own;
        }
    }
    if let (None, Some(span)) = (point.duration_s, span_s(requests)) {
        point.duration_s = Some(span);
    }
    throughputs(point);
}

/// Rates that follow from counts and a duration, where the source has no others.
pub(super) fn throughputs(point: &mut OperatingPoint) {
    let Some(duration_s) = point.duration_s.filter(|s| *s > 0.0) else { return };
    let per_second = |count: Option<u64>| count.map(|count| count as f64 / duration_s);
    point.request_throughput_rps = point.request_throughput_rps.or(per_second(point.completed));
    point.output_throughput_tps = point.output_throughput_tps.or(per_second(point.output_tokens.total));
    let both = point.input_tokens.total.zip(point.output_tokens.total).map(|(input, output)| input + output);
    point.total_throughput_tps = point.total_throughput_tps.or(per_second(both));
}

/// From the first sending to the last known end.
fn span_s(requests: &[ImportedRequest]) -> Option<f64> {
    let ends = requests.iter().map(|r| Some(r.sent? + r.answer().map_or(Nanos::ZERO, |a| a.e2e)));
    let last = ends.collect::<Option<Vec<Nanos>>>()?.into_iter().max()?;
    let first = requests.iter().filter_map(|request| request.sent).min()?;
    Some(last.since(first).seconds())
}

/// The three metrics over a run's answers.
struct Metrics {
    ttft_ms: Summary,
    tpot_ms: Summary,
    e2e_ms: Summary,
}

impl Metrics {
    fn of(answers: &[(&ImportedRequest, &Answer)]) -> Metrics {
        let over = |get: &dyn Fn(&Answer) -> Option<f64>| {
            Summary::of(&mut answers.iter().filter_map(|(_, answer)| get(answer)).collect::<Vec<f64>>())
        };
        Metrics {
            ttft_ms: over(&|answer| Some(answer.ttft.millis())),
            tpot_ms: over(&|answer| answer.tpot_ms),
            e2e_ms: over(&|answer| Some(answer.e2e.millis())),
        }
    }
}

/// What a reader should know where the source's own means and counts are not those of its own requests.
pub(super) fn disagreements(point: &OperatingPoint, requests: &[ImportedRequest]) -> Vec<String> {
    let answers: Vec<_> = requests.iter().filter_map(|r| Some((r, r.answer()?))).collect();
    let own = Metrics::of(&answers);
    let mut notes = Vec::new();
    // An end by another rule is another metric, of course with another mean.
    let e2e = (point.source.e2e_end == EndRule::LastToken).then_some(("E2E", &point.e2e_ms, &own.e2e_ms));
    let metrics = [("TTFT", &point.ttft_ms, &own.ttft_ms), ("TPOT", &point.tpot_ms, &own.tpot_ms)];
    for (name, stated, own) in metrics.into_iter().chain(e2e) {
        if let (Some(stated), Some(own)) = (stated.mean_ms, own.mean_ms)
            && (stated - own).abs() > MEAN_GAP_MAX * own
        {
            notes.push(format!(
                "the mean {name} of the file, {stated:.3} ms, is not that of its requests, {own:.3} ms"
            ));
        }
    }
    let counted = answers.len() as u64;
    if let Some(completed) = point.completed.filter(|completed| *completed != counted) {
        notes.push(format!("the file counts {completed} successes, its requests {counted}"));
    }
    notes
}
