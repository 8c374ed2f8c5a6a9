//! The HTTP server of one replica: the endpoints of vLLM's OpenAI-compatible server that load generators, routers and
//! monitoring use.

mod generate;
mod problem;
mod request;
mod speech;
mod stream;

use crate::config::Facts;
use crate::engine::{Command, Shared};
use crate::fault::Conditions;
use crate::metrics;
use crate::tokens::detokenize;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use problem::Problem;
use rand::RngExt;
use request::{DetokenizeBody, TokenizeBody};
use scaleproof_pack::chance::Stream as Chance;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The most bytes of a request: a million token ids.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The version that `/version` names: the engine whose behaviour is emulated.
const ENGINE_VERSION: &str = "0.32.0";
/// Every path. Others are counted together.
const PATHS: [&str; 9] = [
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/models",
    "/health",
    "/version",
    "/metrics",
    "/tokenize",
    "/detokenize",
    "/reset_prefix_cache",
];

/// What a replica's handlers work with.
#[derive(Clone)]
pub struct Api {
    /// What it says of itself.
    pub facts: Arc<Facts>,
    /// The engine.
    pub commands: Sender<Command>,
    /// What the engine counts.
    pub shared: Shared,
    /// What it is under.
    pub conditions: watch::Receiver<Conditions>,
    /// Of the faults.
    pub chance: Arc<Mutex<Chance>>,
    /// Requests so far.
    pub requests: Arc<AtomicU64>,
    /// Seconds of the wall clock a second of the engine's.
    pub time_scale: f64,
}

impl Api {
    fn conditions(&self) -> Conditions {
        *self.conditions.borrow()
    }

    fn next_id(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether something that happens in a share of all cases happens now.
    fn happens(&self, share: f64) -> bool {
        if share >= 1.0 {
            return true;
        }
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        chance.random::<f64>() < share
    }

    /// The whole server.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1/completions", post(generate::completions))
            .route("/v1/chat/completions", post(generate::chat))
            .route("/v1/models", get(models))
            .route("/health", get(health))
            .route("/ping", get(health))
            .route("/version", get(version))
            .route("/metrics", get(scrape))
            .route("/tokenize", post(tokenize))
            .route("/detokenize", post(detokenize_ids))
            .route("/reset_prefix_cache", post(reset_prefix_cache))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn_with_state(self.clone(), conditions_and_count))
            .with_state(self)
    }
}

/// A request that the engine has. It is aborted when this is dropped, unless it was served.
pub(crate) struct Ticket {
    id: u64,
    commands: Sender<Command>,
    shared: Shared,
    served: AtomicBool,
}

impl Ticket {
    fn new(api: &Api, id: u64) -> Ticket {
        let (commands, shared) = (api.commands.clone(), api.shared.clone());
        Ticket { id, commands, shared, served: AtomicBool::new(false) }
    }

    fn number(&self) -> u64 {
        self.id
    }

    fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    /// Why there is no answer.
    fn failure(&self) -> Problem {
        Problem::engine_failed(self.shared.failure().as_deref().unwrap_or("it was stopped"))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.served.load(Ordering::Relaxed) {
            // An engine that is gone has nothing to abort.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}

/// What holds for every request: a long way, a server that hangs, and the count.
async fn conditions_and_count(State(mut api): State<Api>, request: Request, next: Next) -> Response {
    let latency_ms = api.conditions().request_latency_ms * api.time_scale;
    if latency_ms > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(latency_ms / 1e3)).await;
    }
    // An error means that the replica has ended; so will this connection.
    let _ = api.conditions.wait_for(|conditions| !conditions.hangs()).await;
    let path = PATHS.into_iter().find(|path| *path == request.uri().path()).unwrap_or("none");
    let method = request.method().as_str().to_owned();
    let response = next.run(request).await;
    let key = (path.to_owned(), method, response.status().as_u16() / 100);
    *api.shared.book().http.entry(key).or_default() += 1;
    response
}

async fn models(State(api): State<Api>) -> Json<Value> {
    let facts = &api.facts;
    Json(json!({
        "object": "list",
        "data": [{
            "id": facts.model,
            "object": "model",
            "owned_by": "scaleproof",
            "root": facts.model,
            "parent": null,
            "max_model_len": facts.max_request_tokens,
        }],
    }))
}

async fn health(State(api): State<Api>) -> StatusCode {
    if api.shared.failure().is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

async fn version() -> Json<Value> {
    Json(json!({"version": ENGINE_VERSION, "emulated_by": concat!("scaleproof ", env!("CARGO_PKG_VERSION"))}))
}

async fn scrape(State(api): State<Api>) -> Response {
    let book = api.shared.book().clone();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, metrics::exposition(&book, &api.facts)).into_response()
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request("body", format!("the body cannot be read: {error}")))
}

async fn tokenize(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    let tokens = read::<TokenizeBody>(&body)?.tokens()?;
    let (count, max) = (tokens.len(), api.facts.max_request_tokens);
    Ok(Json(json!({"count": count, "max_model_len": max, "tokens": tokens, "token_strs": null})))
}

async fn detokenize_ids(body: Bytes) -> Result<Json<Value>, Problem> {
    let body: DetokenizeBody = read(&body)?;
    Ok(Json(json!({"prompt": detokenize(&body.tokens)})))
}

async fn reset_prefix_cache(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    let (answer, told) = oneshot::channel();
    let _ = api.commands.send(Command::ResetCache(answer));
    match told.await {
        Ok(success) => Ok(Json(json!({"success": success}))),
        Err(_) => Err(Problem::engine_failed("it was stopped")),
    }
}
