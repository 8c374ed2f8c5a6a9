//! One attempt: from its sending to its one end. docs/live.md has the table of ends.

use crate::answer::{Broken, End, Failed, Seen, broken, drain, is_json, read_some, read_stream, read_whole};
use crate::clock::RunClock;
use crate::connection::{Body, Connection, Pool};
use crate::driver::Message;
use crate::news::ConnectionFailure;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use scaleproof_pack::record::{Outcome, Record, Wire};
use scaleproof_pack::schedule::Planned;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep_until;

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
    /// A connection that is not made in this time has failed; None: when the system says so.
    pub connect_timeout: Option<Nanos>,
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
    /// When it was first sent, if this is not the first time.
    pub first_sent: Option<Nanos>,
    /// How often it was sent before.
    pub retries: u32,
    /// When its client gives up together with others, if it is one of those.
    pub gives_up: Option<Nanos>,
}

/// Makes the attempt. Always returns: by its own end, the client's patience, or the run's stop. `driver` hears of the answer's
/// beginning and of its first token.
pub(crate) async fn attempt(
    shared: Arc<Shared>,
    mut job: Box<Job>,
    driver: &Sender<Message>,
) -> (Box<Job>, Record, Option<Failed>) {
    let began = shared.clock.now();
    let sent = *job.first_sent.get_or_insert(began);
    let (target, tell) = (job.replica, driver.clone());
    let mut seen = Seen::default();
    seen.on_first_token = Some(Box::new(move |at: Nanos| {
        // Nobody listens any more only when the run is over.
        let _ = tell.send(Message::FirstToken { target, took: at.since(began) });
    }));
    let first_seen = AtomicBool::new(false);
    let mut stopped = shared.stopped.clone();
    let end = {
        let exchange = exchange(&shared, &job, driver, &mut seen, &first_seen);
        tokio::select! {
            biased;
            end = exchange => end,
            end = patience(&shared, &job, sent, &first_seen) => end,
            _ = stopped.wait_for(|stopped| *stopped) => End::by_client(Outcome::Cancelled, "the run was stopped"),
        }
    };
    let end = End { error: without(&shared.secret, end.error), ..end };
    let ended = match (end.outcome, seen.last_token) {
        (Outcome::Ok, Some(last)) => last,
        (Outcome::Ok, None) => seen.wire.done.unwrap_or_else(|| shared.clock.now()),
        _ => shared.clock.now(),
    };
    let failed = end.failed;
    let record = record(&job, sent, ended, end, seen);
    (job, record, failed)
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
        retries: job.retries,
        reason: end.reason,
        computed_tokens: None,
        wire: Some(Box::new(Wire { tokens_from, usage_input_tokens, error: end.error, ..seen.wire })),
    }
}

/// Waits until the client gives up: without a first token in time, without a whole answer, or on purpose.
async fn patience(shared: &Shared, job: &Job, sent: Nanos, first_seen: &AtomicBool) -> End {
    let timeout = (sent + shared.timeout, End::by_client(Outcome::Timeout, "no whole answer in time"));
    let own = job.planned.cancel_after.map(|after| sent + after);
    let cancel = own.into_iter().chain(job.gives_up).min();
    let (until, end) = match cancel {
        Some(cancel) if cancel < timeout.0 => {
            (cancel, End::by_client(Outcome::Cancelled, "cancelled by the client"))
        }
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
async fn exchange(
    shared: &Shared,
    job: &Job,
    driver: &Sender<Message>,
    seen: &mut Seen,
    first_seen: &AtomicBool,
) -> End {
    let pool = &shared.pools[job.replica as usize];
    let (mut connection, response) = match answer(shared, pool, job, driver).await {
        Ok(answer) => answer,
        Err(end) => return end,
    };
    seen.wire.headers = Some(connection.last_read());
    let status = response.status().as_u16();
    seen.wire.http_status = Some(status);
    if (200..300).contains(&status) {
        let _ = driver.send(Message::Answered(job.replica));
    }
    let whole = is_json(&response);
    let mut body = response.into_body();
    let end = if !(200..300).contains(&status) {
        let error = read_some(&mut connection, &mut body, seen).await;
        match status {
            429 | 503 | 529 => End::refused(error),
            400..=499 => End::error("HTTP 4xx", error),
            _ => End::error("HTTP error", error),
        }
    } else if whole {
        read_whole(pool, job.planned.output_tokens, (&mut connection, &mut body), seen).await
    } else {
        match read_stream((&mut connection, &mut body), seen, first_seen).await {
            Ok(()) => seen.judged(job.planned.output_tokens),
            Err(Broken::By(end)) => end,
            Err(Broken::Connection(error)) => {
                let _ = driver.send(Message::Broke(job.replica));
                broken(pool, "the stream broke", error).await
            }
        }
    };
    drain(&mut connection, &mut body).await;
    drop(body);
    pool.put_back(connection).await;
    end
}

/// Sends the request, and waits for the answer's headers. A connection that its server had closed in the meantime never
/// carried the request: it is sent on a new one, which is no retry.
async fn answer(
    shared: &Shared,
    pool: &Pool,
    job: &Job,
    driver: &Sender<Message>,
) -> Result<(Connection, Response<Incoming>), End> {
    let cannot_connect = |error: std::io::Error| {
        let failed = Failed::NoConnection(ConnectionFailure::of(&error));
        End::error("cannot connect", error).failing(failed)
    };
    let mut connection = in_time(shared, pool.take()).await.map_err(cannot_connect)?;
    loop {
        let request = http_request(shared, pool, &job.body).map_err(|e| End::error("cannot be sent", e))?;
        match connection.send(request).await {
            Ok(response) => return Ok((connection, response)),
            Err(error) if connection.reused && error.is_canceled() => {
                connection = in_time(shared, pool.open()).await.map_err(cannot_connect)?;
            }
            Err(error) => {
                let _ = driver.send(Message::Broke(job.replica));
                let end = broken(pool, "no answer: the connection broke", causes(&error)).await;
                return Err(end.failing(Failed::NoConnection(ConnectionFailure::Reset)));
            }
        }
    }
}

async fn in_time<T>(
    shared: &Shared,
    connecting: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    match shared.connect_timeout {
        None => connecting.await,
        Some(limit) => tokio::time::timeout(Duration::from_nanos(limit.0), connecting)
            .await
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())),
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
