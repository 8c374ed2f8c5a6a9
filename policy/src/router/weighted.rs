//! Weighted scorers, as llm-d's endpoint picker has them: each replica gets the sum of its scores times their weights, the
//! highest is chosen, at random among equals. Queue and KV usage are as of the last poll (every 50 ms by default);
//! prefixes come from an index of what was routed.

use super::Router;
use super::prefix_index::PrefixIndex;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use rand::RngExt;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::{Fields, from_to};

/// Settings of [`Weighted`], with llm-d's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Weight of the queue score: (most - own) / (most - least) of the waiting requests; 1 if all are equal. 2.
    pub queue: f64,
    /// Weight of the KV score: the share of the KV cache that is free. 2.
    pub kv: f64,
    /// Weight of the prefix score: blocks of the prompt's beginning that were sent there, over all of its blocks. 3.
    pub prefix: f64,
    /// Tokens of a block of the prefix index. 16: llm-d's 64 characters.
    pub block_tokens: u32,
    /// Blocks of a prompt that are looked at. 256.
    pub max_blocks: u32,
    /// Blocks that the index remembers of a replica. 31,250.
    pub lru_blocks: u32,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Settings {
        let mut weight = |name, usual| fields.opt(name).f64(from_to(0.0, 1e6)).unwrap_or(usual);
        let (queue, kv, prefix) =
            (weight("queue_weight", 2.0), weight("kv_weight", 2.0), weight("prefix_weight", 3.0));
        Settings {
            queue,
            kv,
            prefix,
            block_tokens: fields.opt("block_tokens").u32(1..=65_536).unwrap_or(16),
            max_blocks: fields.opt("max_blocks").u32(1..=65_536).unwrap_or(256),
            lru_blocks: fields.opt("lru_blocks").u32(1..=100_000_000).unwrap_or(31_250),
        }
    }
}

/// Weighted scorers.
#[derive(Clone, Debug)]
pub struct Weighted {
    settings: Settings,
    index: PrefixIndex,
    /// Scores of the available replicas, in their order.
    scores: Vec<f64>,
}

impl Weighted {
    /// With an empty index.
    #[must_use]
    pub fn new(settings: Settings) -> Weighted {
        Weighted { settings, index: PrefixIndex::new(settings.lru_blocks), scores: Vec::new() }
    }

    /// Fills in the scores of queue and KV.
    fn score_loads(&mut self, fleet: &Fleet) {
        let waiting = |&replica: &u32| fleet.last_poll(replica).waiting;
        let least = fleet.available().iter().map(waiting).min().unwrap_or_default();
        let most = fleet.available().iter().map(waiting).max().unwrap_or_default();
        let score = |replica: &u32| {
            let poll = fleet.last_poll(*replica);
            let queue =
                if most == least { 1.0 } else { f64::from(most - poll.waiting) / f64::from(most - least) };
            self.settings.queue * queue + self.settings.kv * (1.0 - poll.kv_usage)
        };
        self.scores = fleet.available().iter().map(score).collect();
    }
}

impl Router for Weighted {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        self.score_loads(fleet);
        let blocks = if self.settings.prefix > 0.0 {
            super::prefix_index::blocks(
                &request.content.prompt(),
                self.settings.block_tokens,
                self.settings.max_blocks,
            )
        } else {
            Vec::new()
        };
        for (replica, matched) in self.index.matches(&blocks) {
            if let Ok(at) = fleet.available().binary_search(&replica) {
                self.scores[at] += self.settings.prefix * f64::from(matched) / blocks.len() as f64;
            }
        }
        let best = self.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let ties = self.scores.iter().filter(|&&score| score >= best).count() as u32;
        if ties == 0 {
            return None;
        }
        let nth = if ties > 1 { chance.random_range(0..ties) as usize } else { 0 };
        let at = self.scores.iter().enumerate().filter(|(_, score)| **score >= best).nth(nth)?.0;
        let replica = fleet.available()[at];
        self.index.insert(&blocks, replica);
        Some(replica)
    }
}
