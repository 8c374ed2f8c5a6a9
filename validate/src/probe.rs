//! What a target serves and understands, found out by asking, before any load.

use crate::chunk::{self, Event};
use crate::client::Client;
use crate::config::LiveConfig;
use crate::maker::Prompt;
use crate::request::{Endpoint, Features, Template};
use crate::scrape;
use crate::sse::Splitter;
use crate::target::Target;
use bytes::Bytes;
use scaleproof_pack::experiment::EngineFacts;
use serde_json::Value;
use std::time::Duration;

/// The prompt of a probing request: shorter than any block of a prefix cache, so it leaves nothing there.
const PROBE_TOKENS: [u32; 3] = [5, 6, 7];

fn first(config: &LiveConfig) -> Result<&Target, String> {
    config.first_target().ok_or_else(|| "no target is there from the beginning".to_owned())
}

/// The model that the target serves, and which extensions of the API it takes.
pub(crate) async fn template(client: &Client, config: &LiveConfig) -> Result<Template, String> {
    let target = first(config)?;
    let model = match &config.model {
        Some(model) => model.clone(),
        None => models(client, target).await?.id,
    };
    let mut template = Template {
        endpoint: config.endpoint,
        model,
        features: Features::TRIED[0],
        streaming: config.streaming,
        ignore_eos: config.ignore_eos,
        sampling: config.sampling.clone(),
    };
    let mut refusals = Vec::new();
    for features in Features::TRIED {
        template.features = features;
        match understands(client, target, &template).await? {
            Ok(()) => return Ok(template),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(format!(
        "{target}{}: found a refusal of every form of a request ({}); expected an answer to one; check --model and \
         --endpoint",
        template.endpoint.path(),
        refusals.pop().unwrap_or_default()
    ))
}

/// Asks for one token in this form. The inner error is the target's refusal of the form.
async fn understands(
    client: &Client,
    target: &Target,
    template: &Template,
) -> Result<Result<(), String>, String> {
    let prompt = match template.endpoint {
        Endpoint::Completions => Prompt::Tokens(PROBE_TOKENS.to_vec()),
        Endpoint::Chat => Prompt::Text("hello".to_owned()),
    };
    let path = template.endpoint.path();
    let (status, answer) = client.ask(target, path, Some(template.body(prompt, 1, 0))).await?;
    let refusal = match status {
        200..300 => first_error(&answer),
        400 | 422 => Some(chunk::error_of_body(&answer)),
        _ => {
            return Err(format!(
                "{target}{path}: found HTTP {status} ({}); expected an answer of one token; check the target, --model \
                 and the token",
                chunk::error_of_body(&answer)
            ));
        }
    };
    Ok(refusal.map_or(Ok(()), Err))
}

/// The first error that a streamed or whole answer reports.
fn first_error(answer: &Bytes) -> Option<String> {
    let mut found = None;
    let mut look = |data: &[u8]| {
        if let Event::Error(error) = chunk::read(data) {
            found.get_or_insert(error);
        }
    };
    if answer.trim_ascii_start().starts_with(b"{") {
        look(answer);
    } else {
        let mut splitter = Splitter::new();
        if splitter.push(answer, &mut look).is_ok() {
            splitter.finish(&mut look);
        }
    }
    found
}

struct Model {
    id: String,
    max_model_len: Option<u32>,
}

/// The first model of `/v1/models`.
async fn models(client: &Client, target: &Target) -> Result<Model, String> {
    let path = "/v1/models";
    let (status, answer) = client.ask(target, path, None).await?;
    let value: Option<Value> = serde_json::from_slice(&answer).ok();
    let first = value.as_ref().and_then(|value| value.get("data")?.get(0));
    let id = first.and_then(|model| model.get("id")?.as_str());
    match id {
        Some(id) if (200..300).contains(&status) => Ok(Model {
            id: id.to_owned(),
            max_model_len: first
                .and_then(|model| model.get("max_model_len")?.as_u64())
                .and_then(|len| u32::try_from(len).ok()),
        }),
        _ => Err(format!(
            "{target}{path}: found HTTP {status} ({}); expected a list of models; check the address, or name the model \
             with --model",
            chunk::error_of_body(&answer)
        )),
    }
}

/// What the targets say of themselves.
pub(crate) async fn facts(
    client: &Client,
    config: &LiveConfig,
    template: &Template,
) -> Result<EngineFacts, String> {
    let first = first(config)?;
    let mut facts = EngineFacts { model: Some(template.model.clone()), ..EngineFacts::default() };
    for target in &config.targets {
        client.ask(target, "/v1/models", None).await?;
        facts.replicas += 1;
    }
    if let Ok(model) = models(client, first).await {
        facts.max_model_len = model.max_model_len;
    }
    if let Ok((200, answer)) = client.ask(first, "/version", None).await {
        let value: Option<Value> = serde_json::from_slice(&answer).ok();
        facts.version = value.and_then(|value| Some(value.get("version")?.as_str()?.to_owned()));
    }
    if let Some(replica) = config.present().first()
        && let Ok(reading) = scrape::read(client, replica).await
    {
        facts.block_size = reading.block_size;
        facts.num_blocks = reading.num_blocks;
        facts.prefix_cache = reading.prefix_cache;
    }
    Ok(facts)
}

/// A cache in use cannot be emptied: requests of a run that has just ended may still be there.
const RESET_TRIES: u32 = 25;
const RESET_PAUSE: Duration = Duration::from_millis(200);

/// Empties the replicas' prefix caches. False if one of them has no such command, or its cache stays in use.
pub(crate) async fn reset_prefix_cache(client: &Client, config: &LiveConfig) -> Result<bool, String> {
    for replica in &config.present() {
        if !reset(client, replica).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn reset(client: &Client, replica: &Target) -> Result<bool, String> {
    let path = "/reset_prefix_cache";
    for _ in 0..RESET_TRIES {
        let (status, answer) = client.ask(replica, path, Some(Bytes::new())).await?;
        match status {
            200..300 if !refuses(&answer) => return Ok(true),
            200..300 => tokio::time::sleep(RESET_PAUSE).await,
            404 | 405 | 501 => return Ok(false),
            _ => {
                return Err(format!(
                    "{replica}{path}: found HTTP {status} ({}); expected the cache to be emptied; check the server's log",
                    chunk::error_of_body(&answer)
                ));
            }
        }
    }
    Ok(false)
}

/// Whether an answer says that nothing was emptied. Some servers have nothing to say when they did it.
fn refuses(answer: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(answer).ok();
    value.is_some_and(|value| value.get("success") == Some(&Value::Bool(false)))
}
