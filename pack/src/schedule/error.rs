//! Why a manifest gives no schedule.

use super::{CONCURRENCY_MAX, RATE_MAX_RPS};
use crate::fault::Faults;
use crate::manifest::{REQUESTS_MAX, TOKENS_MAX};
use crate::time::TimeError;
use std::fmt;

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleError {
    /// The offered rate is not above 0, or above [`RATE_MAX_RPS`].
    Rate {
        /// What was asked for.
        rps: f64,
    },
    /// No clients, or more than [`CONCURRENCY_MAX`].
    Concurrency {
        /// What was asked for.
        concurrency: u32,
    },
    /// More than [`REQUESTS_MAX`] requests.
    TooManyRequests {
        /// How many there would be, at least.
        count: f64,
    },
    /// More parts of prompts than can be numbered.
    TooManySegments {
        /// How many there are.
        count: usize,
    },
    /// The prompt of a turn exceeds [`TOKENS_MAX`].
    SessionTooLong {
        /// The class.
        class: String,
        /// The turn, from 1.
        turn: u64,
    },
    /// A time beyond what a run may last.
    Time(TimeError),
    /// Arrivals come from a trace, and none was given.
    TraceMissing {
        /// Its file, as the manifest names it.
        file: String,
    },
    /// A trace ends too early; it has no continuation.
    TraceTooShort {
        /// Its span at this rate, in seconds.
        spans_s: f64,
        /// The manifest's `minimum_duration_seconds`.
        minimum_s: f64,
    },
    /// Trace and manifest do not fit together.
    Trace(Faults),
}

impl From<TimeError> for ScheduleError {
    fn from(error: TimeError) -> ScheduleError {
        ScheduleError::Time(error)
    }
}

impl From<Faults> for ScheduleError {
    fn from(faults: Faults) -> ScheduleError {
        ScheduleError::Trace(faults)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::Rate { rps } => {
                write!(
                    f,
                    "offered rate: found {rps}; expected a number above 0 and at most {RATE_MAX_RPS} per second"
                )
            }
            ScheduleError::Concurrency { concurrency } => {
                write!(
                    f,
                    "concurrency: found {concurrency}; expected a whole number from 1 to {CONCURRENCY_MAX}"
                )
            }
            ScheduleError::TooManyRequests { count } => write!(
                f,
                "requests: found at least {count:.0}; expected at most {REQUESTS_MAX}; lower the rate, warmup_seconds \
                 or minimum_duration_seconds"
            ),
            ScheduleError::TooManySegments { count } => {
                write!(
                    f,
                    "parts of prompts: found at least {count}; expected at most {}; cut the trace",
                    u32::MAX
                )
            }
            ScheduleError::SessionTooLong { class, turn } => write!(
                f,
                "class {class}: found a prompt beyond {} tokens in turn {turn} of a session; expected fewer turns or \
                 shorter ones",
                TOKENS_MAX
            ),
            ScheduleError::Time(error) => write!(f, "a time of the schedule: {error}; raise the rate"),
            ScheduleError::TraceMissing { file } => {
                write!(f, "client.trace: found no trace; expected the contents of {file}")
            }
            ScheduleError::TraceTooShort { spans_s, minimum_s } => write!(
                f,
                "client.minimum_duration_seconds: found a trace that spans {spans_s} s at this rate; expected at least \
                 {minimum_s} s; a trace has no continuation: lower the rate, or the minimum"
            ),
            ScheduleError::Trace(faults) => write!(f, "{faults}"),
        }
    }
}

impl std::error::Error for ScheduleError {}
