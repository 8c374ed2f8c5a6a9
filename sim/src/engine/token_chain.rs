//! What the tokens of one request are, as names of whole blocks: block i's name stands for all tokens up to the end
//! of block i. No token is ever stored.
//!
//! A sequence of tokens is kept as its maximal runs of consecutive tokens of one stream, which it determines however
//! its prompt was cut into segments. So a block is named in one step, whatever lies before it.

use scaleproof_pack::prompt::{Segment, TokenStream};
use smallvec::SmallVec;

/// A maximal run of consecutive tokens of one stream. It reaches to the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Stands for all tokens before it.
    before: u64,
    stream: TokenStream,
    /// The index in the stream of its first token.
    start: u32,
    /// The position in the sequence of its first token.
    pub at: u32,
}

impl Run {
    /// Stands for all tokens up to position `end`, which lies in this run or at its end.
    pub fn name(&self, end: u32) -> u64 {
        absorb(self.before, self.stream, self.start, end - self.at)
    }
}

/// The blocks' names of one request.
#[derive(Clone, Debug)]
pub struct TokenChain {
    /// In order; the last one, of the output or joined with it, has no end. Mostly a prompt's own and its output.
    runs: SmallVec<[Run; 2]>,
    block_size: u32,
}

/// The name of no tokens.
const ROOT: u64 = 0x243F_6A88_85A3_08D3;

