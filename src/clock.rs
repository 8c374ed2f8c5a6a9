//! The time of day, which no result may rest on: it only says when something was written.

use crate::exit::CommandError;
use scaleproof_pack::time::utc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The date and time in UTC, to the second, as a timestamp of RFC 3339 begins.
pub fn now_utc() -> Result<String, CommandError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| {
        CommandError::could_not_run(format!("the clock: found {error}; expected a time after 1970"))
    })?;
    Ok(utc(since.as_secs()))
}
