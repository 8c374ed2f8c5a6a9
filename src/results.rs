//! Other tools' results, read from their files.

use crate::exit::CommandError;
use crate::files::read_bytes;
use crate::study::shown;
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::import::{self, Format, Run, Tool};
use std::path::{Path, PathBuf};

/// A run with the file it was read from.
pub struct Imported {
    /// The file.
    pub file: PathBuf,
    /// The names of all its files, each with its SHA-256 in hexadecimal.
    pub sources: Vec<(String, String)>,
    /// What it says.
    pub run: Run,
}

/// The runs of files, in their order.
pub fn read(files: &[PathBuf], from: Option<Format>) -> Result<Vec<Imported>, CommandError> {
    let mut imported = Vec::new();
    for file in files {
        let bytes = read_bytes(file)?;
        let runs = import::import(&shown(file), &bytes, from).map_err(CommandError::bad_input)?;
        let sources = vec![(shown(file), sha256_hex(&bytes))];
        let of_file = |run| Imported { file: file.clone(), sources: sources.clone(), run };
        imported.extend(runs.into_iter().map(of_file));
    }
    join_aiperf(&mut imported);
    Ok(imported)
}

/// AIPerf writes a run as two files: the records say nothing of the load, the aggregates nothing of the requests. Both
/// of one directory, with the same counts, are one run.
fn join_aiperf(imported: &mut Vec<Imported>) {
    let is_half = |one: &Imported, with_requests: bool| {
        one.run.point.source.tool == Tool::Aiperf && one.run.requests.is_empty() != with_requests
    };
    let key = |one: &Imported| {
        (one.file.parent().map(Path::to_owned), one.run.point.attempted, one.run.point.completed)
    };
    let mut kept: Vec<Imported> = Vec::with_capacity(imported.len());
    let mut records = Vec::new();
    for one in imported.drain(..) {
        if is_half(&one, true) { records.push(one) } else { kept.push(one) }
    }
    for one in records {
        let other = kept.iter_mut().find(|other| is_half(other, false) && key(other) == key(&one));
        let Some(other) = other else {
            kept.push(one);
            continue;
        };
        other.run.requests = one.run.requests;
        other.run.notes.extend(one.run.notes);
        other.sources.extend(one.sources);
    }
    *imported = kept;
}
