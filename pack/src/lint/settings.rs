//! Foreign settings: one flat mapping, as load generators read.

use super::document::Document;
use super::rules;
use crate::fault::suggestion;
use crate::manifest::is_movable;
use crate::percentile::rank;
use crate::report::{EXPLORATORY_BELOW, P99_SUCCESSES_MIN};
use crate::yaml::{Node, Value};

/// The names by which a flat mapping is known to be such settings.
pub(super) const FIELDS: [&str; 13] = [
    "load_mode",
    "concurrency",
    "request_rate",
    "request_count",
    "duration_seconds",
    "prompts",
    "prefix_cache",
    "clear_cache_before_run",
    "warmup_requests",
    "warmup_seconds",
    "report",
    "model_revision",
    "engine_version",
];

const REPORT: &str = "report";

/// Of these, the ones that are numbers.
const NUMBERS: [&str; 6] =
    ["concurrency", "request_rate", "request_count", "duration_seconds", "warmup_requests", "warmup_seconds"];

/// The fields that no rule could read: unknown ones, and text where a number is meant.
pub(super) fn unread(document: &Document<'_>) -> Vec<String> {
    let named = |field: String| match suggestion(&field, FIELDS) {
        hint if hint.starts_with("did you mean") => format!("{field} ({hint})"),
        _ => field,
    };
    let mut unread: Vec<String> = document.unknown(&FIELDS).into_iter().map(named).collect();
    let no_number = |field: &&str| document.get(field).is_some() && document.number(field).is_none();
    unread.extend(NUMBERS.iter().filter(|field| no_number(field)).map(|field| (*field).to_owned()));
    unread
}

pub(super) fn judge(document: &mut Document<'_>) {
    load(document);
    samples(document);
    cache(document);
    warm_up(document);
    reported(document);
    for field in ["model_revision", "engine_version"] {
        let moving = match document.get(field).map(|node| &node.value) {
            None => true,
            Some(Value::Str(text)) => is_movable(text),
            Some(_) => false,
        };
        if moving {
            document.find(&rules::MOVABLE_VERSION, field, document.shown(field));
        }
    }
}

fn load(document: &mut Document<'_>) {
    let mode = document.text("load_mode").unwrap_or_default();
    let concurrency = document.get("concurrency").is_some() || mode.contains("concurrency");
    let rate = document.get("request_rate").is_some();
    if concurrency && (!rate || mode.contains("concurrency")) {
        let named = if document.get("load_mode").is_some() { "load_mode" } else { "concurrency" };
        let found = match (named, document.get("concurrency")) {
            ("load_mode", Some(_)) => {
                format!("{}, {}", document.shown("load_mode"), document.shown("concurrency"))
            }
            _ => document.shown(named),
        };
        document.find(&rules::CONCURRENCY_ONLY, named, found);
    }
    if let Some(seconds) = document.number("duration_seconds").filter(|seconds| *seconds < 300.0) {
        document.find(&rules::SHORT_WINDOW, "duration_seconds", format!("{seconds} s of at least 300 s"));
    }
}

/// The percentiles that a report names, as P95 or p99_ttft. Every report is held to a P95: no service level is
/// about less.
fn tail_percent(document: &Document<'_>) -> u32 {
    let named = |word: &String| word.contains("p99") || word.contains("99th");
    if words(document.get(REPORT)).iter().any(named) { 99 } else { 95 }
}

/// How many requests are measured: as stated, or as rate and duration make them.
fn samples(document: &mut Document<'_>) {
    let offered = document.number("request_rate").zip(document.number("duration_seconds"));
    let offered = offered.map(|(rate, seconds)| (rate * seconds).floor());
    let (field, count) = match (document.get("request_count"), offered) {
        (None, Some(count)) => ("duration_seconds", Some(count)),
        _ => ("request_count", document.number("request_count")),
    };
    let percent = tail_percent(document);
    let needed = if percent == 99 { P99_SUCCESSES_MIN } else { EXPLORATORY_BELOW };
    match count {
        Some(count) if count < needed as f64 => {
            let found =
                format!("{count} requests of at least {needed} for a P{percent}: {}", spread(count, percent));
            document.find(&rules::TOO_FEW_REQUESTS, field, found);
        }
        None if document.get(field).is_none() && document.get("duration_seconds").is_none() => {
            document.find(&rules::TOO_FEW_REQUESTS, field, "neither request_count nor duration_seconds");
        }
        _ => {}
    }
}

