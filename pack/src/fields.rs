//! Reads checked values out of a located YAML tree and collects *all* faults instead of stopping at the first.
//!
//! ```
//! use scaleproof_pack::fields::{Reader, from_to};
//!
//! let read = |text: &str| {
//!     Reader::read("fleet.yaml", text, |fields| {
//!         let replicas = fields.req("replicas").u32(1..=1_000);
//!         let share = fields.opt("share").f64(from_to(0.0, 1.0)).unwrap_or(0.5);
//!         let sticky = fields.opt("router").word(&[("sticky", true), ("random", false)]);
//!         Some((replicas?, share, sticky.unwrap_or(false)))
//!     })
//! };
//! assert_eq!(read("replicas: 4\nrouter: sticky\n").unwrap(), (4, 0.5, true));
//! let faults = read("replicas: 0\nrooter: sticky\n").unwrap_err();
//! assert_eq!(
//!     faults.to_string(),
//!     "fleet.yaml:1:11: replicas: found 0; expected a whole number from 1 to 1000\n\
//!      fleet.yaml:2:1: rooter: found an unknown field; did you mean router?"
//! );
//! ```

use crate::fault::{Fault, Faults, suggestion};
use crate::yaml::{self, Entry, Node, Place, Value};
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

/// What is found where nobody asked for a field.
pub(crate) const UNKNOWN_FIELD: &str = "an unknown field";

/// Holds a file's name and the faults found so far.
pub struct Reader {
    file: String,
    faults: RefCell<Vec<Fault>>,
}

impl Reader {
    /// Parses `text`, whose top level must be a mapping, and hands its fields to `build`. Fields that `build`
    /// did not ask for are faults. `build` gives None where a value that it needs is missing or faulty.
    ///
    /// # Errors
    /// All faults, in the order of their lines.
    pub fn read<T>(
        file: &str,
        text: &str,
        build: impl FnOnce(&mut Fields<'_>) -> Option<T>,
    ) -> Result<T, Faults> {
        Reader::read_tree(file, &yaml::parse(file, text)?, build)
    }

    /// The same for a text that is parsed already.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_tree<T>(
        file: &str,
        tree: &Node,
        build: impl FnOnce(&mut Fields<'_>) -> Option<T>,
    ) -> Result<T, Faults> {
        Reader::read_some(file, tree, |fields| {
            let built = build(fields);
            fields.refuse_unknown();
            built
        })
    }

    /// As [`Reader::read_tree`], without a word about the fields that `build` did not ask for.
    ///
    /// # Errors
    /// All faults of what `build` read, in the order of their lines.
    pub fn read_some<T>(
        file: &str,
        tree: &Node,
        build: impl FnOnce(&mut Fields<'_>) -> Option<T>,
    ) -> Result<T, Faults> {
        let reader = Reader { file: file.to_owned(), faults: RefCell::default() };
        let top = Item {
            reader: &reader,
            path: String::new(),
            place: tree.place,
            node: Some(tree),
            required: true,
        };
        let built = top.fields().and_then(|mut fields| build(&mut fields));
        let incomplete = || Fault {
            file: file.to_owned(),
            found: "an incomplete document".to_owned(),
            ..Fault::default()
        };
        Faults(reader.faults.into_inner()).unless_any(built)?.ok_or_else(|| incomplete().into())
    }

    fn add(&self, place: Place, field: &str, found: String, expected: &str, hint: String) {
        self.faults.borrow_mut().push(Fault {
            file: self.file.clone(),
            line: Some(place.line),
            column: Some(place.column),
            field: field.to_owned(),
            found,
            expected: expected.to_owned(),
            hint,
        });
    }
}

/// The fields of one mapping. Ask for each with [`Fields::req`] or [`Fields::opt`], then [`Fields::finish`].
pub struct Fields<'a> {
    reader: &'a Reader,
    path: String,
    place: Place,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// A field that must be there: reading a value from it is a fault if it is not.
    pub fn req(&mut self, name: &'static str) -> Item<'a> {
        self.field(name, true)
    }

    /// A field that may be absent, or null: reading a value from it then gives None.
    pub fn opt(&mut self, name: &'static str) -> Item<'a> {
        self.field(name, false)
    }

    /// A field that must be there if `required`.
    pub fn field(&mut self, name: &'static str, required: bool) -> Item<'a> {
        self.known.push(name);
        let node = self.entries.iter().find(|e| e.key == name).map(|e| &e.node);
        let place = node.map_or(self.place, |n| n.place);
        Item { reader: self.reader, path: join(&self.path, name), place, node, required }
    }

    /// All fields, whatever their names: for mappings whose keys are data.
    #[must_use]
    pub fn all(self) -> Vec<(&'a str, Item<'a>)> {
        let item = |e: &'a Entry| {
            let path = join(&self.path, &e.key);
            (
                e.key.as_str(),
                Item { reader: self.reader, path, place: e.node.place, node: Some(&e.node), required: true },
            )
        };
        self.entries.iter().map(item).collect()
    }

    /// Reports the fields that nobody asked for, each with the nearest that one could have meant.
    pub fn finish(self) {
        self.refuse_unknown();
    }

    fn refuse_unknown(&self) {
        for entry in self.entries {
            if !self.known.contains(&entry.key.as_str()) {
                let hint = suggestion(&entry.key, self.known.iter().copied());
                let path = join(&self.path, &entry.key);
                self.reader.add(entry.key_place, &path, UNKNOWN_FIELD.into(), "", hint);
            }
        }
    }
}

/// Reads a mapping and reports its unknown fields.
pub fn mapping<T>(item: &Item<'_>, read: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Option<T> {
    let mut fields = item.fields()?;
    let value = read(&mut fields);
    fields.finish();
    value
}

/// The word that stands for `value` in a file; empty for one that has none.
#[must_use]
pub fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A value that may be there, with its path and place. Its readers give None if it is absent or faulty; a fault
/// is noted.
#[derive(Clone)]
pub struct Item<'a> {
    reader: &'a Reader,
    path: String,
    place: Place,
    node: Option<&'a Node>,
    required: bool,
}

impl<'a> Item<'a> {
    /// The value, unless absent or null.
    #[must_use]
    pub fn value(&self) -> Option<&'a Value> {
        self.node.map(|n| &n.value).filter(|value| **value != Value::Null)
    }

    /// Whether there is a value.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.value().is_some()
    }

