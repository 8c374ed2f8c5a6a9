//! One attempt: from its sending to its one end. docs/live.md has the table of ends.

use crate::chunk::{self, Event, Finish, Usage};
use crate::clock::RunClock;
use crate::connection::{Body, Connection, Pool};
use crate::sse::Splitter;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use scaleproof_pack::record::{Outcome, Record, TokensFrom, Wire};
use scaleproof_pack::schedule::Planned;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

/// Bytes of an error's body that are read.
const ERROR_BODY_MAX: usize = 64 << 10;
/// An answer whose last token came may still bring its usage and `[DONE]`, so long.
const GRACE_AFTER_FINISH: Duration = Duration::from_secs(1);
/// After `[DONE]`, the end of the body is awaited so long: then the connection can be used again.
const GRACE_AFTER_DONE: Duration = Duration::from_millis(50);

/// What all attempts of a run share.
pub(crate) struct Shared {
    pub clock: RunClock,
    pub pools: Vec<Pool>,
    /// Path below the target's base.
    pub path: &'static str,
    pub authorization: Option<HeaderValue>,
    /// What must not stand in an error text, should a server repeat it.
    pub secret: Option<String>,
    /// From sending to the end.
    pub timeout: Nanos,
    /// From sending to the first token.
    pub ttft_timeout: Option<Nanos>,
    /// Becomes true when the run is stopped.
    pub stopped: watch::Receiver<bool>,
}

/// What is sent.
pub(crate) struct Job {
    pub request: RequestRef,
    pub planned: Planned,
    pub scheduled: Nanos,
    /// Which of the pools.
    pub replica: u32,
    pub body: Bytes,
}

/// How an attempt ended.
#[derive(Debug)]
struct End {
    outcome: Outcome,
    reason: &'static str,
    error: String,
}

impl End {
    fn ok() -> End {
        End { outcome: Outcome::Ok, reason: "", error: String::new() }
    }

    fn error(reason: &'static str, error: impl ToString) -> End {
        End { outcome: Outcome::Error, reason, error: error.to_string() }
    }

    fn by_client(outcome: Outcome, reason: &'static str) -> End {
        End { outcome, reason, error: String::new() }
    }
}

/// What came until now.
#[derive(Default)]
struct Seen {
    wire: Wire,
    first_token: Option<Nanos>,
    last_token: Option<Nanos>,
    tokens: u32,
    has_token_ids: bool,
    usage: Option<Usage>,
    finish: Option<Finish>,
    failed: Option<End>,
}

