//! Replayed traces: the one shipped, and two real ones where they are at hand.
//!
//! `cargo test --release --test traces -- --nocapture` prints what was measured.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on panics")]

mod support;

use scaleproof_pack::experiment::Observer;
use scaleproof_pack::manifest::{ArrivalPattern, Manifest, TraceFormat};
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::{Load, Schedule, trace_rate_rps};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::trace::{BLOCK_TOKENS, Trace};
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::step_time::{Coefficients, HostCost, StepTime};
use scaleproof_sim::{FrontEnd, GatewayConfig, RunConfig, ServerLimits, run};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use support::{Scenario, repository};

const MOONCAKE: &str = "mooncake_conversation_trace.jsonl";
const AZURE: &str = "AzureLLMInferenceTrace_conv.csv";

/// A real trace, if the folder beside the repository has it.
fn real(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(repository("../shared/data/traces")).join(name);
    if !path.exists() {
        println!("skipped: ../shared is absent");
        return None;
    }
    Some(path)
}

#[test]
fn the_shipped_trace_is_what_its_rule_makes() {
    let Ok(made) =
        Command::new("awk").args(["-f", &repository("scenarios/trace-replay/make-trace.awk")]).output()
    else {
        println!("skipped: there is no awk");
        return;
    };
    let shipped = std::fs::read(repository("scenarios/trace-replay/trace.csv")).unwrap();
    assert!(shipped == made.stdout, "trace.csv differs");
}

#[test]
fn the_shipped_scenario_runs_and_hits_when_warm() {
    let scenario = Scenario::new();
    let shipped = repository("scenarios/trace-replay");
    let simulate = |cache: &str| {
        scenario.run(&["simulate", &shipped, "--cache", cache, "--format", "json"]).expect(0).json()
    };
    let (warm, cold) = (simulate("warm"), simulate("cold"));
    assert_eq!([&warm["attempted"], &cold["attempted"]], [&json!(400), &json!(400)]);
    assert!(warm["prefix_hit_share"].as_f64().unwrap() > 0.25, "{}", warm["prefix_hit_share"]);
    assert_eq!(cold["prefix_hit_share"], json!(0.0));
    let usual = scenario.run(&["simulate", &shipped, "--format", "json"]).expect(0).json();
    assert_eq!(usual["prefix_hit_share"], warm["prefix_hit_share"], "the scenario is warm by itself");
}

/// Each real trace whole, on eight replicas.
#[test]
fn real_traces_are_simulated_whole() {
    let traces = [("mooncake-replay", MOONCAKE, 12_031), ("azure-replay", AZURE, 19_366)];
    for (name, file, rows) in traces {
        let Some(path) = real(file) else { return };
        let scenario = Scenario::new();
        let shipped = repository(&format!("scenarios/{name}"));
        let trace = path.display().to_string();
        let run = scenario.run(&["simulate", &shipped, "--trace", &trace, "--format", "json", "--out", "p"]);
        let report = run.json();
        assert_eq!(report["attempted"], json!(rows));
        assert_eq!(report["system"]["replicas"], json!(8));
        println!("{name}: prefix hit share {}, outcomes {}", report["prefix_hit_share"], report["outcomes"]);
    }
}

#[derive(Default)]
struct Collected {
    /// Measured requests in the order of their positions: prompt tokens, of those cached.
    prompts: Vec<(u64, u32, u32)>,
    evictions: u64,
}

impl Observer for Collected {
    fn record(&mut self, record: &Record) {
        if !record.warmup {
            self.prompts.push((record.id, record.input_tokens, record.cached_tokens));
        }
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.evictions = row.evictions;
    }
}

