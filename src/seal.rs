//! The seal of a point's pack: a digest of each of its files, written last. A pack without it was not finished, and
//! one that does not fit it has been changed since: `--resume` takes neither for a result.

use crate::exit::CommandError;
use crate::files::{self, unwritable};
use scaleproof_pack::hash::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Its file.
pub const SEAL: &str = "seal.json";

/// The files that it is over: all of a point's.
pub const SEALED: [&str; 7] = [
    files::MANIFEST,
    files::SCENARIO,
    files::PROFILE,
    files::REQUESTS,
    files::REPORT,
    files::TIMELINE,
    files::PAGE,
];

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct Seal {
    /// The version of this program: another one may simulate otherwise.
    scaleproof: String,
    /// SHA-256 of each file, in hexadecimal.
    sha256: BTreeMap<String, String>,
}

/// Seals the pack in `directory`: a point's files, and those `besides`.
pub fn put(directory: &Path, besides: &[&str]) -> Result<(), CommandError> {
    let mut sha256 = BTreeMap::new();
    for name in SEALED.iter().chain(besides) {
        let path = directory.join(name);
        let bytes = std::fs::read(&path).map_err(|error| unwritable(&path, &error))?;
        sha256.insert((*name).to_owned(), sha256_hex(&bytes));
    }
    let seal = Seal { scaleproof: env!("CARGO_PKG_VERSION").to_owned(), sha256 };
    let json = serde_json::to_string_pretty(&seal).map_err(CommandError::could_not_run)?;
    files::write(&directory.join(SEAL), format!("{json}\n").as_bytes())
}

/// Takes the seal off a pack that is about to be written again.
pub fn remove(directory: &Path) -> Result<(), CommandError> {
    let path = directory.join(SEAL);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritable(&path, &error)),
        _ => Ok(()),
    }
}

/// Why the pack in `directory` cannot be taken as it is; None if it can.
pub fn broken(directory: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read(directory.join(name)).ok();
    let Some(text) = read(SEAL) else { return Some("it was not finished".to_owned()) };
    let Ok(seal) = serde_json::from_slice::<Seal>(&text) else {
        return Some(format!("{SEAL} cannot be read"));
    };
    if seal.scaleproof != env!("CARGO_PKG_VERSION") {
        return Some(format!("scaleproof {} made it", seal.scaleproof));
    }
    let intact = |name: &str| seal.sha256.get(name) == read(name).map(|bytes| sha256_hex(&bytes)).as_ref();
    let absent = SEALED.into_iter().find(|name| !seal.sha256.contains_key(*name));
    let changed = absent.or_else(|| seal.sha256.keys().map(String::as_str).find(|name| !intact(name)))?;
    Some(format!("{changed} is not as it was written"))
}
