//! Models and GPUs by the names that a user gives: entries of the catalogue, or files.

use crate::exit::CommandError;
use crate::files::read_text;
use scaleproof_calibrate::hardware::Found;
use scaleproof_calibrate::hardware::architecture::Architecture;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_pack::fault::Faults;
use std::path::Path;

/// The model of this name, or in this file: our YAML or a Hugging Face config.json.
pub fn architecture(name: &str) -> Result<Architecture, CommandError> {
    entry_or_file(name, Architecture::find, Architecture::parse)
}

/// The GPU of this name, or in this file.
pub fn gpu(name: &str) -> Result<Gpu, CommandError> {
    entry_or_file(name, Gpu::find, Gpu::parse)
}

fn entry_or_file<T>(
    name: &str,
    find: fn(&str) -> Result<Found<T>, Faults>,
    parse: fn(&str, &str) -> Result<T, Faults>,
) -> Result<T, CommandError> {
    match find(name).map_err(CommandError::bad_input)? {
        Found::Entry(entry) => Ok(entry),
        Found::File => parse(name, &read_text(Path::new(name))?).map_err(CommandError::bad_input),
    }
}