/// An engine that takes no time and has room for everything, so that the order of arrival alone decides.
fn endless() -> (EngineConfig, RunConfig) {
    let step_time = StepTime {
        graphs: None,
        eager: Coefficients {
            base_us: 1.0,
            batch_token_knots: vec![(1.0, 0.0)],
            decode_context_token_us: 0.0,
            prefill_pair_us: 0.0,
            prefill_context_token_us: 0.0,
            row_us: 0.0,
            sampled_row_us: 0.0,
            launch_us: 0.0,
            decode_wave_rows: 0.0,
        },
        host: HostCost::default(),
        hardware: None,
    };
    let engine = EngineConfig {
        num_blocks: 1 << 20,
        block_size: BLOCK_TOKENS,
        max_num_batched_tokens: 1 << 27,
        max_num_seqs: 1 << 14,
        max_model_len: 1 << 20,
        ..EngineConfig::default()
    };
    let limits =
        ServerLimits { max_request_tokens: u32::MAX, max_queued_requests: None, max_queued_tokens: None };
    let run = RunConfig {
        replicas: 1,
        step_time,
        front_end: FrontEnd::default(),
        limits,
        router: RouterPolicy::RoundRobin,
        gateway: GatewayConfig::default(),
        poll_interval: None,
        timeout: None,
        ttft_timeout: None,
        sample_interval: Nanos::from_seconds(60.0).unwrap(),
        enough: Enough { successes: 0, max_requests: 0 },
        faults: None,
    };
    (engine, run)
}

/// With an endless cache on one replica, 0.366 of Mooncake's blocks have been seen before.
///
/// The trace counts hash ids: 105,710 of 288,500 stand in a run, from the prompt's beginning, of ids seen before. 118
/// of these are the partial last block of a prompt that came before whole; an engine shares full blocks only, and of a
/// prompt that it has whole it computes the last token anew. That leaves 105,592, which is 0.366 of the blocks, too; and
/// 0.373 of the tokens, because the partial blocks that cannot hit are smaller than the others.
#[test]
fn an_endless_cache_has_the_share_that_mooncake_states() {
    let Some(path) = real(MOONCAKE) else { return };
    let trace = Trace::parse(MOONCAKE, TraceFormat::Mooncake, &std::fs::read(path).unwrap()).unwrap();
    let text =
        std::fs::read_to_string(repository("scenarios/mooncake-replay/workload-manifest.yaml")).unwrap();
    let manifest = Manifest::parse("workload-manifest.yaml", &text).unwrap();
    let ArrivalPattern::Trace(source) = &manifest.client.arrivals else { panic!("no trace") };
    let load = Load::Open { rps: trace_rate_rps(source, &trace).unwrap() };
    let schedule = Schedule::generate(&manifest, load, 0, Some(&trace), true).unwrap();
    let (engine, config) = endless();
    let mut collected = Collected::default();
    run(&config, &schedule, &|| Box::new(VllmScheduler::new(&engine).unwrap()), &mut collected).unwrap();
    collected.prompts.sort_unstable();
    assert_eq!(collected.evictions, 0, "the cache was not endless");

    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let (mut blocks, mut hits, mut partial_hits) = (0, 0, 0);
    for (row, &(_, input_tokens, cached_tokens)) in trace.rows.iter().zip(&collected.prompts) {
        assert_eq!(row.input_tokens, input_tokens);
        let run = row.blocks.iter().take_while(|id| seen.contains(*id)).count() as u32;
        let full = run.min((input_tokens - 1) / BLOCK_TOKENS);
        assert_eq!(cached_tokens, full * BLOCK_TOKENS, "line {}", row.line);
        seen.extend(&row.blocks);
        blocks += row.blocks.len() as u64;
        hits += u64::from(run);
        partial_hits += u64::from(run - full);
    }
    let cached: u64 = collected.prompts.iter().map(|&(_, _, cached)| u64::from(cached)).sum();
    let tokens: u64 = collected.prompts.iter().map(|&(_, input, _)| u64::from(input)).sum();
    let simulated = cached / u64::from(BLOCK_TOKENS);
    let share = |part: u64, whole: u64| part as f64 / whole as f64;
    println!(
        "{hits} of {blocks} blocks were seen before ({:.4}), {partial_hits} of them partial; simulated {simulated} \
         ({:.4} of blocks, {:.4} of tokens)",
        share(hits, blocks),
        share(simulated, blocks),
        share(cached, tokens)
    );
    assert_eq!(simulated + partial_hits, hits);
    for found in [share(hits, blocks), share(simulated, blocks)] {
        assert_eq!((found * 1e3).round() as u64, 366);
    }
}
