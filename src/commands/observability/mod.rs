//! `scaleproof observability`: Prometheus rules with their tests, Grafana dashboards, a scrape configuration.

mod args;

pub use args::{ObservabilityArgs, interval};

use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, unwritable};
use crate::study::print_out;
use scaleproof_pack::alerts::Timing;
use scaleproof_pack::observability;
use std::path::Path;

/// Runs the command.
pub fn run(args: &ObservabilityArgs) -> Outcome {
    let written = write(&args.out, Timing { interval: args.interval_s })?;
    let lines: String = written.iter().map(|path| format!("{}\n", args.out.join(path).display())).collect();
    print_out(&lines)?;
    Ok(Exit::Passed)
}

/// Writes all files below `folder`, and returns their paths in it.
pub fn write(folder: &Path, timing: Timing) -> Result<Vec<String>, CommandError> {
    let mut written = Vec::new();
    for (name, text) in observability::files(timing) {
        let path = folder.join(&name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        files::write(&path, text.as_bytes())?;
        written.push(name);
    }
    Ok(written)
}
