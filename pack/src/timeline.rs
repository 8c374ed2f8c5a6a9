//! The state of the replicas over time, sampled at a fixed interval.

use crate::time::Nanos;

/// One replica at one moment. Counters are totals since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineRow {
    /// When.
    pub at: Nanos,
    /// Which replica.
    pub replica: u32,
    /// Requests waiting in the engine.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// KV blocks in use (cached but free ones are free).
    pub kv_blocks_used: u32,
    /// KV blocks in all.
    pub kv_blocks_total: u32,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Requests that lost their blocks.
    pub preemptions: u64,
}
