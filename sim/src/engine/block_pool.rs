//! The KV blocks of one engine: who holds them, which are free in what order, and which hold what prefix.
//!
//! A block is free (with or without content that a prompt may hit) or referenced by one or more requests. Free blocks
//! are taken from a queue's head. A released block goes to the head if its content has no name (nobody can hit it) and
//! to the tail otherwise, so that the least recently used content is evicted first.
//!
//! Which block it is makes no difference to anybody, so blocks have no numbers here: those without a name, which are
//! always the first in the queue, are counted, and named ones are kept as runs (`tree`). What a request does to the
//! pool costs the same however many blocks it concerns.

mod tree;

use super::token_chain::TokenChain;
use smallvec::SmallVec;
use tree::{CopyId, NULL, Tree};

/// The blocks one request holds, in the order of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    len: u32,
    /// How many of them, from the first, have a name.
    registered: u32,
    /// Where the named ones are: a copy, and all that was ever cut off its end up to that block.
    parts: SmallVec<[(CopyId, u32); 2]>,
}

impl Holding {
    /// How many blocks it holds.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The blocks a prompt hits. Valid until the pool changes.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    /// Copies, and where the hit ends in each.
    parts: Vec<(CopyId, u32)>,
    /// How many of its blocks are free: taking them takes them out of the free queue.
    unreferenced: u32,
    tokens: u32,
}

impl Hit {
    /// How many tokens it saves: those of whole blocks.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.tokens
    }
}

/// The pool.
#[derive(Clone, Debug)]
pub struct BlockPool {
    tree: Tree,
    block_size: u32,
    free: u32,
    /// Of those, the ones without a name.
    nameless: u32,
    /// Of the free ones, how many nobody may take.
    withheld: u32,
    caching: bool,
    evictions: u64,
    /// Scratch of a release.
    copies: Vec<CopyId>,
}

impl BlockPool {
    /// A pool of `num_blocks` (at least 1) blocks of `block_size` tokens (at least 1), the null block included. All
    /// are free, without content. Without `caching` no block ever gets a name.
    #[must_use]
    pub fn new(num_blocks: u32, block_size: u32, caching: bool) -> BlockPool {
        let (free, block_size) = (num_blocks.max(1) - 1, block_size.max(1));
        BlockPool {
            tree: Tree::new(block_size),
            block_size,
            free,
            nameless: free,
            withheld: 0,
            caching,
            evictions: 0,
            copies: Vec::new(),
        }
    }

