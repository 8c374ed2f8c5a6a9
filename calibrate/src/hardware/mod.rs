//! What a prediction from physics rests on: GPUs by their data sheets, dense decoders by their shapes, and how the
//! memory of a GPU is divided. The shipped catalogue is models/gpus and models/architectures, embedded.

pub mod architecture;
mod catalogue;
pub mod gpu;
mod huggingface;
pub mod memory;

pub use catalogue::Found;

use scaleproof_pack::fields::word_of;

/// A format of numbers, of weights or of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// 16 bits; FP16 has the same size and the same peak.
    Bf16,
    /// 8-bit floating point.
    Fp8,
    /// 8-bit integers.
    Int8,
    /// 4-bit floating point with an FP8 scale for each 16 (NVFP4).
    Fp4,
}

impl Precision {
    /// Each with its word in files and options.
    pub const WORDS: [(&'static str, Precision); 4] = [
        ("bf16", Precision::Bf16),
        ("fp8", Precision::Fp8),
        ("int8", Precision::Int8),
        ("fp4", Precision::Fp4),
    ];

    /// The word in files and options.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }

    /// Bytes that `count` numbers take, their block scales included, rounded up.
    #[must_use]
    pub fn bytes(self, count: u64) -> u64 {
        match self {
            Precision::Bf16 => count.saturating_mul(2),
            Precision::Fp8 | Precision::Int8 => count,
            Precision::Fp4 => count.saturating_mul(9).div_ceil(16),
        }
    }
}
