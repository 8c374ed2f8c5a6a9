//! Exit codes, and errors that know theirs.

use scaleproof_sim::RunError;
use scaleproof_sim::step_time::StepTimeError;
use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and every gate passed.
    Passed = 0,
    /// Done, and a gate or verdict failed.
    Failed = 1,
    /// Bad input or usage.
    BadInput = 2,
    /// Could not run, or not to the end.
    CouldNotRun = 3,
}

impl Exit {
    /// Passed if `passed`, else failed.
    pub fn from_gate(passed: bool) -> Exit {
        if passed { Exit::Passed } else { Exit::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub struct CommandError {
    /// 2 or 3.
    pub exit: Exit,
    /// What the user reads, one line a fault.
    pub message: String,
    /// Whether a run found the profile faster than its GPU can be: another parameter set may not be.
    pub below_bound: bool,
}

impl CommandError {
    /// Something in what the user gave.
    pub fn bad_input(error: impl fmt::Display) -> CommandError {
        CommandError { exit: Exit::BadInput, message: error.to_string(), below_bound: false }
    }

    /// Something in the world.
    pub fn could_not_run(error: impl fmt::Display) -> CommandError {
        CommandError { exit: Exit::CouldNotRun, message: error.to_string(), below_bound: false }
    }

    /// A simulation that did not come to its end. One that found the profile faster than its GPU shows a fault of the
    /// profile, whose check at reading looks at the steps of its validity region only.
    pub fn run(error: &RunError) -> CommandError {
        match error {
            RunError::StepTime(StepTimeError::BelowBound(_)) => {
                CommandError { below_bound: true, ..CommandError::bad_input(error) }
            }
            _ => CommandError::could_not_run(error),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What every command returns.
pub type Outcome = Result<Exit, CommandError>;
