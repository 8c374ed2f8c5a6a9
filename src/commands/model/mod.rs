//! `scaleproof model`: what is known of models and GPUs before anything is measured, and engine profiles made from it.

mod args;
mod fit;
mod fit_text;
mod list;
mod predict;
mod show;

pub use args::{KvPrecision, ModelArgs, ProvenanceArgs, WeightPrecision};
pub use fit::fit_points;

use crate::exit::Outcome;
use args::ModelCommand;

/// Runs the command.
pub fn run(args: &ModelArgs) -> Outcome {
    match &args.command {
        ModelCommand::Show(args) => show::run(args),
        ModelCommand::List(args) => list::run(args),
        ModelCommand::Predict(args) => predict::run(args),
        ModelCommand::Fit(args) => fit::run(args),
    }
}

/// This command as a shell takes it, for a profile's provenance.
pub fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./,:=@%+-".contains(c);
    let word = |word: String| {
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|arg| word(arg.to_string_lossy().into_owned()));
    std::iter::once("scaleproof".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
