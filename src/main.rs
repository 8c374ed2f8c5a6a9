//! scaleproof: predict what an LLM serving fleet does under load. The command line.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

mod args;
mod catalogue;
mod clock;
mod commands;
mod draws;
mod exit;
mod files;
mod input;
mod listener;
mod pack_writer;
mod point;
mod progress;
mod report_text;
mod results;
mod seal;
mod study;
mod table;

use args::{Cli, Command};
use clap::Parser;
use exit::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::BadInput.into() } else { Exit::Passed.into() };
        }
    };
    if cli.command.can_stop_midway() {
        progress::catch_interrupts();
    }
    let outcome = match &cli.command {
        Command::Simulate(args) => commands::simulate::run(args),
        Command::Sweep(args) => commands::sweep::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Live(args) => commands::live::run(args),
        Command::Capacity(args) => commands::capacity::run(args),
        Command::Plan(args) => commands::plan::run(args),
        Command::Size(args) => commands::size::run(args),
        Command::Validate(args) => commands::validate::run(args),
        Command::Whatif(args) => commands::whatif::run(args),
        Command::FailureTest(args) => commands::failure_test::run(args),
        Command::Reproduce(args) => commands::reproduce::run(args),
        Command::VerifyPack(args) => commands::verify_pack::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::ComparePolicies(args) => commands::compare_policies::run(args),
        Command::Analyze(args) => commands::analyze::run(args),
        Command::Import(args) => commands::import::run(args),
        Command::Schedule(args) => commands::schedule::run(args),
        Command::Trace(args) => commands::trace::run(args),
        Command::Emulate(args) => commands::emulate::run(args),
        Command::Lint(args) => commands::lint::run(args),
        Command::Init(args) => commands::init::run(args),
        Command::Model(args) => commands::model::run(args),
        Command::Observability(args) => commands::observability::run(args),
        Command::Accuracy(args) => commands::accuracy::run(args),
        Command::Completions(args) => commands::manual::completions(args),
        Command::Man(args) => commands::manual::man(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Oracle(args) => commands::oracle::run(args),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            for line in error.message.lines() {
                progress::say(&format!("error: {line}"));
            }
            error.exit.into()
        }
    }
}
