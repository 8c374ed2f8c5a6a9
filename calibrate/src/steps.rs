//! A profile's step times as tables: prompts by their length, decode batches by rows and context, each beside the
//! least time that its GPU could take.

use scaleproof_sim::profile::Profile;
use scaleproof_sim::step_time::{BatchShape, StepTimeError};

/// Shortest prompt of the table.
const PROMPT_MIN: u32 = 128;
/// Rows and contexts of the table.
const ROWS: [u32; 5] = [1, 4, 16, 64, 256];
const CONTEXTS: [u32; 4] = [512, 2_048, 8_192, 32_768];

/// A prompt alone in the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefill {
    /// Prompt tokens.
    pub tokens: u32,
    /// Steps that it takes.
    pub steps: u32,
    /// Their time.
    pub cost: Cost,
}

/// A step of decode rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Decode {
    /// Rows.
    pub rows: u32,
    /// Tokens of context of each, the one of the step included.
    pub context: u32,
    /// Its time.
    pub cost: Cost,
}

/// A time and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// As the profile has it.
    pub time_ms: f64,
    /// Tokens of the prompt, or one a row, in that time.
    pub tokens_per_s: f64,
    /// The least that the GPU could take; None for a profile that names none.
    pub bound_ms: Option<f64>,
}

impl Cost {
    /// How many times the bound.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.bound_ms.map(|bound_ms| self.time_ms / bound_ms)
    }
}

/// Prompts of 128 tokens, doubling up to what one request may have.
///
/// # Errors
/// A step that is no time, or faster than its GPU.
pub fn prefill_table(profile: &Profile) -> Result<Vec<Prefill>, StepTimeError> {
    let longest = profile.scheduler.max_model_len.saturating_sub(1).max(1);
    let doubled = std::iter::successors(Some(PROMPT_MIN), |tokens| tokens.checked_mul(2));
    let mut lengths: Vec<u32> = doubled.take_while(|tokens| *tokens <= longest).collect();
    if lengths.is_empty() {
        lengths.push(longest);
    }
    lengths.into_iter().map(|tokens| prefill(profile, tokens)).collect()
}

fn prefill(profile: &Profile, tokens: u32) -> Result<Prefill, StepTimeError> {
    let chunk = profile.scheduler.max_num_batched_tokens;
    let steps = tokens.div_ceil(chunk);
    let shapes = (0..steps).map(|step| {
        let context = step * chunk;
        let last = step + 1 == steps;
        let (q, c) = (u64::from(chunk.min(tokens - context)), u64::from(context));
        BatchShape {
            tokens: q,
            rows: 1,
            sampled: u32::from(last),
            prefill_pairs: 2 * q * c + q * q,
            prefill_context: c,
            longest_row: context + q as u32,
            ..BatchShape::default()
        }
    });
    Ok(Prefill { tokens, steps, cost: cost(profile, shapes, tokens)? })
}

/// Decode batches that the engine's seats and KV cache can hold.
///
/// # Errors
/// A step that is no time, or faster than its GPU.
pub fn decode_table(profile: &Profile) -> Result<Vec<Decode>, StepTimeError> {
    let scheduler = &profile.scheduler;
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let fits = |rows: u32, context: u32| {
        rows <= scheduler.max_num_seqs
            && context <= scheduler.max_model_len
            && u64::from(rows) * u64::from(context) <= pool
    };
    let pairs = ROWS.iter().flat_map(|rows| CONTEXTS.iter().map(move |context| (*rows, *context)));
    pairs
        .filter(|(rows, context)| fits(*rows, *context))
        .map(|(rows, context)| decode(profile, rows, context))
        .collect()
}

fn decode(profile: &Profile, rows: u32, context: u32) -> Result<Decode, StepTimeError> {
    let shape = BatchShape {
        tokens: u64::from(rows),
        rows,
        sampled: rows,
        decode_context: u64::from(rows) * u64::from(context),
        longest_row: context,
        ..BatchShape::default()
    };
    Ok(Decode { rows, context, cost: cost(profile, [shape].into_iter(), rows)? })
}

/// The time of steps one after the other.
fn cost(
    profile: &Profile,
    shapes: impl Iterator<Item = BatchShape>,
    tokens: u32,
) -> Result<Cost, StepTimeError> {
    let model = &profile.step_time;
    let (mut time_ms, mut bound_us) = (0.0, 0.0);
    for shape in shapes {
        time_ms += model.duration(&shape, profile.scheduler.async_scheduling)?.millis();
        bound_us += model.hardware.as_ref().map_or(0.0, |hardware| hardware.bound_us(&shape).0);
    }
    let bound_ms = model.hardware.is_some().then_some(bound_us / 1e3);
    Ok(Cost { time_ms, tokens_per_s: 1e3 * f64::from(tokens) / time_ms, bound_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::engine;

    #[test]
    fn a_prompt_of_several_steps_costs_what_they_cost() {
        let mut profile = engine();
        profile.scheduler.max_num_batched_tokens = 1024;
        let table = prefill_table(&profile).unwrap();
        let long = table.iter().find(|row| row.tokens == 4096).unwrap();
        let short = table.iter().find(|row| row.tokens == 1024).unwrap();
        assert_eq!((short.steps, long.steps), (1, 4));
        // Later chunks attend to the earlier ones.
        assert!(long.cost.time_ms > 4.0 * short.cost.time_ms && long.cost.time_ms < 6.0 * short.cost.time_ms);
        assert!(table.iter().all(|row| row.cost.ratio().unwrap() > 1.0), "{table:#?}");
    }

    #[test]
    fn decode_batches_are_those_that_fit_and_none_beats_the_gpu() {
        let mut profile = engine();
        let all = decode_table(&profile).unwrap();
        assert!(all.iter().all(|row| row.cost.ratio().unwrap() > 1.0), "{all:#?}");
        assert!(all.iter().any(|row| row.rows == 256 && row.context == 512));
        profile.scheduler.max_num_seqs = 16;
        profile.scheduler.num_blocks = 1 + 16 * 512 / profile.scheduler.block_size;
        let few = decode_table(&profile).unwrap();
        assert!(few.iter().all(|row| row.rows * row.context <= 16 * 512) && few.len() < all.len());
    }
}
