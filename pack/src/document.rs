//! A YAML file as a tree in which single values can be replaced before it is read: whatever checks the file checks
//! the replaced value too.

use crate::fault::{Fault, Faults, suggestion};
use crate::fields::{self, Fields, Reader};
use crate::yaml::{self, Entry, Node, Place, Value};

/// A parsed file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its name in faults, with what was replaced in it.
    name: String,
    tree: Node,
}

impl Document {
    /// Parses `text`; `file` only names it in faults.
    ///
    /// # Errors
    /// As [`yaml::parse`].
    pub fn parse(file: &str, text: &str) -> Result<Document, Faults> {
        Ok(Document { name: file.to_owned(), tree: yaml::parse(file, text)? })
    }

    /// The file's name, as faults give it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.name
    }

    /// Reads it, as [`Reader::read`] does.
    ///
    /// # Errors
    /// All faults, in the order of their lines.
    pub fn read<T>(&self, build: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Result<T, Faults> {
        Reader::read_tree(&self.name, &self.tree, build)
    }

    /// Reads some of it, as [`Reader::read_some`] does.
    ///
    /// # Errors
    /// All faults of what was read.
    pub fn read_some<T>(&self, build: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Result<T, Faults> {
        Reader::read_some(&self.name, &self.tree, build)
    }

    /// The value at a path, if there is one.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.node(path).map(|node| &node.value)
    }

    /// Where the value at a path begins in the file.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<Place> {
        self.node(path).map(|node| node.place)
    }

    fn node(&self, path: &str) -> Option<&Node> {
        let mut node = &self.tree;
        for step in steps(path).ok()? {
            node = match (&node.value, step) {
                (Value::Map(entries), Step::Key(key)) => &entries.iter().find(|e| e.key == key)?.node,
                (Value::Seq(items), step) => items.get(step.index_in(items)?)?,
                _ => return None,
            };
        }
        Some(node)
    }

    /// Replaces the value at a path, or adds it: `engine.max_num_seqs`, `workload[0].mix`, or by an element's name
    /// `workload.interactive.mix`. `option` is what the user gave for it; faults will name it. Returns the path as
    /// faults write it.
    ///
    /// # Errors
    /// A path that goes through something that is no mapping or list, or to an element that is not there.
    pub fn set(&mut self, path: &str, value: &Value, option: &str) -> Result<String, Faults> {
        let written = replace(&mut self.tree, path, value).map_err(|faults| named(faults, path, option))?;
        self.name = match self.name.strip_suffix(')') {
            Some(name) if name.contains(" (with ") => format!("{name}, {option})"),
            _ => format!("{} (with {option})", self.name),
        };
        Ok(written)
    }

    /// Whether `read` knows the field at a path, whatever its value; if not, what it says instead.
    ///
    /// # Errors
    /// A path that cannot be followed, and a field that is unknown, with the nearest known one.
    pub fn knows<T>(
        &self,
        path: &str,
        option: &str,
        read: impl FnOnce(&Document) -> Result<T, Faults>,
    ) -> Result<(), Faults> {
        let mut probe = self.clone();
        // Null counts as absent: nothing is wrong with it but a name that nobody asks for.
        let written = probe.set(path, &Value::Null, option)?;
        let Err(faults) = read(&probe) else { return Ok(()) };
        let leads_there = |field: &str| {
            written.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let unknown =
            faults.0.into_iter().find(|f| f.found == fields::UNKNOWN_FIELD && leads_there(&f.field));
        match unknown {
            None => Ok(()),
            Some(fault) => {
                let nowhere = Fault { line: None, column: None, ..fault };
                Err(named(nowhere.into(), path, option))
            }
        }
    }
}

/// The faults as faults of an option that sets `path`.
fn named(faults: Faults, path: &str, option: &str) -> Faults {
    let name = |fault| Fault { file: option.to_owned(), field: path.to_owned(), ..fault };
    Faults(faults.0.into_iter().map(name).collect())
}

/// A step of a path.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Step<'_> {
    /// The element of a list that it means: by position, or by its `name`.
    fn index_in(&self, items: &[Node]) -> Option<usize> {
        match self {
            Step::Index(index) => (*index < items.len()).then_some(*index),
            Step::Key(key) => items.iter().position(|item| name_of(item) == Some(key)),
        }
    }
}

fn name_of(node: &Node) -> Option<&str> {
    let Value::Map(entries) = &node.value else { return None };
    match &entries.iter().find(|entry| entry.key == "name")?.node.value {
        Value::Str(name) => Some(name),
        _ => None,
    }
}

