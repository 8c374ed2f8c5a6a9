//! Routers and admission policies: pure decisions over a read-only view of the fleet, the same in virtual time and live.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

pub mod admission;
mod fleet;
pub mod gate;
pub mod health;
mod request;
mod router;
pub mod tournament;

pub use admission::{Admission, AdmissionPolicy};
pub use fleet::{Fleet, LoadSource, Polled};
pub use request::{Alone, Content, RouteRequest, Scheduled};
pub use router::{
    LeastConnections, LeastOutstanding, PowerOfTwo, Random, RoundRobin, Router, RouterPolicy, build,
};
