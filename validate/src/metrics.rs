//! What an engine says of itself in `/metrics`: the Prometheus text format, and what the names in it mean for each
//! engine. Pure functions on text.

mod dialect;
mod histogram;
mod line;
mod reading;
mod text;

pub use dialect::Dialect;
pub use histogram::Histogram;
pub use line::ParseError;
pub use reading::{Reading, ReadingError};
pub use text::{Exposition, Kind, Sample};

#[cfg(test)]
mod tests;
