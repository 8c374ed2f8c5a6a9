//! The live world: a frozen schedule against real engines.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

mod answer;
mod attempt;
mod checks;
mod chunk;
mod client;
mod clock;
mod config;
mod connection;
mod dispatch;
mod driver;
mod engine;
mod give_up;
mod guard;
mod heartbeat;
mod maker;
mod news;
mod probe;
mod request;
mod route;
mod sse;
mod target;
mod tls;
mod watch;

pub mod metrics;
pub mod prompt;
pub mod scrape;

pub use checks::Limits;
pub use client::Client;
pub use clock::RunClock;
pub use config::{GiveUp, HARD_LIMIT, LiveConfig, LiveRun};
pub use dispatch::{Dispatch, Due};
pub use driver::Status;
pub use engine::{LiveEngine, LiveObserver};
pub use guard::Resilience;
pub use maker::{HashedTokens, Prompt, PromptMaker};
pub use news::{ConnectionFailure, News};
pub use request::{Endpoint, Features};
pub use route::Routing;
pub use sse::{EventTooLong, Splitter};
pub use target::Target;
pub use tls::{TlsConfig, tls_config};
