//! A report as text: a row a class, totals, gates, warnings.

use crate::table::{number, percent, table};
use scaleproof_pack::report::{ClassReport, GateValue, Report};

/// All of it.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", class_table(report), totals(report));
    for gate in &report.gates {
        let verdict = if gate.pass { "pass" } else { "FAIL" };
        text += &format!(
            "gate {verdict}: {} = {} ({} {})\n",
            gate.name,
            gate_value(&gate.observed),
            gate.relation,
            gate_value(&gate.required)
        );
    }
    for (reason, count) in &report.failure_reasons {
        text += &format!("failed: {count} attempts: {reason}\n");
    }
    for warning in &report.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

/// Warnings of several runs, each once: those that differ in their numbers only are one, with how many runs have it.
pub fn merged<'a>(warnings: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut kinds: Vec<(String, &String, usize)> = Vec::new();
    for warning in warnings {
        let kind: String = warning.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((.., runs)) => *runs += 1,
            None => kinds.push((kind, warning, 1)),
        }
    }
    let line = |(_, warning, runs): (String, &String, usize)| match runs {
        1 => warning.clone(),
        _ => format!("{warning} (the first of {runs} runs that say so)"),
    };
    kinds.into_iter().map(line).collect()
}

/// What a gate compares, with few digits: shares to a hundredth of a per cent.
fn gate_value(value: &GateValue) -> String {
    match value {
        GateValue::Count(count) => count.to_string(),
        GateValue::Share(Some(share)) => format!("{:.2} %", 100.0 * share),
        GateValue::Share(None) => "undefined".to_owned(),
        GateValue::Word(word) => word.clone(),
    }
}

fn class_table(report: &Report) -> String {
    let headers = [
        "class",
        "attempts",
        "ok",
        "attainment",
        "95 %",
        "of attempts",
        "P50 TTFT ms",
        "P95 TTFT ms",
        "P50 TPOT ms",
        "P95 TPOT ms",
        "P95 E2E ms",
    ];
    let row = |(name, class): (&String, &ClassReport)| {
        let interval = class
            .attainment_ci95
            .map(|(low, high)| format!("{} to {}", percent(Some(low)), percent(Some(high))));
        vec![
            name.clone(),
            class.attempted_count.to_string(),
            class.successful_count.to_string(),
            percent(class.attainment),
            interval.unwrap_or_else(|| "-".to_owned()),
            percent(class.attempted_attainment),
            number(class.latency.p50_ttft_ms, 0),
            number(class.latency.p95_ttft_ms, 0),
            number(class.p50_tpot_ms, 1),
            number(class.p95_tpot_ms, 1),
            number(class.latency.p95_e2e_ms, 0),
        ]
    };
    table(&headers, &report.classes.iter().map(row).collect::<Vec<_>>())
}

fn totals(report: &Report) -> String {
    let outcomes = &report.outcomes;
    format!(
        "{} attempts in {:.0} s: {} ok, {} error, {} timeout, {} rejected, {} cancelled, {} lost\n\
         completed {} requests/s, goodput {} requests/s, {} output tokens/s, queue {}\n\
         prefix hits {} of prompt tokens, {} preemptions, queue peak {}, KV peak {}",
        report.attempted,
        report.duration_s,
        outcomes.ok,
        outcomes.error,
        outcomes.timeout,
        outcomes.rejected,
        outcomes.cancelled,
        outcomes.lost,
        number(report.request_throughput_rps, 2),
        number(report.observed_goodput_rps, 2),
        number(report.output_throughput_tps, 0),
        report.queue_trend.word(),
        percent(report.prefix_hit_share),
        report.preemptions.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        report.queue_peak.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        percent(report.kv_peak_share),
    )
}
