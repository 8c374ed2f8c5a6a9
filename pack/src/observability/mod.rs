//! What an operator's Prometheus and Grafana are given, written from [`crate::alerts`]: alert rules with their unit
//! tests, dashboards, and a scrape configuration that gives every target the label `replica`.

mod cases;
mod dashboard;
mod promtool;
mod rules;

pub use dashboard::queries;
pub use rules::{common, of_engine};

use crate::alerts::{Engine, Timing, duration};

/// All files, each with its path below the folder of the observability files.
#[must_use]
pub fn files(timing: Timing) -> Vec<(String, String)> {
    let mut files = vec![
        ("alerts/common.yaml".to_owned(), rules::common(timing)),
        ("prometheus.yaml".to_owned(), scrape_configuration(timing)),
    ];
    for engine in Engine::ALL {
        let word = engine.word();
        files.push((format!("alerts/{word}.yaml"), rules::of_engine(engine, timing)));
        files.push((format!("dashboards/{word}.json"), dashboard::dashboard(engine)));
        files.push((format!("tests/{word}.yaml"), promtool::tests(engine, timing)));
    }
    files.sort();
    files
}

/// The first line of the YAML files.
const WRITTEN: &str = "# Written by `scaleproof observability`: change the program, not this file.\n";

fn scrape_configuration(timing: Timing) -> String {
    let every = duration(timing.interval);
    format!(
        "{WRITTEN}# Two replicas on this machine, for example: write your own targets, each with its replica.\n\
         global: {{scrape_interval: {every}, evaluation_interval: {every}}}\n\
         rule_files: [alerts/common.yaml, alerts/vllm.yaml]\n\
         scrape_configs:\n  \
         - job_name: engine\n    \
         static_configs:\n      \
         - {{targets: ['127.0.0.1:8000'], labels: {{replica: '0'}}}}\n      \
         - {{targets: ['127.0.0.1:8001'], labels: {{replica: '1'}}}}\n  \
         # The client's own metrics already say which replica they are of.\n  \
         - job_name: client\n    \
         static_configs: [{{targets: ['127.0.0.1:9100']}}]\n  \
         - job_name: gpu\n    \
         static_configs: [{{targets: ['127.0.0.1:9400']}}]\n"
    )
}
