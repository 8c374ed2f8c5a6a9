//! Paths and today's date: what `init` takes from the world.

use crate::clock::now_utc;
use crate::exit::CommandError;
use std::path::{Component, Path, PathBuf};

/// The path of `to` as seen from the directory `from`, which need not exist yet.
pub fn relative(from: &Path, to: &Path) -> Result<String, CommandError> {
    let fault = |path: &Path, error: std::io::Error| {
        CommandError::bad_input(format!(
            "{}: found {error}; expected a path that can be resolved; check it",
            path.display()
        ))
    };
    let from = resolved(from).map_err(|error| fault(from, error))?;
    let target = to.canonicalize().map_err(|error| fault(to, error))?;
    let (base, target): (Vec<_>, Vec<_>) = (from.components().collect(), target.components().collect());
    let common = base.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = base[common..].iter().map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(target[common..].iter().copied()).collect();
    path.into_os_string().into_string().map_err(|path| {
        CommandError::bad_input(format!(
            "{}: found a path that is not UTF-8; expected one that YAML can hold; rename it",
            path.display()
        ))
    })
}

/// An absolute path without links and dots, of which only the beginning need exist.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let existing = absolute.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    Ok(existing.canonicalize()?.join(rest))
}

/// Today's date in UTC.
pub fn today() -> Result<String, CommandError> {
    let hint = |error: CommandError| CommandError { message: error.message + "; give --cutoff", ..error };
    let mut at = now_utc().map_err(hint)?;
    at.truncate(at.find('T').unwrap_or(at.len()));
    Ok(at)
}
