//! The body of a request, and what an endpoint understands of it.

use crate::maker::Prompt;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Which endpoint takes the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/completions`: takes token ids.
    Completions,
    /// `/v1/chat/completions`: takes text, and puts a template around it.
    Chat,
}

impl Endpoint {
    /// The path below the target's base.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Endpoint::Completions => "/v1/completions",
            Endpoint::Chat => "/v1/chat/completions",
        }
    }
}

/// Which extensions of the API an endpoint takes. Found out once, by asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `return_token_ids`: each chunk lists its tokens.
    pub token_ids: bool,
    /// `ignore_eos` and `min_tokens`: the length of the answer can be forced.
    pub forced_length: bool,
    /// `stream_options.include_usage`: the server's own counts.
    pub usage: bool,
}

impl Features {
    /// What is tried, the richest first.
    pub const TRIED: [Features; 4] = [
        Features { token_ids: true, forced_length: true, usage: true },
        Features { token_ids: false, forced_length: true, usage: true },
        Features { token_ids: false, forced_length: false, usage: true },
        Features { token_ids: false, forced_length: false, usage: false },
    ];
}

/// What all requests of a run have in common.
#[derive(Clone, Debug)]
pub struct Template {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The model's id there.
    pub model: String,
    /// What it takes.
    pub features: Features,
    /// Whether the answer is streamed.
    pub streaming: bool,
    /// Whether the answer's length is forced, where that is possible.
    pub ignore_eos: bool,
    /// Further parameters, as the manifest has them.
    pub sampling: Vec<(String, f64)>,
}

impl Template {
    /// The body of one request.
    #[must_use]
    pub fn body(&self, prompt: Prompt, output_tokens: u32, priority: i32) -> Bytes {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
        set("model", json!(self.model));
        match (self.endpoint, prompt) {
            (Endpoint::Completions, Prompt::Tokens(tokens)) => set("prompt", json!(tokens)),
            (Endpoint::Completions, Prompt::Text(text)) => set("prompt", json!(text)),
            (Endpoint::Chat, Prompt::Text(text)) => {
                set("messages", json!([{"role": "user", "content": text}]))
            }
            (Endpoint::Chat, Prompt::Tokens(tokens)) => {
                set("messages", json!([{"role": "user", "content": words(&tokens)}]))
            }
        };
        set("max_tokens", json!(output_tokens));
        if self.features.forced_length && self.ignore_eos {
            set("min_tokens", json!(output_tokens));
            set("ignore_eos", json!(true));
        }
        set("temperature", json!(0));
        if self.streaming {
            set("stream", json!(true));
            if self.features.usage {
                set("stream_options", json!({"include_usage": true}));
            }
        }
        if self.features.token_ids {
            set("return_token_ids", json!(true));
        }
        if priority != 0 {
            set("priority", json!(priority));
        }
        for (name, value) in &self.sampling {
            set(name, number(*value));
        }
        Bytes::from(Value::Object(body).to_string())
    }
}

/// A number as JSON, whole where it is: `top_k` must be no float.
fn number(value: f64) -> Value {
    let whole = value.trunc();
    #[expect(clippy::float_cmp, reason = "whole or not")]
    if whole == value && whole.abs() < 9e15 { json!(whole as i64) } else { json!(value) }
}

/// A text of about as many tokens, for an endpoint that takes no ids.
fn words(tokens: &[u32]) -> String {
    let words: Vec<String> = tokens.iter().map(u32::to_string).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(features: Features) -> Template {
        Template {
            endpoint: Endpoint::Completions,
            model: "m".to_owned(),
            features,
            streaming: true,
            ignore_eos: true,
            sampling: vec![("top_p".to_owned(), 0.5), ("top_k".to_owned(), 20.0)],
        }
    }

    fn text(template: &Template) -> String {
        let body = template.body(Prompt::Tokens(vec![5, 6]), 8, 0);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn a_body_has_what_the_endpoint_takes() {
        assert_eq!(
            text(&template(Features::TRIED[0])),
            r#"{"model":"m","prompt":[5,6],"max_tokens":8,"min_tokens":8,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"top_p":0.5,"top_k":20}"#
        );
        assert_eq!(
            text(&Template { streaming: false, ..template(Features::TRIED[3]) }),
            r#"{"model":"m","prompt":[5,6],"max_tokens":8,"temperature":0,"top_p":0.5,"top_k":20}"#
        );
    }
}
