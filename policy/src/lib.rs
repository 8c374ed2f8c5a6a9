//! Routers: pure decisions over a read-only view of the fleet, the same in virtual time and live.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

mod fleet;
mod router;

pub use fleet::{Fleet, LoadSource};
pub use router::{
    LeastOutstanding, PowerOfTwo, Random, RoundRobin, RouteRequest, Router, RouterPolicy, build,
};
