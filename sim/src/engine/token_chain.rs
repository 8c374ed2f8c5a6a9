//! What the tokens of one request are, as hashes of whole blocks: block i's hash stands for all tokens up to the
//! end of block i. No token is ever stored.

use scaleproof_pack::prompt::{Segment, TokenStream};

/// The blocks' hashes of one request, computed as they are asked for.
///
/// Equal token sequences have equal hashes however their prompts were cut into segments: a block is hashed as its
/// maximal runs of consecutive tokens of one stream, which a sequence determines.
#[derive(Clone, Debug)]
pub struct TokenChain {
    /// The prompt. The output follows it without end.
    prompt: Vec<Segment>,
    output: TokenStream,
    block_size: u32,
    hashes: Vec<u64>,
    /// Where the first block without a hash begins: a segment (the output if it is past the last) and tokens of it.
    segment: usize,
    offset: u32,
}

/// The hash before the first block.
const ROOT: u64 = 0x243F_6A88_85A3_08D3;

/// One bijective mixing step (the finaliser of the 64-bit SplitMix generator).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Adds a run of tokens to a hash. Injective in each argument while the others are fixed.
fn absorb(hash: u64, run: Segment) -> u64 {
    let named = mix(hash ^ run.stream.0.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mix(named.wrapping_add((u64::from(run.start) << 32) | u64::from(run.len)))
}

impl Default for TokenChain {
    fn default() -> Self {
        TokenChain::new(Vec::new(), TokenStream(0), 1)
    }
}

impl TokenChain {
    /// The chain of `prompt` followed by `output`, in blocks of `block_size` tokens (at least 1).
    #[must_use]
    pub fn new(prompt: Vec<Segment>, output: TokenStream, block_size: u32) -> TokenChain {
        TokenChain {
            prompt,
            output,
            block_size: block_size.max(1),
            hashes: Vec::new(),
            segment: 0,
            offset: 0,
        }
    }

    /// The same as `new`, keeping the allocation of the hashes.
    pub fn reset(&mut self, prompt: Vec<Segment>, output: TokenStream, block_size: u32) {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        *self = TokenChain { hashes, ..TokenChain::new(prompt, output, block_size) };
    }

    /// The hash of block `index`. The caller asks only for blocks whose tokens are known.
    pub fn hash(&mut self, index: u32) -> u64 {
        while self.hashes.len() <= index as usize {
            self.push_next();
        }
        self.hashes[index as usize]
    }

    fn push_next(&mut self) {
        let mut hash = self.hashes.last().copied().unwrap_or(ROOT);
        let mut missing = self.block_size;
        let mut run: Option<Segment> = None;
        while missing > 0 {
            let piece = self.take(missing);
            missing -= piece.len;
            match &mut run {
                _ if piece.len == 0 => {}
                Some(open)
                    if open.stream == piece.stream && open.start.wrapping_add(open.len) == piece.start =>
                {
                    open.len += piece.len;
                }
                Some(open) => {
                    hash = absorb(hash, *open);
                    *open = piece;
                }
                None => run = Some(piece),
            }
        }
        if let Some(open) = run {
            hash = absorb(hash, open);
        }
        self.hashes.push(hash);
    }

    /// Up to `limit` tokens of one segment from the cursor on; none at a segment's end.
    fn take(&mut self, limit: u32) -> Segment {
        let Some(&segment) = self.prompt.get(self.segment) else {
            let start = self.offset;
            self.offset = start.wrapping_add(limit);
            return Segment { stream: self.output, start, len: limit };
        };
        let len = limit.min(segment.len - self.offset);
        let piece = Segment { stream: segment.stream, start: segment.start.wrapping_add(self.offset), len };
        self.offset += len;
        if self.offset == segment.len {
            self.segment += 1;
            self.offset = 0;
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seg(stream: u64, start: u32, len: u32) -> Segment {
        Segment { stream: TokenStream::group(stream), start, len }
    }

    fn chain(prompt: &[Segment]) -> TokenChain {
        TokenChain::new(prompt.to_vec(), TokenStream::output(1), 16)
    }

    #[test]
    fn the_cut_into_segments_does_not_matter() {
        let mut whole = chain(&[seg(1, 0, 64)]);
        let mut cut = chain(&[seg(1, 0, 5), seg(1, 5, 0), seg(2, 9, 0), seg(1, 5, 27), seg(1, 32, 32)]);
        for block in 0..4 {
            assert_eq!(whole.hash(block), cut.hash(block));
        }
    }

    #[test]
    fn a_gap_and_a_swap_matter() {
        let mut plain = chain(&[seg(1, 0, 8), seg(2, 0, 8)]);
        assert_ne!(plain.hash(0), chain(&[seg(1, 0, 8), seg(2, 1, 8)]).hash(0));
        assert_ne!(plain.hash(0), chain(&[seg(2, 0, 8), seg(1, 0, 8)]).hash(0));
        assert_ne!(plain.hash(0), chain(&[seg(1, 0, 7), seg(2, 0, 9)]).hash(0));
    }

    #[test]
    fn an_output_sent_back_as_prompt_is_the_same_tokens() {
        let mut first = chain(&[seg(1, 0, 20)]);
        let answer = Segment { stream: TokenStream::output(1), start: 0, len: 28 };
        let mut second = TokenChain::new(vec![seg(1, 0, 20), answer], TokenStream::output(2), 16);
        assert_eq!(first.hash(2), second.hash(2));
        assert_ne!(first.hash(3), second.hash(3));
    }

    proptest! {
        /// Hashes agree exactly as long as the tokens do.
        #[test]
        fn hashes_agree_as_long_as_tokens_do(
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
            let mut one = TokenChain::new(left, TokenStream::output(1), block_size);
            let mut two = TokenChain::new(right, TokenStream::output(2), block_size);
            let blocks = a.len().min(b.len()) / block_size as usize;
            for block in 0..blocks as u32 {
                let equal = same >= (block as usize + 1) * block_size as usize;
                prop_assert_eq!(one.hash(block) == two.hash(block), equal);
            }
        }
    }
}
