//! A tree with look-ups by path, and what was found in it.

use super::Finding;
use super::rules::Rule;
use crate::yaml::{Node, Value};

pub(super) struct Document<'a> {
    file: &'a str,
    root: &'a Node,
    findings: Vec<Finding>,
}

impl<'a> Document<'a> {
    pub(super) fn new(file: &'a str, root: &'a Node) -> Document<'a> {
        Document { file, root, findings: Vec::new() }
    }

    /// The node at a dotted path; None if it is absent or null.
    pub(super) fn get(&self, path: &str) -> Option<&'a Node> {
        self.deepest(path).1.filter(|node| node.value != Value::Null)
    }

    /// The last mapping on the way, and the node if the way leads to one.
    fn deepest(&self, path: &str) -> (&'a Node, Option<&'a Node>) {
        let mut node = self.root;
        for name in path.split('.') {
            let Value::Map(entries) = &node.value else { return (node, None) };
            match entries.iter().find(|entry| entry.key == name) {
                Some(entry) => node = &entry.node,
                None => return (node, None),
            }
        }
        (node, Some(node))
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.get(path).and_then(number)
    }

    pub(super) fn text(&self, path: &str) -> Option<&'a str> {
        match &self.get(path)?.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list; none if it is absent or no list.
    pub(super) fn list(&self, path: &str) -> &'a [Node] {
        match self.get(path).map(|node| &node.value) {
            Some(Value::Seq(items)) => items,
            _ => &[],
        }
    }

    /// Notes that `rule` is broken at `path`, or at the mapping that lacks it.
    pub(super) fn find(&mut self, rule: &Rule, path: &str, found: impl Into<String>) {
        let line = self.deepest(path).0.place.line;
        self.findings.push(Finding {
            rule: rule.id,
            file: self.file.to_owned(),
            line,
            field: path.to_owned(),
            found: found.into(),
            reason: rule.reason,
            repair: rule.repair,
        });
    }

    /// `PATH: VALUE` as found, or that there is none.
    pub(super) fn shown(&self, path: &str) -> String {
        match self.get(path) {
            Some(node) => format!("{path}: {}", plain(&node.value)),
            None => format!("no {path}"),
        }
    }

    /// The fields at the top that are not `known`.
    pub(super) fn unknown(&self, known: &[&str]) -> Vec<String> {
        let Value::Map(entries) = &self.root.value else { return Vec::new() };
        let unknown = entries.iter().filter(|entry| !known.contains(&entry.key.as_str()));
        unknown.map(|entry| entry.key.clone()).collect()
    }

    /// What was found, by line; of the same line in the order of the rules.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.line);
        self.findings
    }
}

/// A value as its writer knows it: words without quotes, lists in full.
fn plain(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Seq(items) => {
            let items: Vec<String> = items.iter().map(|item| plain(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// A number, also one in quotes.
pub(super) fn number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Str(text) => text.trim().parse().ok().filter(|value: &f64| value.is_finite()),
        _ => None,
    }
}
