//! A grid over anything in a scenario: axes with their values, and what a share of one class means for the others.

use crate::document::Document;
use crate::fault::{Fault, Faults, suggestion};
use crate::yaml::{self, Value};
use std::fmt;

/// The greatest number of cells of a grid.
pub const CELLS_MAX: usize = 5_000;

/// What an axis varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The number of replicas.
    Replicas,
    /// The offered rate that is simulated.
    Rps,
    /// The peak that the fleet must serve.
    Peak,
    /// The share of a class; the others share the rest as before.
    Mix(String),
    /// A field of the scenario, the manifest or (after `profile.`) the profile.
    Field(String),
}

impl What {
    /// Words that stand for no field.
    const WORDS: [&'static str; 3] = ["replicas", "rps", "peak"];

    fn parse(text: &str) -> What {
        match text {
            "replicas" => What::Replicas,
            "rps" => What::Rps,
            "peak" => What::Peak,
            _ => match text.strip_prefix("mix.") {
                Some(class) => What::Mix(class.to_owned()),
                None => What::Field(text.to_owned()),
            },
        }
    }

    /// Whether it is an offered rate, which leaves the configuration as it is.
    #[must_use]
    pub fn is_rate(&self) -> bool {
        matches!(self, What::Rps | What::Peak)
    }

    /// `did you mean X?` if `field` is near one of the words that stand for no field.
    #[must_use]
    pub fn word_near(field: &str) -> Option<String> {
        Some(suggestion(field, What::WORDS)).filter(|hint| hint.starts_with("did"))
    }
}

/// One thing that is varied, with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What.
    pub what: What,
    /// As the user wrote it.
    pub name: String,
    /// The values, at least one, all different.
    pub values: Vec<Value>,
}

impl Axis {
    /// Reads `WHAT=VALUES`: `a..b` or `a..b..step` in whole numbers, both ends included, or `x,y,z`.
    ///
    /// # Errors
    /// What is not of that form, and values that `what` cannot have.
    pub fn parse(text: &str) -> Result<Axis, Faults> {
        let wrong = |found: String, expected: &str| -> Faults {
            let (file, expected) = (format!("--vary {text}"), expected.to_owned());
            Fault { file, found, expected, ..Fault::default() }.into()
        };
        let form = "WHAT=VALUES, as replicas=4..12 or engine.max_num_seqs=32,64";
        let (name, list) = text.split_once('=').ok_or_else(|| wrong("no =".to_owned(), form))?;
        let (name, list) = (name.trim(), list.trim());
        if name.is_empty() || list.is_empty() {
            return Err(wrong("nothing on one side of =".to_owned(), form));
        }
        let values = match list.contains("..") {
            true => range(list).map_err(|(found, expected)| wrong(found, &expected))?,
            false => {
                elements(list).map(|element| scalar(text, element)).collect::<Result<Vec<Value>, Faults>>()?
            }
        };
        let what = What::parse(name);
        for (i, value) in values.iter().enumerate() {
            if values[..i].contains(value) {
                return Err(wrong(format!("{value} twice"), "different values"));
            }
            let fits = match (&what, number(value)) {
                (What::Replicas, _) => matches!(value, Value::Int(1..=100_000)),
                (What::Rps | What::Peak, Some(rate)) => rate > 0.0 && rate <= crate::schedule::RATE_MAX_RPS,
                (What::Mix(_), Some(share)) => (0.0..=1.0).contains(&share),
                (What::Field(_), _) => true,
                _ => false,
            };
            if !fits {
                return Err(wrong(
                    value.to_string(),
                    match what {
                        What::Replicas => "whole numbers from 1 to 100000",
                        What::Mix(_) => "shares from 0 to 1",
                        _ => "rates above 0, at most 1000000",
                    },
                ));
            }
        }
        Ok(Axis { what, name: name.to_owned(), values })
    }

    /// The option that gives one of its values, as faults name it.
    #[must_use]
    pub fn option(&self, value: usize) -> String {
        format!("--vary {}={}", self.name, self.values[value].plain())
    }

    /// Its values as numbers, if all are.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(number).collect()
    }
}

/// A value as a number, if it is one.
#[must_use]
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

fn range(list: &str) -> Result<Vec<Value>, (String, String)> {
    let wrong = |expected: &str| (format!("{list:?}"), expected.to_owned());
    let parts: Result<Vec<i64>, _> = list.split("..").map(|part| part.trim().parse::<i64>()).collect();
    let parts =
        parts.map_err(|_| wrong("a..b or a..b..step in whole numbers; name others in a list, as 0.1,0.2"))?;
    let (from, to, step) = match parts[..] {
        [from, to] => (from, to, 1),
        [from, to, step] => (from, to, step),
        _ => return Err(wrong("a..b or a..b..step")),
    };
    if step < 1 || to < from {
        return Err(wrong("the lower end first, and a step of at least 1"));
    }
    let count = (i128::from(to) - i128::from(from)) / i128::from(step) + 1;
    if count > CELLS_MAX as i128 {
        return Err((format!("{count} values"), format!("at most {CELLS_MAX}; take a larger step")));
    }
    Ok((0..count).map(|i| Value::Int(i128::from(from) + i * i128::from(step))).collect())
}

