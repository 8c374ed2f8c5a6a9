//! Faults on command, as clients of the replica and of the port for faults see them.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test may panic; counts in metrics are whole")]

mod support;

use scaleproof_emulate::{Config, Emulator};
use serde_json::{Value, json};
use std::net::SocketAddr;
use support::{address, call, config, get, metric, post, send, until};
use tokio::io::AsyncReadExt;

async fn fault(emulator: &Emulator, body: Value) {
    let reply = post(emulator.admin_address(), "/replicas/0/fault", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn short() -> Value {
    json!({"prompt": [1, 2, 3], "max_tokens": 6, "stream": true})
}

/// A stream that goes on for long, once it runs.
async fn long_stream(at: SocketAddr) -> tokio::net::TcpStream {
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 4000, "stream": true}).to_string();
    let stream = send(at, "POST", "/v1/completions", &body).await.unwrap();
    until(at, "vllm:num_requests_running", 1.0).await;
    stream
}

fn slowly() -> Config {
    Config { time_scale: 1.0, ..config() }
}

#[tokio::test]
async fn a_stopped_replica_resets_and_refuses_until_it_is_started_with_an_empty_cache() {
    let emulator = Emulator::start(slowly()).await.unwrap();
    let at = address(&emulator).await;
    let mut stream = long_stream(at).await;
    fault(&emulator, json!({"fault": "stop"})).await;
    let mut bytes = Vec::new();
    let broken = stream.read_to_end(&mut bytes).await.unwrap_err();
    assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
    let refused = call(at, "GET", "/health", "").await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let states = get(emulator.admin_address(), "/replicas").await.json();
    assert_eq!((&states[0]["state"], &states[0]["conditions"]), (&json!("stopped"), &Value::Null));

    fault(&emulator, json!({"fault": "start"})).await;
    assert_eq!(get(at, "/health").await.status, 200);
    assert_eq!(metric(at, "vllm:generation_tokens_total").await, 0.0, "a new process");
    assert!(post(at, "/v1/completions", &short()).await.is_done());
    let again = post(emulator.admin_address(), "/replicas/0/fault", &json!({"fault": "start"})).await;
    assert_eq!(again.status, 400, "it is up");
    assert!(emulator.shutdown().await.replicas[0].completed >= 1, "over both lives");
}

#[tokio::test]
async fn a_restart_takes_its_time_and_the_port_refuses_meanwhile() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "stop", "start_up_seconds": 10})).await;
    let states = get(emulator.admin_address(), "/replicas").await.json();
    assert_eq!(states[0]["state"], "starting");
    // Ten seconds of the engine are half a second here.
    for _ in 0..2000 {
        if call(at, "GET", "/health", "").await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it never comes back");
}

#[tokio::test]
async fn a_stalled_engine_gives_no_token_while_its_server_is_well() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "stall", "health": true})).await;
    assert_eq!(get(at, "/health").await.status, 200);
    let waiting = tokio::spawn(async move { post(at, "/v1/completions", &short()).await });
    until(at, "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"}", 1.0).await;
    assert_eq!(metric(at, "vllm:generation_tokens_total").await, 0.0, "its stream is open, and empty");
    fault(&emulator, json!({"fault": "heal"})).await;
    assert!(waiting.await.unwrap().is_done());
}

#[tokio::test]
async fn a_hanging_server_accepts_and_answers_nothing_until_it_is_healed() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "stall"})).await;
    let health = tokio::spawn(async move { get(at, "/health").await });
    let answer = tokio::spawn(async move { post(at, "/v1/completions", &short()).await });
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert!(!health.is_finished() && !answer.is_finished());
    fault(&emulator, json!({"fault": "heal"})).await;
    assert_eq!(health.await.unwrap().status, 200);
    assert!(answer.await.unwrap().is_done());
}

#[tokio::test]
async fn slow_steps_take_their_factor_of_the_engines_time() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "slow", "factor": 3})).await;
    post(at, "/v1/completions", &short()).await;
    let decode_s = metric(at, "vllm:request_decode_time_seconds_sum").await;
    assert!((decode_s - 5.0 * 0.03 * 0.05).abs() < 1e-6, "{decode_s}");
}

#[tokio::test]
async fn a_cut_pool_has_fewer_blocks_and_heals() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "kv_cut", "share": 0.99})).await;
    // Ten blocks of a thousand are left: 320 tokens never fit.
    let prompt: Vec<u32> = (0..320).collect();
    let body = json!({"prompt": prompt, "max_tokens": 4});
    let waiting = tokio::spawn(async move { post(at, "/v1/completions", &body).await });
    until(at, "vllm:num_requests_waiting", 1.0).await;
    fault(&emulator, json!({"fault": "heal"})).await;
    assert_eq!(waiting.await.unwrap().json()["usage"]["completion_tokens"], 4);
}

#[tokio::test]
async fn answers_break_off_after_their_tokens() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "drop", "after_tokens": 2})).await;
    let reply = post(at, "/v1/completions", &short()).await;
    assert_eq!((reply.status, reply.whole, reply.is_done()), (200, false, false));
    assert_eq!(reply.events().len(), 2);
    let mut whole = short();
    whole["stream"] = json!(false);
    assert!(call(at, "POST", "/v1/completions", &whole.to_string()).await.is_err(), "no reply at all");
    until(at, "vllm:num_requests_running", 0.0).await;
}

