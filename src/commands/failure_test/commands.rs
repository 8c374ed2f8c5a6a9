//! The shell commands that make a fault and end it, run at their times beside a live run.

use crate::exit::CommandError;
use scaleproof_pack::time::Nanos;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// One of them.
pub struct Step {
    option: &'static str,
    command: String,
    state: State,
}

enum State {
    Waits,
    Runs(Nanos, JoinHandle<std::io::Result<ExitStatus>>),
    Ended(Nanos),
}

impl Step {
    /// The command of an option.
    pub fn new(option: &'static str, command: &str) -> Step {
        Step { option, command: command.to_owned(), state: State::Waits }
    }

    /// When it was begun, if it was.
    pub fn begun(&self) -> Option<Nanos> {
        match self.state {
            State::Waits => None,
            State::Runs(at, _) | State::Ended(at) => Some(at),
        }
    }

    /// Begins it, if that was not done before.
    pub fn begin(&mut self, now: Nanos) {
        if matches!(self.state, State::Waits) {
            let command = self.command.clone();
            self.state = State::Runs(now, std::thread::spawn(move || shell(&command)));
        }
    }

    /// Whether it went well, once it has ended; what it left in the background may go on.
    pub fn check(&mut self) -> Result<(), CommandError> {
        match &self.state {
            State::Runs(_, thread) if thread.is_finished() => self.finish(),
            _ => Ok(()),
        }
    }

    /// Waits for its end.
    pub fn finish(&mut self) -> Result<(), CommandError> {
        let State::Runs(at, _) = self.state else { return Ok(()) };
        let State::Runs(_, thread) = std::mem::replace(&mut self.state, State::Ended(at)) else {
            return Ok(());
        };
        let found = match thread.join() {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        Err(CommandError::could_not_run(format!(
            "{}: found {found} of `{}`; expected it to succeed; try it in a shell",
            self.option, self.command
        )))
    }
}

/// What it prints is no part of the result.
fn shell(command: &str) -> std::io::Result<ExitStatus> {
    Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).status()
}
