//! What is sent as a prompt.

use scaleproof_pack::prompt::Segment;

/// A prompt as the endpoint takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}

/// Turns the segments of a request's prompt into what is sent: prompts share exactly what their segments share.
pub trait PromptMaker: Send {
    /// The prompt of these segments.
    fn prompt(&mut self, segments: &[Segment]) -> Prompt;

    /// From now on other prompts for the same segments, which share the same among themselves and nothing with earlier
    /// ones. Another `salt` gives others.
    fn renew(&mut self, salt: u64);
}

/// Token ids that are a function of stream and index, of a run's own salt, and of nothing else.
#[derive(Clone, Copy, Debug)]
pub struct HashedTokens {
    /// Ids are from [`HashedTokens::FIRST`] to below this.
    pub vocabulary: u32,
    /// Another salt gives other prompts: none that an earlier run left in a cache.
    pub salt: u64,
}

impl HashedTokens {
    /// The first id: those below it are special in most vocabularies.
    pub const FIRST: u32 = 4;
    /// Ids below this are ordinary ones of nearly every vocabulary; further up may stand such as mean an image.
    pub const VOCABULARY: u32 = 4096;

    pub(crate) fn token(&self, stream: u64, index: u32) -> u32 {
        let mixed = mix(mix(stream ^ self.salt) ^ u64::from(index));
        let span = u64::from(self.vocabulary.saturating_sub(Self::FIRST).max(1));
        Self::FIRST + (mixed % span) as u32
    }
}

impl PromptMaker for HashedTokens {
    fn prompt(&mut self, segments: &[Segment]) -> Prompt {
        let len = segments.iter().map(|segment| segment.len as usize).sum();
        let mut tokens = Vec::with_capacity(len);
        for segment in segments {
            tokens.extend(
                (0..segment.len).map(|i| self.token(segment.stream.0, segment.start.saturating_add(i))),
            );
        }
        Prompt::Tokens(tokens)
    }

    fn renew(&mut self, salt: u64) {
        self.salt = salt;
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scaleproof_pack::prompt::TokenStream;

    #[test]
    fn prompts_share_what_their_segments_share() {
        let mut maker = HashedTokens { vocabulary: 4096, salt: 7 };
        let segment = |stream, start, len| Segment { stream, start, len };
        let shared = segment(TokenStream::group(1), 0, 100);
        let mut tokens = |segments: &[Segment]| match maker.prompt(segments) {
            Prompt::Tokens(tokens) => tokens,
            Prompt::Text(_) => panic!(),
        };
        let a = tokens(&[shared, segment(TokenStream::unique(1), 0, 30)]);
        let b = tokens(&[shared, segment(TokenStream::unique(2), 0, 30)]);
        assert_eq!((a.len(), &a[..100]), (130, &b[..100]));
        assert_ne!(a[100..], b[100..]);
        assert_eq!(tokens(&[segment(TokenStream::group(1), 40, 60)]), a[40..100]);
        assert!(a.iter().all(|token| (4..4096).contains(token)));
    }
}
