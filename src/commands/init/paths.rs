//! Paths and today's date: what `init` takes from the world.

use crate::exit::CommandError;
use scaleproof_pack::time::civil_day;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
    Ok(date((clock_seconds().map_err(hint)? / 86_400) as i64))
}

/// Seconds since 1970 began in UTC.
pub fn clock_seconds() -> Result<u64, CommandError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| {
        CommandError::could_not_run(format!("the clock: found {error}; expected a time after 1970"))
    })?;
    Ok(since.as_secs())
}

/// The date of a day counted from 1970-01-01.
pub fn date(day: i64) -> String {
    let from = 1970 + day / 366;
    let months = (from..from + 2 + day / 10_000).flat_map(|year| (1..=12).map(move |month| (year, month)));
    let mut dates =
        months.flat_map(|(year, month)| (1..=31).map(move |date| format!("{year:04}-{month:02}-{date:02}")));
    dates.find(|date| civil_day(date) == Some(day)).unwrap_or_else(|| "1970-01-01".to_owned())
}
