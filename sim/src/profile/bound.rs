//! A profile against its GPU's bound, over the whole of its validity region.

use super::Profile;
use crate::hardware::BelowBound;
use crate::step_time::{BatchShape, StepTimeError};

impl Profile {
    /// Steps over the validity region, from one row of one token to the largest batch: decode batches at several
    /// contexts, and single prompts of several lengths, alone and behind context.
    fn steps(&self) -> Vec<BatchShape> {
        let validity = &self.validity;
        let pool_tokens = u64::from(self.scheduler.num_blocks) * u64::from(self.scheduler.block_size);
        let mut steps = Vec::new();
        for rows in doubling(validity.rows) {
            for context in doubling(validity.context_tokens) {
                let decode_context = u64::from(rows) * u64::from(context);
                if decode_context > pool_tokens {
                    continue;
                }
                steps.push(BatchShape {
                    tokens: u64::from(rows),
                    rows,
                    sampled: rows,
                    decode_context,
                    longest_row: context,
                    ..BatchShape::default()
                });
            }
        }
        for tokens in doubling(validity.batch_tokens) {
            let behind = validity.context_tokens.1.saturating_sub(tokens);
            for context in [0, behind] {
                let (q, c) = (u64::from(tokens), u64::from(context));
                steps.push(BatchShape {
                    tokens: q,
                    rows: 1,
                    sampled: 1,
                    prefill_pairs: 2 * q * c + q * q,
                    prefill_context: c,
                    longest_row: tokens.saturating_add(context),
                    ..BatchShape::default()
                });
            }
        }
        steps
    }

    /// Whether every step of the validity region takes as long as its GPU needs at least.
    ///
    /// # Errors
    /// The step that is furthest below its bound.
    pub fn check_bound(&self) -> Result<(), BelowBound> {
        let overlapped = self.scheduler.async_scheduling;
        let below = |shape: BatchShape| match self.step_time.duration(&shape, overlapped) {
            Err(StepTimeError::BelowBound(error)) => Some(error),
            _ => None,
        };
        let ratio = |error: &BelowBound| error.step_us / error.bound_us;
        let worst = self.steps().into_iter().filter_map(below);
        worst.min_by(|a, b| ratio(a).total_cmp(&ratio(b))).map_or(Ok(()), Err)
    }
}

/// The first, its doubles, and the last of a range that begins at 1 or above.
fn doubling((first, last): (u32, u32)) -> Vec<u32> {
    let mut values: Vec<u32> =
        std::iter::successors(Some(first.max(1)), |v| v.checked_mul(2)).take_while(|&v| v < last).collect();
    values.push(last.max(1));
    values
}
