//! The tokeniser that stands in for the model's: fixed, without a file, and exact both ways for any text.
//!
//! A text is cut before each space and each line break, and each piece into threes of bytes from its beginning: those
//! bytes are the token. So ` ab cd` is two tokens, and a word costs one for each three of its letters, the space
//! included. An answer is made of tokens of a space and two letters or digits: whatever stands around it, its text is
//! cut into the same tokens again.

use serde::Deserialize;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};

/// Bytes of the longest token.
const CHUNK: usize = 3;
/// The first id of the tokens of two bytes, and of those of three.
const TWO: u32 = 256;
const THREE: u32 = TWO + (1 << 16);
/// Ids are below this.
pub const VOCABULARY: u32 = THREE + (1 << 24);
/// What the words of an answer consist of.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// The tokens of a text.
#[must_use]
pub fn tokenize(text: &str) -> Vec<u32> {
    let mut ids = Vec::with_capacity(text.len() / CHUNK + 1);
    let mut rest = text.as_bytes();
    while let Some((_, after)) = rest.split_first() {
        let within = after.iter().take(CHUNK - 1).take_while(|byte| !matches!(byte, b' ' | b'\n')).count();
        let (chunk, others) = rest.split_at(1 + within);
        ids.push(id_of(chunk));
        rest = others;
    }
    ids
}

/// The text of tokens. Bytes that are no UTF-8 become replacement characters, as do ids outside the vocabulary.
#[must_use]
pub fn detokenize(ids: &[u32]) -> String {
    let mut bytes = Vec::with_capacity(CHUNK * ids.len());
    for &id in ids {
        let value = id.to_be_bytes();
        match id {
            ..TWO => bytes.push(value[3]),
            TWO..THREE => bytes.extend_from_slice(&(id - TWO).to_be_bytes()[2..]),
            THREE..VOCABULARY => bytes.extend_from_slice(&(id - THREE).to_be_bytes()[1..]),
            VOCABULARY.. => bytes.push(0xFF),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn id_of(chunk: &[u8]) -> u32 {
    let value = chunk.iter().fold(0, |value, &byte| (value << 8) | u32::from(byte));
    match chunk.len() {
        1 => value,
        2 => TWO + value,
        _ => THREE + value,
    }
}

/// Token `index` of the answer to the prompt with content `key`: the same prompt is always answered the same.
#[must_use]
pub fn answer_token(key: u64, index: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(key);
    hasher.write_u32(index);
    let draw = hasher.finish() as usize;
    let letter = |number: usize| LETTERS[number % LETTERS.len()];
    id_of(&[b' ', letter(draw), letter(draw / LETTERS.len())])
}

/// One message of a chat.
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    role: String,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// The chat template: each message on lines of its own after its role, then the assistant's turn.
#[must_use]
pub fn chat_text(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let _ = write!(text, "<{}>", message.role);
        match &message.content {
            Some(Content::Text(content)) => text.push_str(content),
            Some(Content::Parts(parts)) => parts.iter().for_each(|part| text.push_str(&part.text)),
            None => {}
        }
        text.push('\n');
    }
    text.push_str("<assistant>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_whole() {
        for text in ["", "a", "hello world", " ab cd", "a  b\n\nc", "z\u{e9}ro \u{1F600}!", "\u{0}\u{7f}"] {
            assert_eq!(detokenize(&tokenize(text)), text);
        }
        assert_eq!(tokenize("hello world").len(), 4, "hel lo _wo rld");
        assert_eq!(tokenize(" ab cd 12").len(), 3);
    }

    #[test]
    fn an_answer_is_cut_into_its_tokens_again_wherever_it_stands() {
        let answer: Vec<u32> = (0..50).map(|index| answer_token(7, index)).collect();
        let before = tokenize("<user>hello\n<assistant>");
        let text = format!("<user>hello\n<assistant>{}\n<user>and?", detokenize(&answer));
        let all = tokenize(&text);
        assert_eq!(all[before.len()..before.len() + 50], answer);
        assert!(answer.iter().all(|&id| id < VOCABULARY));
        assert_ne!(answer_token(7, 0), answer_token(8, 0));
    }

    #[test]
    fn ids_of_every_length_have_bytes_of_their_own() {
        let ends = [0, TWO - 1, TWO, THREE - 1, THREE, VOCABULARY - 1];
        let texts: Vec<usize> = ends.iter().map(|&id| detokenize(&[id]).len()).collect();
        assert_eq!(texts[0], 1);
        assert_eq!(detokenize(&[VOCABULARY, u32::MAX]), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_chat_is_its_messages_in_order() {
        let messages: Vec<Message> = serde_json::from_str(
            r#"[{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"hi"}]}]"#,
        )
        .unwrap();
        assert_eq!(chat_text(&messages), "<system>be\n<user>hi\n<assistant>");
    }
}