/// The elements between commas that are in no bracket.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    list.split(move |c: char| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        c == ',' && depth == 0
    })
}

fn scalar(option: &str, element: &str) -> Result<Value, Faults> {
    let file = format!("--vary {option}");
    let value = yaml::parse(&file, element.trim())?.value;
    if value == Value::Null {
        let (found, expected) = ("nothing between commas".to_owned(), "a value".to_owned());
        return Err(Fault { file, found, expected, ..Fault::default() }.into());
    }
    Ok(value)
}

/// A grid that is too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyCells {
    counts: Vec<usize>,
}

impl fmt::Display for TooManyCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factors: Vec<String> = self.counts.iter().map(usize::to_string).collect();
        let cells = self.counts.iter().fold(1u128, |product, &n| product.saturating_mul(n as u128));
        write!(
            f,
            "--vary: found {} = {cells} cells; expected at most {CELLS_MAX}; take fewer values or larger steps",
            factors.join(" x ")
        )
    }
}

/// Every combination of one value of each axis, as positions; the last axis runs fastest.
///
/// # Errors
/// More than [`CELLS_MAX`].
pub fn combinations(axes: &[&Axis]) -> Result<Vec<Vec<usize>>, TooManyCells> {
    let counts: Vec<usize> = axes.iter().map(|axis| axis.values.len()).collect();
    let cells =
        counts.iter().try_fold(1usize, |product, n| product.checked_mul(*n).filter(|&p| p <= CELLS_MAX));
    let cells = cells.ok_or_else(|| TooManyCells { counts: counts.clone() })?;
    let combination = |mut number: usize| {
        let mut positions = vec![0; counts.len()];
        for (position, count) in positions.iter_mut().zip(&counts).rev() {
            (*position, number) = (number % count, number / count);
        }
        positions
    };
    Ok((0..cells).map(combination).collect())
}

/// Gives classes of a manifest other shares. The other classes keep their proportions in what is left, and the
/// counts follow, with the same total.
///
/// # Errors
/// An unknown class, shares beyond 1, nobody to take what is left, and a trace, whose rows decide.
pub fn set_mixes(manifest: &mut Document, mixes: &[(&str, f64)], option: &str) -> Result<(), Faults> {
    let wrong = |found: String, expected: &str, hint: String| -> Faults {
        let (file, expected) = (option.to_owned(), expected.to_owned());
        Fault { file, found, expected, hint, ..Fault::default() }.into()
    };
    let classes = shares(manifest);
    let names: Vec<&str> = classes.iter().map(|(name, _)| name.as_str()).collect();
    if manifest.get("client.arrival_pattern") == Some(&Value::Str("trace".into())) {
        return Err(wrong(
            "a trace".into(),
            "generated arrivals, since a trace's rows decide",
            String::new(),
        ));
    }
    if let Some((name, _)) = mixes.iter().find(|(name, _)| !names.contains(name)) {
        let hint = suggestion(name, names.iter().copied());
        return Err(wrong(format!("no class {name}"), "a class of the workload", hint));
    }
    let given = |name: &str| mixes.iter().find(|(other, _)| *other == name).map(|(_, share)| *share);
    let left = 1.0 - mixes.iter().map(|(_, share)| share).sum::<f64>();
    let others: f64 = classes.iter().filter(|(name, _)| given(name).is_none()).map(|(_, share)| share).sum();
    if left < -1e-9 || (left > 1e-9 && others <= 0.0) {
        let found = format!("shares that leave {} to the other classes", (left * 1e9).round() / 1e9);
        return Err(wrong(found, "shares that make a whole with the other classes", String::new()));
    }
    let scale = if others > 0.0 { left.max(0.0) / others } else { 0.0 };
    let shares: Vec<f64> = classes.iter().map(|(name, share)| given(name).unwrap_or(share * scale)).collect();
    let total = match manifest.get("client.initial_scheduled_requests") {
        Some(Value::Int(total)) => u64::try_from(*total).unwrap_or(0),
        _ => 0,
    };
    for (i, ((name, _), (share, count))) in
        classes.iter().zip(shares.iter().zip(largest_remainder(&shares, total))).enumerate()
    {
        manifest.set(&format!("workload[{i}].mix"), &Value::Float(*share), option)?;
        let counts = format!("client.class_schedule_counts.{name}");
        manifest.set(&counts, &Value::Int(count.into()), option)?;
    }
    Ok(())
}

/// The classes of a manifest with their shares.
fn shares(manifest: &Document) -> Vec<(String, f64)> {
    let field = |i: usize, field: &str| manifest.get(&format!("workload[{i}].{field}"));
    (0..)
        .map_while(|i| match field(i, "name") {
            Some(Value::Str(name)) => Some((name.clone(), field(i, "mix").and_then(number).unwrap_or(0.0))),
            _ => None,
        })
        .collect()
}

