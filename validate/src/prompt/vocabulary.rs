//! How many token ids a model has, by asking for one too many.

use crate::request::Endpoint;
use crate::scrape::Fetch;
use crate::target::Target;
use bytes::Bytes;
use serde_json::{Value, json};

/// No vocabulary is that large.
const IDS_MAX: u32 = 1 << 22;

/// The number of token ids of `model` at `target`: one more than the greatest that the engine takes in a prompt. About
/// twenty requests of one token. Only vLLM is asked: it is known to refuse an unknown id, where another engine might
/// look it up behind the end of a table.
///
/// # Errors
/// If it is not vLLM, or refuses every id or none.
pub async fn vocabulary(fetch: &impl Fetch, target: &Target, model: &str) -> Result<u32, String> {
    let models: Option<Value> = serde_json::from_str(&fetch.fetch(target, "/v1/models", None).await?).ok();
    let owner = models.as_ref().and_then(|models| models.get("data")?.get(0)?.get("owned_by")?.as_str());
    if owner != Some("vllm") {
        return Err(format!(
            "{target}: the size of the vocabulary can be found out only of vLLM; found a model of {}; give it",
            owner.unwrap_or("nobody")
        ));
    }
    // Ids below `taken` are taken, and from `refused` on they are not.
    let (mut taken, mut refused) = (0, IDS_MAX);
    while refused - taken > 1 {
        let id = taken + (refused - taken) / 2;
        if takes(fetch, target, model, id).await? { taken = id } else { refused = id }
    }
    if taken == 0 || refused == IDS_MAX {
        return Err(format!(
            "{target}: found {} token id refused; expected the engine to take those of its vocabulary only; give its size",
            if taken == 0 { "every" } else { "no" }
        ));
    }
    Ok(refused)
}

/// Whether the engine takes a prompt of this token.
async fn takes(fetch: &impl Fetch, target: &Target, model: &str, id: u32) -> Result<bool, String> {
    let question = json!({"model": model, "prompt": [id], "max_tokens": 1, "temperature": 0});
    let path = Endpoint::Completions.path();
    match fetch.fetch(target, path, Some(Bytes::from(question.to_string()))).await {
        Ok(_) => Ok(true),
        Err(error) if error.contains("vocabulary") => Ok(false),
        Err(error) => Err(error),
    }
}
