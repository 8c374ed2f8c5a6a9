//! An oracle case: an engine, and requests keyed to its `schedule` calls.

use std::collections::BTreeMap;
use std::fmt;

use scaleproof_pack::prompt::{Segment, TokenStream};
use serde::Deserialize;

use crate::engine::{EngineConfig, EngineRequest};

/// Why a case could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OracleError {
    /// The text is no case.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the JSON reader found.
        message: String,
    },
    /// The case contradicts itself or its bounds: all faults, each with its field.
    Case(Vec<String>),
    /// The engine can never go on: nothing fits, nothing is in flight and nothing more arrives.
    Stalled {
        /// The schedule call that changed nothing.
        call: u64,
        /// The requests that wait for ever, in their order.
        waiting: Vec<String>,
    },
    /// It went on past the bound on calls without an end.
    Endless {
        /// That bound.
        calls: u64,
    },
}

impl fmt::Display for OracleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OracleError::Syntax { line, column, message } => {
                write!(f, "not an oracle case: line {line}, column {column}: {message}")
            }
            OracleError::Case(faults) => write!(f, "not a usable oracle case:\n  {}", faults.join("\n  ")),
            OracleError::Stalled { call, waiting } => write!(
                f,
                "call {call}: nothing can be scheduled any more and nothing more arrives; waiting for ever: {}. \
                 Give the case `max_calls` to record it up to there",
                waiting.join(", ")
            ),
            OracleError::Endless { calls } => write!(
                f,
                "no end after {calls} schedule calls (a request that is preempted again and again?). Give the case \
                 `max_calls`"
            ),
        }
    }
}

impl std::error::Error for OracleError {}

impl OracleError {
    fn syntax(error: &serde_json::Error) -> OracleError {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        OracleError::Syntax { line: error.line(), column: error.column(), message }
    }
}

/// The last call at which a request may arrive.
const CALL_MAX: i64 = 1 << 53;

#[derive(Deserialize)]
struct RawCase {
    engine: EngineConfig,
    requests: Vec<RawRequest>,
    #[serde(default)]
    max_calls: Option<u64>,
    #[serde(default)]
    depth: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequest {
    id: String,
    arrives_at_call: i64,
    prompt: Vec<RawPart>,
    max_tokens: u32,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    stops_after: Option<u32>,
    #[serde(default)]
    abort_at_call: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    stream: Option<u64>,
    output_of: Option<String>,
    #[serde(default)]
    start: u32,
    len: u32,
}

/// A checked case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub engine: EngineConfig,
    /// The engine's ids are positions here.
    pub requests: Vec<CaseRequest>,
    /// The run ends before a schedule call beyond so many.
    pub max_calls: Option<u64>,
    /// Steps in flight at most.
    pub depth: usize,
}

#[derive(Clone, Debug)]
pub(super) struct CaseRequest {
    pub name: String,
    pub arrives_at_call: i64,
    pub abort_at_call: Option<i64>,
    /// Which of its sampled tokens, counted from 1, is a stop token.
    pub stops_after: Option<u32>,
    pub engine: EngineRequest,
}

impl Case {
    pub fn read(text: &str) -> Result<Case, OracleError> {
        let raw: RawCase = serde_json::from_str(text).map_err(|error| OracleError::syntax(&error))?;
        let mut faults: Vec<String> =
            raw.engine.check().iter().map(|fault| format!("engine.{fault}")).collect();
        let mut positions = BTreeMap::new();
        for (position, request) in raw.requests.iter().enumerate() {
            if positions.insert(request.id.clone(), position).is_some() {
                faults.push(format!(
                    "requests[{position}].id: found {:?} again, expected one that is new",
                    request.id
                ));
            }
        }
        let requests = raw
            .requests
            .into_iter()
            .enumerate()
            .map(|(position, request)| check_request(position, request, &positions, &mut faults))
            .collect();
        let depth = raw.depth.unwrap_or_else(|| raw.engine.depth());
        if depth == 0 {
            faults.push("depth: found 0, expected at least 1".into());
        }
        if faults.is_empty() {
            Ok(Case { engine: raw.engine, requests, max_calls: raw.max_calls, depth })
        } else {
            Err(OracleError::Case(faults))
        }
    }
}

fn check_request(
    position: usize,
    raw: RawRequest,
    positions: &BTreeMap<String, usize>,
    faults: &mut Vec<String>,
) -> CaseRequest {
    let mut fault =
        |field: &str, message: String| faults.push(format!("requests[{position}].{field}: {message}"));
    if raw.max_tokens == 0 {
        fault("max_tokens", "found 0, expected at least 1".into());
    }
    if raw.arrives_at_call > CALL_MAX {
        fault("arrives_at_call", format!("found {}, expected at most {CALL_MAX}", raw.arrives_at_call));
    }
    let mut prompt = Vec::with_capacity(raw.prompt.len());
    let mut tokens = 0_u64;
    for (index, part) in raw.prompt.iter().enumerate() {
        tokens += u64::from(part.len);
        match part_stream(part, positions) {
            Ok(stream) => prompt.push(Segment { stream, start: part.start, len: part.len }),
            Err(message) => fault(&format!("prompt[{index}]"), message),
        }
        if part.start.checked_add(part.len).is_none() {
            fault(&format!("prompt[{index}]"), "start + len is above 4294967295".into());
        }
    }
    if !(1..=u64::from(EngineConfig::TOKENS_MAX)).contains(&tokens) {
        let most = EngineConfig::TOKENS_MAX;
        fault("prompt", format!("found {tokens} tokens, expected 1 to {most}"));
    }
    CaseRequest {
        name: raw.id,
        arrives_at_call: raw.arrives_at_call,
        abort_at_call: raw.abort_at_call,
        stops_after: raw.stops_after,
        engine: EngineRequest {
            id: position as u64,
            prompt,
            output: TokenStream::output(position as u64),
            max_tokens: raw.max_tokens,
            priority: raw.priority,
        },
    }
}

fn part_stream(part: &RawPart, positions: &BTreeMap<String, usize>) -> Result<TokenStream, String> {
    const STREAM_MAX: u64 = (1 << 56) - 1;
    match (part.stream, &part.output_of) {
        (Some(stream), None) if stream <= STREAM_MAX => Ok(TokenStream::group(stream)),
        (Some(stream), None) => Err(format!("stream: found {stream}, expected at most {STREAM_MAX}")),
        (None, Some(name)) => positions
            .get(name)
            .map(|&position| TokenStream::output(position as u64))
            .ok_or_else(|| format!("output_of: no request has the id {name:?}")),
        _ => Err("expected exactly one of stream and output_of".into()),
    }
}
