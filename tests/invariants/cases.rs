//! Random scenarios, as the texts of their files.

use proptest::prelude::*;
use proptest::sample::select;
use scaleproof_pack::schedule::Load;

/// A scenario as its files would have it, and how it is run.
#[derive(Clone, Debug)]
pub struct Case {
    pub manifest: String,
    pub scenario: String,
    pub profile: String,
    pub trace: Option<String>,
    pub load: Load,
    pub warm: bool,
}

/// One in `n` takes `value`, the others nothing.
fn sometimes(n: u32, value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![n - 1 => Just(String::new()), 1 => value].boxed()
}

/// A length of a few tokens up to `max`, fixed or drawn.
fn length(max: u32) -> BoxedStrategy<String> {
    prop_oneof![
        (1..=max).prop_map(|n| n.to_string()),
        (1..=max, 0..=max).prop_map(|(a, b)| format!("{{distribution: uniform, min: {a}, max: {}}}", a + b)),
        (1..=max).prop_map(|mean| format!("{{distribution: geometric, mean: {mean}}}")),
    ]
    .boxed()
}

/// A pause of up to a second.
fn pause() -> BoxedStrategy<String> {
    prop_oneof![Just("0".to_owned()), Just("{distribution: uniform, min: 0, max: 1}".to_owned())].boxed()
}

fn class(index: usize, trace: bool) -> BoxedStrategy<String> {
    let session = (1..5u32, pause())
        .prop_map(|(turns, think)| format!(", session: {{turns: {turns}, think_seconds: {think}}}"));
    let session = if trace { Just(String::new()).boxed() } else { sometimes(2, session) };
    let lengths = if trace {
        Just(String::new()).boxed()
    } else {
        (length(60), length(25)).prop_map(|(i, o)| format!(", input_tokens: {i}, output_tokens: {o}")).boxed()
    };
    (lengths, -1..2i32, session)
        .prop_map(move |(lengths, priority, session)| {
            format!(
                "  - {{name: c{index}, MIX{index}request_ttft_cutoff_ms: 50, request_tpot_cutoff_ms: 8, \
                 priority: {priority}{lengths}{session}}}\n"
            )
        })
        .boxed()
}

fn client() -> BoxedStrategy<String> {
    let timeout = (1..400u32, 1..100u32).prop_map(|(whole, share)| {
        let (whole_s, ttft_s) = (f64::from(whole) / 1e3, f64::from(whole * share) / 1e5);
        format!("  timeout_seconds: {whole_s}\n  ttft_timeout_seconds: {ttft_s}\n")
    });
    let ttft = (1..200u32).prop_map(|ms| format!("  ttft_timeout_seconds: {}\n", f64::from(ms) / 1e3));
    let cancellation = (1..=10u32).prop_map(|tenths| {
        let after = "{distribution: uniform, min: 0, max: 0.2}";
        format!("  cancellation: {{probability: {}, after_seconds: {after}}}\n", f64::from(tenths) / 10.0)
    });
    let think = pause().prop_map(|pause| format!("  think_time_seconds: {pause}\n"));
    (
        prop_oneof![2 => Just(String::new()), 1 => timeout, 1 => ttft],
        sometimes(3, cancellation),
        sometimes(2, think),
    )
        .prop_map(|(timeouts, cancellation, think)| timeouts + &cancellation + &think)
        .boxed()
}

/// Classes with their counts, which may be 0.
fn manifest(trace: bool) -> BoxedStrategy<String> {
    let classes = (1..4usize).prop_flat_map(move |n| {
        let lines: Vec<_> = (0..n).map(|index| class(index, trace)).collect();
        (lines, prop::collection::vec(0..25u64, n))
    });
    let pattern = if trace {
        Just("trace\n  trace: {file: t.jsonl, format: mooncake}".to_owned()).boxed()
    } else {
        let pieces = "piecewise\n  pieces: [{seconds: 0.2, rate: 4}, {seconds: 0.3, from: 0, to: 1}]";
        select(vec!["constant", "poisson", "gamma\n  gamma_shape: 0.3", pieces])
            .prop_map(str::to_owned)
            .boxed()
    };
    (classes, pattern, client(), any::<u64>(), 0..30u64, select(vec!["enabled", "disabled"]))
        .prop_map(move |((lines, counts), pattern, client, seed, successes, cache)| {
            let total: u64 = counts.iter().sum();
            let mut workload = lines.concat();
            let mut counted = Vec::new();
            for (index, count) in counts.iter().enumerate() {
                // A schedule of nothing still needs a mix.
                let mix = if total == 0 { 1.0 / counts.len() as f64 } else { *count as f64 / total as f64 };
                let mix = if trace { String::new() } else { format!("mix: {mix}, ") };
                workload = workload.replace(&format!("MIX{index}"), &mix);
                counted.push(format!("c{index}: {count}"));
            }
            let counts = format!(
                "  initial_scheduled_requests: {total}\n  class_schedule_counts: {{{}}}\n",
                counted.join(", ")
            );
            let counts = if trace { String::new() } else { counts };
            format!(
                "cutoff: 2026-01-02\n\
                 model: {{id: m, revision: r1, tokenizer_revision: t1, precision: bf16}}\n\
                 engine:\n  name: e\n  version: \"1\"\n  placement: {{tp: 1, pp: 1, dp: 1, replicas: 1, gpus: 1}}\n  \
                 prefix_cache: {cache}\n  speculative_decoding: disabled\n  disaggregated_prefill: disabled\n\
                 client:\n  location: here\n  streaming: true\n  arrival_pattern: {pattern}\n  \
                 minimum_duration_seconds: 0\n  request_schedule_seed: {seed}\n  warmup_seconds: 0.1\n{counts}{client}\
                 workload:\n{workload}\
                 acceptance: {{class_slo_attainment_min: 0.9, min_successful_samples_per_class: {successes}, \
                 error_rate_max: 0.1, queue_trend_required: flat, target_utilization: 0.75}}\n"
            )
        })
        .boxed()
}

