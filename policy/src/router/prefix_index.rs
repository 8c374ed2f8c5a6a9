//! llm-d's approximate prefix index: the hashes of the blocks that were routed to each replica, the most recent of each.
//! A block's hash depends on all before it.

use super::{joined, mixed};
use scaleproof_pack::hash::IdMap;
use scaleproof_pack::prompt::Segment;
use std::collections::{BTreeMap, BTreeSet};

/// The chained hashes of a prompt's blocks of `block_tokens`, the last of them perhaps shorter; at most `max_blocks`.
#[must_use]
pub fn blocks(prompt: &[Segment], block_tokens: u32, max_blocks: u32) -> Vec<u64> {
    let mut hashes = Vec::new();
    let (mut hash, mut filled) = (0u64, 0u32);
    for run in joined(prompt) {
        let (mut start, mut left) = (run.start, run.len);
        while left > 0 && hashes.len() < max_blocks as usize {
            let taken = left.min(block_tokens - filled);
            hash = mixed(mixed(hash, run.stream.0), u64::from(start) << 32 | u64::from(taken));
            (start, left, filled) = (start + taken, left - taken, filled + taken);
            if filled == block_tokens {
                hashes.push(hash);
                filled = 0;
            }
        }
    }
    if filled > 0 && hashes.len() < max_blocks as usize {
        hashes.push(hash);
    }
    hashes
}

/// The index.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    lru_blocks: usize,
    /// Who was sent a block.
    owners: IdMap<u64, Vec<u32>>,
    replicas: BTreeMap<u32, Recent>,
    clock: u64,
}

/// The blocks of a replica, by their last use.
#[derive(Clone, Debug, Default)]
struct Recent {
    used_at: IdMap<u64, u64>,
    by_use: BTreeSet<(u64, u64)>,
}

impl PrefixIndex {
    /// An empty one that remembers so many blocks of each replica.
    #[must_use]
    pub fn new(lru_blocks: u32) -> PrefixIndex {
        PrefixIndex {
            lru_blocks: lru_blocks as usize,
            owners: IdMap::default(),
            replicas: BTreeMap::new(),
            clock: 0,
        }
    }

    /// The replicas that were sent the beginning of these blocks, each with how many of them.
    #[must_use]
    pub fn matches(&self, blocks: &[u64]) -> Vec<(u32, u32)> {
        let mut found: Vec<(u32, u32)> = Vec::new();
        for (depth, block) in (0u32..).zip(blocks) {
            let owners = self.owners.get(block).map_or(&[][..], Vec::as_slice);
            if depth == 0 {
                found = owners.iter().map(|&replica| (replica, 0)).collect();
            }
            let mut any = false;
            for (replica, matched) in &mut found {
                if *matched == depth && owners.contains(replica) {
                    *matched = depth + 1;
                    any = true;
                }
            }
            if !any {
                break;
            }
        }
        found
    }

    /// Notes that these blocks went to `replica`.
    pub fn insert(&mut self, blocks: &[u64], replica: u32) {
        let recent = self.replicas.entry(replica).or_default();
        for &block in blocks {
            self.clock += 1;
            match recent.used_at.insert(block, self.clock) {
                Some(before) => {
                    recent.by_use.remove(&(before, block));
                }
                None => {
                    let mut owners = self.owners.remove(&block).unwrap_or_default();
                    owners.push(replica);
                    self.owners.insert(block, owners);
                }
            }
            recent.by_use.insert((self.clock, block));
        }
        while recent.by_use.len() > self.lru_blocks {
            let Some((_, oldest)) = recent.by_use.pop_first() else { return };
            recent.used_at.remove(&oldest);
            let mut owners = self.owners.remove(&oldest).unwrap_or_default();
            owners.retain(|&owner| owner != replica);
            if !owners.is_empty() {
                self.owners.insert(oldest, owners);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scaleproof_pack::prompt::TokenStream;

    fn run(stream: u64, start: u32, len: u32) -> Segment {
        Segment { stream: TokenStream(stream), start, len }
    }

    #[test]
    fn equal_beginnings_have_equal_blocks_and_the_rest_differs() {
        let a = blocks(&[run(1, 0, 40), run(2, 0, 30)], 16, 256);
        let b = blocks(&[run(1, 0, 40), run(3, 0, 30)], 16, 256);
        assert_eq!((a.len(), b.len()), (5, 5), "70 tokens: four whole blocks and a part");
        assert_eq!(a[..2], b[..2]);
        assert!((2..5).all(|i| a[i] != b[i]));
        assert_eq!(blocks(&[run(1, 0, 160)], 16, 3).len(), 3);
        assert_eq!(blocks(&[run(1, 0, 9), run(1, 9, 31), run(2, 0, 30)], 16, 256), a);
        assert_ne!(blocks(&[run(1, 16, 16)], 16, 9), blocks(&[run(1, 0, 16)], 16, 9));
    }

    #[test]
    fn the_index_counts_from_the_beginning_and_forgets_the_oldest() {
        let mut index = PrefixIndex::new(4);
        index.insert(&[1, 2, 3], 0);
        index.insert(&[1, 2, 9], 5);
        assert_eq!(index.matches(&[1, 2, 3, 4]), [(0, 3), (5, 2)]);
        assert_eq!(index.matches(&[2, 3]), [(0, 2), (5, 1)]);
        index.insert(&[7, 8], 0);
        // Of 1, 2, 3, 7, 8 the first is the oldest.
        assert_eq!(index.matches(&[1, 2, 3]), [(5, 2)]);
    }
}
