//! JSON values that know where they are, so that what is wrong with them can be said with its place.

use crate::fault::{Fault, Faults};
use serde_json::Value;

/// The greatest count that is believed: far beyond any benchmark, far from overflow in sums.
const COUNT_MAX: u64 = 1 << 48;
/// The greatest number that is believed, in whatever unit: no sum or change of unit makes it infinite.
const NUMBER_MAX: f64 = 1e15;
/// Characters of a value that a fault shows.
const SHOWN_CHARS: usize = 60;

/// A value of a file, or the place where one is missing. JSON's null counts as missing.
#[derive(Clone)]
pub(super) struct At<'a> {
    file: &'a str,
    line: Option<u32>,
    path: String,
    value: Option<&'a Value>,
}

impl<'a> At<'a> {
    /// A whole document, which begins at `line` where its file has several.
    pub(super) fn top(file: &'a str, line: Option<u32>, value: &'a Value) -> At<'a> {
        At { file, line, path: String::new(), value: Some(value) }
    }

    /// The file's name.
    pub(super) fn file(&self) -> &'a str {
        self.file
    }

    /// The member `key`.
    pub(super) fn get(&self, key: &str) -> At<'a> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.child(path, self.value.and_then(|value| value.get(key)))
    }

    fn child(&self, path: String, value: Option<&'a Value>) -> At<'a> {
        At { file: self.file, line: self.line, path, value: value.filter(|value| !value.is_null()) }
    }

    /// Whether there is a value.
    pub(super) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// The names of an object's members; none of anything else.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.and_then(Value::as_object).into_iter().flat_map(|object| object.keys().map(String::as_str))
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Result<Vec<At<'a>>, Faults> {
        let list = self.value.and_then(Value::as_array).ok_or_else(|| self.wrong("a list", ""))?;
        let item = |(i, value)| self.child(format!("{}[{i}]", self.path), Some(value));
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// The elements of a list, or None where there is none; a list must have `count` elements.
    pub(super) fn column(&self, count: usize, counted_by: &str) -> Result<Option<Vec<At<'a>>>, Faults> {
        if !self.is_present() {
            return Ok(None);
        }
        let items = self.items()?;
        if items.len() != count {
            let found = format!("{} elements", items.len());
            return Err(self.fault(found, format!("{count}, as many as {counted_by}"), ""));
        }
        Ok(Some(items))
    }

    /// A number that is not negative, and believable.
    pub(super) fn number(&self) -> Result<f64, Faults> {
        let number = self.value.and_then(Value::as_f64).filter(|n| (0.0..=NUMBER_MAX).contains(n));
        number.ok_or_else(|| self.wrong("a number from 0 to 1e15", ""))
    }

    /// The same, or None where there is no value.
    pub(super) fn optional_number(&self) -> Result<Option<f64>, Faults> {
        self.is_present().then(|| self.number()).transpose()
    }

    /// A count, which may be written as a float.
    pub(super) fn count(&self) -> Result<u64, Faults> {
        let whole = |value: &Value| {
            let float = || value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n <= COUNT_MAX as f64);
            value.as_u64().or_else(|| float().map(|n| n as u64)).filter(|n| *n <= COUNT_MAX)
        };
        self.value.and_then(whole).ok_or_else(|| self.wrong("a whole number, not negative", ""))
    }

    /// The same, or None where there is no value.
    pub(super) fn optional_count(&self) -> Result<Option<u64>, Faults> {
        self.is_present().then(|| self.count()).transpose()
    }

    /// Tokens of a request.
    pub(super) fn tokens(&self) -> Result<u32, Faults> {
        let tokens = self.count().ok().and_then(|n| u32::try_from(n).ok());
        tokens.ok_or_else(|| self.wrong("a whole number of tokens, not negative", ""))
    }

    /// A moment in nanoseconds since 1970.
    pub(super) fn epoch_ns(&self) -> Result<u64, Faults> {
        let whole = self.value.and_then(Value::as_u64);
        whole.ok_or_else(|| self.wrong("a whole number of nanoseconds", ""))
    }

    /// Text, if it is that.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.and_then(Value::as_str)
    }

    /// Whether it is this very flag.
    pub(super) fn is(&self, flag: bool) -> bool {
        self.value.and_then(Value::as_bool) == Some(flag)
    }

    /// That what is here, or the lack of it, is wrong.
    pub(super) fn wrong(&self, expected: &str, hint: &str) -> Faults {
        let text = self.value.map_or_else(|| "nothing".to_owned(), Value::to_string);
        let mut found: String = text.chars().take(SHOWN_CHARS).collect();
        if found.len() < text.len() {
            found += "...";
        }
        self.fault(found, expected, hint)
    }

    /// A fault here, in the caller's words.
    pub(super) fn fault(
        &self,
        found: impl Into<String>,
        expected: impl Into<String>,
        hint: impl Into<String>,
    ) -> Faults {
        Faults::from(Fault {
            file: self.file.to_owned(),
            line: self.line,
            field: self.path.clone(),
            found: found.into(),
            expected: expected.into(),
            hint: hint.into(),
            ..Fault::default()
        })
    }
}

