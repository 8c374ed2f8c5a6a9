//! What a prompt is made of, as far as a prefix cache can tell: runs of tokens of named endless streams.
//!
//! Two tokens are equal exactly if they have the same stream and the same index in it. Real text is not needed
//! to know which blocks two prompts share.

/// An endless stream of tokens, named by what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenStream(pub u64);

impl TokenStream {
    const KIND_SHIFT: u32 = 56;
    /// The greatest number of a request, a group or a block.
    pub const VALUE_MAX: u64 = (1 << Self::KIND_SHIFT) - 1;

    fn of(kind: u64, value: u64) -> TokenStream {
        debug_assert!(value <= Self::VALUE_MAX, "stream value {value} too large");
        TokenStream((kind << Self::KIND_SHIFT) | value)
    }

    /// Tokens that only this measured request has.
    #[must_use]
    pub fn unique(request: u64) -> TokenStream {
        Self::of(1, request)
    }

    /// Tokens that only this warm-up request has.
    #[must_use]
    pub fn unique_warmup(request: u64) -> TokenStream {
        Self::of(2, request)
    }

    /// The output of a request.
    #[must_use]
    pub fn output(request: u64) -> TokenStream {
        Self::of(3, request)
    }

    /// The output of a warm-up request.
    #[must_use]
    pub fn output_warmup(request: u64) -> TokenStream {
        Self::of(4, request)
    }

    /// Whether it is the output of a request.
    #[must_use]
    pub fn is_output(self) -> bool {
        matches!(self.0 >> Self::KIND_SHIFT, 3 | 4)
    }

    /// A shared prefix group.
    #[must_use]
    pub fn group(group: u64) -> TokenStream {
        Self::of(5, group)
    }

    /// The number of the prefix group that this stream is of.
    #[must_use]
    pub fn as_group(self) -> Option<u64> {
        let number = self.0 & Self::VALUE_MAX;
        (self == Self::group(number)).then_some(number)
    }

    /// A block of a trace, named by its hash id there.
    #[must_use]
    pub fn trace_block(hash_id: u64) -> TokenStream {
        Self::of(6, hash_id)
    }
}

/// `len` tokens of `stream` from index `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Which stream.
    pub stream: TokenStream,
    /// First index.
    pub start: u32,
    /// How many tokens.
    pub len: u32,
}
