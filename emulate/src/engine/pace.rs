//! How long steps take beside what the profile says.

use scaleproof_pack::chance::{self, Stream};
use scaleproof_sim::Pace;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times as long steps take on command, shared with the replica's pace.
#[derive(Clone)]
pub(super) struct SlowFactor(Arc<AtomicU64>);

impl Default for SlowFactor {
    fn default() -> Self {
        SlowFactor(Arc::new(AtomicU64::new(1.0_f64.to_bits())))
    }
}

impl SlowFactor {
    pub fn set(&self, factor: f64) {
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// The command's factor times noise: a factor with mean 1 whose logarithm has the standard deviation `noise`.
pub(super) fn pace(noise: f64, mut chance: Stream, slow_factor: SlowFactor) -> Pace {
    Box::new(move |_| {
        let noise =
            if noise > 0.0 { (noise * chance::normal(&mut chance) - noise * noise / 2.0).exp() } else { 1.0 };
        slow_factor.get() * noise
    })
}