/// One bijective mixing step (the finaliser of the 64-bit SplitMix generator).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Adds a run of tokens to a name. Injective in each argument while the others are fixed.
fn absorb(name: u64, stream: TokenStream, start: u32, len: u32) -> u64 {
    let named = mix(name ^ stream.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mix(named.wrapping_add((u64::from(start) << 32) | u64::from(len)))
}

impl Default for TokenChain {
    fn default() -> Self {
        TokenChain::new(&[], TokenStream(0), 1)
    }
}

impl TokenChain {
    /// The chain of `prompt` followed by `output`, in blocks of `block_size` tokens (at least 1).
    #[must_use]
    pub fn new(prompt: &[Segment], output: TokenStream, block_size: u32) -> TokenChain {
        let mut chain = TokenChain { runs: SmallVec::new(), block_size: 1 };
        chain.reset(prompt, output, block_size);
        chain
    }

    /// The same as `new`, keeping the allocation.
    pub fn reset(&mut self, prompt: &[Segment], output: TokenStream, block_size: u32) {
        self.block_size = block_size.max(1);
        self.runs.clear();
        let mut at = 0;
        for segment in prompt.iter().filter(|segment| segment.len > 0) {
            self.append(segment.stream, segment.start, at);
            at = at.saturating_add(segment.len);
        }
        self.append(output, 0, at);
    }

    /// Goes on with `stream` from index `start` at position `at`.
    fn append(&mut self, stream: TokenStream, start: u32, at: u32) {
        let mut before = ROOT;
        if let Some(last) = self.runs.last() {
            if last.stream == stream && last.start.wrapping_add(at - last.at) == start {
                return;
            }
            before = last.name(at);
        }
        self.runs.push(Run { before, stream, start, at });
    }

    /// The name of block `index`.
    #[must_use]
    pub fn name(&self, index: u32) -> u64 {
        name_of(&self.runs, index, self.block_size)
    }

    /// The runs that overlap the blocks from `from` up to `to`.
    pub(super) fn runs(&self, from: u32, to: u32) -> &[Run] {
        let first = run_at(&self.runs, u64::from(from) * u64::from(self.block_size));
        let end = u64::from(to) * u64::from(self.block_size);
        let past = self.runs.partition_point(|run| u64::from(run.at) < end);
        &self.runs[first..past.max(first)]
    }

    /// How many blocks from block `from` on, to `to` at most, are the same in a sequence with the same tokens before
    /// them, of which `other` are the runs of those blocks.
    pub(super) fn common_blocks(&self, other: &[Run], from: u32, to: u32) -> u32 {
        let own = self.runs(from, to);
        let end = u64::from(to) * u64::from(self.block_size);
        let same = own.iter().zip(other).take_while(|(a, b)| a == b).count();
        // Where one of them ends or changes its stream first, the sequences part.
        let parts = own.get(same).into_iter().chain(other.get(same)).map(|run| u64::from(run.at)).min();
        let tokens = parts.unwrap_or(end).min(end);
        ((tokens / u64::from(self.block_size)) as u32).saturating_sub(from)
    }
}

/// The run in which the token at `position` lies.
fn run_at(runs: &[Run], position: u64) -> usize {
    runs.partition_point(|run| u64::from(run.at) <= position).saturating_sub(1)
}

/// The name of block `index` of a sequence with these runs around it.
pub(super) fn name_of(runs: &[Run], index: u32, block_size: u32) -> u64 {
    let end = (u64::from(index) + 1) * u64::from(block_size);
    let run = &runs[run_at(runs, end - 1)];
    run.name(end as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seg(stream: u64, start: u32, len: u32) -> Segment {
        Segment { stream: TokenStream::group(stream), start, len }
    }

    fn chain(prompt: &[Segment]) -> TokenChain {
        TokenChain::new(prompt, TokenStream::output(1), 16)
    }

    #[test]
    fn the_cut_into_segments_does_not_matter() {
        let whole = chain(&[seg(1, 0, 64)]);
        let cut = chain(&[seg(1, 0, 5), seg(1, 5, 0), seg(2, 9, 0), seg(1, 5, 27), seg(1, 32, 32)]);
        for block in 0..4 {
            assert_eq!(whole.name(block), cut.name(block));
        }
    }

    #[test]
    fn a_gap_and_a_swap_matter() {
        let plain = chain(&[seg(1, 0, 8), seg(2, 0, 8)]);
        assert_ne!(plain.name(0), chain(&[seg(1, 0, 8), seg(2, 1, 8)]).name(0));
        assert_ne!(plain.name(0), chain(&[seg(2, 0, 8), seg(1, 0, 8)]).name(0));
        assert_ne!(plain.name(0), chain(&[seg(1, 0, 7), seg(2, 0, 9)]).name(0));
    }

    #[test]
    fn an_output_sent_back_as_prompt_is_the_same_tokens() {
        let first = chain(&[seg(1, 0, 20)]);
        let answer = Segment { stream: TokenStream::output(1), start: 0, len: 28 };
        let second = TokenChain::new(&[seg(1, 0, 20), answer], TokenStream::output(2), 16);
        assert_eq!(first.name(2), second.name(2));
        assert_ne!(first.name(3), second.name(3));
    }

    proptest! {
        /// Names agree exactly as long as the tokens do.
        #[test]
        fn names_agree_as_long_as_tokens_do(
            left in prop::collection::vec((0_u64..3, 0_u32..4, 0_u32..6), 0..12),
            right in prop::collection::vec((0_u64..3, 0_u32..4, 0_u32..6), 0..12),
            block_size in 1_u32..6,
        ) {
            let segments = |parts: &[(u64, u32, u32)]| -> Vec<Segment> {
                parts.iter().map(|&(stream, start, len)| seg(stream, start, len)).collect()
            };
            let tokens = |prompt: &[Segment]| -> Vec<(TokenStream, u32)> {
                prompt.iter().flat_map(|s| (s.start..s.start + s.len).map(|i| (s.stream, i))).collect()
            };
            let (left, right) = (segments(&left), segments(&right));
            let (a, b) = (tokens(&left), tokens(&right));
            let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            let one = TokenChain::new(&left, TokenStream::output(1), block_size);
            let two = TokenChain::new(&right, TokenStream::output(2), block_size);
            let blocks = a.len().min(b.len()) / block_size as usize;
            for block in 0..blocks as u32 {
                let equal = same >= (block as usize + 1) * block_size as usize;
                prop_assert_eq!(one.name(block) == two.name(block), equal);
            }
        }
    }
}
