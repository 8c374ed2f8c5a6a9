use super::*;
use crate::maker::{Prompt, PromptMaker};
use crate::request::Endpoint;
use crate::scrape::Fetch;
use crate::target::Target;
use bytes::Bytes;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// A server that tokenises by blanks: a word is a token, one of more than eight letters two. It adds what it is told
/// to, keeps the first `keeps` prompts' prefixes in a cache with blocks of 16, and counts hits.
#[derive(Clone)]
struct Server(Arc<Mutex<State>>);

struct State {
    head: Vec<u32>,
    tail: Vec<u32>,
    /// A word of this length tokenises as two wherever it stands in a row, as one alone.
    merges: bool,
    vocabulary: u64,
    owner: &'static str,
    keeps: usize,
    blocks: u32,
    cached: BTreeSet<Vec<u64>>,
    hits: u64,
}

impl Server {
    fn new() -> Server {
        Server(Arc::new(Mutex::new(State {
            head: vec![1],
            tail: vec![],
            merges: false,
            vocabulary: 4096,
            owner: "vllm",
            keeps: usize::MAX,
            blocks: 1000,
            cached: BTreeSet::new(),
            hits: 0,
        })))
    }

    fn set(self, change: impl FnOnce(&mut State)) -> Server {
        change(&mut self.0.lock().unwrap());
        self
    }
}

/// An id of a word, which the first of a text has another of.
fn word_id(word: &str, first: bool) -> u32 {
    let hashed = word.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    (hashed >> 1) | (u32::from(first) << 31)
}

impl State {
    fn tokens(&self, text: &str) -> Vec<u32> {
        let words: Vec<&str> = text.split(' ').collect();
        let mut ids = Vec::new();
        for (n, word) in words.iter().enumerate() {
            ids.push(word_id(word, n == 0));
            if word.len() > 8 || (self.merges && words.len() > 300 && n % 50 == 7) {
                ids.push(9);
            }
        }
        ids
    }

    fn completion(&mut self, question: &Value) -> Result<String, String> {
        let prompt: Vec<u64> = serde_json::from_value(question["prompt"].clone()).unwrap();
        if prompt.iter().any(|&id| id >= self.vocabulary) {
            return Err("HTTP 400: Token id is out of vocabulary".to_owned());
        }
        for blocks in 1..=prompt.len() / 16 {
            let prefix = prompt[..blocks * 16].to_vec();
            if self.cached.contains(&prefix) {
                self.hits += 16;
            } else if self.cached.len() < self.keeps {
                self.cached.insert(prefix);
            }
        }
        Ok("{}".to_owned())
    }
}

impl Fetch for Server {
    async fn fetch(&self, _: &Target, path: &str, body: Option<Bytes>) -> Result<String, String> {
        let mut state = self.0.lock().unwrap();
        let question: Value = body.map_or(Value::Null, |body| serde_json::from_slice(&body).unwrap());
        let with_ends = |text: &str| [state.head.clone(), state.tokens(text), state.tail.clone()].concat();
        match path {
            "/tokenize" => {
                let ids = match (question["prompt"].as_str(), question["messages"][0]["content"].as_str()) {
                    (Some(text), _) if question["add_special_tokens"] == json!(false) => state.tokens(text),
                    (Some(text), _) | (_, Some(text)) => with_ends(text),
                    _ => panic!("{question}"),
                };
                Ok(json!({"count": ids.len(), "tokens": ids}).to_string())
            }
            "/v1/models" => Ok(json!({"data": [{"id": "m", "owned_by": state.owner}]}).to_string()),
            "/v1/completions" => state.completion(&question),
            "/metrics" => Ok(format!(
                "vllm:prefix_cache_hits_total {}\nvllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"{}\"}} 1\n",
                state.hits, state.blocks
            )),
            _ => panic!("{path}"),
        }
    }
}

fn target() -> Target {
    Target::parse("http://engine").unwrap()
}

async fn learn(server: &Server, endpoint: Endpoint) -> Result<Words, String> {
    Words::learn(&Tokenizer { fetch: server, target: &target(), model: "m", endpoint }, 7).await
}

fn segment(stream: TokenStream, start: u32, len: u32) -> Segment {
    Segment { stream, start, len }
}

/// The ids of the whole prompt, as the server makes them of the text.
fn ids(server: &Server, words: &mut Words, segments: &[Segment]) -> Vec<u32> {
    let Prompt::Text(text) = words.prompt(segments) else { panic!() };
    let state = server.0.lock().unwrap();
    [state.head.clone(), state.tokens(&text), state.tail.clone()].concat()
}

