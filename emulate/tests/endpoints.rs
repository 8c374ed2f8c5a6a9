//! The endpoints as a client sees them.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test may panic; counts in metrics are whole")]

mod support;

use scaleproof_emulate::{Emulator, answer_token, detokenize};
use serde_json::{Value, json};
use support::{address, call, config, get, metric, post};

fn texts(events: &[Value]) -> String {
    let text = |event: &Value| event["choices"][0]["text"].as_str().unwrap_or_default().to_owned();
    events.iter().map(text).collect()
}

#[tokio::test]
async fn a_completion_streams_one_token_a_chunk_and_ends_with_its_usage() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let request = json!({
        "model": "m", "prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": true, "stream": true,
        "stream_options": {"include_usage": true}, "return_token_ids": true,
    });
    let reply = post(at, "/v1/completions", &request).await;
    assert_eq!((reply.status, reply.whole, reply.is_done()), (200, true, true), "{}", reply.text());
    assert!(reply.headers.contains("content-type: text/event-stream"), "{}", reply.headers);
    let events = reply.events();
    assert_eq!(events.len(), 9, "eight tokens and the usage");
    let ids: Vec<u64> =
        events[..8].iter().map(|e| e["choices"][0]["token_ids"][0].as_u64().unwrap()).collect();
    let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
    assert_eq!(texts(&events), detokenize(&ids));
    assert_eq!(events[0]["choices"][0]["prompt_token_ids"], json!([5, 6, 7]));
    assert_eq!(events[6]["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(events[7]["choices"][0]["finish_reason"], "length");
    let usage = json!({
        "prompt_tokens": 3, "total_tokens": 11, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0},
    });
    assert_eq!((&events[8]["usage"], &events[8]["choices"]), (&usage, &json!([])));

    let mut whole = request;
    whole["stream"] = json!(false);
    let reply = post(at, "/v1/completions", &whole).await.json();
    assert_eq!(reply["choices"][0]["text"], texts(&events), "the same prompt, the same answer");
    assert_eq!(reply["choices"][0]["token_ids"], json!(ids));
    assert_eq!(reply["usage"], usage);
    assert_eq!(
        metric(at, "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"length\"}")
            .await,
        2.0
    );
}

#[tokio::test]
async fn a_chat_speaks_as_the_assistant() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let messages = json!([{"role": "user", "content": "hello there"}]);
    let request = json!({"messages": messages, "max_completion_tokens": 4, "stream": true});
    let events = post(at, "/v1/chat/completions", &request).await.events();
    assert_eq!(events.len(), 5);
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(events[0]["object"], "chat.completion.chunk");
    let said: String = events
        .iter()
        .map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap().to_owned())
        .collect();
    let whole =
        post(at, "/v1/chat/completions", &json!({"messages": messages, "max_tokens": 4})).await.json();
    assert_eq!(whole["choices"][0]["message"], json!({"role": "assistant", "content": said}));
    let counted = post(at, "/tokenize", &json!({"messages": messages})).await.json();
    assert_eq!(whole["usage"]["prompt_tokens"], counted["count"]);
    assert_eq!(whole["usage"]["completion_tokens"], 4);
}

#[tokio::test]
async fn text_and_its_tokens_are_the_same_prompt() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let tokens = post(at, "/tokenize", &json!({"prompt": "one two three"})).await.json();
    let back = post(at, "/detokenize", &json!({"tokens": tokens["tokens"]})).await.json();
    assert_eq!(back["prompt"], "one two three");
    assert_eq!(tokens["max_model_len"], 4096);
    let ask = async |prompt: Value| post(at, "/v1/completions", &json!({"prompt": prompt})).await.json();
    let (by_text, by_ids) = (ask(json!("one two three")).await, ask(json!([tokens["tokens"]])).await);
    assert_eq!(by_text["choices"], by_ids["choices"]);
    assert_eq!(by_text["usage"]["prompt_tokens"], tokens["count"]);
    assert_eq!(by_text["usage"]["completion_tokens"], 16, "without max_tokens");
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let models = get(at, "/v1/models").await.json();
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!("m"), &json!(4096)));
    assert_eq!(get(at, "/health").await.status, 200);
    assert_eq!(get(at, "/version").await.json()["version"], "0.32.0");
    assert_eq!(get(at, "/nothing").await.status, 404);
    assert_eq!(metric(at, "http_requests_total{handler=\"none\",method=\"GET\",status=\"4xx\"}").await, 1.0);
}

