//! Chance: one named stream per purpose, so that changing the lengths does not move the arrivals.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use sha2::{Digest, Sha256};

/// The generator of every stream. Pinned: it decides results.
pub type Stream = Xoshiro256PlusPlus;

/// The stream `name` of run `run` under `seed`. The generator's 32-byte state is SHA-256 over the three, so
/// that neighbouring seeds, runs and names give unrelated streams.
#[must_use]
pub fn stream(seed: u64, run: u64, name: &str) -> Stream {
    let mut hash = Sha256::new();
    hash.update(b"scaleproof stream 1");
    hash.update(seed.to_le_bytes());
    hash.update(run.to_le_bytes());
    hash.update(name.as_bytes());
    Stream::from_seed(hash.finalize().into())
}

/// A draw from [0, 1), all values alike.
#[must_use = "the stream has moved on"]
pub fn uniform(stream: &mut Stream) -> f64 {
    stream.random()
}

/// A draw from the standard normal distribution.
#[must_use = "the stream has moved on"]
pub fn normal(stream: &mut Stream) -> f64 {
    StandardNormal.sample(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_differ_by_each_part_and_repeat() {
        let first = |s, r, n: &str| stream(s, r, n).next_u64();
        assert_eq!(first(1, 0, "arrivals"), first(1, 0, "arrivals"));
        let other = [first(1, 0, "lengths"), first(1, 1, "arrivals"), first(2, 0, "arrivals")];
        assert!(!other.contains(&first(1, 0, "arrivals")));
    }
}
