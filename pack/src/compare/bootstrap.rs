//! Which requests a replicate draws, and how often.

use super::side::Side;
use crate::chance::{Stream, stream};
use rand::RngExt;

/// Each attempt's place among the weights, for both sides, and how many places there are.
#[derive(Debug)]
pub(super) struct Places {
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    counts: Vec<usize>,
}

impl Places {
    /// In pairs, the same request of both sides has one place; a request that only one side has (the schedule's
    /// continuation) has one too.
    pub fn new(a: &Side, b: &Side, paired: bool) -> Places {
        if !paired {
            let own = |side: &Side| (0u32..).take(side.attempts.len()).collect::<Vec<u32>>();
            let (a, b) = (own(a), own(b));
            return Places { counts: vec![a.len(), b.len()], a, b };
        }
        let ids = |side: &Side| side.attempts.iter().map(|attempt| attempt.id).collect::<Vec<u64>>();
        let (ids_a, ids_b) = (ids(a), ids(b));
        let mut all = [ids_a.as_slice(), ids_b.as_slice()].concat();
        all.sort_unstable();
        all.dedup();
        let place = |id: &u64| all.partition_point(|other| other < id) as u32;
        Places {
            a: ids_a.iter().map(place).collect(),
            b: ids_b.iter().map(place).collect(),
            counts: vec![all.len()],
        }
    }
}

/// How often the current replicate has drawn the request at each place.
#[derive(Debug)]
struct Sample {
    chance: Stream,
    weights: Vec<u32>,
    block: usize,
}

/// The replicates: one sample for both sides if they are paired, else one each.
#[derive(Debug)]
pub(super) struct Draws {
    samples: Vec<Sample>,
}

impl Draws {
    /// Begins with every request once: the observed sides themselves.
    pub fn new(places: &Places, seed: u64) -> Draws {
        let sample = |(i, &count): (usize, &usize)| Sample {
            chance: stream(seed, i as u64, "bootstrap"),
            weights: vec![1; count],
            block: (count as f64).sqrt().ceil() as usize,
        };
        Draws { samples: places.counts.iter().enumerate().map(sample).collect() }
    }

    /// Weights of the first side and of the second.
    pub fn weights(&self) -> (&[u32], &[u32]) {
        let last = self.samples.len() - 1;
        (&self.samples[0].weights, &self.samples[last].weights)
    }

    /// Requests of the larger sample, and how many are drawn together.
    pub fn sizes(&self) -> (usize, usize) {
        let sizes = self.samples.iter().map(|sample| (sample.weights.len(), sample.block));
        sizes.max().unwrap_or_default()
    }

    /// The next replicate.
    pub fn next(&mut self) {
        self.samples.iter_mut().for_each(Sample::next);
    }
}

impl Sample {
    /// Draws as many requests as there are, in blocks; a block at the end goes on at the beginning, so that every
    /// request is as likely as any other.
    fn next(&mut self) {
        let count = self.weights.len();
        self.weights.fill(0);
        let mut left = count;
        while left > 0 {
            let start = self.chance.random_range(0..count);
            let length = self.block.min(left);
            for i in start..start + length {
                self.weights[i % count] += 1;
            }
            left -= length;
        }
    }
}
