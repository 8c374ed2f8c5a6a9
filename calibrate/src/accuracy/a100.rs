//! Llama-3.3-70B BF16 on eight A100-40G, served by vLLM 0.8.3, loaded by `vllm bench serve` with 200 ShareGPT prompts.

use super::loads::{Builder, vllm_bench_gaps, whole_prompt};
use super::{AccuracyError, EARLIER_RPS, Points, Set, files, goal, observations, rate, run_of, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::Measured;
use crate::trial::{Metric, Statistic, Trial};
use scaleproof_pack::import::Run;
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
    runs.sort_by(|a, b| rate(&a.point).total_cmp(&rate(&b.point)));
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

fn at_rate(run: &Run, cold: bool) -> Result<Measured, AccuracyError> {
    let lengths: Vec<_> = run
        .requests
        .iter()
        .map(|r| (r.input_tokens.unwrap_or(1), r.answer().map_or(1, |answer| answer.output_tokens)))
        .collect();
    let gaps = vllm_bench_gaps(lengths.len());
    let mut list = Builder::default();
    let rounds = if cold { vec![rate(&run.point)] } else { vec![EARLIER_RPS, rate(&run.point)] };
    let mut at_s = 1.0;
    let mut from = 0;
    for rps in rounds {
        from = list.len();
        for ((i, lengths), gap) in lengths.iter().enumerate().zip(&gaps) {
            list.add(Some(at_s), *lengths, &[whole_prompt(i as u64, lengths.0)])?;
            at_s += gap / rps;
        }
        at_s += 30.0;
    }
    let counted = from..list.len();
    let label = format!("{} requests/s", rate(&run.point));
    let schedules = vec![list.open(rate(&run.point))];
    Ok(Measured {
        trial: Trial { label, schedules, counted, seats: None, pace: 1.0 },
        observations: observations(&run.point),
    })
}
