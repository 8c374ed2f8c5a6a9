//! The Grafana dashboards: what the clients see, then a row for each cause that the alerts tell apart.

use crate::alerts::client_metrics::{ATTEMPTS, CONNECTION_FAILED, TRY_TTFT};
use crate::alerts::{Cause, Engine, Names};
use serde_json::{Value, json};

/// A panel: its title, its unit as Grafana calls it, and its queries, each with its legend.
struct Panel {
    title: String,
    unit: &'static str,
    queries: Vec<(String, &'static str)>,
}

struct Row {
    title: &'static str,
    panels: Vec<Panel>,
}

fn panel(
    title: impl Into<String>,
    unit: &'static str,
    query: impl Into<String>,
    legend: &'static str,
) -> Panel {
    Panel { title: title.into(), unit, queries: vec![(query.into(), legend)] }
}

impl Panel {
    fn and(mut self, query: impl Into<String>, legend: &'static str) -> Panel {
        self.queries.push((query.into(), legend));
        self
    }
}

/// `sum by (LABEL) (rate(METRIC[...]))`.
fn rate(by: &str, metric: &str) -> String {
    format!("sum by ({by}) (rate({metric}[$__rate_interval]))")
}

fn mean(by: &str, histogram: &str) -> String {
    format!("{} / {}", rate(by, &format!("{histogram}_sum")), rate(by, &format!("{histogram}_count")))
}

fn quantile(share: f64, by: &str, histogram: &str) -> String {
    let buckets = rate(if by.is_empty() { "le" } else { "class, le" }, &format!("{histogram}_bucket"));
    format!("histogram_quantile({share}, {buckets})")
}

fn rows(engine: Engine) -> Vec<Row> {
    let names = engine.names();
    vec![
        causes(),
        clients(),
        routing(),
        queue(names),
        memory(names),
        replicas(names),
        network(names),
        collectives(),
        speculation(names),
    ]
}

fn causes() -> Row {
    let firing = |cause: Cause| {
        let query = format!("count(ALERTS{{alertstate=\"firing\",cause=\"{}\"}}) or vector(0)", cause.word());
        panel(cause.word().replace('_', " "), "none", query, "alerts firing")
    };
    Row { title: "What is wrong", panels: Cause::ALL.map(firing).into() }
}

fn clients() -> Row {
    let passing = rate("class", "scaleproof_slo_passing_total");
    let ok = rate("class", &format!("{ATTEMPTS}{{result=\"ok\"}}"));
    let p95 = |name: &str| quantile(0.95, "class", &format!("scaleproof_{name}_seconds"));
    Row {
        title: "What clients see",
        panels: vec![
            panel("Attempts by outcome", "reqps", rate("result", ATTEMPTS), "{{result}}"),
            panel("Goodput", "reqps", passing.clone(), "{{class}}"),
            panel(
                "Attainment: inside both cutoffs, of successes",
                "percentunit",
                format!("{passing} / {ok}"),
                "{{class}}",
            ),
            panel("TTFT, P95", "s", p95("ttft"), "{{class}}"),
            panel("TPOT, P95", "s", p95("tpot"), "{{class}}"),
            panel("Gap between chunks, P95", "s", p95("itl"), "{{class}}"),
            panel("E2E, P95", "s", p95("e2e"), "{{class}}"),
            panel("Tokens", "short", rate("class", "scaleproof_input_tokens_total"), "in, {{class}}")
                .and(rate("class", "scaleproof_output_tokens_total"), "out, {{class}}"),
            panel(
                "Retries and disconnects",
                "reqps",
                rate("class", "scaleproof_retries_total"),
                "retries, {{class}}",
            )
            .and(rate("class", "scaleproof_disconnects_total"), "disconnects, {{class}}"),
            panel(
                "Sent later than scheduled, P99",
                "s",
                quantile(0.99, "", "scaleproof_send_lag_seconds"),
                "client",
            ),
        ],
    }
}

fn routing() -> Row {
    Row {
        title: "Routing",
        panels: vec![
            panel("In flight by replica", "short", "sum by (replica) (scaleproof_in_flight)", "{{replica}}"),
            panel(
                "Router's choices",
                "reqps",
                rate("replica", "scaleproof_router_choices_total"),
                "{{replica}}",
            ),
        ],
    }
}

fn queue(names: &Names) -> Row {
    let gauge = |name: &str| format!("sum by (replica) ({name})");
    let mut panels = vec![
        panel("Waiting", "short", gauge(names.waiting), "{{replica}}"),
        panel("Running", "short", gauge(names.running), "{{replica}}"),
        panel("Time in the queue, mean", "s", mean("replica", names.queue_time), "{{replica}}"),
        panel("TTFT as the server measures it, mean", "s", mean("replica", names.ttft), "{{replica}}"),
        panel("Generated tokens", "short", rate("replica", names.generation_tokens), "{{replica}}"),
        panel("Prompt tokens", "short", rate("replica", names.prompt_tokens), "{{replica}}"),
        panel("Aborted", "reqps", rate("replica", names.aborted), "{{replica}}"),
    ];
    if let Some(tokens) = names.step_tokens {
        panels.push(panel("Tokens a step, mean", "short", mean("replica", tokens), "{{replica}}"));
    }
    if let Some(rejections) = names.rejections {
        panels.push(panel(
            "Rejections",
            "reqps",
            rate("replica, reason", rejections),
            "{{replica}}, {{reason}}",
        ));
    }
    Row { title: "Queue saturation", panels }
}

fn memory(names: &Names) -> Row {
    let hits = format!("{} / {}", rate("replica", names.prefix_hits), rate("replica", names.prefix_queries));
    let (evictions, unit) = names.evictions;
    Row {
        title: "KV pressure",
        panels: vec![
            panel(
                "KV cache in use",
                "percentunit",
                format!("max by (replica) ({})", names.kv_share),
                "{{replica}}",
            ),
            panel("Preemptions", "reqps", rate("replica", names.preemptions), "{{replica}}"),
            panel("Prefix hits, of prompt tokens", "percentunit", hits, "{{replica}}"),
            panel(format!("Evicted {unit}"), "short", rate("replica", evictions), "{{replica}}"),
        ],
    }
}

fn replicas(names: &Names) -> Row {
    let mut panels = vec![
        panel("Up", "none", "max by (replica) (up{job=\"engine\"})", "{{replica}}"),
        panel(
            "Tokens a second of a running request",
            "none",
            format!(
                "{} / (sum by (replica) ({}) > 0)",
                rate("replica", names.generation_tokens),
                names.running
            ),
            "{{replica}}",
        ),
        panel("GPU errors (last XID)", "none", "DCGM_FI_DEV_XID_ERRORS", "{{Hostname}} {{gpu}}"),
        panel("GPU memory used", "decmbytes", "DCGM_FI_DEV_FB_USED", "{{Hostname}} {{gpu}}"),
        panel("GPU busy", "percentunit", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "{{Hostname}} {{gpu}}"),
        panel("Tensor cores busy", "percentunit", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "{{Hostname}} {{gpu}}"),
        panel("GPU memory interface busy", "percentunit", "DCGM_FI_PROF_DRAM_ACTIVE", "{{Hostname}} {{gpu}}"),
        panel("GPU power", "watt", "DCGM_FI_DEV_POWER_USAGE", "{{Hostname}} {{gpu}}"),
    ];
    if let Some(startup) = names.startup {
        let query = format!("max by (replica, phase) ({startup})");
        panels.push(panel("Start-up by phase", "s", query, "{{replica}}, {{phase}}"));
    }
    Row { title: "Replica and GPU", panels }
}

fn network(names: &Names) -> Row {
    let way = format!("{} - {}", mean("replica", TRY_TTFT), mean("replica", names.ttft));
    let (bytes, time) = names.transfers;
    Row {
        title: "Network and transfers",
        panels: vec![
            panel("First token: client's mean less server's", "s", way, "{{replica}}"),
            panel(
                "Connections that failed",
                "reqps",
                rate("replica, kind", CONNECTION_FAILED),
                "{{replica}}, {{kind}}",
            ),
            panel("KV transfer, bytes a second", "Bps", bytes, "{{replica}}"),
            panel("KV transfer, mean time", "s", time, "{{replica}}"),
            panel(
                "KV transfers that failed",
                "reqps",
                rate("replica", names.failed_transfers),
                "{{replica}}",
            ),
        ],
    }
}

fn collectives() -> Row {
    let legend = "{{collective}}, {{message_size}}";
    let by = |metric: &str| format!("avg by (collective, message_size) ({metric})");
    Row {
        title: "Collectives",
        panels: vec![
            panel("Duration", "µs", by("nccl_collective_exec_time_microseconds"), legend),
            panel("Bus bandwidth, GB/s", "none", by("nccl_bus_bandwidth_gbs"), legend),
        ],
    }
}

fn speculation(names: &Names) -> Row {
    let (length, share) = names.speculation;
    Row {
        title: "Speculative decoding",
        panels: vec![
            panel("Tokens a verification yields", "none", length, "{{replica}}"),
            panel("Drafted tokens accepted", "percentunit", share, "{{replica}}"),
        ],
    }
}

/// Every query of an engine's dashboard.
#[must_use]
pub fn queries(engine: Engine) -> Vec<String> {
    let panels = rows(engine).into_iter().flat_map(|row| row.panels);
    panels.flat_map(|panel| panel.queries).map(|(query, _)| query).collect()
}

const COLUMNS: usize = 3;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

/// An engine's dashboard, as Grafana imports it.
pub(super) fn dashboard(engine: Engine) -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in rows(engine) {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"h": 1, "w": 24, "x": 0, "y": y},
        }));
        y += 1;
        for (place, panel) in row.panels.iter().enumerate() {
            let (x, y) = (place % COLUMNS * WIDTH, y + place / COLUMNS * HEIGHT);
            panels.push(grafana_panel(panel, panels.len() + 1, x, y));
        }
        y += row.panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    let dashboard = json!({
        "uid": format!("scaleproof-{}", engine.word()),
        "title": format!("scaleproof: a fleet of {} replicas", engine.names().engine),
        "tags": ["scaleproof", engine.word()],
        "schemaVersion": 39,
        "editable": true,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
        ]},
        "panels": panels,
    });
    format!("{dashboard:#}\n")
}

fn grafana_panel(panel: &Panel, id: usize, x: usize, y: usize) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let letters = ["A", "B", "C", "D"];
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip(letters)
        .map(|((query, legend), letter)| {
            json!({"refId": letter, "datasource": source, "expr": query, "legendFormat": legend})
        })
        .collect();
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "datasource": source,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    })
}
