//! The records of a run, as JSON lines that equal the recorder's byte for byte, and where two runs part.

use std::fmt::{self, Write};

/// Writes `text` as a JSON string of ASCII characters, like the recorder's language does.
fn push_string(line: &mut String, text: &str) {
    line.push('"');
    for unit in text.chars() {
        match unit {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\u{8}' => line.push_str("\\b"),
            '\u{c}' => line.push_str("\\f"),
            ' '..='\u{7e}' => line.push(unit),
            _ => {
                for half in unit.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(line, "\\u{half:04x}");
                }
            }
        }
    }
    line.push('"');
}

/// A JSON object being written. Names are plain ASCII.
pub(super) struct Line(String);

impl Line {
    pub fn new() -> Line {
        Line(String::from("{"))
    }

    fn key(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{name}\":");
    }

    pub fn number(mut self, name: &str, value: u64) -> Line {
        self.key(name);
        let _ = write!(self.0, "{value}");
        self
    }

    fn list<T>(
        mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        push: impl Fn(&mut String, T),
    ) -> Line {
        self.key(name);
        self.0.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            push(&mut self.0, item);
        }
        self.0.push(']');
        self
    }

    pub fn names<'a>(self, name: &str, items: impl IntoIterator<Item = &'a str>) -> Line {
        self.list(name, items, push_string)
    }

    pub fn counts<'a>(self, name: &str, items: impl IntoIterator<Item = (&'a str, u32)>) -> Line {
        self.list(name, items, |line, (id, count)| {
            line.push('[');
            push_string(line, id);
            let _ = write!(line, ",{count}]");
        })
    }

    pub fn pairs<'a>(self, name: &str, items: impl IntoIterator<Item = (&'a str, &'a str)>) -> Line {
        self.list(name, items, |line, (id, word)| {
            line.push('[');
            push_string(line, id);
            line.push(',');
            push_string(line, word);
            line.push(']');
        })
    }

    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Where two recordings part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The record's number, from 0.
    pub record: usize,
    /// The expected record; none if the recording had ended.
    pub expected: Option<String>,
    /// The one there was; none if it ended early.
    pub got: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |record: &Option<String>| record.clone().unwrap_or_else(|| "(no more records)".into());
        write!(
            f,
            "record {} differs:\n  expected {}\n  got      {}",
            self.record,
            side(&self.expected),
            side(&self.got)
        )
    }
}

/// The first record in which `got` is not `expected`.
#[must_use]
pub fn first_difference<A: AsRef<str>, B: AsRef<str>>(expected: &[A], got: &[B]) -> Option<Difference> {
    (0..expected.len().max(got.len())).find_map(|record| {
        let expected = expected.get(record).map(AsRef::as_ref);
        let got = got.get(record).map(AsRef::as_ref);
        (expected != got).then(|| Difference {
            record,
            expected: expected.map(String::from),
            got: got.map(String::from),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_ascii() {
        let line = Line::new().names("ids", ["a\"\\\n\u{1}é😀~\u{7f}"]).number("n", 3).finish();
        assert_eq!(line, r#"{"ids":["a\"\\\n\u0001\u00e9\ud83d\ude00~\u007f"],"n":3}"#);
    }

    #[test]
    fn the_first_difference_names_both_sides() {
        assert_eq!(first_difference(&["a", "b"], &["a", "b"]), None);
        let early = first_difference(&["a", "b"], &["a"]).unwrap();
        assert_eq!(early.to_string(), "record 1 differs:\n  expected b\n  got      (no more records)");
        let other = first_difference(&["a", "b", "c"], &["a", "x", "y"]).unwrap();
        assert_eq!((other.record, other.got.as_deref()), (1, Some("x")));
    }
}
