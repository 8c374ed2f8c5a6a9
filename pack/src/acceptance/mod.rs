//! Whether a study may be accepted, line by line: met, not met, or not shown, with the evidence. docs/verification.md has
//! the list. Nothing that a pack says of itself is believed where its rows can be counted again.

mod lines;
mod point;
#[cfg(test)]
mod tests;

pub use point::{PointFiles, PointPack};

use serde::Serialize;
use serde_json::Value;

/// What was found of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Met,
    /// It does not.
    NotMet,
    /// Nothing that was given says so.
    NotShown,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::NotShown => "not shown",
        }
    }
}

/// A line of the list, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its name, which never changes.
    pub id: &'static str,
    /// What is asked.
    pub asked: &'static str,
    /// What was found.
    pub verdict: Verdict,
    /// What it rests on; of a line that is not met, what is wrong.
    pub evidence: Vec<String>,
}

/// A failure test's pack, read.
#[derive(Clone, Debug)]
pub struct FailurePack {
    /// failure-test.json.
    pub report: Value,
    /// Whether failure-test.md lies beside it.
    pub has_page: bool,
    /// The run that it is of.
    pub run: PointPack,
}

/// Everything that was found in the directories given.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The operating points, without those of a plan or a failure test.
    pub points: Vec<PointPack>,
    /// The reports at the top of studies, which repeat one of a point: the place and the text.
    pub tops: Vec<(String, String)>,
    /// plan.json of each plan.
    pub plans: Vec<(String, Value)>,
    /// The failure tests.
    pub failure_tests: Vec<FailurePack>,
    /// Dashboards and alert rules.
    pub observability: Vec<(String, String)>,
    /// Files that are there and cannot be read.
    pub unreadable: Vec<String>,
}

/// Judges every line.
#[must_use]
pub fn judge(evidence: &Evidence) -> Vec<Line> {
    lines::LINES.iter().map(|line| line.judge(evidence)).collect()
}
