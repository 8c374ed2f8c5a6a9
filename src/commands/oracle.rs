//! `scaleproof oracle`: the scheduler's decisions on a recorded case.

use crate::args::OracleArgs;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::read_text;
use crate::study::print_out;
use scaleproof_sim::engine::oracle::{self, OracleError};
use std::path::Path;

/// What is wrong with the case in a file, one fault a line.
fn faults(path: &Path, error: &OracleError) -> String {
    let file = path.display();
    match error {
        OracleError::Syntax { line, column, message } => {
            format!("{file}:{line}:{column}: found {message}; expected an oracle case, as in docs/engines.md")
        }
        OracleError::Case(faults) => {
            faults.iter().map(|fault| format!("{file}: {fault}")).collect::<Vec<_>>().join("\n")
        }
        other => format!("{file}: {other}"),
    }
}

/// Runs the command.
pub fn run(args: &OracleArgs) -> Outcome {
    let text = read_text(&args.case)?;
    let lines = oracle::run(&text).map_err(|error| CommandError::bad_input(faults(&args.case, &error)))?;
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    print_out(&text)?;
    Ok(Exit::Passed)
}
