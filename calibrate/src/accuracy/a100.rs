//! Llama-3.3-70B BF16 on eight A100-40G, served by vLLM 0.8.3, loaded by `vllm bench serve` with 200 ShareGPT prompts.

use super::loads::{Builder, vllm_bench_gaps, whole_prompt};
use super::{AccuracyError, Points, Set, files, goal, observations, run_of, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::Measured;
use crate::trial::{Metric, Statistic, Trial};
use scaleproof_pack::import::{OfferedRate, Run};
use std::path::Path;

/// The lowest rate calibrates, the others are predicted.
pub fn judge(data: &Path) -> Result<Set, AccuracyError> {
    let mut spec = usual_prior("llama-3.1-70b", "a100-40g", 8, (Precision::Bf16, Precision::Bf16))?;
    spec.async_scheduling = false;
    spec.max_model_len = Some(16_384);
    let (prior, _) = prior(&spec)?;
    let mut runs = Vec::new();
    for path in files(&data.join("measured/a100-llama70b-tp8"), ".json")? {
        runs.push(run_of(&path)?);
    }
    runs.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let mut measured =
        runs.iter().enumerate().map(|(i, run)| at_rate(run, i == 0)).collect::<Result<Vec<_>, _>>()?;
    let held_out = measured.split_off(1.min(measured.len()));
    let (posterior, comparisons) = Points { fitted: measured, held_out }.judge(&prior)?;
    Ok(Set {
        name: "a100-llama70b-tp8",
        system: "Llama-3.3-70B BF16 on eight A100-40G, TP8, vLLM 0.8.3".to_owned(),
        fitted_on: "the lowest rate".to_owned(),
        notes: vec![
            "Arrivals are the ones that `vllm bench serve` draws with seed 0 (of that version: the first at once, \
             not stretched). The lowest rate came first; the others find its prompts in the cache."
                .to_owned(),
        ],
        profile: posterior.profile,
        comparisons,
        goals: vec![
            goal(Metric::Tpot(Statistic::Mean), 0.05),
            goal(Metric::Ttft(Statistic::Percentile(50.0)), 0.10),
        ],
    })
}

fn rate(run: &Run) -> f64 {
    match run.point.offered_rate {
        Some(OfferedRate::Rps(rps)) => rps,
        _ => f64::INFINITY,
    }
}

fn at_rate(run: &Run, cold: bool) -> Result<Measured, AccuracyError> {
    let lengths: Vec<_> = run
        .requests
        .iter()
        .map(|r| (r.input_tokens.unwrap_or(1), r.answer().map_or(1, |answer| answer.output_tokens)))
        .collect();
    let gaps = vllm_bench_gaps(lengths.len());
    let mut list = Builder::default();
    let rounds: &[f64] = if cold { &[1.0] } else { &[1.0, rate(run)] };
    let mut at_s = 1.0;
    let mut from = 0;
    for round in rounds {
        from = list.len();
        let rps = if cold { rate(run) } else { *round };
        for ((i, lengths), gap) in lengths.iter().enumerate().zip(&gaps) {
            list.add(Some(at_s), *lengths, &[whole_prompt(i as u64, lengths.0)])?;
            at_s += gap / rps;
        }
        at_s += 30.0;
    }
    let counted = from..list.len();
    let label = format!("{} requests/s", rate(run));
    let schedules = vec![list.open(rate(run))];
    Ok(Measured {
        trial: Trial { label, schedules, counted, seats: None },
        observations: observations(&run.point),
    })
}
