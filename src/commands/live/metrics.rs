//! The client's own metrics, in Prometheus' text format, under the names of `pack::alerts::client_metrics`.

use crate::exit::CommandError;
use crate::listener::{Asked, listen};
use scaleproof_pack::alerts::client_metrics as names;
use scaleproof_pack::alerts::client_metrics::{CLIENT_METRICS, Kind};
use scaleproof_pack::analyze::passes;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_validate::News;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Upper bounds of all histograms' buckets, in seconds.
const BOUNDS_S: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// What is counted of a run, shared with whoever asks for it.
#[derive(Clone)]
pub struct ClientMetrics {
    classes: Vec<Class>,
    series: Arc<Mutex<Series>>,
}

#[derive(Clone)]
struct Class {
    name: String,
    ttft_cutoff_ms: f64,
    tpot_cutoff_ms: f64,
}

/// By metric and labels, written as they are exposed.
#[derive(Default)]
struct Series {
    values: BTreeMap<(&'static str, String), f64>,
    histograms: BTreeMap<(&'static str, String), Histogram>,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BOUNDS_S.len()],
    count: u64,
    sum_s: f64,
}

impl ClientMetrics {
    /// Serves them on a port of this machine. All series of classes and targets that only rise are there from the beginning.
    pub fn serve(port: u16, manifest: &Manifest, targets: u32) -> Result<ClientMetrics, CommandError> {
        let class = |class: &scaleproof_pack::manifest::Class| Class {
            name: class.name.clone(),
            ttft_cutoff_ms: class.request_ttft_cutoff_ms,
            tpot_cutoff_ms: class.request_tpot_cutoff_ms,
        };
        let metrics =
            ClientMetrics { classes: manifest.classes.iter().map(class).collect(), series: Arc::default() };
        metrics.begin(targets);
        let answering = metrics.clone();
        listen("--metrics-port", port, move |asked: &Asked| {
            let wanted = asked.method == "GET" && asked.path.split('?').next() == Some("/metrics");
            wanted.then(|| ("200 OK", answering.text()))
        })?;
        Ok(metrics)
    }

    fn begin(&self, targets: u32) {
        let mut series = self.lock();
        for target in 0..targets {
            for kind in names::CONNECTION_FAILURES {
                series.add(names::CONNECTION_FAILED, failed_at(target, kind), 0.0);
            }
            for name in [names::TRIES, "scaleproof_router_choices_total", "scaleproof_in_flight"] {
                series.add(name, at(target), 0.0);
            }
        }
        for class in &self.classes {
            for outcome in Outcome::ALL {
                series.add(names::ATTEMPTS, ended(&class.name, outcome), 0.0);
            }
            for name in [
                "scaleproof_retries_total",
                "scaleproof_disconnects_total",
                "scaleproof_slo_passing_total",
                "scaleproof_input_tokens_total",
                "scaleproof_output_tokens_total",
            ] {
                series.add(name, of(&class.name), 0.0);
            }
        }
    }

    /// Something happened.
    pub fn news(&self, news: &News) {
        let mut series = self.lock();
        match *news {
            News::Sent { target } => {
                for name in [names::TRIES, "scaleproof_router_choices_total", "scaleproof_in_flight"] {
                    series.add(name, at(target), 1.0);
                }
            }
            News::FirstToken { target, took } => series.observe(names::TRY_TTFT, at(target), took),
            News::TryEnded { target, failed, .. } => {
                series.add("scaleproof_in_flight", at(target), -1.0);
                if let Some(kind) = failed {
                    series.add(names::CONNECTION_FAILED, failed_at(target, kind.word()), 1.0);
                }
            }
            News::Moment(_) => {}
        }
    }

    /// An attempt ended.
    pub fn record(&self, record: &Record) {
        let Some(class) = self.classes.get(usize::from(record.class)) else { return };
        let mut series = self.lock();
        let mut add = |name, by: f64| series.add(name, of(&class.name), by);
        add("scaleproof_retries_total", f64::from(record.retries));
        add("scaleproof_input_tokens_total", f64::from(record.input_tokens));
        add("scaleproof_output_tokens_total", f64::from(record.output_tokens));
        if matches!(record.outcome, Outcome::Timeout | Outcome::Cancelled) {
            add("scaleproof_disconnects_total", 1.0);
        }
        let passes = passes(record, class.ttft_cutoff_ms, class.tpot_cutoff_ms);
        add("scaleproof_slo_passing_total", f64::from(u8::from(passes)));
        series.add(names::ATTEMPTS, ended(&class.name, record.outcome), 1.0);
        series.observe("scaleproof_send_lag_seconds", String::new(), record.lag());
        if let Some(ttft) = record.ttft() {
            series.observe("scaleproof_ttft_seconds", of(&class.name), ttft);
        }
        if record.outcome == Outcome::Ok {
            series.observe("scaleproof_e2e_seconds", of(&class.name), record.e2e());
            if let Some(tpot) = record.tpot_ms().and_then(|ms| Nanos::from_seconds(ms / 1e3).ok()) {
                series.observe("scaleproof_tpot_seconds", of(&class.name), tpot);
            }
        }
        let chunks = record.wire.as_ref().map_or(&[][..], |wire| &wire.chunks);
        for pair in chunks.windows(2) {
            series.observe("scaleproof_itl_seconds", of(&class.name), pair[1].0.since(pair[0].0));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Series> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All series, in Prometheus' text format.
    fn text(&self) -> String {
        let series = self.lock();
        let mut out = String::new();
        for metric in &CLIENT_METRICS {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let name = metric.name;
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
            for ((_, labels), value) in series.values.iter().filter(|((of, _), _)| *of == name) {
                let _ = writeln!(out, "{name}{} {value}", braced(labels, None));
            }
            for ((_, labels), histogram) in series.histograms.iter().filter(|((of, _), _)| *of == name) {
                histogram.write(&mut out, name, labels);
            }
        }
        out
    }
}

impl Series {
    fn add(&mut self, name: &'static str, labels: String, by: f64) {
        *self.values.entry((name, labels)).or_default() += by;
    }

    fn observe(&mut self, name: &'static str, labels: String, value: Nanos) {
        let (histogram, seconds) = (self.histograms.entry((name, labels)).or_default(), value.seconds());
        histogram.count += 1;
        histogram.sum_s += seconds;
        if let Some(bucket) = BOUNDS_S.iter().position(|&bound| seconds <= bound) {
            histogram.buckets[bucket] += 1;
        }
    }
}

impl Histogram {
    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        for (bound, count) in BOUNDS_S.iter().zip(self.buckets) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{} {below}", braced(labels, Some(&bound.to_string())));
        }
        let _ = writeln!(out, "{name}_bucket{} {}", braced(labels, Some("+Inf")), self.count);
        let _ = writeln!(out, "{name}_sum{} {}", braced(labels, None), self.sum_s);
        let _ = writeln!(out, "{name}_count{} {}", braced(labels, None), self.count);
    }
}

fn braced(labels: &str, le: Option<&str>) -> String {
    let le = le.map(|le| format!("le=\"{le}\""));
    let all: Vec<&str> =
        [labels, le.as_deref().unwrap_or_default()].into_iter().filter(|s| !s.is_empty()).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn at(target: u32) -> String {
    format!("replica=\"{target}\"")
}

fn failed_at(target: u32, kind: &str) -> String {
    format!("replica=\"{target}\",kind=\"{kind}\"")
}

fn of(class: &str) -> String {
    format!("class=\"{}\"", class.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn ended(class: &str, outcome: Outcome) -> String {
    format!("{},result=\"{}\"", of(class), outcome.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scaleproof_validate::ConnectionFailure;

    fn metrics() -> ClientMetrics {
        let class = Class { name: "a \"b\"".to_owned(), ttft_cutoff_ms: 100.0, tpot_cutoff_ms: 10.0 };
        let metrics = ClientMetrics { classes: vec![class], series: Arc::default() };
        metrics.begin(2);
        metrics
    }

    fn record() -> Record {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        Record {
            id: 0,
            class: 0,
            warmup: false,
            scheduled: ms(0),
            sent: ms(2),
            first_token: Some(ms(52)),
            ended: ms(62),
            input_tokens: 7,
            cached_tokens: 0,
            output_tokens: 3,
            requested_tokens: 3,
            outcome: Outcome::Ok,
            replica: Some(1),
            preemptions: 0,
            retries: 1,
            computed_tokens: None,
            reason: "",
            wire: Some(Box::new(scaleproof_pack::record::Wire {
                chunks: vec![(ms(52), 1), (ms(57), 1), (ms(62), 1)],
                ..Default::default()
            })),
        }
    }

    /// Every metric of the list is exposed with the labels that it lists, and none beside.
    #[test]
    fn what_is_exposed_is_what_is_listed() {
        let metrics = metrics();
        for news in [
            News::Sent { target: 1 },
            News::FirstToken { target: 1, took: Nanos(50_000_000) },
            News::TryEnded { target: 1, at: Nanos(1), failed: Some(ConnectionFailure::Refused) },
        ] {
            metrics.news(&news);
        }
        metrics.record(&record());
        let text = metrics.text();
        for metric in &CLIENT_METRICS {
            for series in metric.series() {
                let line = text
                    .lines()
                    .find(|line| line.strip_prefix(&series).is_some_and(|l| l.starts_with(['{', ' '])));
                let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
                assert!(metric.labels.iter().all(|label| line.contains(&format!("{label}=\""))), "{line}");
            }
        }
        let known: Vec<String> = CLIENT_METRICS.iter().flat_map(|metric| metric.series()).collect();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(known.iter().any(|known| known == name), "{line}");
        }
        for line in [
            "scaleproof_attempts_total{class=\"a \\\"b\\\"\",result=\"ok\"} 1",
            "scaleproof_slo_passing_total{class=\"a \\\"b\\\"\"} 1",
            "scaleproof_in_flight{replica=\"1\"} 0",
            "scaleproof_connection_failures_total{replica=\"1\",kind=\"refused\"} 1",
            "scaleproof_try_ttft_seconds_bucket{replica=\"1\",le=\"0.025\"} 0",
            "scaleproof_try_ttft_seconds_bucket{replica=\"1\",le=\"0.05\"} 1",
            "scaleproof_send_lag_seconds_bucket{le=\"+Inf\"} 1",
            "scaleproof_itl_seconds_count{class=\"a \\\"b\\\"\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }
}
