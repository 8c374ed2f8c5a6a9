//! What is wrong with an input: where, what was found, what was expected, and what to do.
//!
//! One type for every reader (manifest, scenario, profile, trace, CSV), so that all of them report alike, and
//! report everything at once.

use std::fmt;

/// One thing wrong with an input file. Empty texts are left out when it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1. None if the fault is about the file as a whole.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// Dotted path of the field, as `workload[1].mix`, or a column's name.
    pub field: String,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Fault {
    /// `FILE:LINE:COLUMN: field: found X; expected Y; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        let parts = [("found ", &self.found), ("expected ", &self.expected), ("", &self.hint)];
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        for (i, (word, text)) in parts.enumerate() {
            write!(f, "{}{word}{text}", if i == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Everything that is wrong with an input, in the order of its lines. Printed one fault a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// `value` if nothing is wrong, otherwise all that is, sorted by place.
    ///
    /// # Errors
    /// The faults, if there are any.
    pub fn unless_any<T>(mut self, value: T) -> Result<T, Faults> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|fault| (fault.line, fault.column));
        Err(self)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// `did you mean X?` for the known word nearest to `found`, or the list of all if none is near.
#[must_use]
pub fn suggestion<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let nearest = known.iter().map(|word| (edits(found, word), word)).min_by_key(|(edits, _)| *edits);
    match nearest {
        Some((edits, word)) if edits <= 1 + word.len() / 3 => format!("did you mean {word}?"),
        Some(_) => format!("known are {}", known.join(", ")),
        None => String::new(),
    }
}

/// Levenshtein distance by characters, of the first 100 of each.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(100).collect();
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_prints_what_it_has() {
        let mut fault = Fault {
            file: "m.yaml".into(),
            line: Some(3),
            column: Some(7),
            field: "workload[1].mix".into(),
            found: "2".into(),
            expected: "a number from 0 to 1".into(),
            hint: "write a share".into(),
        };
        let all = "m.yaml:3:7: workload[1].mix: found 2; expected a number from 0 to 1; write a share";
        assert_eq!(fault.to_string(), all);
        (fault.line, fault.column, fault.found) = (None, None, String::new());
        fault.field.clear();
        assert_eq!(fault.to_string(), "m.yaml: expected a number from 0 to 1; write a share");
    }

    #[test]
    fn the_nearest_word_is_offered_or_all_of_them() {
        assert_eq!(suggestion("mixx", ["name", "mix"]), "did you mean mix?");
        assert_eq!(suggestion("colour", ["name", "mix"]), "known are name, mix");
        assert_eq!(suggestion("x", []), "");
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }
}