    /// Notes a fault at this value, showing the value itself.
    pub fn wrong(&self, expected: &str, hint: &str) {
        let found = self.value().unwrap_or(&Value::Null).to_string();
        self.fault(found, expected, hint);
    }

    /// Notes a fault at this value.
    pub fn fault(&self, found: impl Into<String>, expected: &str, hint: &str) {
        self.reader.add(self.place, &self.path, found.into(), expected, hint.to_owned());
    }

    /// Notes a fault if this value is there although it has no meaning, for a `reason` beginning with `since`.
    pub fn refuse(&self, reason: &str) {
        if self.is_present() {
            self.fault("a value", &format!("none, {reason}"), "");
        }
    }

    /// Applies `get`, noting a fault if there is a value for which it gives None, or none where one must be.
    fn get<T>(&self, expected: &str, get: impl FnOnce(&'a Value) -> Result<T, String>) -> Option<T> {
        match self.value() {
            None if self.required => self.wrong(expected, ""),
            None => {}
            Some(value) => match get(value) {
                Ok(value) => return Some(value),
                Err(hint) => self.wrong(expected, &hint),
            },
        }
        None
    }

    /// Text that is not empty.
    #[must_use]
    pub fn string(&self) -> Option<String> {
        self.get("text", |value| match value {
            Value::Str(text) if !text.trim().is_empty() => Ok(text.clone()),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => Err("put it in quotes".into()),
            _ => Err(String::new()),
        })
    }

    /// true or false.
    #[must_use]
    pub fn bool(&self) -> Option<bool> {
        self.get("true or false", |value| match value {
            Value::Bool(value) => Ok(*value),
            Value::Str(_) => Err("without quotes".into()),
            _ => Err(String::new()),
        })
    }

    /// One of `words`, each with its meaning.
    #[must_use]
    pub fn word<T: Clone>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        self.get(&format!("one of: {}", names.join(", ")), |value| {
            let Value::Str(text) = value else { return Err(String::new()) };
            let known = words.iter().find(|(name, _)| name == text);
            known.map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
                let hint = suggestion(text, names.iter().copied());
                if hint.starts_with("did") { hint } else { String::new() }
            })
        })
    }

    /// A number in `range`: see [`from_to`] and [`above`].
    #[must_use]
    pub fn f64(&self, range: Numbers) -> Option<f64> {
        self.get(&range.to_string(), |value| {
            let number = match value {
                Value::Int(value) => *value as f64,
                Value::Float(value) => *value,
                Value::Str(text) if text.parse::<f64>().is_ok() => return Err("without quotes".into()),
                _ => return Err(String::new()),
            };
            if range.contains(number) { Ok(number) } else { Err(String::new()) }
        })
    }

    /// A whole number in `range`.
    #[must_use]
    pub fn u64(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let wide = i128::from(*range.start())..=i128::from(*range.end());
        self.whole(wide).and_then(|value| u64::try_from(value).ok())
    }

    /// A whole number in `range`.
    #[must_use]
    pub fn u32(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let wide = i128::from(*range.start())..=i128::from(*range.end());
        self.whole(wide).and_then(|value| u32::try_from(value).ok())
    }

    /// A whole number in `range`, which may reach below zero.
    #[must_use]
    pub fn i32(&self, range: RangeInclusive<i32>) -> Option<i32> {
        let wide = i128::from(*range.start())..=i128::from(*range.end());
        self.whole(wide).and_then(|value| i32::try_from(value).ok())
    }

    fn whole(&self, range: RangeInclusive<i128>) -> Option<i128> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.get(&expected, |value| match value {
            Value::Int(value) if range.contains(value) => Ok(*value),
            Value::Float(value) if value.fract() == 0.0 && range.contains(&(*value as i128)) => {
                Err("without a point or exponent".into())
            }
            Value::Str(text) if text.parse::<i128>().is_ok() => Err("without quotes".into()),
            _ => Err(String::new()),
        })
    }

    /// A mapping.
    #[must_use]
    pub fn fields(&self) -> Option<Fields<'a>> {
        let entries = self.get("a mapping", |value| match value {
            Value::Map(entries) => Ok(entries.as_slice()),
            _ => Err(String::new()),
        })?;
        let path = self.path.clone();
        Some(Fields { reader: self.reader, path, place: self.place, entries, known: Vec::new() })
    }

    /// A list with `count` elements.
    #[must_use]
    pub fn list(&self, count: RangeInclusive<usize>) -> Option<Vec<Item<'a>>> {
        let expected = match (*count.start(), *count.end()) {
            (from, to) if from == to => format!("a list of {from}"),
            (from, to) => format!("a list of {from} to {to}"),
        };
        let nodes = self.get(&expected, |value| match value {
            Value::Seq(nodes) if count.contains(&nodes.len()) => Ok(nodes),
            _ => Err(String::new()),
        })?;
        let item = |(i, node): (usize, &'a Node)| Item {
            reader: self.reader,
            path: format!("{}[{i}]", self.path),
            place: node.place,
            node: Some(node),
            required: true,
        };
        Some(nodes.iter().enumerate().map(item).collect())
    }
}

