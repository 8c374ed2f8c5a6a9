//! The files under observability/ are those that the program writes, and every metric in them is one that somebody
//! exposes. `.ci/promtool` has Prometheus itself check and run them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../emulate/tests/support/mod.rs"]
mod emulated;

use scaleproof_pack::alerts::client_metrics::CLIENT_METRICS;
use scaleproof_pack::alerts::{ALERTS, Engine, Timing, expression};
use scaleproof_pack::observability::{files, queries};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn the_committed_files_are_those_that_are_written() {
    for (name, text) in files(Timing::default()) {
        let committed = std::fs::read_to_string(root().join("observability").join(&name)).unwrap_or_default();
        assert!(committed == text, "observability/{name} is not as written: run `scaleproof observability`");
    }
}

/// What Prometheus makes itself.
const BUILT_IN: [&str; 2] = ["up", "ALERTS"];

/// The series of observability/scrapes and of our own client.
fn exposed() -> BTreeSet<String> {
    let mut exposed: BTreeSet<String> = CLIENT_METRICS.iter().flat_map(|metric| metric.series()).collect();
    exposed.extend(BUILT_IN.map(str::to_owned));
    for entry in std::fs::read_dir(root().join("observability/scrapes")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.starts_with("# Source: "), "a scrape says where it is from");
        exposed.extend(series(&text));
    }
    exposed
}

/// The series that a scrape declares.
fn series(scrape: &str) -> BTreeSet<String> {
    let declared = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = declared.flat_map(|(name, kind)| {
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    names.collect()
}

/// What an emulated replica really says.
fn emitted() -> BTreeSet<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let text = runtime.block_on(async {
        let emulator = scaleproof_emulate::Emulator::start(emulated::config()).await.unwrap();
        let address = emulated::address(&emulator).await;
        let reply = emulated::get(address, "/metrics").await;
        emulator.shutdown().await;
        reply.text()
    });
    series(&text)
}

/// The metrics that a PromQL expression reads: names outside of braces, brackets, quotes and label lists, that no
/// parenthesis follows.
fn metrics(expression: &str) -> BTreeSet<String> {
    const WORDS: [&str; 8] = ["and", "or", "unless", "bool", "sum", "min", "max", "avg"];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let close = match c {
            '{' => Some('}'),
            '[' => Some(']'),
            _ => None,
        };
        if let Some(close) = close {
            rest = rest.split_once(close).expect("closed").1;
        } else if is_name(c) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            let opens = after.trim_start().starts_with('(');
            if matches!(word, "by" | "on" | "without" | "ignoring") && opens {
                rest = after.split_once(')').expect("closed").1;
            } else if !opens && !WORDS.contains(&word) && !c.is_ascii_digit() {
                found.insert(word.to_owned());
            }
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

#[test]
fn metrics_are_found_in_an_expression() {
    let expression =
        "(sum by (replica) (rate(a:b_sum{x=\"y\"}[5s])) / 1e6 > 0.5) and on () (min(up) == 1) unless c";
    assert_eq!(metrics(expression).into_iter().collect::<Vec<_>>(), ["a:b_sum", "c", "up"]);
}

#[test]
fn no_rule_and_no_panel_reads_what_nobody_exposes() {
    let exposed = exposed();
    let mut read = 0;
    for engine in Engine::ALL {
        let rules = ALERTS.iter().map(|alert| expression(alert, engine, Timing::default()));
        for expression in rules.chain(queries(engine)) {
            let metrics = metrics(&expression);
            assert!(!metrics.is_empty(), "{expression}");
            for metric in metrics {
                assert!(exposed.contains(&metric), "nobody exposes {metric}, which is read in {expression}");
                read += 1;
            }
        }
    }
    assert!(read > 100);
}

/// A rehearsal can raise every alert that reads an engine, but of KV transfers: emulated replicas make none.
#[test]
fn the_emulator_emits_what_the_rules_read_of_an_engine() {
    let (emitted, exposed) = (emitted(), exposed());
    assert!(emitted.len() > 50, "{emitted:?}");
    for name in &emitted {
        let of_an_engine = name.starts_with("vllm:");
        assert!(!of_an_engine || exposed.contains(name), "no scrape of a real engine has {name}");
    }
    let mut read = 0;
    for alert in &ALERTS {
        for metric in metrics(&expression(alert, Engine::Vllm, Timing::default())) {
            if metric.starts_with("vllm:") && !metric.contains("nixl") {
                assert!(
                    emitted.contains(&metric),
                    "{} reads {metric}, which `emulate` does not emit",
                    alert.name
                );
                read += 1;
            }
        }
    }
    assert!(read > 5);
}

#[test]
fn labels_are_bounded() {
    let known = ["class", "result", "replica", "kind"];
    for metric in CLIENT_METRICS {
        assert!(metric.labels.iter().all(|label| known.contains(label)), "{metric:?}");
    }
}

/// Every alert has its section in the runbook, with what it means and what to do, and no section is of none.
#[test]
fn the_runbook_has_a_section_for_every_alert() {
    let runbook = std::fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let sections: Vec<(&str, &str)> =
        runbook.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')).collect();
    let of_alerts: Vec<&str> =
        sections.iter().map(|(title, _)| *title).filter(|title| !title.contains(' ')).collect();
    assert_eq!(of_alerts, ALERTS.map(|alert| alert.name), "in the order of the rules");
    for alert in &ALERTS {
        let (title, text) = sections.iter().find(|(title, _)| *title == alert.name).unwrap();
        assert_eq!(alert.runbook(), format!("docs/runbook.md#{}", title.to_lowercase()));
        for part in ["**Means.**", "**How to tell.**", "**What to do.**"] {
            assert!(text.contains(part), "{title}: no {part}");
        }
    }
}
