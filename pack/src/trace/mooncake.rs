//! Mooncake JSONL: an object a line with `timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`.

use super::{BLOCK_TOKENS, RawRow, Rows};
use crate::manifest::TOKENS_MAX;
use crate::prompt::TokenStream;
use serde::Deserialize;
use serde_json::Value;

/// A line as it should be.
#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

pub(super) fn read(bytes: &[u8], rows: &mut Rows) {
    for (line, text) in (1..).zip(bytes.split(|b| *b == b'\n')) {
        if rows.full() {
            return;
        }
        if !text.trim_ascii().is_empty() {
            match good_line(line, text) {
                Some(row) => rows.push(row),
                None => read_line(line, text, rows),
            }
        }
    }
}

/// The row of a line in which nothing is wrong, nor written in another way than usual: most of them, without a tree of
/// values for each.
fn good_line(line: u32, text: &[u8]) -> Option<RawRow<'static>> {
    let read: Line = serde_json::from_slice(text).ok()?;
    let good = (1..=TOKENS_MAX).contains(&read.input_length)
        && read.output_length <= TOKENS_MAX
        && read.hash_ids.len() == read.input_length.div_ceil(BLOCK_TOKENS) as usize
        && read.hash_ids.iter().all(|id| *id <= TokenStream::VALUE_MAX);
    Some(RawRow {
        line,
        time_field: "timestamp",
        at_ns: super::nanos(read.timestamp, 1e6).filter(|_| good)?,
        class: None,
        input_tokens: read.input_length,
        output_tokens: read.output_length,
        blocks: read.hash_ids,
    })
}

/// Any line: its row, or all that is wrong with it.
fn read_line(line: u32, text: &[u8], rows: &mut Rows) {
    let object = match serde_json::from_slice(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return rows.fault(line, "", "no object", "a JSON object a line"),
        Err(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            return rows.fault(line, "", message, "a JSON object a line");
        }
    };
    let text_of = |field: &str| object.get(field).map_or("nothing".to_owned(), Value::to_string);
    let at_ns = object.get("timestamp").and_then(Value::as_f64).and_then(|ms| super::nanos(ms, 1e6));
    if at_ns.is_none() {
        rows.fault(line, "timestamp", super::shown(&text_of("timestamp")), "milliseconds from 0 on");
    }
    let input = rows.tokens(line, "input_length", &text_of("input_length"), 1);
    let output = rows.tokens(line, "output_length", &text_of("output_length"), 0);
    let blocks = object.get("hash_ids").and_then(Value::as_array);
    let blocks = blocks.and_then(|ids| ids.iter().map(hash_id).collect::<Option<Vec<u64>>>());
    let (Some(blocks), Some(input)) = (&blocks, input) else {
        if blocks.is_none() {
            let expected = format!("a list of whole numbers from 0 to {}", TokenStream::VALUE_MAX);
            rows.fault(line, "hash_ids", super::shown(&text_of("hash_ids")), expected);
        }
        return;
    };
    let needed = input.div_ceil(BLOCK_TOKENS);
    if blocks.len() != needed as usize {
        let expected = format!("{needed} = input_length / {BLOCK_TOKENS}, rounded up");
        return rows.fault(line, "hash_ids", format!("{} ids", blocks.len()), expected);
    }
    if let (Some(at_ns), Some(output_tokens)) = (at_ns, output) {
        let (time_field, class, blocks) = ("timestamp", None, blocks.clone());
        rows.push(RawRow { line, time_field, at_ns, class, input_tokens: input, output_tokens, blocks });
    }
}

fn hash_id(value: &Value) -> Option<u64> {
    value.as_u64().filter(|id| *id <= TokenStream::VALUE_MAX)
}
