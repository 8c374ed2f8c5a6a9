//! What the GPUs of a replica cannot beat: a step reads the weights and the context once, and does its arithmetic.
//!
//! ```text
//! bound = max(bytes / bandwidth, operations / peak)
//! bytes = weights + kv_bytes_per_token (sum_dec(c+1) + sum_pre(c))
//! operations = token_flops N + pair_flops pairs
//! ```
//! All of one GPU of the replica: tensor parallel ranks work at the same time on a share each. Dense peak, no
//! sparsity. Collectives, launches and the sampler take time on top, so no real step reaches the bound.

use crate::step_time::BatchShape;
use std::fmt;

/// One GPU of a replica, and its share of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Dense peak in operations per second, at the precision of the matrix products.
    pub peak_flops_per_s: f64,
    /// Memory bandwidth in bytes per second.
    pub hbm_bytes_per_s: f64,
    /// Bytes of the weights that every step reads.
    pub weight_bytes: f64,
    /// Bytes of keys and values of a token, all layers.
    pub kv_bytes_per_token: f64,
    /// Operations of a token in matrix products, all layers.
    pub token_flops: f64,
    /// Operations of a query-key pair in attention, all layers and heads.
    pub pair_flops: f64,
}

/// A step that a profile makes faster than the GPU can be.
#[derive(Clone, Debug, PartialEq)]
pub struct BelowBound {
    /// The step.
    pub shape: BatchShape,
    /// What the profile makes of it, in microseconds.
    pub step_us: f64,
    /// The least the GPU takes, in microseconds.
    pub bound_us: f64,
    /// What sets the bound: `memory bandwidth` or `peak arithmetic`.
    pub by: &'static str,
}

impl BelowBound {
    /// What to do about it.
    pub const ADVICE: &str = "check the units of step_time, and hardware, gpu and placement";

    /// The step and its time, in words.
    #[must_use]
    pub fn found(&self) -> String {
        let shape = &self.shape;
        format!(
            "{:.1} us, {:.3} of the bound, for a step of {} tokens in {} rows over {} tokens of context",
            self.step_us,
            self.step_us / self.bound_us,
            shape.tokens,
            shape.rows,
            shape.decode_context + shape.prefill_context
        )
    }
}

impl fmt::Display for BelowBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, advice) = (self.found(), Self::ADVICE);
        write!(
            f,
            "faster than its GPU: found {found}; expected at least the {:.1} us of {}; {advice}",
            self.bound_us, self.by
        )
    }
}

impl std::error::Error for BelowBound {}

impl Hardware {
    /// A step's least time in microseconds, and what sets it.
    #[must_use]
    pub fn bound_us(&self, shape: &BatchShape) -> (f64, &'static str) {
        let context = (shape.decode_context + shape.prefill_context) as f64;
        let bytes = self.weight_bytes + self.kv_bytes_per_token * context;
        let pairs = shape.decode_context as f64 + shape.prefill_pairs as f64 / 2.0;
        let flops = self.token_flops * shape.tokens as f64 + self.pair_flops * pairs;
        let (memory_us, compute_us) =
            (1e6 * bytes / self.hbm_bytes_per_s, 1e6 * flops / self.peak_flops_per_s);
        if memory_us >= compute_us {
            (memory_us, "memory bandwidth")
        } else {
            (compute_us, "peak arithmetic")
        }
    }

    /// # Errors
    /// If `step_us` is less than the bound, but for rounding.
    pub fn check(&self, shape: &BatchShape, step_us: f64) -> Result<(), BelowBound> {
        let (bound_us, by) = self.bound_us(shape);
        if step_us >= bound_us * (1.0 - 1e-9) {
            return Ok(());
        }
        Err(BelowBound { shape: *shape, step_us, bound_us, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_slower_of_reading_and_computing() {
        let gpu = Hardware {
            peak_flops_per_s: 1e12,
            hbm_bytes_per_s: 1e9,
            weight_bytes: 1e6,
            kv_bytes_per_token: 10.0,
            token_flops: 2e6,
            pair_flops: 4.0,
        };
        let decode = BatchShape { tokens: 1, rows: 1, decode_context: 100, ..Default::default() };
        assert_eq!(gpu.bound_us(&decode), (1001.0, "memory bandwidth"));
        let prefill = BatchShape { tokens: 1000, rows: 1, prefill_pairs: 1_000_000, ..Default::default() };
        assert_eq!(gpu.bound_us(&prefill), (2002.0, "peak arithmetic"));
        assert!(gpu.check(&decode, 1001.0).is_ok());
        let error = gpu.check(&decode, 500.5).unwrap_err().to_string();
        assert!(
            error.contains("500.5 us, 0.500 of the bound") && error.contains("the 1001.0 us of memory"),
            "{error}"
        );
    }
}
