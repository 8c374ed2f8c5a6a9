//! The rules' unit tests for promtool: each case as the series that Prometheus would have scraped, and what our own
//! evaluator says must fire. That promtool agrees is what the tests test.

use super::WRITTEN;
use super::cases::{Beside, Case, cases};
use super::rules::summary;
use crate::alerts::client_metrics::{ATTEMPTS, CONNECTION_FAILED, TRIES, TRY_TTFT};
use crate::alerts::{ALERTS, Alert, Engine, Fired, Scrapes, Timing, duration, fired};
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The tests of the rules on an engine's metrics.
pub(super) fn tests(engine: Engine, timing: Timing) -> String {
    let (word, every) = (engine.word(), duration(timing.interval));
    let mut text = format!(
        "{WRITTEN}rule_files: [../alerts/common.yaml, ../alerts/{word}.yaml]\nevaluation_interval: {every}\ntests:\n"
    );
    for case in cases(timing) {
        let scrapes = Scrapes::of(&case.observed(), timing);
        let _ = write!(text, "- name: {}\n  interval: {every}\n  input_series:\n", case.name);
        for (series, values) in series(&case, engine, &scrapes) {
            let _ = writeln!(text, "  - {{series: '{series}', values: '{}'}}", notation(&values));
        }
        text.push_str("  alert_rule_test:\n");
        let mut expected = fired(&case.observed(), timing);
        expected.extend(case.beside.map(|beside| beside.fires(timing)));
        for scrape in moments(&expected, &scrapes) {
            for alert in &ALERTS {
                text.push_str(&expectation(alert, scrapes.at(scrape), &expected));
            }
        }
    }
    text
}

/// Around each firing and clearing, and the end.
fn moments(expected: &[Fired], scrapes: &Scrapes) -> BTreeSet<usize> {
    let changes = expected.iter().flat_map(|fired| [Some(fired.at), fired.cleared_at]).flatten();
    let place = |at: Nanos| (0..scrapes.len()).find(|&scrape| scrapes.at(scrape) == at);
    let around = changes.filter_map(place).flat_map(|scrape| [scrape.saturating_sub(1), scrape]);
    around.chain(scrapes.len().checked_sub(1)).collect()
}

fn expectation(alert: &Alert, now: Nanos, expected: &[Fired]) -> String {
    let is_firing = |fired: &&Fired| {
        fired.alert == alert.name && fired.at <= now && fired.cleared_at.is_none_or(|cleared| now < cleared)
    };
    let mut text = format!("  - eval_time: {}\n    alertname: {}\n", duration(now), alert.name);
    let firing: Vec<&Fired> = expected.iter().filter(is_firing).collect();
    if firing.is_empty() {
        return text + "    exp_alerts: []\n";
    }
    text.push_str("    exp_alerts:\n");
    for fired in firing {
        let replica = fired.replica.map(|replica| replica.to_string());
        let label = match (&replica, alert.name) {
            (Some(replica), _) => format!(", replica: '{replica}'"),
            (None, "GpuError") => {
                GPU_LABELS.iter().map(|(name, value)| format!(", {name}: '{value}'")).collect()
            }
            (None, _) => String::new(),
        };
        let _ = write!(
            text,
            "    - exp_labels: {{severity: {}, cause: {}{label}}}\n      exp_annotations:\n        \
             summary: \"{}\"\n        runbook_url: {}\n",
            alert.severity.word(),
            alert.cause.word(),
            summary(alert, replica.as_deref().unwrap_or_default()),
            alert.runbook()
        );
    }
    text
}

const GPU_LABELS: [(&str, &str); 3] = [("Hostname", "node-a"), ("gpu", "0"), ("job", "gpu")];

/// A value of each scrape; None where the target did not answer.
type Values = Vec<Option<f64>>;

