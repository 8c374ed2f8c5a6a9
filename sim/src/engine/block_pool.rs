//! The KV blocks of one engine: who holds them, which are free in what order, and which hold what prefix.
//!
//! A block is free (in the free queue, with or without content that a prompt may hit) or referenced by one or more
//! requests. Blocks are taken from the queue's head. A released block goes to the head if its content has no name
//! (nobody can hit it) and to the tail otherwise, so that the least recently used content is evicted first.

use super::token_chain::TokenChain;

/// No block: the null block is never free and never has content.
const NULL: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The name of its content, if `cached`.
    hash: u64,
    refs: u32,
    free_prev: u32,
    free_next: u32,
    /// Neighbours in the chain of its bucket, if `cached`.
    chain_prev: u32,
    chain_next: u32,
    cached: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    first: u32,
    last: u32,
}

/// The blocks one request holds, in the order of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    blocks: Vec<u32>,
    /// How many of them, from the first, have a name.
    registered: u32,
}

impl Holding {
    /// How many blocks it holds.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// The blocks a prompt hits. Valid until the pool changes.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    blocks: Vec<u32>,
    /// How many of them are free: taking them takes them out of the free queue.
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
    /// Block 0 is the null block; its links are the ends of the free queue.
    blocks: Vec<Block>,
    /// Blocks with content by the low bits of its hash, each chain in the order of registration. As many as blocks,
    /// so that chains are short.
    buckets: Vec<Bucket>,
    block_size: u32,
    free: u32,
    caching: bool,
    evictions: u64,
}

impl BlockPool {
    /// A pool of `num_blocks` (at least 1) blocks of `block_size` tokens (at least 1), the null block included. All
    /// are free, in order, without content. Without `caching` no block ever gets a name.
    #[must_use]
    pub fn new(num_blocks: u32, block_size: u32, caching: bool) -> BlockPool {
        let count = num_blocks.max(1);
        let blocks = (0..count)
            .map(|index| Block {
                free_prev: if index == 0 { count - 1 } else { index - 1 },
                free_next: if index + 1 == count { NULL } else { index + 1 },
                ..Block::default()
            })
            .collect();
        let buckets =
            if caching { vec![Bucket::default(); count.next_power_of_two() as usize] } else { Vec::new() };
        BlockPool { blocks, buckets, block_size: block_size.max(1), free: count - 1, caching, evictions: 0 }
    }

    /// Blocks that can be allocated.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks whose content was dropped to give them to another request, so far.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// The longest run of cached blocks that `chain` begins with, within its first `tokens` tokens, into `hit`.
    pub fn lookup(&self, chain: &mut TokenChain, tokens: u32, hit: &mut Hit) {
        *hit = Hit { blocks: std::mem::take(&mut hit.blocks), ..Hit::default() };
        hit.blocks.clear();
        if !self.caching {
            return;
        }
        for index in 0..tokens / self.block_size {
            let Some(block) = self.find(chain.hash(index)) else { return };
            hit.blocks.push(block);
            hit.unreferenced += u32::from(self.blocks[block as usize].refs == 0);
            hit.tokens += self.block_size;
        }
    }

    /// Whether a request that takes `hit` can grow to `tokens` tokens and leave `spare` blocks free.
    #[must_use]
    pub fn fits(&self, hit: &Hit, tokens: u32, spare: u32) -> bool {
        let blocks = tokens.saturating_sub(hit.tokens).div_ceil(self.block_size);
        u64::from(blocks) + u64::from(hit.unreferenced) + u64::from(spare) <= u64::from(self.free)
    }

    /// Gives `holding`, which must be empty, the blocks of `hit`.
    pub fn adopt(&mut self, holding: &mut Holding, hit: &Hit) {
        debug_assert!(holding.is_empty(), "a request hits once, before it has blocks");
        for &block in &hit.blocks {
            if self.blocks[block as usize].refs == 0 {
                self.unlink_free(block);
            }
            self.blocks[block as usize].refs += 1;
        }
        holding.blocks.extend_from_slice(&hit.blocks);
        holding.registered = holding.len();
    }

