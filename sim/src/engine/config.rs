//! The settings of one engine that decide what it batches.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whom a full engine serves first, and whom it preempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulingPolicy {
    /// First come, first served; the latest to run is preempted first.
    #[default]
    Fcfs,
    /// The smallest priority value first; the largest, and of those the latest to arrive, is preempted first.
    Priority,
}

/// The settings, named as the engine names them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// KV blocks, the null block included: one less is usable.
    pub num_blocks: u32,
    /// Tokens a KV block holds.
    pub block_size: u32,
    /// Tokens a step may compute.
    pub max_num_batched_tokens: u32,
    /// Requests that may run at once.
    pub max_num_seqs: u32,
    /// Prompt and output tokens a request may have.
    pub max_model_len: u32,
    /// Order of admission and of preemption.
    pub policy: SchedulingPolicy,
    /// Whether step N+1 is scheduled before the tokens of step N are known.
    pub async_scheduling: bool,
    /// Whether full blocks are kept for prompts that begin alike.
    pub enable_prefix_caching: bool,
    /// The most tokens of one request in a step while there are others; 0 is no limit.
    pub long_prefill_token_threshold: u32,
    /// Whether a request is only admitted if all its known tokens fit now.
    pub scheduler_reserve_full_isl: bool,
    /// Share of all blocks that an admission must leave free while others run, from 0 to below 1.
    pub watermark: f64,
}

/// A setting that cannot be, alone or beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFault {
    /// The setting.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// What it may be.
    pub expected: String,
}

impl fmt::Display for SettingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, expected {}", self.field, self.found, self.expected)
    }
}

impl Default for EngineConfig {
    /// The values that an oracle case leaves out (`docs/engines.md`). A small engine, not vLLM's own defaults.
    fn default() -> Self {
        EngineConfig {
            num_blocks: 101,
            block_size: 16,
            max_num_batched_tokens: 512,
            max_num_seqs: 16,
            max_model_len: 8192,
            policy: SchedulingPolicy::Fcfs,
            async_scheduling: false,
            enable_prefix_caching: true,
            long_prefill_token_threshold: 0,
            scheduler_reserve_full_isl: true,
            watermark: 0.0,
        }
    }
}

impl EngineConfig {
    /// The largest `num_blocks`: beyond what any replica's memory holds, and sums of a few of them stay inside 32 bits.
    pub const NUM_BLOCKS_MAX: u32 = 1 << 26;
    /// The largest count of tokens in any setting: sums of a few of them stay inside 32 bits.
    pub const TOKENS_MAX: u32 = 1 << 28;

    /// All faults. Empty if the settings are usable.
    #[must_use]
    pub fn check(&self) -> Vec<SettingFault> {
        let mut faults = Vec::new();
        let mut fault = |field, found: &dyn fmt::Display, expected| {
            faults.push(SettingFault { field, found: found.to_string(), expected });
        };
        let ranges = [
            ("num_blocks", self.num_blocks, 2, Self::NUM_BLOCKS_MAX),
            ("block_size", self.block_size, 1, Self::TOKENS_MAX),
            ("max_num_batched_tokens", self.max_num_batched_tokens, 1, Self::TOKENS_MAX),
            ("max_num_seqs", self.max_num_seqs, 1, Self::TOKENS_MAX),
            ("max_model_len", self.max_model_len, 2, Self::TOKENS_MAX),
            ("long_prefill_token_threshold", self.long_prefill_token_threshold, 0, Self::TOKENS_MAX),
        ];
        for (field, found, low, high) in ranges {
            if !(low..=high).contains(&found) {
                fault(field, &found, format!("{low} to {high}"));
            }
        }
        if self.max_num_batched_tokens < self.max_num_seqs {
            let expected = format!(
                "at least max_num_seqs ({}), so that every running request can decode in a step",
                self.max_num_seqs
            );
            fault("max_num_batched_tokens", &self.max_num_batched_tokens, expected);
        }
        if self.long_prefill_token_threshold > self.max_model_len {
            let expected = format!("at most max_model_len ({})", self.max_model_len);
            fault("long_prefill_token_threshold", &self.long_prefill_token_threshold, expected);
        }
        if !(0.0..1.0).contains(&self.watermark) {
            fault("watermark", &self.watermark, "0 to below 1".to_owned());
        }
        faults
    }

    /// Blocks that requests can have.
    #[must_use]
    pub fn usable_blocks(&self) -> u32 {
        self.num_blocks - 1
    }

    /// Blocks that an admission beside running requests must leave free.
    #[must_use]
    pub fn watermark_blocks(&self) -> u32 {
        (self.watermark * f64::from(self.num_blocks)) as u32
    }

    /// Steps that may be in flight at once.
    #[must_use]
    pub fn depth(&self) -> usize {
        if self.async_scheduling { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_usable() {
        assert_eq!(EngineConfig::default().check(), Vec::new());
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let config = EngineConfig {
            num_blocks: 1,
            block_size: 0,
            max_num_batched_tokens: 8,
            max_num_seqs: 9,
            max_model_len: 10,
            long_prefill_token_threshold: 11,
            watermark: f64::NAN,
            ..EngineConfig::default()
        };
        let faults = config.check();
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field).collect();
        assert_eq!(
            fields,
            [
                "num_blocks",
                "block_size",
                "max_num_batched_tokens",
                "long_prefill_token_threshold",
                "watermark"
            ]
        );
        assert_eq!(faults[0].to_string(), "num_blocks: found 1, expected 2 to 67108864");
    }

    #[test]
    fn the_watermark_is_a_share_of_all_blocks_rounded_down() {
        let blocks = |num_blocks, watermark| {
            EngineConfig { num_blocks, watermark, ..EngineConfig::default() }.watermark_blocks()
        };
        assert_eq!(blocks(21, 0.2), 4);
        assert_eq!(blocks(60, 0.05), 3);
        assert_eq!(blocks(101, 0.0), 0);
    }
}
