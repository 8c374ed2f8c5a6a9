//! Token ids as the scheduler knows tokens: runs of named streams (`pack::prompt`), such that two prompts share the
//! blocks whose tokens, and all tokens before them, are the same, and no others.
//!
//! A full block of a prompt is a stream of its own, named by the hash of all tokens up to its end. An answer is one
//! stream, in the engine, from its first token on. So that a prompt which quotes an answer hits its blocks, the blocks
//! that answers filled are remembered by that same hash, and a prompt with such a block names the answer's stream.

use scaleproof_pack::hash::IdMap;
use scaleproof_pack::prompt::{Segment, TokenStream};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

/// What one replica's answers were.
pub struct Contents {
    block_size: usize,
    /// Counts the times the cache was emptied: contents of before have other names.
    epoch: u64,
    /// The segments of blocks that answers filled, by the hash of all tokens up to their end.
    answered: IdMap<u64, Vec<Segment>>,
    /// Their hashes, oldest first.
    order: VecDeque<u64>,
    /// How many are remembered. No more than the pool's blocks can be cached at once; those asked for again and again
    /// may be older.
    remembered_max: usize,
}

/// Where a prompt ends, and its answer begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptEnd {
    /// The hash of all tokens in full blocks.
    blocks: u64,
    /// The tokens after them.
    tail: Vec<u32>,
    /// Their stream.
    tail_stream: TokenStream,
}

impl PromptEnd {
    /// Stands for the whole prompt.
    #[must_use]
    pub fn key(&self) -> u64 {
        hash(self.blocks, &self.tail)
    }
}

/// The hash of what `before` stands for, and `tokens` after it.
fn hash(before: u64, tokens: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(before);
    tokens.iter().for_each(|&token| hasher.write_u32(token));
    hasher.finish()
}

impl Contents {
    /// For a pool of `num_blocks` blocks of `block_size` tokens.
    #[must_use]
    pub fn new(num_blocks: u32, block_size: u32) -> Contents {
        Contents {
            block_size: block_size.max(1) as usize,
            epoch: 0,
            answered: IdMap::default(),
            order: VecDeque::new(),
            remembered_max: 4 * num_blocks as usize,
        }
    }

    /// From now on nothing of before can be hit.
    pub fn forget(&mut self) {
        self.epoch += 1;
        self.answered = IdMap::default();
        self.order.clear();
    }

    /// A prompt as the engine takes it, and its end. Prompts with different `salt` share nothing.
    #[must_use]
    pub fn prompt(&self, salt: &str, tokens: &[u32]) -> (Vec<Segment>, PromptEnd) {
        let mut root = DefaultHasher::new();
        root.write(salt.as_bytes());
        let mut before = root.finish();
        let blocks = tokens.chunks_exact(self.block_size);
        let tail = blocks.remainder();
        let mut segments = Vec::with_capacity(tokens.len() / self.block_size + 1);
        for block in blocks {
            before = hash(before, block);
            match self.answered.get(&before) {
                Some(known) => segments.extend_from_slice(known),
                None => segments.push(whole(self.stream(before), block.len())),
            }
        }
        let end =
            PromptEnd { blocks: before, tail: tail.to_vec(), tail_stream: self.stream(hash(before, tail)) };
        segments.extend((!tail.is_empty()).then(|| whole(end.tail_stream, tail.len())));
        (segments, end)
    }

    /// Remembers the blocks that an answer filled: `tokens` after `end`, in the engine the stream `output`.
    pub fn answered(&mut self, end: &PromptEnd, output: TokenStream, tokens: impl Iterator<Item = u32>) {
        let PromptEnd { mut blocks, tail, tail_stream } = end.clone();
        let mut block = tail;
        let mut own = block.len();
        let mut start = 0;
        for token in tokens {
            block.push(token);
            if block.len() < self.block_size {
                continue;
            }
            blocks = hash(blocks, &block);
            let len = (self.block_size - own) as u32;
            let mut segments = Vec::with_capacity(2);
            segments.extend((own > 0).then(|| whole(tail_stream, own)));
            segments.push(Segment { stream: output, start, len });
            self.remember(blocks, segments);
            start += len;
            own = 0;
            block.clear();
        }
    }

