//! The two endpoints that answer prompts.

use super::problem::Problem;
use super::request::{Endpoint, Wanted};
use super::speech::Speech;
use super::stream::Stream;
use super::{Api, Ticket};
use crate::engine::{Command, Submission, Verdict};
use crate::fault::{Conditions, Misbehaviour};
use crate::link::Switch;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::future::pending;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// `/v1/completions`.
pub async fn completions(
    State(api): State<Api>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    body: Bytes,
) -> Result<Response, Problem> {
    answer(Endpoint::Completions, api, &switch, &body).await
}

/// `/v1/chat/completions`.
pub async fn chat(
    State(api): State<Api>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    body: Bytes,
) -> Result<Response, Problem> {
    answer(Endpoint::Chat, api, &switch, &body).await
}

async fn answer(endpoint: Endpoint, api: Api, switch: &Switch, body: &Bytes) -> Result<Response, Problem> {
    let arrived = Instant::now();
    let conditions = api.conditions();
    let refused = conditions.refuse.filter(|refuse| api.happens(refuse.probability));
    if let Some(refuse) = refused {
        return Err(Problem::refused(refuse.status, refuse.retry_after_seconds));
    }
    let misbehave = conditions.misbehave.filter(|(_, share)| api.happens(*share)).map(|(how, _)| how);
    if misbehave == Some(Misbehaviour::NoReply) {
        return Err(hang_up(switch).await);
    }
    let wanted = Wanted::read(endpoint, body, &api.facts)?;
    let (ticket, key, pieces) = submit(&api, &wanted, arrived).await?;
    let speech = Speech::new(endpoint, ticket.number(), &api.facts.model, &wanted, key);
    let drop_after = drop_after(&api, &conditions);
    if wanted.stream {
        let stream = Stream::new(pieces, speech, misbehave, drop_after, ticket);
        let mut response = Response::new(Body::new(stream));
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return Ok(response);
    }
    whole(ticket, speech, pieces, drop_after.map(|limit| (limit, switch))).await
}

fn drop_after(api: &Api, conditions: &Conditions) -> Option<u32> {
    conditions.drop.filter(|(_, share)| api.happens(*share)).map(|(tokens, _)| tokens)
}

/// Resets the connection. There is no answer that anybody could see.
async fn hang_up(switch: &Switch) -> Problem {
    switch.cut();
    pending().await
}

type Taken = (Ticket, u64, mpsc::UnboundedReceiver<crate::engine::Piece>);

/// Hands the request to the engine.
async fn submit(api: &Api, wanted: &Wanted, arrived: Instant) -> Result<Taken, Problem> {
    let id = api.next_id();
    let (verdict, told) = oneshot::channel();
    let (pieces, receiver) = mpsc::unbounded_channel();
    let submission = Submission {
        id,
        arrived,
        tokens: wanted.tokens.clone(),
        salt: wanted.salt.clone(),
        max_tokens: wanted.max_tokens,
        priority: wanted.priority,
        verdict,
        pieces,
    };
    let sent = api.commands.send(Command::Submit(Box::new(submission)));
    let ticket = Ticket::new(api, id);
    match (sent, told.await) {
        (Ok(()), Ok(Verdict::Taken(key))) => Ok((ticket, key, receiver)),
        (Ok(()), Ok(Verdict::QueueFull)) => {
            ticket.served();
            Err(Problem::queue_full())
        }
        _ => Err(ticket.failure()),
    }
}

/// The answer in one piece.
async fn whole(
    ticket: Ticket,
    speech: Speech,
    mut pieces: mpsc::UnboundedReceiver<crate::engine::Piece>,
    drop_after: Option<(u32, &Switch)>,
) -> Result<Response, Problem> {
    let mut given = 0;
    loop {
        if let Some((limit, switch)) = drop_after
            && given >= limit
        {
            return Err(hang_up(switch).await);
        }
        let Some(piece) = pieces.recv().await else { return Err(ticket.failure()) };
        given += piece.tokens;
        if piece.last {
            ticket.served();
            return Ok(Json(speech.whole(given, piece.cached_tokens)).into_response());
        }
    }
}
