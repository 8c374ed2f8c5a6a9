//! The discrete-event simulator of a serving fleet. No input or output, no clock, no thread inside a run.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

mod attempt;
pub mod chrome_trace;
pub mod engine;
pub mod event;
pub mod faults;
mod front_end;
pub mod hardware;
mod predict;
pub mod profile;
mod replica;
mod run;
pub mod scenario;
mod setup;
pub mod step_time;
pub mod watch;
pub mod waves;

pub use attempt::{Attempt, Fate, Stage};
pub use event::GiveUp;
pub use front_end::{FrontEnd, FrontEndProcess};
pub use replica::{Extremes, Launched, Pace, Replica, ReplicaTotals};
pub use run::{Policies, run, run_paced, run_watched, run_with};
pub use setup::{GatewayConfig, RunConfig, RunError, RunSummary, Server, ServerLimits};
