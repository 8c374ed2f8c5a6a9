//! A fleet to test with, and a client that shows every byte.

#![allow(dead_code, reason = "each test binary uses a part")]

use scaleproof_emulate::{Config, Emulator};
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::step_time::{Coefficients, HostCost, StepTime};
use scaleproof_sim::{FrontEnd, ServerLimits};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Steps of 10 ms, twenty times as fast.
pub fn config() -> Config {
    of_steps(10.0)
}

/// Steps of so many milliseconds, and a tenth more where a prompt fills them.
pub fn of_steps(step_ms: f64) -> Config {
    let engine = EngineConfig { num_blocks: 1001, max_model_len: 4096, ..EngineConfig::default() };
    let eager = Coefficients {
        base_us: 1_000.0 * step_ms,
        batch_token_knots: vec![(256.0, 0.0), (512.0, 100.0 * step_ms)],
        decode_context_token_us: 0.0,
        prefill_pair_us: 0.0,
        prefill_context_token_us: 0.0,
        row_us: 0.0,
        sampled_row_us: 0.0,
        launch_us: 0.0,
        decode_wave_rows: 0.0,
    };
    Config {
        model: "m".to_owned(),
        engine,
        step_time: StepTime { eager, graphs: None, host: HostCost::default(), hardware: None },
        front_end: FrontEnd::default(),
        limits: ServerLimits { max_request_tokens: 4096, max_queued_requests: None, max_queued_tokens: None },
        replicas: 1,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        admin_port: 0,
        time_scale: 0.05,
        noise: 0.0,
        seed: 1,
        steps: None,
    }
}

/// The address of the only replica.
pub async fn address(emulator: &Emulator) -> SocketAddr {
    emulator.addresses().await[0]
}

/// What a server said.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: String,
    /// Without the transfer's chunking, as far as it came.
    pub body: Vec<u8>,
    /// The body in the pieces in which it was sent.
    pub frames: Vec<Vec<u8>>,
    /// Whether it came to its end.
    pub whole: bool,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The JSON events of a stream, [DONE] left out.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    pub fn is_done(&self) -> bool {
        self.text().ends_with("data: [DONE]\n\n")
    }
}

/// Sends a request on a connection of its own.
pub async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// The reply to a request; an error if the connection breaks before there is a status.
pub async fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<Reply> {
    let mut stream = send(address, method, path, body).await?;
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await;
    let broken = read.expect("the server hangs").err();
    match (parse(&bytes), broken) {
        (Some(reply), _) => Ok(reply),
        (None, broken) => Err(broken.unwrap_or_else(|| std::io::ErrorKind::UnexpectedEof.into())),
    }
}

pub async fn get(address: SocketAddr, path: &str) -> Reply {
    call(address, "GET", path, "").await.unwrap()
}

pub async fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    call(address, "POST", path, &body.to_string()).await.unwrap()
}

fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let headers = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    let mut reply = Reply { status, headers, ..Reply::default() };
    if !reply.headers.contains("transfer-encoding: chunked") {
        reply.body = rest.to_vec();
        reply.whole = true;
        return Some(reply);
    }
    let mut rest = rest;
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let from = line + 2;
        if size == 0 {
            reply.whole = true;
            break;
        }
        let Some(chunk) = rest.get(from..from + size) else { break };
        reply.frames.push(chunk.to_vec());
        reply.body.extend_from_slice(chunk);
        rest = rest.get(from + size + 2..).unwrap_or_default();
    }
    Some(reply)
}

/// The value of a series of `/metrics`, its labels as they stand in the text.
pub async fn metric(address: SocketAddr, series: &str) -> f64 {
    let text = get(address, "/metrics").await.text();
    value(&text, series).unwrap_or_else(|| panic!("no {series} in {text}"))
}

fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until a series is there and has a value.
pub async fn until(address: SocketAddr, series: &str, wanted: f64) {
    let mut found = None;
    for _ in 0..2000 {
        found = value(&get(address, "/metrics").await.text(), series);
        if found == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{series} is {found:?} and never {wanted}");
}
