//! From measurements to an engine profile. The simulator runs in the loop of the fit.

pub mod optimize;
