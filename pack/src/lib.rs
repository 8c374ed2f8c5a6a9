//! What the simulated and the live world share: the workload manifest, the frozen schedule, the request record,
//! the analyzer with its gates, the replica plan, and the files of a pack.
//!
//! Nothing here reads a clock, a file or the environment: text and bytes come in as arguments, artefacts leave
//! through `std::io::Write`.

// Tests may unwrap, also those outside `cfg(test)`: hence not in the workspace's lints.
#![warn(clippy::unwrap_used)]

pub mod acceptance;
pub mod alerts;
pub mod analyze;
pub mod balance;
pub mod cache;
pub mod capacity;
pub mod chance;
pub mod compare;
mod digits;
pub mod document;
pub mod experiment;
pub mod failure;
pub mod fault;
pub mod fields;
pub mod grid;
pub mod hash;
pub mod hopeless;
pub mod import;
pub mod interval;
pub mod lint;
pub mod manifest;
pub mod observability;
pub mod percentile;
pub mod plan;
pub mod policies;
pub mod prompt;
pub mod record;
pub mod refine;
pub mod report;
pub mod report_html;
pub mod requests_csv;
pub mod saturation;
pub mod schedule;
pub mod size;
pub mod spread;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod time;
pub mod timeline;
pub mod trace;
pub mod trend;
pub mod verdict;
pub mod whatif;
pub mod work;
pub mod workload;
pub mod yaml;
