//! Requests for an answer, read and checked.

use super::problem::Problem;
use crate::config::Facts;
use crate::tokens::{Message, VOCABULARY, chat_text, tokenize};
use serde::Deserialize;

/// The body of both endpoints, as far as it matters here. Sampling makes no difference to a model without weights.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    model: Option<String>,
    prompt: Option<Prompt>,
    messages: Option<Vec<Message>>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    min_tokens: Option<u32>,
    stream: bool,
    stream_options: Option<StreamOptions>,
    return_token_ids: Option<bool>,
    cache_salt: Option<String>,
    priority: i32,
    n: Option<u32>,
    best_of: Option<u32>,
    echo: bool,
    logprobs: Option<serde_json::Value>,
    prompt_logprobs: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
    continuous_usage_stats: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

/// Which endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
}

/// A checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// The answer's length: what was asked for, or what fits.
    pub max_tokens: u32,
    /// See the engine's request.
    pub priority: i32,
    /// Prompts of different salts share nothing.
    pub salt: String,
    /// Token by token.
    pub stream: bool,
    /// A stream ends with the usage.
    pub include_usage: bool,
    /// Each chunk has the usage so far.
    pub continuous_usage: bool,
    /// The answer names token ids.
    pub return_token_ids: bool,
}

/// What a completion has without `max_tokens`.
const COMPLETION_TOKENS: u32 = 16;

impl Wanted {
    /// Reads a body.
    pub fn read(endpoint: Endpoint, body: &[u8], facts: &Facts) -> Result<Wanted, Problem> {
        let body: Body = serde_json::from_slice(body)
            .map_err(|error| Problem::bad_request("body", format!("the body cannot be read: {error}")))?;
        check_model(body.model.as_deref(), facts)?;
        refuse_what_is_not_emulated(&body)?;
        let tokens = body.tokens(endpoint)?;
        let room = check_prompt(&tokens, facts)?;
        let asked = body.max_completion_tokens.or(body.max_tokens);
        let asked = asked.unwrap_or(match endpoint {
            Endpoint::Completions => COMPLETION_TOKENS,
            Endpoint::Chat => room,
        });
        if asked == 0 || body.min_tokens.is_some_and(|min| min > asked) {
            let min = body.min_tokens.unwrap_or(0).max(1);
            let message = format!("max_tokens: found {asked}; expected at least {min}");
            return Err(Problem::bad_request("max_tokens", message));
        }
        let options = body.stream_options.unwrap_or_default();
        Ok(Wanted {
            tokens,
            // The engine ends at its context, without a word.
            max_tokens: asked.min(room),
            priority: body.priority,
            salt: body.cache_salt.unwrap_or_default(),
            stream: body.stream,
            include_usage: options.include_usage,
            continuous_usage: options.include_usage && options.continuous_usage_stats,
            return_token_ids: body.return_token_ids.unwrap_or(false),
        })
    }
}

impl Body {
    fn tokens(&self, endpoint: Endpoint) -> Result<Vec<u32>, Problem> {
        if endpoint == Endpoint::Chat {
            let messages = self.messages.as_deref().filter(|messages| !messages.is_empty());
            let missing = || Problem::bad_request("messages", "messages: found none".to_owned());
            return Ok(tokenize(&chat_text(messages.ok_or_else(missing)?)));
        }
        match &self.prompt {
            Some(Prompt::Text(text)) => Ok(tokenize(text)),
            Some(Prompt::Ids(ids)) => Ok(ids.clone()),
            Some(Prompt::Texts(texts)) if texts.len() == 1 => Ok(tokenize(&texts[0])),
            Some(Prompt::IdLists(lists)) if lists.len() == 1 => Ok(lists[0].clone()),
            Some(_) => Err(Problem::bad_request("prompt", "prompt: found several; expected one".to_owned())),
            None => Err(Problem::bad_request(
                "prompt",
                "prompt: found none; expected a text or token ids".to_owned(),
            )),
        }
    }
}

/// A request may leave the model out.
fn check_model(model: Option<&str>, facts: &Facts) -> Result<(), Problem> {
    match model {
        Some(model) if model != facts.model => {
            let message = format!("model: found {model}; expected {}", facts.model);
            Err(Problem::not_found("model", message))
        }
        _ => Ok(()),
    }
}

fn refuse_what_is_not_emulated(body: &Body) -> Result<(), Problem> {
    let logprobs = body.logprobs.as_ref().is_some_and(|value| *value != serde_json::json!(false));
    for (param, asked) in [
        ("n", body.n.is_some_and(|n| n != 1)),
        ("best_of", body.best_of.is_some_and(|n| n != 1)),
        ("echo", body.echo),
        ("logprobs", logprobs && body.logprobs.as_ref().is_some_and(|value| !value.is_null())),
        ("prompt_logprobs", body.prompt_logprobs.is_some()),
    ] {
        if asked {
            return Err(Problem::bad_request(param, format!("{param} is not emulated; leave it out")));
        }
    }
    Ok(())
}

/// The tokens that an answer to this prompt may have.
fn check_prompt(tokens: &[u32], facts: &Facts) -> Result<u32, Problem> {
    let (found, max) = (tokens.len(), facts.max_request_tokens);
    if tokens.is_empty() {
        return Err(Problem::bad_request(
            "prompt",
            "prompt: found no token; expected at least one".to_owned(),
        ));
    }
    if let Some(id) = tokens.iter().find(|&&id| id >= VOCABULARY) {
        let message = format!("prompt: found token id {id}; expected ids below {VOCABULARY}");
        return Err(Problem::bad_request("prompt", message));
    }
    let room = u32::try_from(found).ok().and_then(|found| max.checked_sub(found)).filter(|room| *room > 0);
    room.ok_or_else(|| {
        let message = format!("prompt: found {found} tokens; expected fewer than the model's context, {max}");
        Problem::bad_request("input_tokens", message)
    })
}

/// The body of `/tokenize`.
#[derive(Debug, Deserialize)]
pub struct TokenizeBody {
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Option<Vec<Message>>,
}

impl TokenizeBody {
    /// Its tokens.
    pub fn tokens(&self) -> Result<Vec<u32>, Problem> {
        match (&self.prompt, &self.messages) {
            (Some(text), _) => Ok(tokenize(text)),
            (None, Some(messages)) => Ok(tokenize(&chat_text(messages))),
            (None, None) => {
                let message = "prompt: found neither it nor messages; expected one of them".to_owned();
                Err(Problem::bad_request("prompt", message))
            }
        }
    }
}

/// The body of `/detokenize`.
#[derive(Debug, Deserialize)]
pub struct DetokenizeBody {
    /// Token ids.
    pub tokens: Vec<u32>,
}
