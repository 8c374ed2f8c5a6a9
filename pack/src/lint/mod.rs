//! What makes a benchmark configuration worthless although it would run: each finding with its place, the reason
//! and the repair. docs/lint.md lists the rules.
//!
//! Read are our workload manifest, alone or with its scenario.yaml, and flat settings as other load generators have
//! them.
//!
//! ```
//! use scaleproof_pack::lint::{Kind, lint};
//!
//! let text = "\
//! request_rate: 8
//! request_count: 5000
//! warmup_requests: 0
//! report: [p95_ttft, error_rate, queue_depth, cancelled, prefix_hit_rate]
//! model_revision: 4f2a91c
//! engine_version: 0.11.2
//! ";
//! let read = lint("bench.yaml", text).unwrap();
//! assert_eq!((read.kind, read.findings.len()), (Kind::Settings, 1));
//! let finding = &read.findings[0];
//! assert_eq!((finding.rule, finding.line, finding.found.as_str()), ("no-warm-up", 3, "warmup_requests: 0"));
//! ```

mod document;
mod manifest;
mod replay;
pub mod rules;
mod scenario;
mod settings;
#[cfg(test)]
mod tests;

use crate::fault::{Fault, Faults};
use crate::manifest::Manifest;
use crate::yaml::{self, Value};
use document::Document;
pub use replay::lint_replay;
use serde::Serialize;

/// What makes a configuration worthless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name, of [`rules::RULES`].
    pub rule: &'static str,
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1: of the field, or where the mapping begins that lacks it.
    pub line: u32,
    /// Dotted path of the field.
    pub field: String,
    /// What is there, with the arithmetic where there is any.
    pub found: String,
    /// Why the benchmark is worthless so.
    pub reason: &'static str,
    /// What to write instead.
    pub repair: &'static str,
}

/// What a file is, by the fields at its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Our workload manifest.
    WorkloadManifest,
    /// Flat settings of another load generator.
    Settings,
}

/// What the linter says about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// What it was read as.
    pub kind: Kind,
    /// By line.
    pub findings: Vec<Finding>,
    /// Fields of foreign settings that no rule could read, with the nearest known name: what they say was not judged.
    pub unread_fields: Vec<String>,
}

/// Judges one file. `file` only names it.
///
/// # Errors
/// What is no YAML, has none of the fields of any kind, or is a manifest that would not load. A revision that
/// moves is a finding here and no fault.
pub fn lint(file: &str, text: &str) -> Result<Lint, Faults> {
    let tree = yaml::parse(file, text)?;
    let mut document = Document::new(file, &tree);
    let kind = kind_of(&tree.value).ok_or_else(|| unknown_kind(file))?;
    let unread_fields = match kind {
        Kind::WorkloadManifest => {
            manifest::judge(&mut document);
            Vec::new()
        }
        Kind::Settings => {
            settings::judge(&mut document);
            settings::unread(&document)
        }
    };
    let findings = document.finish();
    if kind == Kind::WorkloadManifest {
        refuse_unless_loadable(file, text, &findings)?;
    }
    Ok(Lint { kind, findings, unread_fields })
}

/// Judges a scenario's two files together: some rules need both.
///
/// # Errors
/// As [`lint`], of either file.
pub fn lint_scenario(manifest: (&str, &str), scenario: (&str, &str)) -> Result<Vec<Finding>, Faults> {
    let trees = (yaml::parse(manifest.0, manifest.1)?, yaml::parse(scenario.0, scenario.1)?);
    let (mut first, mut second) = (Document::new(manifest.0, &trees.0), Document::new(scenario.0, &trees.1));
    manifest::judge(&mut first);
    scenario::judge(&mut second, &first);
    let mut findings = first.finish();
    refuse_unless_loadable(manifest.0, manifest.1, &findings)?;
    findings.extend(second.finish());
    Ok(findings)
}

/// A manifest must load, but for revisions that move: those are findings already.
fn refuse_unless_loadable(file: &str, text: &str, findings: &[Finding]) -> Result<(), Faults> {
    let Err(Faults(mut faults)) = Manifest::parse(file, text) else { return Ok(()) };
    let moving =
        |field: &str| findings.iter().any(|f| f.rule == rules::MOVABLE_VERSION.id && f.field == field);
    faults.retain(|fault| !moving(&fault.field));
    Faults(faults).unless_any(())
}

fn kind_of(top: &Value) -> Option<Kind> {
    let Value::Map(entries) = top else { return None };
    let any = |names: &[&str]| entries.iter().any(|entry| names.contains(&entry.key.as_str()));
    // A scenario.yaml shares the name `client` with a manifest.
    if any(&["experiment", "router"]) {
        None
    } else if any(&["client", "workload", "acceptance"]) {
        Some(Kind::WorkloadManifest)
    } else if any(&settings::FIELDS) {
        Some(Kind::Settings)
    } else {
        None
    }
}

fn unknown_kind(file: &str) -> Fault {
    Fault {
        file: file.to_owned(),
        found: "another kind of file".to_owned(),
        expected: format!("a workload manifest, or a mapping with some of {}", settings::FIELDS.join(", ")),
        hint: "a scenario.yaml is judged with its manifest: name their directory".to_owned(),
        ..Fault::default()
    }
}
