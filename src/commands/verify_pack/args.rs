//! The arguments of `verify-pack`.

use crate::args::Format;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `verify-pack`.
#[derive(Debug, Args)]
pub struct VerifyPackArgs {
    /// The packs of one study, or directories that hold them
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// How to print the lines
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}
