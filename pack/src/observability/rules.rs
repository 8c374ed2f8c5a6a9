//! The alert rules as Prometheus reads them.

use super::WRITTEN;
use crate::alerts::{ALERTS, Alert, Engine, Timing, duration, expression};
use std::fmt::Write;

/// The rules that read no engine's own metrics.
#[must_use]
pub fn common(timing: Timing) -> String {
    group("common", timing, ALERTS.iter().filter(|alert| is_common(alert, timing)), Engine::Vllm)
}

/// The rules on an engine's metrics.
#[must_use]
pub fn of_engine(engine: Engine, timing: Timing) -> String {
    group(engine.word(), timing, ALERTS.iter().filter(|alert| !is_common(alert, timing)), engine)
}

fn is_common(alert: &Alert, timing: Timing) -> bool {
    expression(alert, Engine::Vllm, timing) == expression(alert, Engine::Sglang, timing)
}

fn group<'a>(name: &str, timing: Timing, alerts: impl Iterator<Item = &'a Alert>, engine: Engine) -> String {
    let every = duration(timing.interval);
    let mut text = format!("{WRITTEN}groups:\n- name: scaleproof-{name}\n  interval: {every}\n  rules:\n");
    for alert in alerts {
        let expression = expression(alert, engine, timing).replace('\n', "\n      ");
        let hold = duration(timing.hold(alert));
        let (severity, cause) = (alert.severity.word(), alert.cause.word());
        let _ = write!(
            text,
            "  - alert: {}\n    expr: |-\n      {expression}\n    for: {hold}\n    \
             labels: {{severity: {severity}, cause: {cause}}}\n    annotations:\n      \
             summary: \"{}\"\n      runbook_url: {}\n",
            alert.name,
            summary(alert, "{{ $labels.replica }}"),
            alert.runbook()
        );
    }
    text
}

/// What the alert says of a replica.
pub(super) fn summary(alert: &Alert, replica: &str) -> String {
    if alert.by_replica { format!("replica {replica}: {}", alert.summary) } else { alert.summary.to_owned() }
}