/// What a percentile of `count` values rests on: its rank, what lies beyond it, and the ranks of the 95 % interval
/// (normal approximation of the binomial count below it).
fn spread(count: f64, percent: u32) -> String {
    let (n, share) = (count.floor(), f64::from(percent) / 100.0);
    if n < 1.0 {
        return "there is none".to_owned();
    }
    let at = rank(n as usize, percent) as f64;
    let half = 1.96 * (n * share * (1.0 - share)).sqrt();
    let (low, high) = ((at - half).floor().max(1.0).min(n), (at + half).ceil());
    let high = if high > n { "beyond the slowest".to_owned() } else { format!("{high}") };
    format!(
        "only {} values lie beyond it, and its 95 % interval reaches from value {low} of {n} in order to {high}",
        n - at
    )
}

fn cache(document: &mut Document<'_>) {
    let cached = !is_off(document.get("prefix_cache"));
    let cleared = document.get("clear_cache_before_run").is_some_and(|node| node.value == Value::Bool(true));
    let prompts = document.text("prompts").unwrap_or_default().to_lowercase();
    let repeated = ["repeat", "same", "identical"].iter().any(|word| prompts.contains(word));
    if !cached {
        return;
    }
    if repeated {
        let found = ["prompts", "prefix_cache", "clear_cache_before_run"].map(|field| document.shown(field));
        document.find(&rules::REPEATED_PROMPTS, "prompts", found.join(", "));
    } else if document.get("clear_cache_before_run").is_some() && !cleared {
        let found = document.shown("clear_cache_before_run");
        document.find(&rules::CACHE_NOT_CLEARED, "clear_cache_before_run", found);
    }
}

fn is_off(node: Option<&Node>) -> bool {
    match node.map(|node| &node.value) {
        Some(Value::Bool(on)) => !on,
        Some(Value::Str(text)) => ["disabled", "off", "no", "none", "false"].contains(&text.as_str()),
        _ => false,
    }
}

fn warm_up(document: &mut Document<'_>) {
    let fields = ["warmup_requests", "warmup_seconds"];
    let warm = |field: &&str| document.number(field).is_some_and(|count| count > 0.0);
    if !fields.iter().any(warm) {
        let given = fields.into_iter().find(|field| document.get(field).is_some());
        let field = given.unwrap_or(fields[0]);
        document.find(&rules::NO_WARM_UP, field, document.shown(field));
    }
}

/// What the report names, in small letters.
fn words(report: Option<&Node>) -> Vec<String> {
    let text = |node: &Node| match &node.value {
        Value::Str(text) => Some(text.to_lowercase()),
        _ => None,
    };
    match report.map(|node| &node.value) {
        Some(Value::Seq(items)) => items.iter().filter_map(text).collect(),
        Some(Value::Map(entries)) => entries.iter().map(|entry| entry.key.to_lowercase()).collect(),
        _ => report.and_then(text).into_iter().collect(),
    }
}

fn reported(document: &mut Document<'_>) {
    let words = words(document.get(REPORT));
    let names = |parts: &[&str]| words.iter().any(|word| parts.iter().any(|part| word.contains(part)));
    let percentile = |word: &String| {
        let marks = ["percentile", "median", "attainment", "goodput", "slo", "histogram"];
        let digits = word.split(|c: char| !c.is_ascii_alphanumeric());
        let mut digits = digits.filter_map(|part| part.strip_prefix('p')).filter(|rest| !rest.is_empty());
        marks.iter().any(|mark| word.contains(mark))
            || digits.any(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let found = document.shown(REPORT);
    if !words.iter().any(percentile) {
        document.find(&rules::MEANS_ONLY, REPORT, found.clone());
    }
    for (rule, parts) in [
        (&rules::NO_ERROR_STATE, &["error", "fail", "success"][..]),
        (&rules::NO_QUEUE_STATE, &["queue", "waiting", "backlog"]),
        (&rules::NO_CANCELLATION_STATE, &["cancel", "abort", "timeout"]),
        (&rules::NO_CACHE_STATE, &["cache", "prefix_hit", "hit_rate", "evict"]),
    ] {
        if !names(parts) {
            document.find(rule, REPORT, format!("{found}, with none of {}", parts.join(", ")));
        }
    }
}
