//! `scaleproof lint`: what makes a benchmark configuration worthless.

use crate::args::{Format, LintArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{MANIFEST, SCENARIO, read_text};
use crate::input::{self, Loaded};
use crate::point::Point;
use crate::study::{print_out, shown};
use scaleproof_pack::lint::rules::MOVABLE_VERSION;
use scaleproof_pack::lint::{self, Finding, Kind};
use scaleproof_pack::schedule::Load;
use serde_json::{Value, json};
use std::path::Path;

/// What was judged.
struct Judged {
    kind: &'static str,
    findings: Vec<Finding>,
    unread_fields: Vec<String>,
}

/// Runs the command: exit 1 if anything was found.
pub fn run(args: &LintArgs) -> Outcome {
    let judged = if args.file.is_dir() { scenario(&args.file)? } else { file(&args.file)? };
    print_out(&match args.format {
        Format::Json => format!("{:#}\n", json(&args.file, &judged)),
        Format::Text => text(&args.file, &judged),
    })?;
    Ok(Exit::from_gate(judged.findings.is_empty()))
}

fn file(path: &Path) -> Result<Judged, CommandError> {
    let lint = lint::lint(&shown(path), &read_text(path)?).map_err(CommandError::bad_input)?;
    let kind = match lint.kind {
        Kind::WorkloadManifest => "workload_manifest",
        Kind::Settings => "settings",
    };
    Ok(Judged { kind, findings: lint.findings, unread_fields: lint.unread_fields })
}

/// Both files of a scenario, which must load; its trace may be elsewhere. Revisions that move are findings; until they
/// are pinned, what only loading finds stays unsaid.
fn scenario(directory: &Path) -> Result<Judged, CommandError> {
    let (manifest, scenario) = (directory.join(MANIFEST), directory.join(SCENARIO));
    let (manifest_text, scenario_text) = (read_text(&manifest)?, read_text(&scenario)?);
    let mut findings =
        lint::lint_scenario((&shown(&manifest), &manifest_text), (&shown(&scenario), &scenario_text))
            .map_err(CommandError::bad_input)?;
    if findings.iter().all(|finding| finding.rule != MOVABLE_VERSION.id) {
        findings.extend(of_trace(&input::load_with_trace_if_there(directory)?)?);
    }
    Ok(Judged { kind: "scenario", findings, unread_fields: Vec::new() })
}

/// What the rows of a scenario's trace make of its gates; nothing if it replays none, or the trace is elsewhere.
pub fn of_trace(loaded: &Loaded) -> Result<Vec<Finding>, CommandError> {
    if loaded.trace.is_none() {
        return Ok(Vec::new());
    }
    let replicas = loaded.manifest.engine.placement.replicas;
    let load = Load::Open { rps: loaded.trace_rate().unwrap_or(1.0) };
    let schedule = Point { load, run: 0, replicas, shared_prefixes: false }.schedule(loaded)?;
    lint::lint_replay(
        (&loaded.manifest_file(), &loaded.manifest_text),
        &loaded.manifest,
        &schedule,
        loaded.scenario.max_request_tokens(),
    )
    .map_err(CommandError::bad_input)
}

fn json(path: &Path, judged: &Judged) -> Value {
    json!({
        "file": shown(path),
        "kind": judged.kind,
        "finding_count": judged.findings.len(),
        "findings": judged.findings,
        "unread_fields": judged.unread_fields,
    })
}

fn text(path: &Path, judged: &Judged) -> String {
    let mut text = String::new();
    for finding in &judged.findings {
        text += &format!("{}:{}: {}: found {}\n", finding.file, finding.line, finding.rule, finding.found);
        text += &format!("    why: {}\n    repair: {}\n", finding.reason, finding.repair);
    }
    if !judged.unread_fields.is_empty() {
        text += &format!("not read: {}\n", judged.unread_fields.join(", "));
    }
    let count = match judged.findings.len() {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    text + &format!("{}: {count}\n", path.display())
}