impl Seen {
    fn event(&mut self, at: Nanos, data: &[u8], first_seen: &AtomicBool) {
        if self.failed.is_some() || self.wire.done.is_some() {
            return;
        }
        match chunk::read(data) {
            Event::Done => self.wire.done = Some(at),
            Event::Error(error) => self.failed = Some(End::error("error in the stream", error)),
            Event::Unreadable(error) => self.failed = Some(End::error("unreadable stream", error)),
            Event::Part(part) => {
                self.has_token_ids |= part.token_ids.is_some_and(|count| count > 0);
                // Each usage is of the whole request so far: the last one holds.
                self.usage = part.usage.or(self.usage);
                self.finish = part.finish.or(self.finish);
                let tokens = part.tokens();
                if tokens > 0 {
                    self.first_token.get_or_insert(at);
                    self.last_token = Some(at);
                    self.tokens = self.tokens.saturating_add(tokens);
                    self.wire.chunks.push((at, tokens));
                    first_seen.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.wire.done.is_some() || self.finish.is_some()
    }

    fn output_tokens(&self) -> (u32, TokensFrom) {
        match self.usage {
            Some(usage) if usage.completion > 0 => (usage.completion, TokensFrom::Usage),
            _ if self.has_token_ids => (self.tokens, TokensFrom::TokenIds),
            _ => (self.tokens, TokensFrom::Chunks),
        }
    }

    /// The end of an answer that came to its own.
    fn judged(&self, requested: u32) -> End {
        let (tokens, _) = self.output_tokens();
        if tokens == 0 {
            return End::error("empty answer", "");
        }
        if tokens < requested && self.finish == Some(Finish::Length) {
            return End::error("answer cut short", format!("{tokens} of {requested} tokens"));
        }
        End::ok()
    }
}

/// Makes the attempt. Always returns: by its own end, the client's patience, or the run's stop.
pub(crate) async fn attempt(shared: Arc<Shared>, job: Job) -> (RequestRef, Record) {
    let sent = shared.clock.now();
    let mut seen = Seen::default();
    let first_seen = AtomicBool::new(false);
    let mut stopped = shared.stopped.clone();
    let end = {
        let exchange = exchange(&shared, &job, &mut seen, &first_seen);
        tokio::select! {
            biased;
            end = exchange => end,
            end = patience(&shared, &job.planned, sent, &first_seen) => end,
            _ = stopped.wait_for(|stopped| *stopped) => End::by_client(Outcome::Cancelled, "the run was stopped"),
        }
    };
    let end = End { error: without(&shared.secret, end.error), ..end };
    let ended = match (end.outcome, seen.last_token) {
        (Outcome::Ok, Some(last)) => last,
        (Outcome::Ok, None) => seen.wire.done.unwrap_or_else(|| shared.clock.now()),
        _ => shared.clock.now(),
    };
    (job.request, record(&job, sent, ended, end, seen))
}

fn without(secret: &Option<String>, text: String) -> String {
    match secret {
        Some(secret) if !secret.is_empty() => text.replace(secret.as_str(), "***"),
        _ => text,
    }
}

fn record(job: &Job, sent: Nanos, ended: Nanos, end: End, seen: Seen) -> Record {
    let (output_tokens, tokens_from) = seen.output_tokens();
    let usage_input_tokens = seen.usage.map(|usage| usage.prompt);
    Record {
        id: job.request.index,
        class: job.planned.class,
        warmup: job.request.warmup,
        scheduled: job.scheduled,
        sent,
        first_token: seen.first_token,
        ended,
        input_tokens: job.planned.input_tokens,
        cached_tokens: seen.usage.and_then(|usage| usage.cached).unwrap_or(0),
        output_tokens,
        requested_tokens: job.planned.output_tokens,
        outcome: end.outcome,
        replica: Some(job.replica),
        preemptions: 0,
        retries: 0,
        reason: end.reason,
        wire: Some(Box::new(Wire { tokens_from, usage_input_tokens, error: end.error, ..seen.wire })),
    }
}

/// Waits until the client gives up: without a first token in time, without a whole answer, or on purpose.
async fn patience(shared: &Shared, planned: &Planned, sent: Nanos, first_seen: &AtomicBool) -> End {
    let timeout = (sent + shared.timeout, End::by_client(Outcome::Timeout, "no whole answer in time"));
    let cancel = planned
        .cancel_after
        .map(|after| (sent + after, End::by_client(Outcome::Cancelled, "cancelled by the client")));
    let (until, end) = match cancel {
        Some(cancel) if cancel.0 < timeout.0 => cancel,
        _ => timeout,
    };
    if let Some(first) = shared.ttft_timeout.map(|limit| sent + limit)
        && first < until
    {
        sleep_until(shared.clock.instant(first).into()).await;
        if !first_seen.load(Ordering::Relaxed) {
            return End::by_client(Outcome::Timeout, "no first token in time");
        }
    }
    sleep_until(shared.clock.instant(until).into()).await;
    end
}

/// Request and answer.
async fn exchange(shared: &Shared, job: &Job, seen: &mut Seen, first_seen: &AtomicBool) -> End {
    let pool = &shared.pools[job.replica as usize];
    let (mut connection, response) = match answer(shared, pool, job).await {
        Ok(answer) => answer,
        Err(end) => return end,
    };
    seen.wire.headers = Some(connection.last_read());
    let status = response.status().as_u16();
    seen.wire.http_status = Some(status);
    let whole = is_json(&response);
    let mut body = response.into_body();
    let end = if !(200..300).contains(&status) {
        let error = read_some(&mut connection, &mut body, seen).await;
        match status {
            429 | 503 | 529 => End { outcome: Outcome::Rejected, reason: "refused", error },
            400..=499 => End::error("HTTP 4xx", error),
            _ => End::error("HTTP error", error),
        }
    } else if whole {
        read_whole(pool, job, (&mut connection, &mut body), seen).await
    } else {
        match read_stream((&mut connection, &mut body), seen, first_seen).await {
            Ok(()) => seen.judged(job.planned.output_tokens),
            Err(Broken::By(end)) => end,
            Err(Broken::Connection(error)) => broken(pool, "the stream broke", error).await,
        }
    };
    drain(&mut connection, &mut body).await;
    drop(body);
    pool.put_back(connection).await;
    end
}

/// Sends the request, and waits for the answer's headers. A connection that its server had closed in the meantime never
/// carried the request: it is sent on a new one, which is no retry.
async fn answer(shared: &Shared, pool: &Pool, job: &Job) -> Result<(Connection, Response<Incoming>), End> {
    let cannot_connect = |error: std::io::Error| End::error("cannot connect", error);
    let mut connection = pool.take().await.map_err(cannot_connect)?;
    loop {
        let request = http_request(shared, pool, &job.body).map_err(|e| End::error("cannot be sent", e))?;
        match connection.send(request).await {
            Ok(response) => return Ok((connection, response)),
            Err(error) if connection.reused && error.is_canceled() => {
                connection = pool.open().await.map_err(cannot_connect)?;
            }
            Err(error) => return Err(broken(pool, "no answer: the connection broke", causes(&error)).await),
        }
    }
}

fn http_request(shared: &Shared, pool: &Pool, body: &Bytes) -> Result<Request<Body>, hyper::http::Error> {
    let target = pool.target();
    let mut request = Request::post(format!("{}{}", target.base, shared.path))
        .header(HOST, target.authority())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream, application/json");
    if let Some(authorization) = &shared.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    request.body(Body::new(body.clone()))
}

/// A connection that broke: the replica died if nobody listens there any more.
async fn broken(pool: &Pool, reason: &'static str, error: String) -> End {
    if pool.is_dead().await {
        return End { outcome: Outcome::Lost, reason: "the replica died", error };
    }
    End::error(reason, error)
}

fn is_json(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

/// An error with what caused it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

enum Broken {
    Connection(String),
    By(End),
}

/// Reads the events of a stream to its end.
async fn read_stream(
    (connection, body): (&mut Connection, &mut Incoming),
    seen: &mut Seen,
    first_seen: &AtomicBool,
) -> Result<(), Broken> {
    let mut splitter = Splitter::new();
    loop {
        let next = connection.with(body.frame());
        let frame = if seen.is_complete() {
            // What may still come changes no time of a token.
            match timeout(GRACE_AFTER_FINISH, next).await {
                Ok(frame) => frame,
                Err(_) => return Ok(()),
            }
        } else {
            next.await
        };
        let at = connection.last_read();
        match frame {
            Some(Ok(frame)) => {
                let Some(bytes) = frame.data_ref() else { continue };
                seen.wire.first_byte.get_or_insert(at);
                splitter
                    .push(bytes, |data| seen.event(at, data, first_seen))
                    .map_err(|error| Broken::By(End::error("unreadable stream", error)))?;
            }
            Some(Err(_)) if seen.is_complete() => return Ok(()),
            Some(Err(error)) => return Err(Broken::Connection(causes(&error))),
            None => {
                splitter.finish(|data| seen.event(at, data, first_seen));
                let complete = seen.is_complete();
                seen.wire.done.get_or_insert(at);
                return match seen.failed.take() {
                    Some(end) => Err(Broken::By(end)),
                    None if complete => Ok(()),
                    None => Err(Broken::Connection("it ended before the answer did".to_owned())),
                };
            }
        }
        if let Some(end) = seen.failed.take() {
            return Err(Broken::By(end));
        }
        if seen.wire.done.is_some() {
            return Ok(());
        }
    }
}

/// Reads an answer that is not streamed.
async fn read_whole(
    pool: &Pool,
    job: &Job,
    (connection, body): (&mut Connection, &mut Incoming),
    seen: &mut Seen,
) -> End {
    let mut bytes = Vec::new();
    loop {
        match connection.with(body.frame()).await {
            None => break,
            Some(Err(error)) => return broken(pool, "the answer broke", causes(&error)).await,
            Some(Ok(frame)) => {
                seen.wire.first_byte.get_or_insert(connection.last_read());
                bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                if bytes.len() > crate::sse::EVENT_MAX_BYTES {
                    return End::error("unreadable answer", "it is too long");
                }
            }
        }
    }
    let at = connection.last_read();
    match chunk::read(&bytes) {
        Event::Part(part) => {
            (seen.usage, seen.finish) = (part.usage, part.finish);
            (seen.tokens, seen.has_token_ids) = (part.tokens(), part.token_ids.is_some());
        }
        Event::Error(error) => return End::error("error in the answer", error),
        Event::Done => return End::error("unreadable answer", "[DONE]"),
        Event::Unreadable(error) => return End::error("unreadable answer", error),
    }
    seen.wire.done = Some(at);
    seen.judged(job.planned.output_tokens)
}

/// The error in a body, as far as it comes.
async fn read_some(connection: &mut Connection, body: &mut Incoming, seen: &mut Seen) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_BODY_MAX
        && let Some(Ok(frame)) = connection.with(body.frame()).await
    {
        seen.wire.first_byte.get_or_insert(connection.last_read());
        bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
    }
    seen.wire.done = Some(connection.last_read());
    chunk::error_of_body(&bytes)
}

/// Reads what is left of a body, if it comes at once.
async fn drain(connection: &mut Connection, body: &mut Incoming) {
    let rest = async { while let Some(Ok(_)) = connection.with(body.frame()).await {} };
    let _ = timeout(GRACE_AFTER_DONE, rest).await;
}
