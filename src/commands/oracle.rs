//! `scaleproof oracle`: the scheduler's decisions on a recorded case.

use crate::args::OracleArgs;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::read_text;
use std::io::Write;

/// Runs the command.
pub fn run(args: &OracleArgs) -> Outcome {
    let text = read_text(&args.case)?;
    let lines = scaleproof_sim::engine::oracle::run(&text)
        .map_err(|error| CommandError::bad_input(format!("{}: {error}", args.case.display())))?;
    let mut out = std::io::stdout().lock();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    Ok(Exit::Passed)
}