fn steps(path: &str) -> Result<Vec<Step<'_>>, Faults> {
    let wrong = || -> Faults {
        let expected = "names and positions as engine.max_num_seqs or workload[0].mix".to_owned();
        Fault { found: "no path".to_owned(), expected, ..Fault::default() }.into()
    };
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, positions) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() {
            return Err(wrong());
        }
        steps.push(Step::Key(key));
        for position in positions.split_terminator(']') {
            let index = position.strip_prefix('[').and_then(|digits| digits.parse().ok());
            steps.push(Step::Index(index.ok_or_else(wrong)?));
        }
        if !positions.is_empty() && !positions.ends_with(']') {
            return Err(wrong());
        }
    }
    Ok(steps)
}

fn replace(tree: &mut Node, path: &str, value: &Value) -> Result<String, Faults> {
    let mut node = tree;
    let mut written = String::new();
    for step in steps(path)? {
        let place = node.place;
        if node.value == Value::Null {
            node.value = Value::Map(Vec::new());
        }
        node = match (&mut node.value, step) {
            (Value::Map(entries), Step::Key(key)) => {
                if !written.is_empty() {
                    written.push('.');
                }
                written.push_str(key);
                let position = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
                    let node = Node { value: Value::Null, place };
                    entries.push(Entry { key: key.to_owned(), key_place: place, node });
                    entries.len() - 1
                });
                &mut entries[position].node
            }
            (Value::Seq(items), step) => {
                let index = step.index_in(items).ok_or_else(|| Faults::from(no_element(&step, items)))?;
                written += &format!("[{index}]");
                &mut items[index]
            }
            (other, _) => {
                return Err(Fault {
                    found: format!("{other} at {written}"),
                    expected: "a mapping or a list on the way".to_owned(),
                    ..Fault::default()
                }
                .into());
            }
        };
    }
    node.value = value.clone();
    Ok(written)
}

fn no_element(step: &Step<'_>, items: &[Node]) -> Fault {
    match step {
        Step::Index(index) => Fault {
            found: format!("position {index}"),
            expected: format!("a position below {}", items.len()),
            ..Fault::default()
        },
        Step::Key(key) => Fault {
            found: format!("no element named {key}"),
            expected: "the name of an element of the list".to_owned(),
            hint: suggestion(key, items.iter().filter_map(name_of)),
            ..Fault::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    const WORKED: &str = include_str!("../../scenarios/tp2-dp4/workload-manifest.yaml");

    fn worked() -> Document {
        Document::parse("m.yaml", WORKED).unwrap()
    }

    #[test]
    fn a_value_is_replaced_by_position_and_by_name() {
        for path in ["workload[1].input_tokens", "workload.long_context.input_tokens"] {
            let mut document = worked();
            assert_eq!(document.set(path, &Value::Int(77), "o").unwrap(), "workload[1].input_tokens");
            assert_eq!(document.get(path), Some(&Value::Int(77)));
            let manifest = Manifest::of(&document).unwrap();
            assert_eq!(manifest.classes[1].input_tokens, crate::manifest::Distribution::Fixed(77.0));
        }
    }

    #[test]
    fn what_is_not_there_is_added() {
        let mut document = worked();
        document.set("client.cancellation.probability", &Value::Float(0.5), "o").unwrap();
        document.set("client.cancellation.after_seconds", &Value::Int(3), "o").unwrap();
        assert!(
            (Manifest::of(&document).unwrap().client.cancellation.unwrap().probability - 0.5).abs() < 1e-12
        );
    }

    #[test]
    fn a_replaced_value_is_checked_as_the_files_own_and_named() {
        let mut document = worked();
        document.set("acceptance.target_utilization", &Value::Float(1.5), "--vary x=1.5").unwrap();
        assert_eq!(
            Manifest::of(&document).unwrap_err().to_string(),
            "m.yaml (with --vary x=1.5):28:23: acceptance.target_utilization: found 1.5; expected a number above 0 \
             and at most 1"
        );
    }

    #[test]
    fn wrong_paths_say_what_is_near() {
        let fault = |path: &str| worked().knows(path, "--vary", Manifest::of).unwrap_err().to_string();
        for (path, words) in [
            ("acceptance.target_utilisation", "an unknown field; did you mean target_utilization?"),
            ("enginee.name", "an unknown field; did you mean engine?"),
            (
                "workload.interactiv.mix",
                "no element named interactiv; expected the name of an element of the list; did",
            ),
            ("workload[3].mix", "found position 3; expected a position below 3"),
            ("model.id.x", "\"dense-70b-class\" at model.id"),
            ("workload[x]", "no path"),
            ("a..b", "no path"),
            ("workload[0", "no path"),
        ] {
            assert!(fault(path).contains(words), "{path}: {}", fault(path));
        }
        for path in ["workload[0].mix", "client.timeout_seconds", "engine.placement"] {
            assert_eq!(worked().knows(path, "--vary", Manifest::of), Ok(()), "{path}");
        }
    }
}