/// The numbers that a field may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    from: f64,
    from_included: bool,
    to: f64,
}

/// The numbers from `from` to `to`, both included.
#[must_use]
pub fn from_to(from: f64, to: f64) -> Numbers {
    Numbers { from, from_included: true, to }
}

/// The numbers above `from`, up to and including `to`.
#[must_use]
pub fn above(from: f64, to: f64) -> Numbers {
    Numbers { from, from_included: false, to }
}

impl Numbers {
    fn contains(self, number: f64) -> bool {
        number <= self.to && (number > self.from || self.from_included && number >= self.from)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = if self.from_included { ("from", "to") } else { ("above", "and at most") };
        write!(f, "a number {} {} {} {}", words.0, self.from, words.1, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of reading `text` as one field `x` by `get`.
    fn faults_of(text: &str, get: impl Fn(&Item<'_>) -> bool) -> String {
        let read = Reader::read("f", text, |fields| get(&fields.req("x")).then_some(()));
        read.err().map(|faults| faults.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_wrong_kind_says_what_to_do() {
        let string = |text: &str| faults_of(text, |item| item.string().is_some());
        assert_eq!(string("x: 1.0"), "f:1:4: x: found 1.0; expected text; put it in quotes");
        assert_eq!(string("x: ''"), "f:1:4: x: found \"\"; expected text");
        assert_eq!(string("x:"), "f:1:2: x: found nothing; expected text");
        assert_eq!(string("{}"), "f:1:1: x: found nothing; expected text");
        let whole = |text: &str| faults_of(text, |item| item.u32(1..=9).is_some());
        assert_eq!(whole("x: 3"), "");
        for (value, hint) in
            [("2.0", "; without a point or exponent"), ("'2'", "; without quotes"), ("10", "")]
        {
            let found = value.replace('\'', "\"");
            let text = format!("f:1:4: x: found {found}; expected a whole number from 1 to 9{hint}");
            assert_eq!(whole(&format!("x: {value}")), text);
        }
        let positive = |text: &str| faults_of(text, |item| item.f64(above(0.0, 5.0)).is_some());
        assert_eq!(positive("x: 0"), "f:1:4: x: found 0; expected a number above 0 and at most 5");
        assert_eq!(
            positive("x: '1'"),
            "f:1:4: x: found \"1\"; expected a number above 0 and at most 5; without quotes"
        );
        assert_eq!(
            faults_of("x: yes", |i| i.bool().is_some()),
            "f:1:4: x: found \"yes\"; expected true or false; without quotes"
        );
        assert_eq!(
            faults_of("x: [1]", |i| i.list(2..=3).is_some()),
            "f:1:4: x: found a list of 1; expected a list of 2 to 3"
        );
        assert_eq!(
            faults_of("x: poison", |i| i.word(&[("poisson", 1), ("constant", 2)]).is_some()),
            "f:1:4: x: found \"poison\"; expected one of: poisson, constant; did you mean poisson?"
        );
    }

    #[test]
    fn absent_is_fine_only_where_optional() {
        let read = |text| Reader::read("f", text, |fields| Some(fields.opt("x").u64(0..=9)));
        assert_eq!(read("{}").unwrap(), None);
        assert_eq!(read("x: ~").unwrap(), None);
        assert_eq!(read("x: 4").unwrap(), Some(4));
        assert!(read("x: y").is_err());
        assert!(read("- 1").unwrap_err().to_string().contains("expected a mapping"));
    }

    #[test]
    fn a_reader_that_gives_up_without_a_fault_is_still_an_error() {
        let read = Reader::read("f", "x: 1", |fields| fields.opt("x").u64(0..=9).filter(|_| false));
        assert_eq!(read.unwrap_err().to_string(), "f: found an incomplete document");
    }
}
