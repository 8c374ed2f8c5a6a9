//! An answer while it comes, and how it ends.

use crate::attempt::causes;
use crate::chunk::{self, Event, Finish, Usage};
use crate::connection::{Connection, Pool};
use crate::news::ConnectionFailure;
use crate::sse::{EVENT_MAX_BYTES, Splitter};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use scaleproof_pack::record::{Outcome, TokensFrom, Wire};
use scaleproof_pack::time::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Bytes of an error's body that are read.
const ERROR_BODY_MAX: usize = 64 << 10;
/// An answer whose last token came may still bring its usage and `[DONE]`, so long.
const GRACE_AFTER_FINISH: Duration = Duration::from_secs(1);
/// After `[DONE]`, the end of the body is awaited so long: then the connection can be used again.
const GRACE_AFTER_DONE: Duration = Duration::from_millis(50);

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct End {
    pub outcome: Outcome,
    pub reason: &'static str,
    pub error: String,
    /// What a router makes of it.
    pub failed: Option<Failed>,
}

/// A failure that says something of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No connection, or it broke before the answer began: can be sent again.
    NoConnection(ConnectionFailure),
    /// Refused for now: can be sent again.
    Full,
    /// It broke when the client had seen the answer's beginning.
    Broken,
}

impl Failed {
    /// As a failure of a connection.
    pub(crate) fn connection(self) -> Option<ConnectionFailure> {
        match self {
            Failed::NoConnection(kind) => Some(kind),
            Failed::Broken => Some(ConnectionFailure::Reset),
            Failed::Full => None,
        }
    }
}

impl End {
    fn new(outcome: Outcome, reason: &'static str, error: String) -> End {
        End { outcome, reason, error, failed: None }
    }

    pub(crate) fn ok() -> End {
        End::new(Outcome::Ok, "", String::new())
    }

    pub(crate) fn error(reason: &'static str, error: impl ToString) -> End {
        End::new(Outcome::Error, reason, error.to_string())
    }

    pub(crate) fn by_client(outcome: Outcome, reason: &'static str) -> End {
        End::new(outcome, reason, String::new())
    }

    /// Refused by a target that says it is for now.
    pub(crate) fn refused(error: String) -> End {
        End::new(Outcome::Rejected, "refused", error).failing(Failed::Full)
    }

    pub(crate) fn failing(self, failed: Failed) -> End {
        End { failed: Some(failed), ..self }
    }
}

/// What came until now.
#[derive(Default)]
pub(crate) struct Seen {
    pub wire: Wire,
    pub first_token: Option<Nanos>,
    pub last_token: Option<Nanos>,
    tokens: u32,
    has_token_ids: bool,
    pub usage: Option<Usage>,
    finish: Option<Finish>,
    failed: Option<End>,
    /// Told when the first token comes.
    pub on_first_token: Option<Box<dyn FnOnce(Nanos) + Send>>,
}

impl Seen {
    pub(crate) fn event(&mut self, at: Nanos, data: &[u8], first_seen: &AtomicBool) {
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
                    if let Some(tell) = self.on_first_token.take() {
                        tell(at);
                    }
                    self.last_token = Some(at);
                    self.tokens = self.tokens.saturating_add(tokens);
                    self.wire.chunks.push((at, tokens));
                    first_seen.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.wire.done.is_some() || self.finish.is_some()
    }

    pub(crate) fn output_tokens(&self) -> (u32, TokensFrom) {
        match self.usage {
            Some(usage) if usage.completion > 0 => (usage.completion, TokensFrom::Usage),
            _ if self.has_token_ids => (self.tokens, TokensFrom::TokenIds),
            _ => (self.tokens, TokensFrom::Chunks),
        }
    }

    /// The end of an answer that came to its own.
    pub(crate) fn judged(&self, requested: u32) -> End {
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

/// A connection that broke: the replica died if nobody listens there any more.
pub(crate) async fn broken(pool: &Pool, reason: &'static str, error: String) -> End {
    if pool.is_dead().await {
        return End::new(Outcome::Lost, "the replica died", error).failing(Failed::Broken);
    }
    End::error(reason, error).failing(Failed::Broken)
}

pub(crate) fn is_json(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

/// Why a stream gave no whole answer.
pub(crate) enum Broken {
    Connection(String),
    By(End),
}

/// Reads the events of a stream to its end.
pub(crate) async fn read_stream(
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
pub(crate) async fn read_whole(
    pool: &Pool,
    requested_tokens: u32,
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
                if bytes.len() > EVENT_MAX_BYTES {
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
    seen.judged(requested_tokens)
}

/// The error in a body, as far as it comes.
pub(crate) async fn read_some(connection: &mut Connection, body: &mut Incoming, seen: &mut Seen) -> String {
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
pub(crate) async fn drain(connection: &mut Connection, body: &mut Incoming) {
    let rest = async { while let Some(Ok(_)) = connection.with(body.frame()).await {} };
    let _ = timeout(GRACE_AFTER_DONE, rest).await;
}
