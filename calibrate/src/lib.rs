//! From measurements to an engine profile. The simulator runs in the loop of the fit.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

pub mod accuracy;
pub mod carry;
pub mod fit;
pub mod fixture;
pub mod fluid;
pub mod hardware;
pub mod kernels;
pub mod least_squares;
mod loads;
pub mod optimize;
pub mod physics;
pub mod points;
pub mod posterior;
pub mod recovery;
pub mod simulated;
pub mod steps;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod worked_example;
