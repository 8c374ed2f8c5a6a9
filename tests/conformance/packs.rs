//! The packs of `live` runs against `emulate`: rows, tokens, hits and checks.

use crate::process::Emulated;
use crate::support::{Run, Scenario};
use serde_json::Value;

/// Shared prefixes of two blocks for one class, and of six for the other.
pub const GROUPS: [(&str, u32); 2] = [("a", 32), ("b", 96)];

/// The checks that do not depend on how busy the machine is.
const ALWAYS: [&str; 5] =
    ["dropped_arrivals", "littles_law_gap", "prompt_token_gap", "output_token_gap", "cold_hit_share"];

/// An emulator of the scenario.
pub fn emulated(scenario: &Scenario, more: &[&str]) -> Emulated {
    let arguments = [&["emulate", "small", "--port", "0", "--admin-port", "0"], more].concat();
    Emulated::start(scenario.command(&arguments))
}

/// A live run against it. A busy machine may make it invalid: then the exit is 3, and all the rest as it should be.
pub fn live(scenario: &Scenario, emulated: &Emulated, arguments: &[&str]) -> Run {
    let run = scenario.run(&[&["live", "small"], &emulated.targets()[..], arguments].concat());
    assert!([0, 1, 3].contains(&run.code) && !run.err.contains("panicked"), "{run:#?}");
    run
}

/// The report of a pack.
pub fn report(scenario: &Scenario, pack: &str) -> Value {
    serde_json::from_str(&scenario.read(&format!("{pack}/slo-report.json"))).unwrap()
}

/// The rows of a pack, each a map of its columns, in order of their numbers.
pub fn rows(scenario: &Scenario, pack: &str) -> Vec<Row> {
    let text = scenario.read(&format!("{pack}/requests.csv"));
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let [id, class, status, input, cached, output, replica, usage] = [
        "request_id",
        "class",
        "status",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "replica",
        "usage_input_tokens",
    ]
    .map(at);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |column: usize| fields[column].parse().ok();
        Row {
            id: fields[id].trim_start_matches("r-").parse().unwrap(),
            class: fields[class].to_owned(),
            status: fields[status].to_owned(),
            input_tokens: number(input),
            cached_tokens: number(cached),
            output_tokens: number(output),
            replica: number(replica),
            usage_input_tokens: number(usage),
        }
    };
    let mut rows: Vec<Row> = lines.map(row).collect();
    rows.sort_by_key(|row| row.id);
    rows
}

/// A part of a row of requests.csv.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: u64,
    pub class: String,
    pub status: String,
    pub input_tokens: Option<u32>,
    pub cached_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub replica: Option<u32>,
    /// Only of a live run.
    pub usage_input_tokens: Option<u32>,
}

/// 100 requests in a second or two.
fn quick() -> Scenario {
    Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 100")
        .manifest("{chat: 300, batch: 100}", "{chat: 75, batch: 25}")
        .manifest("min_successful_samples_per_class: 50", "min_successful_samples_per_class: 20")
        .prefix_groups(GROUPS)
}

/// Every attempt succeeded, with the tokens scheduled and as many hits as `cached` says of its class.
#[track_caller]
fn whole(scenario: &Scenario, pack: &str, cached: impl Fn(&str) -> Option<u32>) {
    let rows = rows(scenario, pack);
    assert_eq!(rows.len(), 100);
    for row in &rows {
        let (input, output) = if row.class == "chat" { (64, 16) } else { (200, 32) };
        assert_eq!(
            (row.status.as_str(), row.input_tokens, row.output_tokens),
            ("ok", Some(input), Some(output))
        );
        assert_eq!(row.usage_input_tokens, Some(input), "by the server's own count");
        if let Some(cached) = cached(&row.class) {
            assert_eq!(row.cached_tokens, Some(cached), "{row:?}");
        }
    }
    let report = report(scenario, pack);
    assert_eq!((&report["attempted"], &report["successful"]), (&100.into(), &100.into()));
    let checks = report["checks"].as_array().unwrap();
    for name in ALWAYS {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["pass"], true, "{check}");
    }
    let samples = scenario.read(&format!("{pack}/timeline.csv"));
    assert!(samples.lines().count() > 10, "{samples}");
}

fn scheduled(class: &str) -> Option<u32> {
    Some(if class == "chat" { 32 } else { 96 })
}

#[test]
fn cold_runs_hit_nothing_and_warm_ones_what_is_scheduled() {
    let scenario = quick();
    let emulated = emulated(&scenario, &[]);
    // A cold run after a warm one finds nothing of it, nor a second one of the first.
    for (cache, pack) in [("warm", "w"), ("cold", "c"), ("cold", "d"), ("warm", "v")] {
        live(&scenario, &emulated, &["--rps", "60", "--cache", cache, "--out", pack]);
        let warm = cache == "warm";
        whole(&scenario, pack, |class| if warm { scheduled(class) } else { Some(0) });
        let hits = &report(&scenario, pack)["prefix_cache"];
        let share = |name: &str| hits[name].as_f64().unwrap();
        assert!((share("hit_share") - share("expected_hit_share")).abs() < 0.01, "{hits}");
        assert_eq!(share("expected_hit_share") > 0.3, warm);
        assert_eq!(hits["warm_from_the_start"], true);
    }
    let summary = emulated.stop();
    assert!(summary.contains("step lag: p50"), "{summary}");
}

#[test]
fn prompts_as_text_have_the_same_tokens_and_hits() {
    let scenario = quick();
    let emulated = emulated(&scenario, &[]);
    for (cache, pack) in [("cold", "c"), ("warm", "w")] {
        let arguments = ["--endpoint", "chat", "--rps", "60", "--cache", cache, "--out", pack];
        live(&scenario, &emulated, &arguments);
        // The template's head is shared by all, but it is less than a block.
        whole(&scenario, pack, |class| if cache == "warm" { scheduled(class) } else { Some(0) });
    }
}

#[test]
fn closed_loops_and_every_router_lose_no_row() {
    let scenario = quick();
    let emulated = emulated(&scenario, &[]);
    let routers = [
        "round_robin",
        "random",
        "least_outstanding",
        "power_of_two",
        "consistent_hash",
        "session_affinity",
        "cache_aware",
    ];
    for router in routers {
        let arguments = ["--concurrency", "8", "--cache", "warm", "--router", router, "--out", router];
        live(&scenario, &emulated, &arguments);
        whole(&scenario, router, |_| None);
        assert_eq!(report(&scenario, router)["system"]["router"], router);
    }
}

#[test]
fn behind_one_target_the_replicas_own_counters_are_read() {
    let scenario = quick();
    let emulated = emulated(&scenario, &[]);
    let [first, second] = &emulated.replicas[..] else { panic!("two replicas") };
    let replicas = ["--replica", first, "--replica", second];
    let arguments = ["live", "small", "--target", first, "--rps", "30", "--cache", "warm", "--out", "p"];
    let run = scenario.run(&[&arguments[..], &replicas].concat());
    assert!([0, 1, 3].contains(&run.code), "{run:#?}");
    whole(&scenario, "p", scheduled);
    let samples = scenario.read("p/timeline.csv");
    for replica in ["0", "1"] {
        assert!(samples.lines().any(|line| line.split(',').nth(1) == Some(replica)), "{samples}");
    }
}
