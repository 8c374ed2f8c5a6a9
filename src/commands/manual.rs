//! `scaleproof completions` and `scaleproof man`: what a package installs beside the program.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::exit::{Exit, Outcome};
use crate::files::{output_directory, unwritable};
use crate::study::print_out;
use clap::CommandFactory;

/// Prints a shell's completion script.
pub fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "scaleproof", &mut script);
    print_out(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Passed)
}

/// Prints the man page, or writes one for each command into `--out`.
pub fn man(args: &ManArgs) -> Outcome {
    if args.out.is_some() {
        let claim = output_directory(args.out.as_deref(), "man", true)?;
        clap_mangen::generate_to(Cli::command(), &claim.path)
            .map_err(|error| unwritable(&claim.path, &error))?;
        print_out(&format!("{}\n", claim.path.display()))?;
        return Ok(Exit::Passed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(crate::exit::CommandError::could_not_run)?;
    print_out(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Passed)
}
