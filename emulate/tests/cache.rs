//! The prefix cache by real content, preemption, and `/metrics` beside a real engine's.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test may panic; counts in metrics are whole")]

mod support;

use scaleproof_emulate::{Emulator, Fault};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use support::{address, config, get, metric, post, until};

/// `len` token ids from `from` on.
fn ids(from: u32, len: u32) -> Vec<u32> {
    (0..len).map(|index| 300 + (from + index) * 13 % 60_000).collect()
}

async fn ask(at: SocketAddr, body: Value) -> Value {
    let reply = post(at, "/v1/completions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

async fn hits(at: SocketAddr) -> f64 {
    metric(at, "vllm:prefix_cache_hits_total").await
}

#[tokio::test]
async fn prompts_hit_exactly_the_blocks_they_share_until_the_cache_is_reset() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let prompt = |own: u32| [ids(0, 390), ids(own, 100)].concat();
    ask(at, json!({"prompt": prompt(1000), "max_tokens": 2})).await;
    assert_eq!(hits(at).await, 0.0);
    let reply = ask(at, json!({"prompt": prompt(2000), "max_tokens": 2})).await;
    assert_eq!(hits(at).await, 384.0, "24 whole blocks of 16");
    assert_eq!(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 384);
    assert_eq!(metric(at, "vllm:prefix_cache_queries_total").await, 980.0);

    assert_eq!(post(at, "/reset_prefix_cache", &json!({})).await.json()["success"], true);
    ask(at, json!({"prompt": prompt(3000), "max_tokens": 2})).await;
    assert_eq!(hits(at).await, 384.0, "none more");
    ask(at, json!({"prompt": prompt(4000), "max_tokens": 2, "cache_salt": "other"})).await;
    assert_eq!(hits(at).await, 384.0, "another salt shares nothing");
}

#[tokio::test]
async fn a_prompt_that_quotes_an_answer_hits_its_blocks() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let first = ids(0, 100);
    let reply = ask(at, json!({"prompt": first, "max_tokens": 61, "return_token_ids": true})).await;
    let answer: Vec<u32> = serde_json::from_value(reply["choices"][0]["token_ids"].clone()).unwrap();
    let second = [first, answer, ids(5000, 50)].concat();
    ask(at, json!({"prompt": second, "max_tokens": 1})).await;
    // The last token of an answer is never computed: 160 tokens are, ten blocks.
    assert_eq!(hits(at).await, 160.0);
}

#[tokio::test]
async fn a_small_pool_preempts_and_still_answers_everything() {
    let mut config = config();
    config.engine.num_blocks = 40;
    config.limits.max_request_tokens = 624;
    let emulator = Emulator::start(config).await.unwrap();
    let at = address(&emulator).await;
    // All three are there before the first step.
    emulator.fault(0, &Fault::Stall { health: true }).await.unwrap();
    let asked: Vec<_> = (0..3)
        .map(|number| {
            let body = json!({"prompt": ids(number * 1000, 100), "max_tokens": 250, "stream": true});
            tokio::spawn(async move { post(at, "/v1/completions", &body).await })
        })
        .collect();
    until(at, "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"}", 3.0).await;
    emulator.fault(0, &Fault::Heal {}).await.unwrap();
    for answer in asked {
        let answer = answer.await.unwrap();
        assert!(answer.is_done() && answer.events().len() == 250);
    }
    assert!(metric(at, "vllm:num_preemptions_total").await >= 1.0);
    let of_requests = metric(at, "vllm:request_num_preemptions_sum").await;
    assert_eq!(of_requests, metric(at, "vllm:num_preemptions_total").await);
    assert_eq!(metric(at, "vllm:kv_cache_usage_perc").await, 0.0);
}

/// Families with their types, and series with the names of their labels.
fn shape(text: &str) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let mut types = BTreeMap::new();
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            types.insert(name.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let (name, labels) = line.split_once('{').unwrap();
            let labels = labels.rsplit_once('}').unwrap().0;
            // Which buckets, reasons and states there are is part of the shape.
            let told = |label: &&str| !["model_name", "engine"].contains(&label.split('=').next().unwrap());
            let mut told: Vec<&str> = labels.split(',').filter(told).collect();
            told.sort_unstable();
            series.insert(format!("{name}{{{}}}", told.join(",")));
        }
    }
    (types, series)
}

#[tokio::test]
async fn metrics_have_the_names_types_labels_and_buckets_of_a_real_scrape() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    ask(at, json!({"prompt": ids(0, 20), "max_tokens": 3})).await;
    post(at, "/reset_prefix_cache", &json!({})).await;
    let (types, series) = shape(&get(at, "/metrics").await.text());
    let (real_types, real_series) = shape(include_str!("data/vllm-0.32.0-metrics.txt"));
    let own = |name: &String| !name.starts_with("scaleproof_emulate_");
    let types: BTreeMap<_, _> = types.into_iter().filter(|(name, _)| own(name)).collect();
    assert_eq!(types, real_types);
    let comparable = |series: BTreeSet<String>| -> BTreeSet<String> {
        series.into_iter().filter(|name| own(name) && !name.starts_with("vllm:cache_config_info")).collect()
    };
    assert_eq!(comparable(series), comparable(real_series));
}

#[tokio::test]
async fn metrics_count_what_was_served() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    ask(at, json!({"prompt": ids(0, 600), "max_tokens": 5})).await;
    for (series, value) in [
        ("vllm:prompt_tokens_total", 600.0),
        ("vllm:generation_tokens_total", 5.0),
        ("vllm:time_to_first_token_seconds_count", 1.0),
        ("vllm:inter_token_latency_seconds_count", 4.0),
        ("vllm:request_prefill_kv_computed_tokens_sum", 600.0),
        ("vllm:iteration_tokens_total_sum", 605.0),
        // 600 tokens in steps of 512 at most, then four more.
        ("vllm:iteration_tokens_total_count", 6.0),
        ("scaleproof_emulate_steps_total", 6.0),
        ("vllm:num_requests_running", 0.0),
    ] {
        assert_eq!(metric(at, series).await, value, "{series}");
    }
    // 11 ms and 10 ms of prefill and four steps of 10 ms, a twentieth of it; nothing is measured, all is computed.
    let e2e_s = metric(at, "vllm:e2e_request_latency_seconds_sum").await;
    let decode_s = metric(at, "vllm:request_decode_time_seconds_sum").await;
    assert!((decode_s - 4.0 * 0.01 * 0.05).abs() < 1e-6, "{decode_s}");
    assert!((e2e_s - (0.061 * 0.05)).abs() < 1e-6, "{e2e_s}");
    let text = get(at, "/metrics").await.text();
    assert!(
        text.contains("vllm:cache_config_info{block_size=\"16\"") && text.contains("num_gpu_blocks=\"1001\"")
    );
}
