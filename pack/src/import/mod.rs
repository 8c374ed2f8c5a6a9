//! Other tools' results as this project's records and operating points. docs/formats.md has the conversions.

mod point;

pub use point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
