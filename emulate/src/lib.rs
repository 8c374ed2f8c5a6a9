//! The simulator behind an OpenAI-compatible endpoint, in real time: replicas on ports of their own, each with the
//! simulator's scheduler, KV pool and step times, and faults on command. A validation, its router and its alerts can be
//! tried with it before there is a GPU.
//!
//! ```no_run
//! # async fn example(config: scaleproof_emulate::Config) -> Result<(), scaleproof_emulate::EmulateError> {
//! use scaleproof_emulate::{Emulator, Fault};
//! let emulator = Emulator::start(config).await?;
//! println!("replicas: {:?}, faults: {}", emulator.addresses().await, emulator.admin_address());
//! emulator.fault(0, &Fault::Slow { factor: 2.0 }).await?;
//! println!("{:?}", emulator.shutdown().await);
//! # Ok(())
//! # }
//! ```

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

mod admin;
mod api;
mod book;
mod clock;
mod config;
mod contents;
mod engine;
mod fault;
mod fleet;
mod histogram;
mod link;
mod metrics;
mod step_log;
mod tokens;

pub use config::{Config, EmulateError, REPLICAS_MAX, TIME_SCALE};
pub use fault::{Conditions, Fault, Misbehaviour, Refuse};
pub use fleet::{Emulator, ReplicaState, ReplicaSummary, Summary};
pub use tokens::{VOCABULARY, answer_token, detokenize, tokenize};
