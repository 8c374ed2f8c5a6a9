//! `live` against `emulate`: every attempt ends once and as it should, whatever is done to the replicas; packs have the
//! scheduled tokens and hits; and the same schedule has the same outcomes in the simulator.
//!
//! The long comparison runs the worked example for some five minutes, on a quiet machine:
//!
//!     cargo test --release --test conformance -- --ignored --nocapture

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic, and says what it could not judge"
)]

#[path = "../small/mod.rs"]
mod small;
#[path = "../support/mod.rs"]
mod support;

mod arms;
mod faults;
mod fleet;
mod packs;
mod process;
