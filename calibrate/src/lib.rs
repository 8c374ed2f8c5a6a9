//! From measurements to an engine profile. The simulator runs in the loop of the fit.

pub mod fit;
pub mod fixture;
pub mod optimize;
pub mod worked_example;
