//! `scaleproof model`: what is known of models and GPUs before anything is measured.

mod args;
mod list;
mod show;

pub use args::{KvPrecision, ModelArgs, WeightPrecision};

use crate::exit::Outcome;
use args::ModelCommand;

/// Runs the command.
pub fn run(args: &ModelArgs) -> Outcome {
    match &args.command {
        ModelCommand::Show(args) => show::run(args),
        ModelCommand::List(args) => list::run(args),
    }
}
