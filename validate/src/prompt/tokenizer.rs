//! A server's own tokenizer, as vLLM offers it at `/tokenize`.

use crate::request::Endpoint;
use crate::scrape::Fetch;
use crate::target::Target;
use bytes::Bytes;
use serde_json::{Value, json};

/// Asks one target for the token ids of texts.
pub struct Tokenizer<'a, F> {
    /// Who asks.
    pub fetch: &'a F,
    /// Whom.
    pub target: &'a Target,
    /// The model's id there.
    pub model: &'a str,
    /// Where the prompts will go.
    pub endpoint: Endpoint,
}

/// Where the question goes.
const PATH: &str = "/tokenize";

impl<F: Fetch> Tokenizer<'_, F> {
    /// The ids of the text alone, without anything that the server would add.
    pub(super) async fn alone(&self, text: &str) -> Result<Vec<u32>, String> {
        self.ask(&json!({"model": self.model, "prompt": text, "add_special_tokens": false})).await
    }

    /// The ids of all that the engine gets if this is the prompt: special tokens and the chat template among them.
    pub(super) async fn as_prompt(&self, text: &str) -> Result<Vec<u32>, String> {
        let question = match self.endpoint {
            Endpoint::Completions => json!({"model": self.model, "prompt": text, "add_special_tokens": true}),
            Endpoint::Chat => json!({
                "model": self.model,
                "messages": [{"role": "user", "content": text}],
                "add_generation_prompt": true,
            }),
        };
        self.ask(&question).await
    }

    async fn ask(&self, question: &Value) -> Result<Vec<u32>, String> {
        let answer = self.fetch.fetch(self.target, PATH, Some(Bytes::from(question.to_string()))).await?;
        let ids = serde_json::from_str(&answer).ok().and_then(|answer: Value| {
            let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
            answer.get("tokens")?.as_array()?.iter().map(id).collect()
        });
        ids.ok_or_else(|| {
            format!(
                "{}{PATH}: found no list of token ids; expected `\"tokens\": [..]` as vLLM answers",
                self.target
            )
        })
    }
}
