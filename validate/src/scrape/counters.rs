//! What only grows in an engine's metrics, as far as a run is judged by it.

use crate::metrics::Reading;
use std::ops::{Add, Sub};

/// Counters of one replica, or their growth over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Requests that lost their blocks.
    pub preemptions: u64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub generation_tokens: u64,
    /// Times to first token by the engine's own clock: how many.
    pub ttft_count: u64,
    /// Their sum, in seconds.
    pub ttft_sum_s: f64,
}

impl Counters {
    pub(super) fn of(reading: &Reading) -> Counters {
        let or_zero = |value: Option<u64>| value.unwrap_or(0);
        let ttft = reading.ttft.as_ref();
        Counters {
            prefix_queries: or_zero(reading.prefix_queries),
            prefix_hits: or_zero(reading.prefix_hits),
            preemptions: or_zero(reading.preemptions),
            evictions: or_zero(reading.evictions),
            prompt_tokens: or_zero(reading.prompt_tokens),
            generation_tokens: or_zero(reading.generation_tokens),
            ttft_count: ttft.map_or(0, |ttft| ttft.count as u64),
            ttft_sum_s: ttft.map_or(0.0, |ttft| ttft.sum),
        }
    }

    /// What they grew by since `earlier`. Where any is smaller than it was, the process has restarted and all of them
    /// began at zero again.
    pub(super) fn since(self, earlier: Counters) -> Counters {
        let fell = self.counts().iter().zip(earlier.counts()).any(|(now, before)| *now < before);
        if fell { self } else { self - earlier }
    }

    /// The mean time to first token by the engine's own clock, in milliseconds; None without any.
    #[must_use]
    pub fn ttft_mean_ms(&self) -> Option<f64> {
        (self.ttft_count > 0).then(|| self.ttft_sum_s * 1e3 / self.ttft_count as f64)
    }

    /// The share of the tokens looked up that the prefix cache had; None if none were looked up.
    #[must_use]
    pub fn prefix_hit_share(&self) -> Option<f64> {
        (self.prefix_queries > 0).then(|| self.prefix_hits as f64 / self.prefix_queries as f64)
    }

    fn counts(&self) -> [u64; 7] {
        [
            self.prefix_queries,
            self.prefix_hits,
            self.preemptions,
            self.evictions,
            self.prompt_tokens,
            self.generation_tokens,
            self.ttft_count,
        ]
    }

    fn combined(self, other: Counters, combine: fn(u64, u64) -> u64, ttft_sum_s: f64) -> Counters {
        let [
            prefix_queries,
            prefix_hits,
            preemptions,
            evictions,
            prompt_tokens,
            generation_tokens,
            ttft_count,
        ] = std::array::from_fn(|n| combine(self.counts()[n], other.counts()[n]));
        Counters {
            prefix_queries,
            prefix_hits,
            preemptions,
            evictions,
            prompt_tokens,
            generation_tokens,
            ttft_count,
            ttft_sum_s,
        }
    }
}

impl Add for Counters {
    type Output = Counters;
    /// Of two replicas, or of two times.
    fn add(self, other: Counters) -> Counters {
        self.combined(other, u64::saturating_add, self.ttft_sum_s + other.ttft_sum_s)
    }
}

impl Sub for Counters {
    type Output = Counters;
    /// Of a later moment and an earlier one.
    fn sub(self, earlier: Counters) -> Counters {
        self.combined(earlier, u64::saturating_sub, self.ttft_sum_s - earlier.ttft_sum_s)
    }
}