#[tokio::test]
async fn what_is_too_long_is_refused_or_cut_as_the_engine_does() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    let prompt = |len: usize| (0..len).map(|index| json!(index % 200)).collect::<Value>();
    let reply = post(at, "/v1/completions", &json!({"prompt": prompt(4096)})).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(400)), "no room for a token");
    let reply = post(at, "/v1/completions", &json!({"prompt": prompt(4090), "max_tokens": 100})).await.json();
    assert_eq!(reply["usage"]["completion_tokens"], 6, "the context ends it");
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    for (status, body) in [
        (400, "{"),
        (400, "{}"),
        (400, r#"{"prompt": []}"#),
        (400, r#"{"prompt": [99999999]}"#),
        (400, r#"{"prompt": [-1]}"#),
        (400, r#"{"prompt": ["a", "b"]}"#),
        (400, r#"{"prompt": "a", "max_tokens": 0}"#),
        (400, r#"{"prompt": "a", "max_tokens": 2, "min_tokens": 3}"#),
        (400, r#"{"prompt": "a", "n": 2}"#),
        (400, r#"{"prompt": "a", "logprobs": 1}"#),
        (404, r#"{"prompt": "a", "model": "other"}"#),
    ] {
        let reply = call(at, "POST", "/v1/completions", body).await.unwrap();
        assert_eq!(reply.status, status, "{body}");
        assert!(reply.json()["error"]["message"].is_string(), "{body}");
    }
    assert_eq!(post(at, "/v1/chat/completions", &json!({"messages": []})).await.status, 400);
    assert_eq!(post(at, "/tokenize", &json!({})).await.status, 400);
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let mut config = config();
    config.limits.max_queued_requests = Some(1);
    config.time_scale = 1.0;
    let emulator = Emulator::start(config).await.unwrap();
    let at = address(&emulator).await;
    let long = json!({"prompt": [1, 2, 3], "max_tokens": 4000}).to_string();
    let first = support::send(at, "POST", "/v1/completions", &long).await.unwrap();
    support::until(at, "vllm:num_requests_running", 1.0).await;
    let reply = post(at, "/v1/completions", &json!({"prompt": [1]})).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (503, &json!(503)));
    let series = "vllm:admission_rejections_total{model_name=\"m\",reason=\"max_num_queued_reqs\"}";
    assert_eq!(metric(at, series).await, 1.0);
    drop(first);
    support::until(at, "vllm:num_requests_running", 0.0).await;
    assert_eq!(
        metric(at, "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"abort\"}")
            .await,
        1.0
    );
    let summary = emulator.shutdown().await;
    assert_eq!((summary.replicas[0].aborted, summary.replicas[0].rejected), (1, 1));
}

#[tokio::test]
async fn a_stream_whose_client_is_gone_is_aborted() {
    let mut config = config();
    config.time_scale = 1.0;
    let emulator = Emulator::start(config).await.unwrap();
    let at = address(&emulator).await;
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 4000, "stream": true}).to_string();
    let stream = support::send(at, "POST", "/v1/completions", &body).await.unwrap();
    support::until(at, "vllm:num_requests_running", 1.0).await;
    drop(stream);
    support::until(
        at,
        "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"abort\"}",
        1.0,
    )
    .await;
    assert_eq!(metric(at, "vllm:kv_cache_usage_perc").await, 0.0, "its blocks are free");
}

#[test]
fn an_answers_tokens_are_public_knowledge() {
    assert_eq!(answer_token(1, 2), answer_token(1, 2));
}
