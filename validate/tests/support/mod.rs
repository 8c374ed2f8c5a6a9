//! A server whose every byte a test decides, and a way to send a few requests to it.

use scaleproof_pack::experiment::Observer;
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;
use scaleproof_validate::{Endpoint, Limits, LiveConfig, LiveEngine, LiveObserver, LiveRun, Routing, Target};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// The prompt by which the client finds out what a server understands.
const PROBE: &str = "[5,6,7]";

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The next request may come on it.
    Keep,
    /// It is closed.
    Close,
    /// The server's process ends: nobody listens any more.
    Die,
}

/// Answers a request of which the number is given; the probe is not counted.
pub type Script = dyn Fn(&mut TcpStream, usize) -> Then + Send + Sync;

/// A server on a port of its own.
pub struct Server {
    pub target: Target,
    /// Connections that carried a request which the script answered.
    pub connections: Arc<AtomicUsize>,
    /// Times it was asked to empty its cache.
    pub resets: Arc<AtomicUsize>,
    dead: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.dead.store(true, Ordering::SeqCst);
    }
}

/// Starts a server. One that does not read the requests' bodies resets the connections that it closes.
pub fn serve(
    reads_bodies: bool,
    script: impl Fn(&mut TcpStream, usize) -> Then + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script: Arc<Script> = Arc::new(script);
    let (dead, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ends, counted, served) =
        (Arc::clone(&dead), Arc::clone(&connections), Arc::new(AtomicUsize::new(0)));
    let resets = Arc::new(AtomicUsize::new(0));
    let reset = Arc::clone(&resets);
    std::thread::spawn(move || {
        while !ends.load(Ordering::SeqCst) {
            let Ok((stream, _)) = listener.accept() else {
                sleep(Duration::from_millis(1));
                continue;
            };
            stream.set_nonblocking(false).unwrap();
            let (counted, reset) = (Arc::clone(&counted), Arc::clone(&reset));
            let (script, served, ends) = (Arc::clone(&script), Arc::clone(&served), Arc::clone(&ends));
            std::thread::spawn(move || {
                talk(stream, reads_bodies, &*script, (&served, &counted, &reset), &ends)
            });
        }
    });
    Server { target, connections, resets, dead }
}

fn talk(
    mut stream: TcpStream,
    reads_bodies: bool,
    script: &Script,
    (served, connections, resets): (&AtomicUsize, &AtomicUsize, &AtomicUsize),
    dead: &AtomicBool,
) {
    let mut reader =
        BufReader::with_capacity(if reads_bodies { 1 << 16 } else { 1 }, stream.try_clone().unwrap());
    let mut is_new = true;
    loop {
        let Some((line, length)) = head(&mut reader) else { return };
        let mut body = vec![0; if reads_bodies { length } else { length.min(40) }];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        if line.contains("reset_prefix_cache") {
            // In use at first, as an engine's cache is just after a run.
            let success = resets.fetch_add(1, Ordering::SeqCst) >= 2;
            let body = format!("{{\"success\": {success}}}");
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            continue;
        }
        if line.contains("/health") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            continue;
        }
        if !line.contains("completions") {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
            continue;
        }
        if String::from_utf8_lossy(&body).contains(PROBE) {
            let mut rest = vec![0; length - body.len()];
            let _ = reader.read_exact(&mut rest);
            let _ = stream.write_all(answer(1).as_bytes());
            continue;
        }
        if std::mem::take(&mut is_new) {
            connections.fetch_add(1, Ordering::SeqCst);
        }
        match script(&mut stream, served.fetch_add(1, Ordering::SeqCst)) {
            Then::Keep => {}
            Then::Close => return,
            Then::Die => {
                dead.store(true, Ordering::SeqCst);
                // The listener goes first, as it does when a process ends.
                sleep(Duration::from_millis(20));
                return;
            }
        }
    }
}

/// The request's line and the length of its body.
fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|&n| n > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
        if line.trim().is_empty() {
            return Some((first, length));
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
}

/// The headers of a stream.
pub const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// The end of a body.
pub const END: &str = "0\r\n\r\n";

/// A part of a body.
pub fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// An event with this JSON.
pub fn event(json: &str) -> String {
    chunk(&format!("data: {json}\n\n"))
}

/// An event of one token.
pub fn token() -> String {
    event(r#"{"choices":[{"text":"x","token_ids":[9],"finish_reason":null}]}"#)
}

/// The event of the last token.
pub fn last() -> String {
    event(r#"{"choices":[{"text":"x","token_ids":[9],"finish_reason":"length"}]}"#)
}

/// The server's counts: 10 prompt tokens.
pub fn usage(completion: u32) -> String {
    event(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":10,"completion_tokens":{completion},"prompt_tokens_details":{{"cached_tokens":4}}}}}}"#
    ))
}

/// A whole answer of so many tokens.
pub fn answer(tokens: u32) -> String {
    let tokens_but_one = token().repeat(tokens as usize - 1);
    format!("{HEAD}{tokens_but_one}{}{}{}{END}", last(), usage(tokens), chunk("data: [DONE]\n\n"))
}

/// Writes text, bytes of it at a time, a few milliseconds apart.
pub fn trickle(stream: &mut TcpStream, text: &str, bytes: usize) {
    stream.set_nodelay(true).unwrap();
    for part in text.as_bytes().chunks(bytes) {
        if stream.write_all(part).is_err() {
            return;
        }
        sleep(Duration::from_millis(2));
    }
}

/// A request of 10 prompt and 3 output tokens.
pub fn request(at_ms: u64) -> Planned {
    Planned {
        release: Release::At(Nanos(at_ms * 1_000_000)),
        class: 0,
        priority: 0,
        input_tokens: 10,
        output_tokens: 3,
        cancel_after: None,
        segments_from: 0,
        segments_len: 0,
    }
}

/// An open loop of these requests.
pub fn open(requests: Vec<Planned>) -> Schedule {
    Schedule::of(Load::Open { rps: 1.0 }, PlannedList { requests, segments: Vec::new() })
}

/// A patient client of one target.
pub fn config(targets: Vec<Target>) -> LiveConfig {
    LiveConfig {
        targets,
        tls: None,
        token: Some("hush-hush".to_owned()),
        endpoint: Endpoint::Completions,
        model: Some("m".to_owned()),
        streaming: true,
        ignore_eos: true,
        sampling: Vec::new(),
        timeout: Some(Nanos(20_000_000_000)),
        ttft_timeout: None,
        ramp: Nanos::ZERO,
        replicas: Vec::new(),
        sample_interval: Nanos(1_000_000_000),
        routing: Routing { policy: RouterPolicy::RoundRobin, poll_interval: None },
        threads: 1,
        vocabulary: Some(4096),
        limits: Limits::default(),
        resilience: None,
        absent: Vec::new(),
        give_up: None,
    }
}

/// What a run yielded.
#[derive(Default)]
pub struct Seen {
    pub records: Vec<Record>,
    /// Ends the run once so many records have come.
    pub stop_after: Option<usize>,
}

impl Observer for Seen {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }

    fn stop(&mut self) -> bool {
        self.stop_after.is_some_and(|count| self.records.len() >= count)
    }
}

impl LiveObserver for Seen {}

/// Sends a schedule; the records in order of their ids.
pub fn run_into(config: LiveConfig, schedule: &Schedule, seen: &mut Seen) -> LiveRun {
    let mut engine = LiveEngine::new(config, 1).unwrap();
    let run = engine.run_live(schedule, Enough { successes: 0, max_requests: 0 }, seen).unwrap();
    seen.records.sort_by_key(|record| record.id);
    run
}
