//! The discrete-event simulator of a serving fleet. No input or output, no clock, no thread inside a run.

pub mod engine;