/// A few seats, blocks and tokens a step. `scale` multiplies what is measured in tokens.
fn profile(scale: u32) -> BoxedStrategy<String> {
    let pool = (1..400u32, select(vec![1u32, 4, 16]), 1..60u32, 1..9u32, select(vec![60u32, 200, 100_000]));
    let switches = (select(vec!["fcfs", "priority"]), any::<bool>(), any::<bool>(), any::<bool>());
    let process = select(vec!["parallel", "serial", "shared"]);
    let limits = (select(vec![0u32, 7]), select(vec!["0", "0.1"]), 0..3u32, process);
    (pool, switches, limits)
        .prop_map(move |((tokens, size, budget, seats, longest), (policy, asynchronous, caching, reserve), limits)| {
            let (threshold, watermark, front_end, process) = limits;
            // The engine keeps one block for itself.
            let blocks = 1 + tokens.div_ceil(size);
            let (size, budget) = (size * scale, (budget * scale).max(seats));
            let (longest, threshold) = (longest * scale, threshold * scale);
            format!(
                "profile: p\nkind: fixture\n\
                 model: {{id: m, revision: r1, precision: bf16}}\n\
                 placement: {{tp: 1, pp: 1}}\n\
                 scheduler:\n  num_blocks: {blocks}\n  block_size: {size}\n  max_num_batched_tokens: {budget}\n  \
                 max_num_seqs: {seats}\n  max_model_len: {longest}\n  policy: {policy}\n  \
                 async_scheduling: {asynchronous}\n  enable_prefix_caching: {caching}\n  \
                 scheduler_reserve_full_isl: {reserve}\n  long_prefill_token_threshold: {threshold}\n  \
                 watermark: {watermark}\n\
                 front_end: {{process: {process}, request_ms: {front_end}, prompt_token_us: {front_end}, \
                 output_token_ms: {front_end}}}\n\
                 step_time:\n  base_us: 1000\n  batch_token_knots: [[8, 0], [64, 5000]]\n  \
                 decode_context_token_us: 1\n  prefill_pair_us: 0.1\n  prefill_context_token_us: 1\n  row_us: 100\n  \
                 sampled_row_us: 10\n  host: {{base_us: 300, row_us: 30}}\n\
                 validity: {{batch_tokens: [1, 64], rows: [1, 8], context_tokens: [1, 100]}}\n\
                 provenance: {{method: drawn, sources: [none]}}\n"
            )
        })
        .boxed()
}

fn scenario() -> BoxedStrategy<String> {
    let router =
        select(vec!["round_robin", "random", "least_outstanding", "least_connections", "power_of_two"]);
    let poll = sometimes(2, Just(", poll_interval_seconds: 0.05".to_owned()));
    let queue = sometimes(3, (1..9u32).prop_map(|n| format!("engine: {{max_num_queued_reqs: {n}}}\n")));
    let tokens = sometimes(3, (1..99u32).prop_map(|n| format!("engine: {{max_num_queued_tokens: {n}}}\n")));
    let groups = sometimes(
        2,
        (0..40u32).prop_map(|n| {
            format!(
                "prefix_groups: [{{name: g, tokens: {n}, weight: 2}}, {{name: h, tokens: 20, weight: 1}}]\n"
            )
        }),
    );
    (router, poll, queue, tokens, groups)
        .prop_map(|(router, poll, queue, tokens, groups)| {
            let engine = if queue.is_empty() { tokens } else { queue };
            format!(
                "profile: p.yaml\nrouter: {{policy: {router}{poll}}}\n{engine}{groups}\
                 experiment: {{rates_rps: [1], sample_interval_seconds: 0.02, max_continuation: 3}}\n"
            )
        })
        .boxed()
}

fn load() -> BoxedStrategy<Load> {
    prop_oneof![
        (1..300u32).prop_map(|rps| Load::Open { rps: f64::from(rps) }),
        (1..30u32).prop_map(|concurrency| Load::Closed { concurrency }),
    ]
    .boxed()
}

pub fn case() -> BoxedStrategy<Case> {
    (manifest(false), scenario(), profile(1), load(), any::<bool>())
        .prop_map(|(manifest, scenario, profile, load, warm)| Case {
            manifest,
            scenario,
            profile,
            trace: None,
            load,
            warm,
        })
        .boxed()
}

/// Replays of Mooncake traces whose prompts share blocks.
pub fn trace_case() -> BoxedStrategy<Case> {
    let row = (0..60u64, 1..4000u32, 1..25u32, 0..3u64);
    let rows = prop::collection::vec(row, 1..40).prop_map(|rows| {
        let mut at_ms = 0;
        let mut text = String::new();
        for (gap_ms, input, output, family) in rows {
            at_ms += gap_ms;
            let ids: Vec<String> = (0..input.div_ceil(512)).map(|i| (family * 100 + u64::from(i)).to_string()).collect();
            text += &format!(
                "{{\"timestamp\": {at_ms}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": [{}]}}\n",
                ids.join(", ")
            );
        }
        text
    });
    (manifest(true), scenario(), profile(64), load(), any::<bool>(), rows)
        .prop_map(|(manifest, scenario, profile, load, warm, rows)| Case {
            manifest,
            scenario: scenario
                .lines()
                .filter(|line| !line.starts_with("prefix_groups"))
                .collect::<Vec<_>>()
                .join("\n"),
            profile,
            trace: Some(rows),
            load,
            warm,
        })
        .boxed()
}
