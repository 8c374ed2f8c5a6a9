//! The shell commands that make a fault and end it, run at their times beside a live run.

use crate::exit::CommandError;
use scaleproof_pack::time::Nanos;
use std::io::Error;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One of them.
pub struct Step {
    option: &'static str,
    command: String,
    state: State,
}

enum State {
    Waits,
    Runs(Nanos, JoinHandle<(std::io::Result<ExitStatus>, Duration)>),
    Ended(Nanos, Duration),
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
            State::Runs(at, _) | State::Ended(at, _) => Some(at),
        }
    }

    /// How long it took, once it has ended.
    pub fn took(&self) -> Option<Duration> {
        match self.state {
            State::Ended(_, took) => Some(took),
            State::Waits | State::Runs(..) => None,
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
        let State::Runs(_, thread) = std::mem::replace(&mut self.state, State::Waits) else {
            return Ok(());
        };
        let (status, took) = thread.join().unwrap_or_else(|_| (Err(Error::other("a panic")), Duration::ZERO));
        self.state = State::Ended(at, took);
        let found = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(CommandError::could_not_run(format!(
            "{}: found {found} of `{}`; expected it to succeed; try it in a shell",
            self.option, self.command
        )))
    }
}

/// How it ended, and how long it took. What it prints is no part of the result.
fn shell(command: &str) -> (std::io::Result<ExitStatus>, Duration) {
    let began = Instant::now();
    let status = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    (status, began.elapsed())
}