    /// Blocks that can be allocated.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free.saturating_sub(self.withheld)
    }

    /// Keeps so many of the free blocks back from now on, fewer while fewer are free: a smaller pool in which nobody
    /// loses what it has.
    pub fn withhold(&mut self, blocks: u32) {
        self.withheld = blocks;
    }

    /// Blocks that are not free, whether or not some are withheld.
    #[must_use]
    pub fn used_of(&self, usable: u32) -> u32 {
        usable - self.free
    }

    /// Blocks whose content was dropped to give them to another request, so far.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The longest run of cached blocks that `chain` begins with, within its first `tokens` tokens, into `hit`.
    pub fn lookup(&self, chain: &TokenChain, tokens: u32, hit: &mut Hit) {
        hit.parts.clear();
        (hit.unreferenced, hit.tokens) = (0, 0);
        let blocks = if self.caching { tokens / self.block_size } else { 0 };
        let mut from = 0;
        while from < blocks
            && let Some((copy, end)) = self.tree.find(chain, from, blocks)
        {
            hit.parts.push((copy, end));
            if self.tree.refs(copy) == 0 {
                hit.unreferenced += end - from;
            }
            from = end;
            if end < self.tree.span(copy).1 {
                break;
            }
        }
        hit.tokens = from * self.block_size;
    }

    /// Whether a request that takes `hit` can grow to `tokens` tokens and leave `spare` blocks free.
    #[must_use]
    pub fn fits(&self, hit: &Hit, tokens: u32, spare: u32) -> bool {
        let blocks = tokens.saturating_sub(hit.tokens).div_ceil(self.block_size);
        u64::from(blocks) + u64::from(hit.unreferenced) + u64::from(spare) <= u64::from(self.free())
    }

    /// Gives `holding`, which must be empty, the blocks of `hit`.
    pub fn adopt(&mut self, holding: &mut Holding, hit: &Hit) {
        debug_assert!(holding.is_empty(), "a request hits once, before it has blocks");
        for &(copy, end) in &hit.parts {
            if end < self.tree.span(copy).1 {
                self.tree.split(copy, end);
            }
            if self.tree.hold(copy) {
                self.free -= self.tree.len(copy);
            }
            holding.len = end;
        }
        holding.parts.extend_from_slice(&hit.parts);
        holding.registered = holding.len;
    }

    /// How many blocks `holding` lacks for its first `tokens` tokens.
    #[must_use]
    pub fn lacking(&self, holding: &Holding, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size).saturating_sub(holding.len)
    }

    /// Gives `holding` blocks for its first `tokens` tokens, as far as it lacks them, from the head of the queue,
    /// evicting what they held. False, and nothing changes, if too few are free.
    #[must_use]
    pub fn grow(&mut self, holding: &mut Holding, tokens: u32) -> bool {
        let count = self.lacking(holding, tokens);
        let fits = self.take(count);
        if fits {
            holding.len += count;
        }
        fits
    }

    /// Takes blocks for holdings that will be told later ([`BlockPool::hand_over`]). False, and nothing changes, if
    /// too few are free.
    #[must_use]
    pub fn take(&mut self, count: u32) -> bool {
        if count > self.free() {
            return false;
        }
        self.free -= count;
        let nameless = count.min(self.nameless);
        self.nameless -= nameless;
        let mut named = count - nameless;
        self.evictions += u64::from(named);
        while named > 0 {
            named -= self.tree.evict(named);
        }
        true
    }

    /// Tells `holding` that of the blocks taken it has those that it lacks for its first `tokens` tokens.
    pub fn hand_over(&self, holding: &mut Holding, tokens: u32) {
        holding.len += self.lacking(holding, tokens);
    }

    /// Names the content of the blocks of `holding` that its first `tokens` tokens fill, as far as they have no name
    /// yet, so that others can hit them. Several blocks may get the same name; `lookup` gives the first of them.
    pub fn register(&mut self, holding: &mut Holding, chain: &TokenChain, tokens: u32) {
        if !self.caching {
            return;
        }
        let to = holding.len.min(tokens / self.block_size);
        while holding.registered < to {
            let tail = self.tail(holding);
            let (copy, end) = self.tree.insert(chain, tail, holding.registered, to);
            match holding.parts.last_mut() {
                Some(part) if copy == tail => part.1 = end,
                _ => holding.parts.push((copy, end)),
            }
            holding.registered = end;
        }
    }

    /// The copy in which the last named block of `holding` is.
    fn tail(&self, holding: &Holding) -> CopyId {
        let Some(&(mut copy, end)) = holding.parts.last() else { return NULL };
        while self.tree.span(copy).1 < end {
            copy = self.tree.rest(copy);
        }
        copy
    }

    /// Takes all blocks of `holding` back, its last block first.
    pub fn release(&mut self, holding: &mut Holding) {
        let nameless = holding.len - holding.registered;
        self.nameless += nameless;
        self.free += nameless;
        let mut copies = std::mem::take(&mut self.copies);
        for &(mut copy, end) in &holding.parts {
            copies.push(copy);
            while self.tree.span(copy).1 < end {
                copy = self.tree.rest(copy);
                copies.push(copy);
            }
        }
        while let Some(copy) = copies.pop() {
            if self.tree.let_go(copy) {
                self.free += self.tree.len(copy);
            }
        }
        self.copies = copies;
        holding.parts.clear();
        (holding.len, holding.registered) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
