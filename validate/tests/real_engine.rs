//! What is asked of a server's tokenizer and counters, on a real vLLM (docs/live-engines.md):
//!
//!     SCALEPROOF_ENGINE=http://127.0.0.1:8100 cargo test -p scaleproof-validate --test real_engine -- --ignored

use bytes::Bytes;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_validate::prompt::{Priming, Tokenizer, Words, prime, vocabulary};
use scaleproof_validate::scrape::Fetch;
use scaleproof_validate::{Client, Endpoint, Prompt, PromptMaker, Target};
use serde_json::{Value, json};

const MODEL: &str = "m";

fn engine() -> (Client, Target) {
    let address = std::env::var("SCALEPROOF_ENGINE").expect("SCALEPROOF_ENGINE: the address of an engine");
    (Client::new(None, None), Target::parse(&address).unwrap())
}

fn salt() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
}

/// Prompt tokens by the engine's own count, and how many of them its cache had.
async fn usage(client: &Client, target: &Target, endpoint: Endpoint, prompt: Prompt) -> (u64, u64) {
    let mut question = match (endpoint, prompt) {
        (Endpoint::Chat, Prompt::Text(text)) => json!({"messages": [{"role": "user", "content": text}]}),
        (_, Prompt::Text(text)) => json!({"prompt": text}),
        (_, Prompt::Tokens(tokens)) => json!({"prompt": tokens}),
    };
    question["model"] = json!(MODEL);
    question["max_tokens"] = json!(1);
    let answer =
        client.fetch(target, endpoint.path(), Some(Bytes::from(question.to_string()))).await.unwrap();
    let usage = serde_json::from_str::<Value>(&answer).unwrap()["usage"].clone();
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
    (usage["prompt_tokens"].as_u64().unwrap(), cached)
}

#[tokio::test]
#[ignore = "needs a real engine"]
async fn text_has_the_scheduled_tokens_by_the_engines_count() {
    let (client, target) = engine();
    for endpoint in [Endpoint::Completions, Endpoint::Chat] {
        let tokenizer = Tokenizer { fetch: &client, target: &target, model: MODEL, endpoint };
        let mut words = Words::learn(&tokenizer, salt()).await.unwrap();
        println!("{endpoint:?}: head {}, at least {} tokens", words.head(), words.shortest());
        for len in [words.shortest(), 64, 512, 2000] {
            let prompt =
                words.prompt(&[Segment { stream: TokenStream::unique(u64::from(len)), start: 0, len }]);
            assert_eq!(usage(&client, &target, endpoint, prompt).await, (u64::from(len), 0), "{endpoint:?}");
        }
        let shared = Segment { stream: TokenStream::group(1), start: 0, len: 256 };
        for (request, hits) in [(1, 0), (2, 256)] {
            let own = Segment { stream: TokenStream::unique(request), start: 0, len: 100 };
            let prompt = words.prompt(&[shared, own]);
            assert_eq!(usage(&client, &target, endpoint, prompt).await, (356, hits), "{endpoint:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a real engine"]
async fn the_vocabulary_is_found_and_prefixes_are_primed() {
    let (client, target) = engine();
    let size = vocabulary(&client, &target, MODEL).await.unwrap();
    assert_eq!(size, 4096);
    let mut tokens = scaleproof_validate::HashedTokens { vocabulary: size, salt: salt() };
    let targets = [target];
    let path = Endpoint::Completions.path();
    let priming = Priming { fetch: &client, replicas: &targets, path };
    let prefix = |group, len| {
        let own = TokenStream::unique_warmup(group);
        vec![
            Segment { stream: TokenStream::group(group), start: 0, len },
            Segment { stream: own, start: 0, len: 64 },
        ]
    };
    let body = |segments: &[Segment]| match tokens.prompt(segments) {
        Prompt::Tokens(ids) => {
            Bytes::from(json!({"model": MODEL, "prompt": ids, "max_tokens": 1}).to_string())
        }
        Prompt::Text(_) => unreachable!("hashed tokens are ids"),
    };
    assert_eq!(prime(&priming, &[prefix(1, 300), prefix(2, 1024)], body).await, Ok(2));
}
