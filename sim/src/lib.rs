//! The discrete-event simulator of a serving fleet. No input or output, no clock, no thread inside a run.

mod attempt;
pub mod engine;
mod event;
pub mod profile;
mod replica;
mod run;
pub mod scenario;
mod setup;
mod source;
pub mod step_time;

pub use event::RequestRef;
pub use replica::{Extremes, FrontEnd, ReplicaTotals};
pub use run::run;
pub use setup::{Enough, RunConfig, RunError, RunSummary, ServerLimits};