/// A document with the line it begins at.
pub(super) struct Document {
    pub(super) line: u32,
    pub(super) value: Value,
}

/// All JSON documents of a file, one after the other as `--append` writes them, or one a line.
pub(super) fn documents(file: &str, bytes: &[u8]) -> Result<Vec<Document>, Faults> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut lines = Lines { bytes, at: 0, line: 1 };
    let mut found = Vec::new();
    loop {
        let begin = stream.byte_offset();
        match stream.next() {
            None => return Ok(found),
            Some(Ok(value)) => found.push(Document { line: lines.of(begin), value }),
            Some(Err(error)) => return Err(unreadable(file, &error)),
        }
    }
}

/// Counts lines as it goes forward.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line of the first thing at `from` or after it that is no blank.
    fn of(&mut self, from: usize) -> u32 {
        let rest = self.bytes.get(from..).unwrap_or_default();
        let begin = from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let passed = self.bytes.get(self.at..begin).unwrap_or_default();
        self.line += u32::try_from(passed.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(0);
        self.at = begin;
        self.line
    }
}

/// What a JSON reader stumbled over.
fn unreadable(file: &str, error: &serde_json::Error) -> Faults {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let place = |n: usize| u32::try_from(n).ok();
    Faults::from(Fault {
        file: file.to_owned(),
        line: place(error.line()),
        column: place(error.column()),
        found: if error.is_eof() {
            format!("the file's end ({message})")
        } else {
            format!("no JSON ({message})")
        },
        expected: "JSON".to_owned(),
        hint: "NaN and Infinity are no JSON; a run that was stopped leaves half a file".to_owned(),
        ..Fault::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_know_their_lines() {
        let found = documents("f", b"\n{\"a\": 1}\n\n{\n\"b\": [1,\n2]}{\"c\": 3}\n").unwrap();
        assert_eq!(found.iter().map(|d| d.line).collect::<Vec<_>>(), [2, 4, 6]);
        assert_eq!(documents("f", b" \n").unwrap().len(), 0);
        for (text, message) in [
            (
                "{\"a\": NaN}",
                "f:1:7: found no JSON (expected value); expected JSON; NaN and Infinity are no JSON; a run that was stopped \
                 leaves half a file",
            ),
            (
                "{}\n{\"a\": 1",
                "f:2:7: found the file's end (EOF while parsing an object); expected JSON; NaN and Infinity are no \
                 JSON; a run that was stopped leaves half a file",
            ),
        ] {
            assert_eq!(
                documents("f", text.as_bytes()).err().map(|f| f.to_string()).as_deref(),
                Some(message)
            );
        }
    }

    #[test]
    fn values_say_where_they_are_wrong() {
        let value = serde_json::json!({"a": {"b": [1, -2.5, null, 3.0]}});
        let items = At::top("f", Some(7), &value).get("a").get("b").items().unwrap();
        assert_eq!(items[0].number(), Ok(1.0));
        assert_eq!(items[3].count(), Ok(3));
        assert_eq!(items[2].optional_number(), Ok(None));
        let message = items[1].number().unwrap_err().to_string();
        assert_eq!(message, "f:7: a.b[1]: found -2.5; expected a number from 0 to 1e15");
        let message = items[2].number().unwrap_err().to_string();
        assert_eq!(message, "f:7: a.b[2]: found nothing; expected a number from 0 to 1e15");
        assert!(items[1].count().is_err());
    }
}
