//! A warm run begins with its shared prefixes in the cache: they are sent first, again and again, until the engine's
//! counters show that it has them.

use crate::scrape::{Fetch, read};
use crate::target::Target;
use bytes::Bytes;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::schedule::{PlannedList, Schedule};
use std::collections::BTreeMap;

/// Tokens of its own behind each prefix. An engine computes the last token of a prompt in any case, and a chat template
/// may take up some more: with fewer, the prefix itself would not be in the cache as a whole.
const OWN_TOKENS: u32 = 64;
/// A block of an engine that does not tell its size has at most so many tokens.
const BLOCK_MAX: u32 = 256;
/// A prefix is sent so often at most.
const PASSES_MAX: u32 = 8;
/// The share of the hits to expect that is enough.
const ENOUGH: f64 = 0.99;

/// The prompts that put every shared prefix of a schedule into a cache: the longest of each prefix group, with some
/// tokens of its own behind it. None for a schedule that shares nothing, or only what its own sessions and a trace's
/// blocks share: those are warmed up by themselves.
#[must_use]
pub fn prefixes(schedule: &Schedule) -> Vec<Vec<Segment>> {
    let mut longest: BTreeMap<u64, u32> = BTreeMap::new();
    for list in [&schedule.warmup, &schedule.measured] {
        for (group, len) in groups(list) {
            let known = longest.entry(group).or_default();
            *known = len.max(*known);
        }
    }
    let prompt = |(group, len): (u64, u32)| {
        let own = TokenStream::unique_warmup(TokenStream::VALUE_MAX - group.min(TokenStream::VALUE_MAX));
        vec![
            Segment { stream: TokenStream::group(group), start: 0, len },
            Segment { stream: own, start: 0, len: OWN_TOKENS },
        ]
    };
    longest.into_iter().filter(|(_, len)| *len > 0).map(prompt).collect()
}

/// The groups that prompts begin with, and how long.
fn groups(list: &PlannedList) -> impl Iterator<Item = (u64, u32)> {
    list.requests.iter().filter_map(|request| {
        let first = list.segments_of(request).first()?;
        Some((first.stream.as_group()?, first.start.saturating_add(first.len)))
    })
}

/// Where prefixes are sent to, and how.
pub struct Priming<'a, F> {
    /// Who asks.
    pub fetch: &'a F,
    /// Each gets every prefix, and its counters are read.
    pub replicas: &'a [Target],
    /// The endpoint's path.
    pub path: &'a str,
}

/// Sends every prefix to every replica, one after the other, until a whole pass found them in the caches, by the
/// replicas' own counters. `body` makes a request of a prompt; it should ask for one token. How often each was sent.
///
/// # Errors
/// If a replica cannot be asked or has no such counters, or the caches do not keep the prefixes.
pub async fn prime<F: Fetch>(
    priming: &Priming<'_, F>,
    prefixes: &[Vec<Segment>],
    mut body: impl FnMut(&[Segment]) -> Bytes,
) -> Result<u32, String> {
    if prefixes.is_empty() {
        return Ok(0);
    }
    let Caches { hits: mut before, block, blocks } = priming.caches().await?;
    let needed =
        prefixes.iter().flat_map(|prefix| prefix.iter().map(|part| u64::from(part.len.div_ceil(block))));
    let needed: u64 = needed.sum();
    if let Some(blocks) = blocks.filter(|blocks| needed > *blocks) {
        return Err(format!(
            "found {} prefixes of {needed} KV blocks; expected at most the {blocks} of a replica",
            prefixes.len()
        ));
    }
    let expected = expected_hits(prefixes, block).saturating_mul(priming.replicas.len() as u64);
    let mut found = 0;
    for pass in 1..=PASSES_MAX {
        for prefix in prefixes {
            for replica in priming.replicas {
                priming.fetch.fetch(replica, priming.path, Some(body(prefix))).await?;
            }
        }
        let after = priming.caches().await?.hits;
        found = after.saturating_sub(before);
        before = after;
        if found as f64 >= ENOUGH * expected as f64 {
            return Ok(pass);
        }
    }
    Err(format!(
        "found {found} tokens of the shared prefixes in the caches after sending them {PASSES_MAX} times; expected \
         {expected}; the caches may be off, or too small for {} prefixes",
        prefixes.len()
    ))
}

/// Tokens that are found if all prefixes are in the cache: whole blocks only.
fn expected_hits(prefixes: &[Vec<Segment>], block: u32) -> u64 {
    prefixes.iter().map(|prefix| u64::from(prefix[0].len / block * block)).sum()
}

/// What the replicas say of their prefix caches.
struct Caches {
    /// Of all of them, in tokens.
    hits: u64,
    /// Tokens of a block.
    block: u32,
    /// The smallest one's, where they say so.
    blocks: Option<u64>,
}

impl<F: Fetch> Priming<'_, F> {
    async fn caches(&self) -> Result<Caches, String> {
        let (mut hits, mut block, mut blocks) = (0_u64, None, None);
        for replica in self.replicas {
            let reading = read(self.fetch, replica).await?;
            let found = reading.prefix_hits.ok_or_else(|| {
                format!(
                    "{replica}: found no counter of prefix hits of {}; expected one, to see that a warm run is warm",
                    reading.dialect.engine()
                )
            })?;
            hits = hits.saturating_add(found);
            block = block.max(reading.block_size);
            blocks = [blocks, reading.num_blocks].into_iter().flatten().min();
        }
        Ok(Caches { hits, block: block.unwrap_or(BLOCK_MAX).max(1), blocks })
    }
}
