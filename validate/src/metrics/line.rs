//! One line of the Prometheus text format, read from left to right.

use std::borrow::Cow;
use std::fmt;

/// What is wrong with a text of metrics, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What stands there.
    pub found: String,
    /// What belongs there.
    pub expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: found {}; expected {}",
            self.line, self.column, self.found, self.expected
        )
    }
}

impl std::error::Error for ParseError {}

/// A line and how far it was read.
pub(super) struct Line<'a> {
    text: &'a str,
    /// In bytes, always between two characters.
    at: usize,
    number: usize,
}

/// The characters of a found word that an error repeats at most.
const FOUND_MAX: usize = 40;

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a str, number: usize) -> Line<'a> {
        Line { text, at: 0, number }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Moves past `what` if it is next.
    pub(super) fn eat(&mut self, what: char) -> bool {
        let next = self.rest().starts_with(what);
        if next {
            self.at += what.len_utf8();
        }
        next
    }

    /// Moves past the longest run of such characters.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// A name: of a metric with colons, of a label without.
    pub(super) fn name(&mut self, colons: bool, expected: &'static str) -> Result<&'a str, ParseError> {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
        if self.rest().starts_with(|c: char| inside(c) && !c.is_ascii_digit()) {
            Ok(self.take_while(inside))
        } else {
            Err(self.error(expected))
        }
    }

    /// A word up to the next blank.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|c| c != ' ' && c != '\t')
    }

    /// A number as the format has them: decimal, with NaN and infinities.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<f64, ParseError> {
        let from = self.at;
        let parsed = self.word().parse();
        parsed.map_err(|_| {
            self.at = from;
            self.error(expected)
        })
    }

    /// A label's value in quotes. A backslash stands before `\`, `"` and `n`; before anything else it is itself.
    pub(super) fn quoted(&mut self) -> Result<Cow<'a, str>, ParseError> {
        if !self.eat('"') {
            return Err(self.error("a quoted label value"));
        }
        let plain = self.take_while(|c| c != '"' && c != '\\');
        if self.eat('"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut value = plain.to_owned();
        loop {
            value.push_str(self.take_while(|c| c != '"' && c != '\\'));
            if self.eat('"') {
                return Ok(Cow::Owned(value));
            }
            if !self.eat('\\') {
                return Err(self.error("the closing quote of a label value"));
            }
            match self.rest().chars().next() {
                Some('n') => value.push('\n'),
                Some(c @ ('\\' | '"')) => value.push(c),
                _ => {
                    value.push('\\');
                    continue;
                }
            }
            self.at += 1;
        }
    }

    /// That something else belongs here.
    pub(super) fn error(&self, expected: &'static str) -> ParseError {
        let word: String =
            self.rest().split([' ', '\t']).next().unwrap_or("").chars().take(FOUND_MAX).collect();
        ParseError {
            line: self.number,
            column: self.text[..self.at].chars().count() + 1,
            found: if self.at_end() { "the end of the line".to_owned() } else { format!("{word:?}") },
            expected,
        }
    }
}
