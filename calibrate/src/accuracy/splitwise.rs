//! Llama-2-70B FP16 on A100 and H100 by TP, prompt and batch, in software of 2023: splitwise-sim's table. Steps, not a
//! served load: the prior's step times beside them, nothing fitted.

use super::{AccuracyError, Comparison, Goal, Set, text, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::trial::{Metric, Statistic};
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::step_time::BatchShape;
use std::collections::BTreeMap;
use std::path::Path;

/// The table's GPUs and ours. It has power-capped ones too, which no data sheet describes.
const GPUS: [(&str, &str); 2] = [("a100-80gb", "a100-80g"), ("h100-80gb", "h100")];
/// Answers of the runs that count: longer ones differ by what happened to the batch meanwhile.
const ANSWER: u32 = 128;
/// Prompts at once from which on the table is not to be believed: on two GPUs 64 prompts take less than 16.
const PROMPTS_END: u32 = 64;

const PROMPT: Metric = Metric::Ttft(Statistic::Percentile(50.0));
const TOKEN: Metric = Metric::Tpot(Statistic::Percentile(50.0));

/// A cell: GPU, degree, prompt tokens, prompts at once.
type Cell = (String, u32, u32, u32);

/// Every step of the table.
pub fn judge(data: &Path) -> Result<Set, AccuracyError> {
    let cells = cells(&data.join("profiles/splitwise-sim/perf_model.csv"))?;
    let mut profiles: BTreeMap<(String, u32), Profile> = BTreeMap::new();
    let mut comparisons = Vec::new();
    for (cell, times) in &cells {
        let (gpu, tp, prompt, batch) = cell;
        let key = (gpu.clone(), *tp);
        if !profiles.contains_key(&key) {
            profiles.insert(key.clone(), engine(gpu, *tp)?);
        }
        let profile = &profiles[&key];
        let [prompt_ms, token_ms] = times.each_ref().map(|times| median(times));
        let point = format!("{gpu} TP{tp}, {batch} x {prompt} tokens");
        // The launches are from these.
        let launched = gpu == "h100" && *tp >= 4 && *batch == 1;
        for (metric, measured, step, fitted) in [
            (PROMPT, prompt_ms, prompts(*prompt, *batch), false),
            (TOKEN, token_ms, tokens(*prompt, *batch), launched),
        ] {
            let predicted = profile.step_time.step_us(&step, false) / 1e3;
            comparisons.push(Comparison { point: point.clone(), metric, measured, predicted, fitted });
        }
    }
    let profile = profiles.into_values().next();
    Ok(Set {
        name: "splitwise-sim, Llama-2-70B",
        system: "Llama-2-70B FP16 on A100-80G and H100, TP2 to TP8, software of 2023".to_owned(),
        fitted_on: "kernels of other software; launches: one row on H100, TP4 and TP8".to_owned(),
        notes: notes(),
        profile: profile.ok_or_else(|| AccuracyError("splitwise-sim: found no rows".to_owned()))?,
        comparisons,
        goals: [PROMPT, TOKEN].map(|metric| Goal { metric, median: None, noise: None }).to_vec(),
    })
}

fn notes() -> Vec<String> {
    vec![
        "A check of the physics on steps that nothing was fitted to, without a goal. The time of a batch of prompts stands \
         under TTFT, that of a step of decode rows under TPOT: medians of the table's repeats, beside one step of the prior \
         (no CUDA graphs, no asynchronous scheduling, `model predict --enforce-eager --no-async-scheduling`)."
            .to_owned(),
        "One number of the table is in the fit: on H100 a token of one row takes as long on eight GPUs as on four. It waits \
         for the host that launches kernel by kernel, and that launch is `launches_us` of models/kernels/hopper.yaml. Only \
         steps without a graph have it."
            .to_owned(),
        format!(
            "The rest of the table is not fitted, because it is of other kernels: the first versions of its libraries, \
             without CUDA graphs, fused kernels and FlashAttention 3, at which the prior is some tens of percent faster. \
             Left out: batches of {PROMPTS_END} prompts (on two GPUs 64 take less time than 16), power-capped GPUs, \
             answers of other than {ANSWER} tokens, BLOOM-176B (not of a family that is read)."
        ),
    ]
}

/// The prior of the system, as software of 2023 ran it.
fn engine(gpu: &str, tp: u32) -> Result<Profile, AccuracyError> {
    let mut spec = usual_prior("llama-2-70b", gpu, tp, (Precision::Bf16, Precision::Bf16))?;
    (spec.graphs, spec.async_scheduling) = (CudagraphMode::None, false);
    // Two GPUs hold the weights and little else. Its memory is not what is looked at.
    spec.num_blocks = Some(1024);
    Ok(prior(&spec)?.0)
}

/// Prompt and token times in milliseconds of each cell.
fn cells(path: &Path) -> Result<BTreeMap<Cell, [Vec<f64>; 2]>, AccuracyError> {
    let mut cells: BTreeMap<Cell, [Vec<f64>; 2]> = BTreeMap::new();
    for line in text(path)?.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [model, gpu, prompt, batch, answer, _, _, prompt_ms, token_ms, _, tp] = fields[..] else {
            return Err(AccuracyError(format!("{}: found {line:?}, expected 11 fields", path.display())));
        };
        let number = |field: &str| field.parse::<u32>().map_err(|e| AccuracyError(format!("{line:?}: {e}")));
        let (batch, answer) = (number(batch)?, number(answer)?);
        let Some((_, gpu)) = GPUS.iter().find(|(name, _)| *name == gpu) else { continue };
        if model != "llama2-70b" || batch >= PROMPTS_END || answer != ANSWER {
            continue;
        }
        let [prompts, tokens] =
            cells.entry(((*gpu).to_owned(), number(tp)?, number(prompt)?, batch)).or_default();
        prompts.push(prompt_ms.parse()?);
        tokens.push(token_ms.parse()?);
    }
    Ok(cells)
}

/// `times` has at least one.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// All prompts in one step.
fn prompts(prompt: u32, batch: u32) -> BatchShape {
    let (q, rows) = (u64::from(prompt), u64::from(batch));
    BatchShape {
        tokens: q * rows,
        rows: batch,
        sampled: batch,
        prefill_pairs: q * q * rows,
        longest_row: prompt,
        ..BatchShape::default()
    }
}

/// A step in the middle of the answers.
fn tokens(prompt: u32, batch: u32) -> BatchShape {
    let context = prompt + ANSWER / 2;
    BatchShape {
        tokens: u64::from(batch),
        rows: batch,
        sampled: batch,
        decode_context: u64::from(context) * u64::from(batch),
        longest_row: context,
        ..BatchShape::default()
    }
}