fn series(case: &Case, engine: Engine, scrapes: &Scrapes) -> Vec<(String, Values)> {
    let all = 0..scrapes.len();
    let replicas: BTreeSet<u32> = all.clone().flat_map(|scrape| scrapes.targets(scrape)).copied().collect();
    let mut series = Vec::new();
    for &replica in &replicas {
        let up = all.clone().map(|scrape| Some(f64::from(u8::from(scrapes.row(scrape, replica).is_some()))));
        series.push((format!("up{{job=\"engine\",replica=\"{replica}\"}}"), up.collect()));
        for (name, value) in of_engine(engine) {
            let values = all.clone().map(|scrape| scrapes.row(scrape, replica).map(&value)).collect();
            series.push((format!("{name}{{job=\"engine\",model_name=\"m\",replica=\"{replica}\"}}"), values));
        }
        let ttft = |scrape: usize| scrapes.client_at(scrape).ttft.get(&replica).copied().unwrap_or_default();
        let of_client = |name: String| format!("{name}{{job=\"client\",replica=\"{replica}\"}}");
        let counts = all.clone().map(|scrape| Some(ttft(scrape).0 as f64)).collect();
        series.push((of_client(format!("{TRY_TTFT}_count")), counts));
        series.push((
            of_client(format!("{TRY_TTFT}_sum")),
            all.clone().map(|scrape| Some(ttft(scrape).1)).collect(),
        ));
    }
    let totals =
        |value: &dyn Fn(usize) -> u64| all.clone().map(|scrape| Some(value(scrape) as f64)).collect();
    let client = |scrape: usize| scrapes.client_at(scrape);
    series.push((format!("{TRIES}{{job=\"client\"}}"), totals(&|scrape| client(scrape).tries)));
    series.push((
        format!("{CONNECTION_FAILED}{{job=\"client\",kind=\"reset\"}}"),
        totals(&|scrape| client(scrape).connection_failures),
    ));
    let attempts = |result: &str| format!("{ATTEMPTS}{{class=\"chat\",job=\"client\",result=\"{result}\"}}");
    series.push((attempts("cancelled"), totals(&|scrape| client(scrape).cancelled)));
    series.push((attempts("ok"), totals(&|scrape| client(scrape).ended - client(scrape).cancelled)));
    series.extend(case.beside.map(|beside| beside_series(beside, engine)));
    series
}

fn beside_series(beside: Beside, engine: Engine) -> (String, Values) {
    let name = match beside {
        Beside::GpuErrors => {
            let labels: Vec<String> =
                GPU_LABELS.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            format!("DCGM_FI_DEV_XID_ERRORS{{{}}}", labels.join(","))
        }
        Beside::FailedTransfers => {
            format!("{}{{job=\"engine\",replica=\"1\"}}", engine.names().failed_transfers)
        }
    };
    (name, beside.values().into_iter().map(Some).collect())
}

type Signal = (String, fn(&TimelineRow) -> f64);

fn of_engine(engine: Engine) -> [Signal; 7] {
    let names = engine.names();
    let ttft = names.ttft;
    [
        (names.waiting.to_owned(), |row| f64::from(row.waiting)),
        (names.running.to_owned(), |row| f64::from(row.running)),
        (names.kv_share.to_owned(), |row| f64::from(row.kv_blocks_used) / f64::from(row.kv_blocks_total)),
        (names.preemptions.to_owned(), |row| row.preemptions as f64),
        (names.generation_tokens.to_owned(), |row| row.generation_tokens as f64),
        (format!("{ttft}_count"), |row| row.ttft_count as f64),
        (format!("{ttft}_sum"), |row| row.ttft_sum.seconds()),
    ]
}

/// promtool's notation of a series: `FROM+STEPxTIMES` for what rises evenly. Values are rounded to a millionth.
fn notation(values: &Values) -> String {
    let micros: Vec<Option<i64>> =
        values.iter().map(|value| value.map(|value| (value * 1e6).round() as i64)).collect();
    let mut words = Vec::new();
    let mut next = 0;
    while next < micros.len() {
        let Some(from) = micros[next] else {
            words.push("stale".to_owned());
            next += 1;
            continue;
        };
        let step = micros.get(next + 1).copied().flatten().map_or(0, |second| second - from);
        let mut times = 0;
        while micros.get(next + times + 1) == Some(&Some(from + step * (times as i64 + 1))) {
            times += 1;
        }
        words.push(match times {
            0 => number(from),
            _ => {
                format!("{}{}{}x{times}", number(from), if step < 0 { "-" } else { "+" }, number(step.abs()))
            }
        });
        next += times + 1;
    }
    words.join(" ")
}

fn number(micros: i64) -> String {
    format!("{}", micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_steps_are_written_once() {
        let values = [Some(1.0), Some(3.0), Some(5.0), None, None, Some(0.25), Some(0.0), Some(0.0)];
        assert_eq!(notation(&values.to_vec()), "1+2x2 stale stale 0.25-0.25x1 0");
        assert_eq!(notation(&vec![Some(7.0); 4]), "7+0x3");
        assert_eq!(notation(&Vec::new()), "");
    }

    /// Each case raises the alerts of one cause, each alert has its case, and a healthy fleet raises none.
    #[test]
    fn each_cause_raises_its_own_alerts_and_no_other() {
        let timing = Timing::default();
        let mut seen = BTreeSet::new();
        for case in cases(timing) {
            let mut all = fired(&case.observed(), timing);
            all.extend(case.beside.map(|beside| beside.fires(timing)));
            let names: BTreeSet<_> = all.iter().map(|fired| fired.alert).collect();
            let quiet = ["a healthy fleet", "a replica has four times the requests of the other"];
            assert_eq!(names.len(), usize::from(!quiet.contains(&case.name)), "{}: {all:?}", case.name);
            seen.extend(names);
        }
        assert_eq!(seen, ALERTS.iter().map(|alert| alert.name).collect());
    }
}