    /// The first answer with a content gives it its name: later prompts then agree with earlier ones.
    fn remember(&mut self, key: u64, segments: Vec<Segment>) {
        if self.answered.get(&key).is_some() {
            return;
        }
        self.answered.insert(key, segments);
        self.order.push_back(key);
        if self.order.len() > self.remembered_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.answered.remove(&oldest);
        }
    }

    fn stream(&self, content: u64) -> TokenStream {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(content);
        hasher.write_u64(self.epoch);
        TokenStream::trace_block(hasher.finish() & TokenStream::VALUE_MAX)
    }
}

fn whole(stream: TokenStream, len: usize) -> Segment {
    Segment { stream, start: 0, len: len as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scaleproof_sim::engine::token_chain::TokenChain;

    /// How many blocks two prompts share, as the engine sees it.
    fn shared(contents: &Contents, left: &[u32], right: &[u32]) -> u32 {
        let chain = |tokens: &[u32], request| {
            TokenChain::new(&contents.prompt("", tokens).0, TokenStream::output(request), 16)
        };
        let (left, right) = (chain(left, 1), chain(right, 2));
        (0..).take_while(|&block| left.name(block) == right.name(block)).count() as u32
    }

    fn tokens(range: std::ops::Range<u32>) -> Vec<u32> {
        range.map(|index| 1000 + index * 7).collect()
    }

    #[test]
    fn prompts_share_the_blocks_that_are_the_same_and_no_others() {
        let contents = Contents::new(100, 16);
        let one = tokens(0..500);
        for same in [0, 1, 15, 16, 17, 383, 384, 399, 400] {
            let mut other = one.clone();
            other[same..].iter_mut().for_each(|token| *token += 1);
            assert_eq!(shared(&contents, &one, &other), same as u32 / 16, "{same} tokens the same");
        }
        let mut shifted = one.clone();
        shifted.rotate_left(16);
        assert_eq!(shared(&contents, &one, &shifted), 0, "the same blocks after other ones");
    }

    #[test]
    fn a_quoted_answer_has_the_names_of_the_answer() {
        let mut contents = Contents::new(100, 16);
        let prompt = tokens(0..40);
        let (segments, end) = contents.prompt("", &prompt);
        let first = TokenChain::new(&segments, TokenStream::output(5), 16);
        let answer = tokens(900..950);
        contents.answered(&end, TokenStream::output(5), answer.iter().copied());
        let quoting = [prompt, answer, tokens(2000..2100)].concat();
        let (segments, _) = contents.prompt("", &quoting);
        let second = TokenChain::new(&segments, TokenStream::output(6), 16);
        assert_eq!(segments.iter().map(|s| s.len).sum::<u32>(), 190);
        for block in 0..5 {
            assert_eq!(first.name(block), second.name(block), "block {block} of 90 tokens");
        }
        assert_ne!(first.name(5), second.name(5));
    }

    #[test]
    fn salt_and_reset_part_what_is_the_same() {
        let mut contents = Contents::new(100, 16);
        let prompt = tokens(0..64);
        let (plain, end) = contents.prompt("", &prompt);
        let (salted, salted_end) = contents.prompt("a", &prompt);
        assert_ne!(plain, salted);
        assert_ne!(end.key(), salted_end.key());
        contents.forget();
        let (after, end_after) = contents.prompt("", &prompt);
        assert_ne!(plain, after);
        assert_eq!(end.key(), end_after.key(), "the answer stays the same");
    }

    #[test]
    fn memory_is_bounded() {
        let mut contents = Contents::new(2, 16);
        let (_, end) = contents.prompt("", &[]);
        contents.answered(&end, TokenStream::output(1), tokens(0..16 * 100).into_iter());
        assert_eq!(contents.order.len(), 8);
    }
}
