//! YAML as a tree that remembers where every value stands. [`crate::fields`] reads checked values out of it.

use crate::fault::{Fault, Faults};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it begins. An alias stands where it is used.
    pub place: Place,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// What YAML knows. Booleans are `true` and `false` only: `yes`, `no`, `on` and `off` are strings.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: an empty document, `~`, `null`, or a key without a value.
    Null,
    /// true or false.
    Bool(bool),
    /// A whole number without a point or exponent, of 64 bits with or without a sign.
    Int(i128),
    /// Any other number. Always finite.
    Float(f64),
    /// Text.
    Str(String),
    /// A sequence.
    Seq(Vec<Node>),
    /// A mapping, in the order written. Keys are text, and differ.
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_place: Place,
    /// The value.
    pub node: Node,
}

impl fmt::Display for Value {
    /// As a fault shows it: short, and never more than a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("nothing"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Str(text) if text.chars().count() > 40 => {
                write!(f, "{:?}...", text.chars().take(40).collect::<String>())
            }
            Value::Str(text) => write!(f, "{text:?}"),
            Value::Seq(items) => write!(f, "a list of {}", items.len()),
            Value::Map(_) => f.write_str("a mapping"),
        }
    }
}

impl Value {
    /// As one writes it: text without quotes.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Value::Str(text) => text.clone(),
            Value::Float(value) => value.to_string(),
            other => other.to_string(),
        }
    }
}

/// Reads one YAML document. Aliases are expanded within limits that an alias bomb exceeds; an empty document is
/// [`Value::Null`].
///
/// # Errors
/// One fault, with its place, for what is no YAML, for a key given twice, a number that is not finite, an unknown
/// tag, a second document, and whatever exceeds the limits (64 levels, 250,000 values).
pub fn parse(file: &str, text: &str) -> Result<Node, Faults> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    let tree: Result<Spanned<Raw>, _> = serde_saphyr::from_str_with_options(text, options);
    tree.map(Node::from).map_err(|error| syntax_fault(file, &error).into())
}

fn syntax_fault(file: &str, error: &serde_saphyr::Error) -> Fault {
    let location = error.location().filter(|location| location.line() > 0);
    let (found, expected) = match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => (
            format!("the key {} a second time", key.as_deref().unwrap_or_default()),
            "each key once in a mapping".to_owned(),
        ),
        other => {
            let text = other.to_string();
            let text = text.split([';', '\n']).next().unwrap_or_default();
            let text = text.split(" at line ").next().unwrap_or_default();
            let text = text.replace(" rejected by the configured policy", "");
            let limits = ["budget breached", "recursion limit"];
            if limits.iter().any(|limit| text.starts_with(limit)) {
                let found = "more than that, aliases expanded".to_owned();
                (found, "at most 64 levels and 250,000 values".to_owned())
            } else if text.starts_with("non-finite") {
                (text, "a finite number".to_owned())
            } else {
                (text, "one valid YAML document".to_owned())
            }
        }
    };
    Fault {
        file: file.to_owned(),
        line: location.map(|l| saturate(l.line())),
        column: location.map(|l| saturate(l.column())),
        found,
        expected,
        ..Fault::default()
    }
}

fn saturate(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The tree as the deserializer yields it.
enum Raw {
    Scalar(Value),
    Seq(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn place_of<T>(spanned: &Spanned<T>) -> Place {
    let location = spanned.referenced;
    Place { line: saturate(location.line()), column: saturate(location.column()) }
}

impl From<Spanned<Raw>> for Node {
    fn from(raw: Spanned<Raw>) -> Node {
        let place = place_of(&raw);
        let value = match raw.value {
            Raw::Scalar(value) => value,
            Raw::Seq(items) => Value::Seq(items.into_iter().map(Node::from).collect()),
            Raw::Map(entries) => Value::Map(entries.into_iter().map(entry).collect()),
        };
        Node { value, place }
    }
}

fn entry((key, value): (Spanned<String>, Spanned<Raw>)) -> Entry {
    Entry { key_place: place_of(&key), key: key.value, node: Node::from(value) }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Int(i128::from(value))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Int(i128::from(value))))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Int(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Raw, E> {
        if value.is_finite() {
            Ok(Raw::Scalar(Value::Float(value)))
        } else {
            Err(E::custom("a number that is not finite"))
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Str(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

/// Text in double quotes, which YAML reads as JSON does.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse("f.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_value_and_key_has_its_place() {
        let tree = parse("f", "a: 1\nb:\n  - {c: x, d: 1.5}\n  - yes\n").unwrap();
        let Value::Map(top) = &tree.value else { panic!("{tree:?}") };
        assert_eq!((top[1].key.as_str(), top[1].key_place), ("b", Place { line: 2, column: 1 }));
        let Value::Seq(items) = &top[1].node.value else { panic!() };
        let Value::Map(inner) = &items[0].value else { panic!() };
        assert_eq!(inner[1].key_place, Place { line: 3, column: 12 });
        assert_eq!(inner[1].node, Node { value: Value::Float(1.5), place: Place { line: 3, column: 15 } });
        assert_eq!(items[1].value, Value::Str("yes".into()));
    }

    #[test]
    fn numbers_keep_their_kind() {
        let of = |text: &str| parse("f", text).unwrap().value;
        assert_eq!(of("18446744073709551615"), Value::Int(u64::MAX.into()));
        assert_eq!(of("-3"), Value::Int(-3));
        assert_eq!(of("1.0"), Value::Float(1.0));
        assert_eq!(of("007"), Value::Str("007".into()));
        assert_eq!(of(""), Value::Null);
    }

    #[test]
    fn what_is_no_yaml_is_a_fault_with_its_place() {
        assert_eq!(
            fault("a: 1\na: 2\n"),
            "f.yaml:2:1: found the key a a second time; expected each key once in a mapping"
        );
        assert!(fault("a: [1,2").starts_with("f.yaml:1:4: found unclosed bracket"), "{}", fault("a: [1,2"));
        assert!(fault("a: 1\nb: .nan\n").starts_with("f.yaml:2:4: "), "{}", fault("a: 1\nb: .nan\n"));
        assert!(fault("a: 1\n---\nb: 2").starts_with("f.yaml:3:1: found multiple YAML documents"));
        assert!(fault("a: !foo x").starts_with("f.yaml:1:"), "{}", fault("a: !foo x"));
    }

    #[test]
    fn an_alias_bomb_and_deep_nesting_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let items = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb += &format!("a{i}: &a{i} [{items}]\n");
        }
        assert!(parse("f", &bomb).is_err());
        assert!(parse("f", &"[".repeat(100_000)).is_err());
    }
}