/// Whole counts that sum to `total` and are nearest to the shares of it: each share's whole part, and one more for
/// those with the largest remainders, the first of equal ones.
#[must_use]
pub fn largest_remainder(shares: &[f64], total: u64) -> Vec<u64> {
    let exact = |share: &f64| (share * total as f64).max(0.0);
    // A share that is whole but for the last bit is whole.
    let mut counts: Vec<u64> = shares.iter().map(|share| (exact(share) + 1e-6).floor() as u64).collect();
    let given = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let missing = total.saturating_sub(given);
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&i, &j| {
        let remainder = |i: usize| exact(&shares[i]) - counts[i] as f64;
        remainder(j).total_cmp(&remainder(i))
    });
    for &i in order.iter().take(usize::try_from(missing).unwrap_or(usize::MAX)) {
        counts[i] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use proptest::prelude::*;

    const WORKED: &str = include_str!("../../scenarios/tp2-dp4/workload-manifest.yaml");

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).unwrap().values.iter().map(Value::plain).collect()
    }

    #[test]
    fn ranges_and_lists() {
        assert_eq!(values("replicas=4..7"), ["4", "5", "6", "7"]);
        assert_eq!(values("peak=20..60..20"), ["20", "40", "60"]);
        assert_eq!(values("mix.long_context=0.1, 0.2"), ["0.1", "0.2"]);
        assert_eq!(values("router.policy=round_robin,power_of_two"), ["round_robin", "power_of_two"]);
        assert_eq!(values("x={a: 1, b: 2},3").len(), 2);
    }

    #[test]
    fn what_is_no_axis_says_why() {
        for (text, words) in [
            ("replicas", "found no =; expected WHAT=VALUES"),
            ("=4", "nothing on one side of ="),
            ("replicas=0..3", "found 0; expected whole numbers from 1"),
            ("replicas=1.5", "found 1.5; expected whole numbers"),
            ("peak=-1,2", "found -1; expected rates above 0"),
            ("peak=many", "found \"many\"; expected rates"),
            ("mix.a=1.2", "found 1.2; expected shares"),
            ("replicas=9..4", "the lower end first"),
            ("peak=0.1..0.5", "name others in a list"),
            ("peak=1..2..3..4", "a..b or a..b..step"),
            ("x=1..1000000000000", "found 1000000000000 values; expected at most 5000"),
            ("x=1,1", "found 1 twice"),
            ("x=1,,2", "nothing between commas"),
            ("x=[1", "--vary x=[1:1:"),
        ] {
            let message = Axis::parse(text).unwrap_err().to_string();
            assert!(message.contains(words) && message.starts_with("--vary"), "{text}: {message}");
        }
    }

    #[test]
    fn every_combination_once_and_not_too_many() {
        let (a, b) = (Axis::parse("x=1..2").unwrap(), Axis::parse("y=1..3").unwrap());
        let all = combinations(&[&a, &b]).unwrap();
        assert_eq!(all, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert_eq!(combinations(&[]).unwrap(), [Vec::<usize>::new()]);
        let large = Axis::parse("z=1..1000").unwrap();
        let message = combinations(&[&a, &b, &large]).unwrap_err().to_string();
        assert!(message.contains("found 2 x 3 x 1000 = 6000 cells; expected at most 5000"), "{message}");
    }

    #[test]
    fn counts_sum_and_follow_the_shares() {
        assert_eq!(largest_remainder(&[0.333_333, 0.333_333, 0.333_334], 100), [33, 33, 34]);
        assert_eq!(largest_remainder(&[0.7, 0.2, 0.1], 22_000), [15_400, 4_400, 2_200]);
        assert_eq!(
            largest_remainder(&[1.0, -1.0, f64::NAN], u64::MAX).len(),
            3,
            "absurd totals do not overflow"
        );
    }

    #[test]
    fn a_share_moves_the_others_and_the_counts() {
        let mut document = Document::parse("m", WORKED).unwrap();
        set_mixes(&mut document, &[("long_context", 0.3)], "o").unwrap();
        let manifest = Manifest::of(&document).unwrap();
        assert_eq!(manifest.client.class_schedule_counts, [13_475, 6_600, 1_925]);
        for (mixes, words) in [
            (
                vec![("long_contxt", 0.3)],
                "no class long_contxt; expected a class of the workload; did you mean",
            ),
            (vec![("interactive", 0.7), ("long_context", 0.4)], "leave -0.1"),
            (vec![("interactive", 0.7), ("long_context", 0.1), ("generation_heavy", 0.1)], "leave 0.1"),
        ] {
            let message = set_mixes(&mut document, &mixes, "--vary x").unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    proptest! {
        /// Whatever the share, the manifest stays one that its own checks accept.
        #[test]
        fn any_share_makes_a_valid_manifest(share in 0.0f64..=1.0, total in 1u64..100_000) {
            let mut document = Document::parse("m", WORKED).unwrap();
            document.set("client.initial_scheduled_requests", &Value::Int(total.into()), "o").unwrap();
            set_mixes(&mut document, &[("generation_heavy", share)], "o").unwrap();
            let manifest = Manifest::of(&document);
            prop_assert!(manifest.is_ok(), "{}", manifest.unwrap_err());
            prop_assert_eq!(manifest.unwrap().client.class_schedule_counts.iter().sum::<u64>(), total);
        }
    }
}
