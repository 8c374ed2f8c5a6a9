//! vllm-router's `cache_aware` (SGLang's gateway has the same rules): while the loads are balanced, the replica that was
//! sent the longest beginning of this prompt; else, and without a match long enough, the least loaded one.
//!
//! Matches in tokens, where the original matches characters: with four characters a token `max_tree_tokens` is its
//! `max_tree_size` of 2^26. Load is the router's own count.

use super::least_outstanding::LeastOutstanding;
use super::prefix_tree::PrefixTree;
use super::{Router, joined};
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::{Fields, above, from_to};
use scaleproof_pack::time::Nanos;

/// Settings of [`CacheAware`], with the defaults of the routers' command lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// A match counts if it is more than this share of the prompt. 0.3.
    pub cache_threshold: f64,
    /// The loads are unbalanced if the greatest exceeds the least by more than this. 64.
    pub balance_abs: u32,
    /// ... and is more than this many times the least. 1.5.
    pub balance_rel: f64,
    /// Tokens of the tree for a replica. 2^24.
    pub max_tree_tokens: u64,
    /// What exceeds that is evicted this often. vllm-router: 120 s.
    pub eviction_interval: Nanos,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Settings {
        let interval_s = fields.opt("eviction_interval_seconds").f64(above(0.0, 1e7)).unwrap_or(120.0);
        Settings {
            cache_threshold: fields.opt("cache_threshold").f64(from_to(0.0, 1.0)).unwrap_or(0.3),
            balance_abs: fields.opt("balance_abs_threshold").u32(0..=u32::MAX).unwrap_or(64),
            balance_rel: fields.opt("balance_rel_threshold").f64(from_to(1.0, 1e6)).unwrap_or(1.5),
            max_tree_tokens: fields.opt("max_tree_tokens").u64(1..=u64::MAX).unwrap_or(1 << 24),
            eviction_interval: Nanos::from_seconds(interval_s).unwrap_or(Nanos(120_000_000_000)),
        }
    }
}

/// Cache-aware routing by an approximate prefix tree.
#[derive(Clone, Debug)]
pub struct CacheAware {
    settings: Settings,
    tree: PrefixTree,
    least: LeastOutstanding,
    evicted_at: Nanos,
}

impl CacheAware {
    /// With an empty tree.
    #[must_use]
    pub fn new(settings: Settings) -> CacheAware {
        let (tree, least) = (PrefixTree::default(), LeastOutstanding::default());
        CacheAware { settings, tree, least, evicted_at: Nanos::ZERO }
    }

    fn unbalanced(&self, fleet: &Fleet) -> bool {
        let Some((least, most)) = fleet.load_range() else { return false };
        most - least > self.settings.balance_abs
            && f64::from(most) > self.settings.balance_rel * f64::from(least)
    }
}

impl Router for CacheAware {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        if request.now.since(self.evicted_at) >= self.settings.eviction_interval {
            self.tree.evict(self.settings.max_tree_tokens);
            self.evicted_at = request.now;
        }
        let prompt = joined(&request.content.prompt());
        let enough = self.settings.cache_threshold * f64::from(request.input_tokens);
        let matched = if self.unbalanced(fleet) { None } else { self.tree.longest(&prompt) };
        let replica = match matched.filter(|&(tokens, _)| tokens as f64 > enough) {
            Some((_, replica)) if fleet.is_available(replica) => replica,
            Some((_, gone)) => {
                self.tree.forget(gone);
                *fleet.available().first()?
            }
            None => self.least.choose(request, fleet, chance)?,
        };
        self.tree.insert(&prompt, replica, request.now);
        Some(replica)
    }
}
