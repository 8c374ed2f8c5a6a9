//! An answer as text: the chunks of a stream, and the whole of one.

use super::request::{Endpoint, Wanted};
use crate::engine::Piece;
use crate::tokens::{answer_token, detokenize};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// What follows every token's text if characters shall be split: it has two bytes.
pub const ACCENT: &str = "\u{e9}";

/// Writes one answer.
pub struct Speech {
    endpoint: Endpoint,
    /// Every chunk's beginning, up to its choices.
    head: String,
    id: String,
    created: u64,
    model: String,
    key: u64,
    prompt: Vec<u32>,
    prompt_tokens: u32,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    return_token_ids: bool,
    /// Whether each token's text ends in [`ACCENT`].
    pub(super) accented: bool,
    given: u32,
    cached_tokens: u32,
}

impl Speech {
    /// The answer number `id` to a request; `key` decides its tokens.
    pub fn new(endpoint: Endpoint, id: u64, model: &str, wanted: &Wanted, key: u64) -> Speech {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (id, object) = match endpoint {
            Endpoint::Completions => (format!("cmpl-{id:016x}"), "text_completion"),
            Endpoint::Chat => (format!("chatcmpl-{id:016x}"), "chat.completion.chunk"),
        };
        let name = Value::from(model);
        Speech {
            endpoint,
            head: format!(
                "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{name},\"choices\":["
            ),
            id,
            created,
            model: model.to_owned(),
            key,
            prompt: if wanted.return_token_ids { wanted.tokens.clone() } else { Vec::new() },
            prompt_tokens: wanted.tokens.len() as u32,
            include_usage: wanted.include_usage,
            continuous_usage: wanted.continuous_usage,
            return_token_ids: wanted.return_token_ids,
            accented: false,
            given: 0,
            cached_tokens: 0,
        }
    }

    /// The chunks of further tokens, one a token.
    pub fn chunks(&mut self, piece: Piece) -> Vec<Bytes> {
        self.cached_tokens = piece.cached_tokens;
        let mut chunks = Vec::with_capacity(piece.tokens as usize + 1);
        if self.given == 0 && self.endpoint == Endpoint::Chat {
            chunks.push(self.role_chunk());
        }
        for number in 1..=piece.tokens {
            let token = answer_token(self.key, self.given);
            let last = piece.last && number == piece.tokens;
            self.given += 1;
            chunks.push(self.token_chunk(token, last));
        }
        chunks
    }

    /// The usage, as a chunk of its own.
    pub fn usage_chunk(&self) -> Bytes {
        format!("{}],\"usage\":{}}}\n\n", self.head, self.usage()).into()
    }

    fn role_chunk(&self) -> Bytes {
        let ids = self.prompt_ids();
        let choice = "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\
                      \"finish_reason\":null}";
        format!("{}{choice}]{ids}{}}}\n\n", self.head, self.usage_so_far()).into()
    }

    fn token_chunk(&self, token: u32, last: bool) -> Bytes {
        let accent = if self.accented { ACCENT } else { "" };
        // An answer's tokens need no escaping: a space and two letters or digits.
        let text = detokenize(&[token]);
        let reason = if last { "\"length\"" } else { "null" };
        let ids = if self.return_token_ids { format!(",\"token_ids\":[{token}]") } else { String::new() };
        let (head, usage) = (&self.head, self.usage_so_far());
        match self.endpoint {
            Endpoint::Completions => {
                let prompt = if self.given == 1 { self.prompt_ids() } else { String::new() };
                format!(
                    "{head}{{\"index\":0,\"text\":\"{text}{accent}\",\"logprobs\":null,\"finish_reason\":{reason},\
                     \"stop_reason\":null{prompt}{ids}}}]{usage}}}\n\n"
                )
            }
            Endpoint::Chat => format!(
                "{head}{{\"index\":0,\"delta\":{{\"content\":\"{text}{accent}\"}},\"logprobs\":null,\
                 \"finish_reason\":{reason},\"stop_reason\":null{ids}}}]{usage}}}\n\n"
            ),
        }
        .into()
    }

    fn prompt_ids(&self) -> String {
        if self.return_token_ids {
            format!(",\"prompt_token_ids\":{}", Value::from(self.prompt.clone()))
        } else {
            String::new()
        }
    }

    fn usage_so_far(&self) -> String {
        if self.continuous_usage { format!(",\"usage\":{}", self.usage()) } else { String::new() }
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.given,
            "completion_tokens": self.given,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        })
    }

    /// The whole answer, once it has `given` tokens.
    pub fn whole(mut self, given: u32, cached_tokens: u32) -> Value {
        (self.given, self.cached_tokens) = (given, cached_tokens);
        let tokens: Vec<u32> = (0..given).map(|index| answer_token(self.key, index)).collect();
        let text = detokenize(&tokens);
        let (object, answer) = match self.endpoint {
            Endpoint::Completions => ("text_completion", json!({"text": text})),
            Endpoint::Chat => ("chat.completion", json!({"message": {"role": "assistant", "content": text}})),
        };
        let mut choice =
            json!({"index": 0, "logprobs": null, "finish_reason": "length", "stop_reason": null});
        merge(&mut choice, answer);
        let mut body = json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "usage": self.usage(),
        });
        if self.return_token_ids {
            merge(&mut choice, json!({"token_ids": tokens}));
            let holder = if self.endpoint == Endpoint::Chat { &mut body } else { &mut choice };
            merge(holder, json!({"prompt_token_ids": self.prompt}));
        }
        merge(&mut body, json!({"choices": [choice]}));
        body
    }
}

/// Adds the fields of one object to another.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