    /// Gives `holding` blocks for its first `tokens` tokens, as far as it lacks them, from the head of the queue,
    /// evicting what they held. False, and nothing changes, if too few are free.
    #[must_use]
    pub fn grow(&mut self, holding: &mut Holding, tokens: u32) -> bool {
        // Most decode steps stay inside the last block.
        u64::from(tokens) <= self.tokens_of(holding.len())
            || self.take(holding, tokens.div_ceil(self.block_size) - holding.len())
    }

    fn take(&mut self, holding: &mut Holding, count: u32) -> bool {
        if count > self.free {
            return false;
        }
        for _ in 0..count {
            let block = self.blocks[NULL as usize].free_next;
            self.unlink_free(block);
            if self.blocks[block as usize].cached {
                self.forget(block);
                self.evictions += 1;
            }
            self.blocks[block as usize].refs = 1;
            holding.blocks.push(block);
        }
        true
    }

    /// Names the content of the blocks of `holding` that its first `tokens` tokens fill, as far as they have no name
    /// yet, so that others can hit them. Several blocks may get the same name; `lookup` gives the first of them.
    pub fn register(&mut self, holding: &mut Holding, chain: &mut TokenChain, tokens: u32) {
        if !self.caching || u64::from(tokens) < self.tokens_of(holding.registered + 1) {
            return;
        }
        for index in holding.registered..holding.len().min(tokens / self.block_size) {
            self.name(holding.blocks[index as usize], chain.hash(index));
            holding.registered = index + 1;
        }
    }

    fn tokens_of(&self, blocks: u32) -> u64 {
        u64::from(blocks) * u64::from(self.block_size)
    }

    /// Takes all blocks of `holding` back, its last block first.
    pub fn release(&mut self, holding: &mut Holding) {
        let mut front = NULL;
        while let Some(block) = holding.blocks.pop() {
            let state = &mut self.blocks[block as usize];
            state.refs -= 1;
            if state.refs > 0 {
                continue;
            }
            if state.cached {
                let last = self.blocks[NULL as usize].free_prev;
                self.link_free_after(last, block);
            } else {
                // Blocks without a name go to the head in the order of their release.
                self.link_free_after(front, block);
                front = block;
            }
        }
        holding.registered = 0;
    }

    fn link_free_after(&mut self, previous: u32, block: u32) {
        let next = self.blocks[previous as usize].free_next;
        self.blocks[previous as usize].free_next = block;
        self.blocks[next as usize].free_prev = block;
        let state = &mut self.blocks[block as usize];
        state.free_prev = previous;
        state.free_next = next;
        self.free += 1;
    }

    fn unlink_free(&mut self, block: u32) {
        let Block { free_prev, free_next, .. } = self.blocks[block as usize];
        self.blocks[free_prev as usize].free_next = free_next;
        self.blocks[free_next as usize].free_prev = free_prev;
        self.free -= 1;
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn find(&self, hash: u64) -> Option<u32> {
        let mut block = self.buckets[self.bucket(hash)].first;
        while block != NULL {
            let state = &self.blocks[block as usize];
            if state.hash == hash {
                return Some(block);
            }
            block = state.chain_next;
        }
        None
    }

    fn name(&mut self, block: u32, hash: u64) {
        let bucket = self.bucket(hash);
        let last = self.buckets[bucket].last;
        let state = &mut self.blocks[block as usize];
        state.hash = hash;
        state.cached = true;
        state.chain_prev = last;
        state.chain_next = NULL;
        match last {
            NULL => self.buckets[bucket].first = block,
            _ => self.blocks[last as usize].chain_next = block,
        }
        self.buckets[bucket].last = block;
    }

    fn forget(&mut self, block: u32) {
        let state = &mut self.blocks[block as usize];
        state.cached = false;
        let (hash, previous, next) = (state.hash, state.chain_prev, state.chain_next);
        let bucket = self.bucket(hash);
        match previous {
            NULL => self.buckets[bucket].first = next,
            _ => self.blocks[previous as usize].chain_next = next,
        }
        match next {
            NULL => self.buckets[bucket].last = previous,
            _ => self.blocks[next as usize].chain_prev = previous,
        }
    }
}

#[cfg(test)]
mod tests;
