//! The live world: a frozen schedule against real engines.

pub mod metrics;
