//! What one event of an OpenAI-compatible stream says; also the whole answer of a request that is not streamed.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `[DONE]`.
    Done,
    /// A part of the answer.
    Part(Part),
    /// The server reports an error, in its words.
    Error(String),
    /// Neither; why.
    Unreadable(String),
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many token ids it lists; None if it has no list.
    pub token_ids: Option<u32>,
    /// Whether it has text, reasoning or a tool call. An empty text is none: the opening chunk of a chat has one.
    pub has_text: bool,
    /// How the answer ended, if it did.
    pub finish: Option<Finish>,
    /// The server's counts, if it says them here.
    pub usage: Option<Usage>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// All tokens allowed were made, or the context was full.
    Length,
    /// For another reason: the model stopped.
    Other,
}

/// The server's counts of tokens, for the whole request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens.
    pub completion: u32,
    /// Prompt tokens found in the prefix cache, where the server says so.
    pub cached: Option<u32>,
}

impl Part {
    /// Tokens that it brought: by its list, else one if it has text.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.token_ids.unwrap_or(u32::from(self.has_text))
    }
}

/// Reads the data of one event.
#[must_use]
pub fn read(data: &[u8]) -> Event {
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        return Event::Done;
    }
    match serde_json::from_slice::<Wire<'_>>(data) {
        Err(error) => Event::Unreadable(format!("{error} in {:?}", shortened(data))),
        Ok(Wire { error: Some(error), .. }) => Event::Error(error_text(&error)),
        Ok(Wire { choices: None, usage: None, .. }) => {
            Event::Unreadable(format!("neither choices nor usage in {:?}", shortened(data)))
        }
        Ok(wire) => Event::Part(part(&wire)),
    }
}

/// The error text of an answer's body.
#[must_use]
pub fn error_of_body(body: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => error_text(value.get("error").unwrap_or(&value)),
        Err(_) => shortened(body),
    }
}

fn error_text(error: &serde_json::Value) -> String {
    let message = error.get("message").or(error.get("detail")).unwrap_or(error);
    match message.as_str() {
        Some(text) => shortened(text.as_bytes()),
        None => shortened(message.to_string().as_bytes()),
    }
}

/// At most 200 characters, in one line.
pub(crate) fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(800)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect::<String>().trim().to_owned()
}

fn part(wire: &Wire<'_>) -> Part {
    let mut part = Part { usage: wire.usage.as_ref().map(usage), ..Part::default() };
    for choice in wire.choices.iter().flatten() {
        if let Some(ids) = &choice.token_ids {
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            part.token_ids = Some(part.token_ids.unwrap_or(0).saturating_add(count));
        }
        let delta = choice.delta.as_ref().or(choice.message.as_ref());
        part.has_text |= has(&choice.text) || delta.is_some_and(Delta::has_text);
        if let Some(reason) = &choice.finish_reason {
            part.finish = Some(if reason == "length" { Finish::Length } else { Finish::Other });
        }
    }
    part
}

fn usage(usage: &WireUsage) -> Usage {
    Usage {
        prompt: usage.prompt_tokens,
        completion: usage.completion_tokens.unwrap_or(0),
        cached: usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens),
    }
}

fn has(text: &Option<Cow<'_, str>>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(default)]
    token_ids: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

impl Delta<'_> {
    fn has_text(&self) -> bool {
        let texts = [&self.content, &self.reasoning, &self.reasoning_content];
        texts.into_iter().any(has) || self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
    }
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: Option<u32>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of(json: &str) -> Part {
        match read(json.as_bytes()) {
            Event::Part(part) => part,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tokens_are_ids_or_else_text_that_is_not_empty() {
        let tokens = |json: &str| part_of(json).tokens();
        assert_eq!(tokens(r#"{"choices":[{"text":"","token_ids":[5,6]}]}"#), 2);
        assert_eq!(tokens(r#"{"choices":[{"text":"x","token_ids":[]}]}"#), 0);
        assert_eq!(tokens(r#"{"choices":[{"text":"a\u00fc","token_ids":null}]}"#), 1);
        assert_eq!(tokens(r#"{"choices":[{"text":""}]}"#), 0);
        assert_eq!(tokens(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#), 0);
        assert_eq!(tokens(r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#), 1);
        assert_eq!(tokens(r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#), 1);
        assert_eq!(tokens(r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#), 0);
    }

    #[test]
    fn ends_counts_and_errors_are_read() {
        let last = part_of(
            r#"{"choices":[{"text":"x","finish_reason":"length"}],
                "usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}"#,
        );
        assert_eq!(last.finish, Some(Finish::Length));
        assert_eq!(last.usage, Some(Usage { prompt: 9, completion: 4, cached: Some(8) }));
        assert_eq!(part_of(r#"{"choices":[{"finish_reason":"stop"}]}"#).finish, Some(Finish::Other));
        assert_eq!(read(b" [DONE] "), Event::Done);
        assert_eq!(read(br#"{"error":{"message":"too\nlong"}}"#), Event::Error("too long".to_owned()));
        assert!(matches!(read(b"{\"choices\":"), Event::Unreadable(_)));
        assert!(matches!(read(b"{}"), Event::Unreadable(_)));
        assert!(matches!(read(b"\xff\xfe"), Event::Unreadable(_)));
    }
}