#[tokio::test]
async fn requests_are_refused_with_the_status_asked_for() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "refuse", "status": 429, "retry_after_seconds": 7})).await;
    let reply = post(at, "/v1/completions", &short()).await;
    assert_eq!(reply.status, 429);
    assert!(reply.headers.contains("retry-after: 7"), "{}", reply.headers);
    assert_eq!(get(at, "/health").await.status, 200);
    fault(&emulator, json!({"fault": "refuse", "status": 503, "probability": 0.5})).await;
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(post(at, "/v1/completions", &short()).await.status);
    }
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
}

#[tokio::test]
async fn a_long_way_is_not_the_engines() {
    let emulator = Emulator::start(config()).await.unwrap();
    let at = address(&emulator).await;
    fault(&emulator, json!({"fault": "latency", "request_ms": 100, "token_ms": 100})).await;
    let reply = post(at, "/v1/completions", &short()).await;
    assert_eq!((reply.events().len(), reply.is_done()), (6, true));
    fault(&emulator, json!({"fault": "heal"})).await;
    let e2e_s = metric(at, "vllm:e2e_request_latency_seconds_sum").await;
    assert!((e2e_s - 6.0 * 0.01 * 0.05).abs() < 1e-6, "{e2e_s}");
}

async fn misbehaving(how: &str) -> (Emulator, SocketAddr) {
    let emulator = Emulator::start(config()).await.unwrap();
    fault(&emulator, json!({"fault": "misbehave", "how": how})).await;
    let at = address(&emulator).await;
    (emulator, at)
}

#[tokio::test]
async fn servers_that_misbehave() {
    let (_emulator, at) = misbehaving("invalid_sse").await;
    let text = post(at, "/v1/completions", &short()).await.text();
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let broken =
        data.filter(|data| serde_json::from_str::<Value>(data).is_err() && *data != "[DONE]").count();
    assert_eq!(broken, 1, "{text}");

    let (_emulator, at) = misbehaving("split_utf8").await;
    let reply = post(at, "/v1/completions", &short()).await;
    assert!(reply.is_done() && reply.events().len() == 6, "whole, it is well: {}", reply.text());
    assert!(reply.frames.iter().any(|frame| std::str::from_utf8(frame).is_err()));

    let (_emulator, at) = misbehaving("usage_on_every_chunk").await;
    let events = post(at, "/v1/completions", &short()).await.events();
    let counts: Vec<u64> = events.iter().map(|e| e["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6]);

    let (_emulator, at) = misbehaving("never_done").await;
    let reply = post(at, "/v1/completions", &short()).await;
    assert_eq!((reply.whole, reply.is_done(), reply.events().len()), (true, false, 6));

    let (_emulator, at) = misbehaving("no_reply").await;
    assert!(call(at, "POST", "/v1/completions", &short().to_string()).await.is_err());

    let (_emulator, at) = misbehaving("byte_by_byte").await;
    let reply = post(at, "/v1/completions", &json!({"prompt": [1], "max_tokens": 1, "stream": true})).await;
    assert!(reply.is_done() && reply.frames.iter().all(|frame| frame.len() == 1));
}

#[tokio::test]
async fn a_stream_that_never_ends_has_all_its_tokens() {
    let (_emulator, at) = misbehaving("never_ends").await;
    let mut stream = send(at, "POST", "/v1/completions", &short().to_string()).await.unwrap();
    let mut text = String::new();
    while text.matches("\"finish_reason\":\"length\"").count() == 0 {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    assert!(!text.contains("[DONE]"));
}

#[tokio::test]
async fn commands_that_cannot_be_say_why() {
    let emulator = Emulator::start(config()).await.unwrap();
    let admin = emulator.admin_address();
    for (path, body) in [
        ("/replicas/0/fault", r#"{"fault":"slow","factor":0}"#),
        ("/replicas/0/fault", "nonsense"),
        ("/replicas/7/fault", r#"{"fault":"stop"}"#),
        ("/replicas/x/fault", r#"{"fault":"stop"}"#),
    ] {
        let reply = call(admin, "POST", path, body).await.unwrap();
        assert_eq!(reply.status, 400, "{path} {body}");
        assert!(
            reply.json()["error"].as_str().unwrap().contains("found") || body == "nonsense",
            "{}",
            reply.text()
        );
    }
    let all = call(admin, "POST", "/replicas/all/fault", r#"{"fault":"slow","factor":2}"#).await.unwrap();
    assert_eq!(all.json()[0]["conditions"]["slow_factor"], 2.0);
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused() {
    let broken: [fn(&mut Config); 5] = [
        |config| config.replicas = 0,
        |config| config.time_scale = f64::NAN,
        |config| config.noise = -1.0,
        |config| (config.port, config.replicas) = (65_530, 10),
        |config| config.engine.block_size = 0,
    ];
    for break_it in broken {
        let mut config = config();
        break_it(&mut config);
        assert!(Emulator::start(config).await.is_err());
    }
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = Config { port: holder.local_addr().unwrap().port(), ..config() };
    let error = Emulator::start(taken).await.err().unwrap().to_string();
    assert!(error.contains("expected a free port"), "{error}");
}