#[tokio::test]
async fn text_has_the_scheduled_tokens_and_shares_the_scheduled_prefix() {
    for (head, tail, endpoint) in [
        (vec![1], vec![], Endpoint::Completions),
        (vec![], vec![], Endpoint::Completions),
        (vec![70, 71, 72], vec![80, 81], Endpoint::Chat),
    ] {
        let server = Server::new().set(|state| (state.head, state.tail) = (head.clone(), tail.clone()));
        let mut words = learn(&server, endpoint).await.unwrap();
        assert_eq!(
            (words.head(), words.shortest()),
            (head.len() as u32, (head.len() + tail.len() + 1) as u32)
        );
        let group = segment(TokenStream::group(3), 0, 100);
        for len in [words.shortest(), 8, 64, 700] {
            let prompt = [segment(TokenStream::unique(len.into()), 0, len)];
            assert_eq!(ids(&server, &mut words, &prompt).len(), len as usize);
        }
        let a = ids(&server, &mut words, &[group, segment(TokenStream::unique(1), 0, 60)]);
        let b = ids(&server, &mut words, &[group, segment(TokenStream::unique(2), 0, 60)]);
        assert_eq!(a[..100], b[..100]);
        assert_ne!(a[100..116], b[100..116]);
        let before = a;
        words.renew(8);
        let after = ids(&server, &mut words, &[group, segment(TokenStream::unique(1), 0, 60)]);
        assert_ne!(before[head.len()..head.len() + 16], after[head.len()..head.len() + 16]);
    }
}

#[tokio::test]
async fn a_tokenizer_that_no_word_keeps_to_itself_in_is_refused() {
    let server = Server::new().set(|state| state.merges = true);
    let error = learn(&server, Endpoint::Completions).await.unwrap_err();
    assert!(error.contains("found 510 tokens for 500 words"), "{error}");
}

#[tokio::test]
async fn the_vocabulary_ends_where_ids_are_refused() {
    for size in [256, 4096, 151_936] {
        let server = Server::new().set(|state| state.vocabulary = size);
        assert_eq!(vocabulary(&server, &target(), "m").await, Ok(size as u32));
    }
    let endless = Server::new().set(|state| state.vocabulary = u64::MAX);
    assert!(vocabulary(&endless, &target(), "m").await.unwrap_err().contains("found no token id refused"));
    let other = Server::new().set(|state| state.owner = "sglang");
    let error = vocabulary(&other, &target(), "m").await.unwrap_err();
    assert!(error.contains("found a model of sglang"), "{error}");
}

/// A schedule whose requests begin with these groups, so long.
fn schedule(groups: &[(u64, u32)]) -> Schedule {
    let mut list = PlannedList::default();
    for (n, &(group, len)) in groups.iter().enumerate() {
        list.segments.push(segment(TokenStream::group(group), 0, len));
        list.requests.push(Planned {
            release: Release::At(Nanos(n as u64)),
            class: 0,
            priority: 0,
            input_tokens: len + 10,
            output_tokens: 1,
            cancel_after: None,
            segments_from: n as u32,
            segments_len: 1,
        });
    }
    Schedule::of(Load::Open { rps: 1.0 }, list)
}

#[test]
fn the_longest_of_each_group_is_primed() {
    let prompts = prefixes(&schedule(&[(1, 64), (2, 0), (1, 96), (3, 40), (1, 32)]));
    let firsts: Vec<_> =
        prompts.iter().map(|prompt| (prompt[0].stream.as_group().unwrap(), prompt[0].len)).collect();
    assert_eq!(firsts, [(1, 96), (3, 40)]);
    let own: BTreeSet<_> = prompts.iter().map(|prompt| prompt[1].stream).collect();
    assert_eq!(own.len(), 2);
    assert!(prefixes(&schedule(&[])).is_empty());
}

async fn primed(server: &Server, groups: &[(u64, u32)]) -> Result<u32, String> {
    let mut tokens = crate::maker::HashedTokens { vocabulary: 4096, salt: 1 };
    let target = [target()];
    let priming = Priming { fetch: server, replicas: &target, path: "/v1/completions" };
    prime(&priming, &prefixes(&schedule(groups)), |segments| match tokens.prompt(segments) {
        Prompt::Tokens(tokens) => Bytes::from(json!({"prompt": tokens}).to_string()),
        Prompt::Text(_) => panic!(),
    })
    .await
}

#[tokio::test]
async fn priming_ends_when_the_counters_show_the_prefixes() {
    let server = Server::new();
    assert_eq!(primed(&server, &[(1, 100), (2, 320)]).await, Ok(2));
    assert_eq!(primed(&server, &[(1, 100), (2, 320)]).await, Ok(1), "they are there already");
    assert_eq!(primed(&server, &[]).await, Ok(0));
    let small = Server::new().set(|state| state.keeps = 10);
    let error = primed(&small, &[(1, 100), (2, 320)]).await.unwrap_err();
    assert!(error.contains("found 160 tokens") && error.contains("expected 416"), "{error}");
    // 100 and 320 tokens, each with 64 behind it.
    let tiny = Server::new().set(|state| state.blocks = 30);
    let error = primed(&tiny, &[(1, 100), (2, 320)]).await.unwrap_err();
    assert!(error.contains("2 prefixes of 35 KV blocks; expected at most the"), "{error}");
    assert_eq!(tiny.0.lock().unwrap().hits, 0);
}
