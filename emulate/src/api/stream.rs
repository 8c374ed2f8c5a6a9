//! A streamed answer: events as its tokens come, and every way in which a server can get that wrong on command.

use super::Ticket;
use super::speech::{ACCENT, Speech};
use crate::engine::Piece;
use crate::fault::Misbehaviour;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Sleep, sleep};

/// Between the parts of what is sent in parts.
const PART_INTERVAL: Duration = Duration::from_millis(5);

/// The body of a streamed answer.
pub struct Stream {
    pieces: UnboundedReceiver<Piece>,
    speech: Speech,
    /// What is to be sent, and whether it waits a while before.
    frames: VecDeque<(Bytes, bool)>,
    pause: Option<Pin<Box<Sleep>>>,
    misbehave: Option<Misbehaviour>,
    /// It breaks off after so many tokens.
    drop_after: Option<u32>,
    sent_tokens: u32,
    state: State,
    ticket: Ticket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Speaking,
    /// All is in `frames`.
    Said,
    /// Never to end.
    Open,
    /// Ends with a broken connection.
    Broken,
}

impl Stream {
    /// Of the tokens that come from `pieces`. Dropping it aborts the request of `ticket`.
    pub fn new(
        pieces: UnboundedReceiver<Piece>,
        mut speech: Speech,
        misbehave: Option<Misbehaviour>,
        drop_after: Option<u32>,
        ticket: Ticket,
    ) -> Stream {
        speech.accented = misbehave == Some(Misbehaviour::SplitUtf8);
        speech.continuous_usage |= misbehave == Some(Misbehaviour::UsageOnEveryChunk);
        let state = if drop_after == Some(0) { State::Broken } else { State::Speaking };
        Stream {
            pieces,
            speech,
            frames: VecDeque::new(),
            pause: None,
            misbehave,
            drop_after,
            sent_tokens: 0,
            state,
            ticket,
        }
    }

    fn take(&mut self, piece: Piece) {
        for chunk in self.speech.chunks(piece) {
            self.push(chunk);
        }
        let before = self.sent_tokens;
        self.sent_tokens += piece.tokens;
        if before == 0 && self.misbehave == Some(Misbehaviour::InvalidSse) {
            self.push(Bytes::from_static(b"data: {\"choices\": [{\"index\": 0, \"te\n\n"));
        }
        if self.drop_after.is_some_and(|limit| self.sent_tokens >= limit) {
            self.state = State::Broken;
        } else if piece.last {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.ticket.served();
        if self.speech.include_usage {
            let usage = self.speech.usage_chunk();
            self.push(usage);
        }
        self.state = match self.misbehave {
            Some(Misbehaviour::NeverEnds) => State::Open,
            _ => State::Said,
        };
        if !matches!(self.misbehave, Some(Misbehaviour::NeverDone | Misbehaviour::NeverEnds)) {
            self.push(Bytes::from_static(b"data: [DONE]\n\n"));
        }
    }

    /// The engine is gone.
    fn fail(&mut self) {
        let error = self.ticket.failure().json();
        self.push(format!("data: {error}\n\n").into());
        self.push(Bytes::from_static(b"data: [DONE]\n\n"));
        self.state = State::Said;
    }

    fn push(&mut self, chunk: Bytes) {
        match self.misbehave {
            Some(Misbehaviour::ByteByByte) => {
                self.frames.extend((0..chunk.len()).map(|at| (chunk.slice(at..=at), true)));
            }
            Some(Misbehaviour::SplitUtf8) => match find(&chunk, ACCENT.as_bytes()) {
                Some(at) => self.frames.extend([(chunk.slice(..=at), false), (chunk.slice(at + 1..), true)]),
                None => self.frames.push_back((chunk, false)),
            },
            _ => self.frames.push_back((chunk, false)),
        }
    }

    /// The next frame, once its pause is over.
    fn poll_front(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(&(_, waits)) = self.frames.front() else { return Poll::Ready(None) };
        if waits {
            ready!(self.poll_pause(context));
        }
        Poll::Ready(self.frames.pop_front().map(|(bytes, _)| bytes))
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PART_INTERVAL)));
        ready!(pause.as_mut().poll(context));
        self.pause = None;
        Poll::Ready(())
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

impl Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(bytes) = ready!(self.poll_front(context)) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.state {
                State::Speaking => match ready!(self.pieces.poll_recv(context)) {
                    Some(piece) => self.take(piece),
                    None => self.fail(),
                },
                State::Said => return Poll::Ready(None),
                State::Open => return Poll::Pending,
                State::Broken => {
                    // What was said before would be lost with the connection if it were not sent by then.
                    ready!(self.poll_pause(context));
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
            }
        }
    }
}
