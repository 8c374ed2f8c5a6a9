//! What lies in the directories: points, studies, plans, failure tests, dashboards and rules.

use crate::commands::failure_test;
use crate::exit::CommandError;
use crate::files::{self, entries, read_bytes, read_text};
use crate::seal;
use crate::study::shown;
use rayon::prelude::*;
use scaleproof_pack::acceptance::{Evidence, FailurePack, PointFiles, PointPack};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Folders in folders, at most: a link that leads back ends somewhere.
const DEPTH_MAX: usize = 8;

/// Everything below the directories. A point that was named twice is judged once.
pub fn gather(directories: &[PathBuf]) -> Result<Evidence, CommandError> {
    let mut evidence = Evidence::default();
    let mut points: Vec<PathBuf> = Vec::new();
    for directory in directories {
        if !directory.is_dir() {
            return Err(CommandError::bad_input(format!(
                "{}: found no directory; expected a pack, or a directory of packs; check the path",
                directory.display()
            )));
        }
        walk(directory, &mut evidence, &mut points, DEPTH_MAX);
    }
    points.sort();
    points.dedup();
    evidence.points = points.par_iter().map(|directory| point(directory)).collect();
    Ok(evidence)
}

fn walk(directory: &Path, evidence: &mut Evidence, points: &mut Vec<PathBuf>, depth: usize) {
    let name = shown(directory);
    let has = |file: &str| directory.join(file).is_file();
    if has(failure_test::JSON) || has(failure_test::MARKDOWN) {
        if let Some(report) = json(&directory.join(failure_test::JSON), evidence) {
            let (has_page, run) = (has(failure_test::MARKDOWN), point(directory));
            evidence.failure_tests.push(FailurePack { report, has_page, run });
        }
        return;
    }
    if has(files::PLAN) {
        // Its points are of other fleets, and of the search for their capacity.
        if let Some(plan) = json(&directory.join(files::PLAN), evidence) {
            evidence.plans.push((name, plan));
        }
        return;
    }
    if has(files::REPORT) {
        if directory.join("points").is_dir() {
            evidence
                .tops
                .extend(text(&directory.join(files::REPORT), &mut evidence.unreadable).map(|t| (name, t)));
        } else {
            points.push(directory.to_owned());
            return;
        }
    }
    let folder = directory.file_name().unwrap_or_default();
    for path in entries(directory) {
        if path.is_dir() && depth > 0 {
            walk(&path, evidence, points, depth - 1);
        }
        let ending = path.extension().unwrap_or_default();
        if folder == "dashboards" && ending == "json" || folder == "alerts" && ending == "yaml" {
            evidence
                .observability
                .extend(text(&path, &mut evidence.unreadable).map(|text| (shown(&path), text)));
        }
    }
}

fn text(path: &Path, unreadable: &mut Vec<String>) -> Option<String> {
    read_text(path).map_err(|error| unreadable.push(error.message)).ok()
}

fn json(path: &Path, evidence: &mut Evidence) -> Option<Value> {
    let text = text(path, &mut evidence.unreadable)?;
    let fault = |error| evidence.unreadable.push(format!("{}: {error}", path.display()));
    serde_json::from_str(&text).map_err(fault).ok()
}

fn point(directory: &Path) -> PointPack {
    let read = |name: &str| read_bytes(&directory.join(name)).ok();
    let (manifest, requests) = (read(files::MANIFEST), read(files::REQUESTS));
    let (report, timeline) = (read(files::REPORT), read(files::TIMELINE));
    let files = PointFiles {
        manifest: manifest.as_deref(),
        requests: requests.as_deref(),
        report: report.as_deref(),
        timeline: timeline.as_deref(),
    };
    PointPack::read(&shown(directory), seal::broken(directory), files)
}
