//! Our workload manifest. What it cannot be without (percentiles, the six outcomes, hit rates in every report) needs
//! no rule.

use super::document::{Document, number};
use super::rules;
use crate::manifest::is_movable;
use crate::report::EXPLORATORY_BELOW;
use crate::yaml::{Node, Value};

const REVISIONS: [&str; 6] = [
    "workload_revision",
    "model.revision",
    "model.tokenizer_revision",
    "model.chat_template_revision",
    "engine.version",
    "engine.scheduler_revision",
];

pub(super) fn judge(document: &mut Document<'_>) {
    for field in REVISIONS {
        if document.text(field).is_some_and(is_movable) {
            document.find(&rules::MOVABLE_VERSION, field, document.shown(field));
        }
    }
    client(document);
    gates(document);
    class_counts(document);
}

fn client(document: &mut Document<'_>) {
    let trace = document.text("client.arrival_pattern") == Some("trace");
    let least_s = document.number("client.minimum_duration_seconds");
    if let Some(seconds) = least_s.filter(|seconds| *seconds < 300.0 && !trace) {
        let found = format!("client.minimum_duration_seconds: {seconds} of at least 300");
        document.find(&rules::SHORT_WINDOW, "client.minimum_duration_seconds", found);
    }
    for (rule, field, is_fault) in [
        (&rules::NO_WARM_UP, "client.warmup_seconds", is_zero as fn(&Node) -> bool),
        (&rules::NO_STREAMING, "client.streaming", |node| node.value == Value::Bool(false)),
        (&rules::EVEN_ARRIVALS, "client.arrival_pattern", |node| node.value == Value::Str("constant".into())),
    ] {
        find_if(document, rule, field, is_fault);
    }
}

fn gates(document: &mut Document<'_>) {
    for (rule, field, is_fault) in [
        (&rules::SLO_NOT_GATED, "acceptance.class_slo_attainment_min", is_zero as fn(&Node) -> bool),
        (&rules::NO_ERROR_STATE, "acceptance.error_rate_max", is_one),
        (&rules::NO_QUEUE_STATE, "acceptance.queue_trend_required", |node| {
            node.value == Value::Str("any".into())
        }),
        (&rules::NO_HEADROOM, "acceptance.target_utilization", is_one),
    ] {
        find_if(document, rule, field, is_fault);
    }
    let field = "acceptance.min_successful_samples_per_class";
    if let Some(successes) = document.number(field).filter(|successes| *successes < EXPLORATORY_BELOW as f64)
    {
        let half = 100.0 * 1.96 * (0.95 * 0.05 / successes.max(1.0)).sqrt();
        let found =
            format!("{field}: {successes}; 95 % of so many is uncertain by {half:.1} points to either side");
        document.find(&rules::SMALL_GATE, field, found);
    }
}

/// Each class's count against the successes that its gate asks for, if as many attempts fail as may.
fn class_counts(document: &mut Document<'_>) {
    let needed = document.number("acceptance.min_successful_samples_per_class");
    let errors = document.number("acceptance.error_rate_max").filter(|share| *share < 1.0).unwrap_or(0.0);
    let Some(needed) = needed.map(|successes| (successes / (1.0 - errors)).ceil()) else { return };
    let Some(Value::Map(counts)) = document.get("client.class_schedule_counts").map(|node| &node.value)
    else {
        return;
    };
    for entry in counts {
        if let Some(count) = number(&entry.node).filter(|count| *count < needed) {
            let found = format!("{}: {count} requests of at least {needed}", entry.key);
            document.find(&rules::SMALL_CLASS, &format!("client.class_schedule_counts.{}", entry.key), found);
        }
    }
}

fn find_if(document: &mut Document<'_>, rule: &rules::Rule, field: &str, is_fault: fn(&Node) -> bool) {
    if document.get(field).is_some_and(is_fault) {
        document.find(rule, field, document.shown(field));
    }
}

fn is_zero(node: &Node) -> bool {
    number(node).is_some_and(|value| value <= 0.0)
}

fn is_one(node: &Node) -> bool {
    number(node).is_some_and(|value| value >= 1.0)
}
