//! Engines that no choice in this crate was made with: drawn by a seed, to calibrate blind. What is drawn, and from where,
//! stands here before the first of them was calibrated; a miss is reported, and nothing is tuned to it.

use super::{Hidden, catalogue};
use crate::hardware::Precision;
use crate::simulated::Quirks;
use rand::RngExt;
use scaleproof_pack::chance::{Stream, normal, stream};
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::{Correction, Knob};

const MODELS: [&str; 7] = [
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-2-70b",
    "mistral-7b-v0.3",
    "qwen2.5-7b",
    "qwen2.5-72b",
    "qwen3-32b",
];
const GPUS: [&str; 7] = ["a100-40g", "a100-80g", "h100-sxm", "h200", "l40s", "rtx-4090", "rtx-pro-6000"];
const TP: [u32; 3] = [1, 2, 4];
/// Most tokens of a step.
const BUDGETS: [u32; 7] = [1024, 1536, 2048, 3072, 4096, 6000, 8192];
/// Seats, from and to.
const SEATS: (u32, u32) = (24, 300);
/// Standard deviation of the logarithm of what each part of the steps' costs is multiplied by, and of the front end's.
const FACTOR_SD: (f64, f64) = (0.25, 0.6);
/// Draws of one engine at most: many systems do not fit, or are faster than their GPU.
const TRIES: u32 = 10_000;

/// So many engines, drawn by a seed.
///
/// # Errors
/// If no possible engine comes in [`TRIES`] draws.
pub fn fresh_engines(seed: u64, count: u64) -> Result<Vec<Hidden>, String> {
    (0..count).map(|number| fresh(seed, number)).collect()
}

fn fresh(seed: u64, number: u64) -> Result<Hidden, String> {
    let mut chance = stream(seed, number, "fresh engine");
    let drawn = (0..TRIES).find_map(|_| possible(&mut chance));
    let (name, profile) =
        drawn.ok_or_else(|| format!("engine {number} of seed {seed}: found none that is possible"))?;
    let sometimes = |chance: &mut Stream, share: f64, value: f64| {
        if chance.random::<f64>() < share { value } else { 0.0 }
    };
    let quirks = Quirks {
        step_sd: chance.random_range(0.002..0.03),
        hiccups: sometimes(&mut chance, 0.3, 0.001),
        drift_per_hour: sometimes(&mut chance, 0.3, 0.05),
        seed: seed.wrapping_add(number),
        ..Quirks::default()
    };
    // Who keeps no blocks for reuse cannot be asked how many there are.
    let silent = profile.scheduler.enable_prefix_caching && chance.random::<f64>() < 0.5;
    Ok(Hidden { name: format!("{}-{name}", number + 1), profile, quirks, silent })
}

/// One draw. None if it is no engine.
fn possible(chance: &mut Stream) -> Option<(String, Profile)> {
    let model = pick(chance, &MODELS);
    let gpu = pick(chance, &GPUS);
    let tp = pick(chance, &TP);
    let precision = pick(chance, &[Precision::Bf16, Precision::Fp8]);
    let graphs = pick(chance, &[CudagraphMode::None, CudagraphMode::FullAndPiecewise]);
    let factors = Knob::ALL.map(|knob| {
        let sd = if knob == Knob::FrontEnd { FACTOR_SD.1 } else { FACTOR_SD.0 };
        (knob, (sd * normal(chance)).exp())
    });
    let settings = scheduler(chance);
    let share = if chance.random::<f64>() < 0.5 { chance.random_range(0.2..1.0) } else { 1.0 };
    let base = catalogue(gpu, model, (tp, precision), graphs).ok()?;
    let mut profile = base.corrected(&Correction { factors: factors.to_vec() }).ok()?;
    let num_blocks = (f64::from(base.scheduler.num_blocks) * share) as u32;
    profile.scheduler = EngineConfig { num_blocks, ..settings(base.scheduler) };
    let held = u64::from(profile.scheduler.usable_blocks()) * u64::from(profile.scheduler.block_size);
    profile.scheduler.max_model_len =
        profile.scheduler.max_model_len.min(u32::try_from(held).unwrap_or(u32::MAX));
    profile.step_time = profile.step_time.on(&profile.scheduler);
    let runs = profile.scheduler.check().is_empty() && profile.scheduler.max_model_len >= 4096;
    let name = format!("{gpu}-tp{tp}-{model}-{}", precision.word());
    (runs && profile.check_bound().is_ok()).then_some((name, profile))
}

/// Draws the scheduler's settings; the rest is as the prior has it.
fn scheduler(chance: &mut Stream) -> impl FnOnce(EngineConfig) -> EngineConfig + use<> {
    let max_num_seqs = chance.random_range(SEATS.0..=SEATS.1);
    let max_num_batched_tokens = pick(chance, &BUDGETS);
    let part = chance.random_range(max_num_batched_tokens / 3..=max_num_batched_tokens / 2);
    let long_prefill_token_threshold = if chance.random::<f64>() < 0.3 { part } else { 0 };
    let async_scheduling = chance.random::<f64>() < 0.7;
    let enable_prefix_caching = chance.random::<f64>() < 0.8;
    move |usual| EngineConfig {
        max_num_seqs,
        max_num_batched_tokens,
        long_prefill_token_threshold,
        async_scheduling,
        enable_prefix_caching,
        ..usual
    }
}

fn pick<T: Copy>(chance: &mut Stream, of: &[T]) -> T {
    of[chance.random_range(0..of.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_drawn_by_their_seed_and_are_possible() {
        let engines = fresh_engines(7, 3).unwrap();
        assert_eq!(engines.len(), 3);
        for engine in &engines {
            assert!(engine.profile.scheduler.check().is_empty() && engine.profile.check_bound().is_ok());
        }
        let names = |engines: &[Hidden]| engines.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&fresh_engines(7, 2).unwrap()), names(&engines)[..2]);
        let other = fresh_engines(8, 3).unwrap();
        assert!(other.iter().zip(&engines).any(|(a, b)| a.profile != b.profile));
    }
}
