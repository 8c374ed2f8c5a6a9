//! What the simulated and the live world share: the workload manifest, the frozen schedule, the request record,
//! the analyzer with its gates, the replica plan, and the files of a pack.
//!
//! Nothing here reads a clock, a file or the environment: text and bytes come in as arguments, artefacts leave
//! through `std::io::Write`.

pub mod chance;
pub mod experiment;
pub mod hash;
pub mod interval;
pub mod manifest;
pub mod percentile;
pub mod prompt;
pub mod record;
pub mod schedule;
mod student;
pub mod time;
pub mod timeline;
pub mod trend;
