//! Llama-3.1-8B BF16 on one H100, served by vLLM 0.11.0, loaded by inference-perf in stages.

use super::loads::{Builder, from_quantiles};
use super::{AccuracyError, Points, Set, files, goal, observations, rate, run_of, text, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::Measured;
use crate::trial::{Metric, Statistic, Trial};
use rand_distr::Distribution;
use scaleproof_pack::chance::stream;
use scaleproof_pack::import::{OperatingPoint, Summary};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::profile::uncertainty::Knob;
use scaleproof_sim::step_time::BatchShape;
use serde_json::Value;
use std::path::Path;

/// Draws of the arrivals and lengths that are averaged: the tool's generator has no seed.
const DRAWS: u64 = 5;
/// Every answer, as the tool's configuration asks for; it counts the text's tokens again, and finds some 62.
const OUTPUT_TOKENS: u32 = 64;
/// The stages that are fitted on: this many of the lowest rates.
const FITTED: usize = 2;

/// The two lower stages calibrate, the others are predicted.
pub fn judge(data: &Path) -> Result<Set, AccuracyError> {
    let mut spec = usual_prior("llama-3.1-8b", "h100", 1, (Precision::Bf16, Precision::Bf16))?;
    spec.async_scheduling = false;
    spec.prefix_caching = false;
    spec.memory.max_num_seqs = 128;
    spec.max_model_len = Some(512);
    let (prior, _) = prior(&spec)?;
    let mut stages = Vec::new();
    for path in files(&data.join("measured/kubecon-h100-llama8b"), "lifecycle_metrics.json")? {
        let raw: Value = serde_json::from_str(&text(&path)?)
            .map_err(|error| AccuracyError(format!("{}: {error}", path.display())))?;
        stages.push((run_of(&path)?.point, raw));
    }
    stages.sort_by(|a, b| rate(&a.0).total_cmp(&rate(&b.0)));
    let mut measured = stages.iter().map(|(point, raw)| stage(point, raw)).collect::<Result<Vec<_>, _>>()?;
    let held_out = measured.split_off(FITTED.min(measured.len()));
    let (posterior, comparisons) = Points { fitted: measured, held_out }.judge(&prior)?;
    let residual = residual(&posterior.profile, &stages);
    Ok(Set {
        name: "kubecon-h100-llama8b",
        system: "Llama-3.1-8B BF16 on one H100, vLLM 0.11.0, no prefix cache, no chunked prefill".to_owned(),
        fitted_on: "stages 0 and 1".to_owned(),
        notes: vec![
            format!(
                "Arrivals: exponential gaps stretched to the stage, as the tool draws them; prompt \
             lengths from each stage's own percentiles; {DRAWS} draws averaged. The tool's own TPOT is half of the truth, \
             and it counts the answers' tokens again in the text: TPOT is (latency - TTFT)/({OUTPUT_TOKENS} - 1), of \
             the tokens that its configuration asks for."
            ),
            residual.unwrap_or_default(),
        ],
        profile: posterior.profile,
        comparisons,
        goals: vec![
            goal(Metric::Tpot(Statistic::Mean), 0.05),
            goal(Metric::Ttft(Statistic::Percentile(50.0)), 0.10),
        ],
    })
}

/// Prompts of a step and the percentile of the gaps between chunks, in the tool's words, that lies among such steps. Every
/// token came as two chunks, the second at once: the tool's 90th percentile is the 80th of the gaps between tokens.
type Gaps<'a> = &'a [(u32, &'a str)];
/// At stage 1, 0.26 prompts come in the time of a step: 77, 20 and 3 % of the steps have none, one, and two.
const GAPS_1: Gaps = &[(0, "p75"), (1, "p95"), (2, "p99")];
/// At stage 2, 0.6 do: 53, 34, 11 and 2 % have none, one, two and three.
const GAPS_2: Gaps = &[(0, "p75"), (1, "p90"), (2, "p95"), (3, "p99")];

/// Where TPOT misses its goal: steps by the prompts in them, as measured and as the profile has them.
fn residual(profile: &Profile, stages: &[(OperatingPoint, Value)]) -> Option<String> {
    let [_, (point, raw), (held_out, held_out_raw)] = stages else { return None };
    Some(format!(
        "Where TPOT misses its goal: steps that hold several prompts, which the fitted stages hardly have. The gap between tokens \
         by prompts in a step, as measured (a percentile among such steps) and as the profile has the step: {}; {}. With two \
         prompts a step has more tokens than the largest graph, 256 at 128 seats, and runs eagerly; its launches take hardly longer \
         than its kernels, so they explain little of it. Whether such steps are longer, or the API server and the client late \
         with some 3,900 tokens/s in two chunks each, these percentiles cannot tell. Steps with one prompt are dearer in the \
         profile than measured at stage 1, which the fit makes up for with rows too cheap, {:.2} of the prior's.",
        steps(profile, point, raw, GAPS_1)?,
        steps(profile, held_out, held_out_raw, GAPS_2)?,
        profile.provenance.factors.factor(Knob::Rows),
    ))
}

/// Of a stage's steps.
fn steps(profile: &Profile, point: &OperatingPoint, raw: &Value, gaps: Gaps<'_>) -> Option<String> {
    let measured = &raw["successes"]["latency"]["inter_token_latency"];
    let prompt = point.input_tokens.mean?;
    let between_s = (point.e2e_ms.mean_ms? - point.ttft_ms.mean_ms?) / 1e3;
    let rows = (point.request_throughput_rps? * between_s).round();
    let context = prompt + f64::from(OUTPUT_TOKENS / 2);
    let words = gaps.iter().map(|&(prompts, percentile)| {
        let (count, rows) = (f64::from(prompts), rows as u32);
        let shape = BatchShape {
            tokens: (count * prompt) as u64 + u64::from(rows),
            rows: rows + prompts,
            sampled: rows + prompts,
            decode_context: (f64::from(rows) * context) as u64,
            prefill_pairs: (count * prompt * prompt) as u64,
            ..BatchShape::default()
        };
        let predicted_ms = profile.step_time.step_us(&shape, false) / 1e3;
        let measured_ms = 1e3 * measured[percentile].as_f64()?;
        Some(format!("{prompts}: {measured_ms:.1} and {predicted_ms:.1} ms"))
    });
    let words: Vec<String> = words.collect::<Option<_>>()?;
    Some(format!("at {} requests/s with {rows} rows {}", rate(point), words.join(", ")))
}

/// The quantiles of a length that a stage's report gives, rising.
fn quantiles(lengths: &Value) -> Vec<(f64, f64)> {
    let named = [
        (0.0, "min"),
        (0.01, "p1"),
        (0.05, "p5"),
        (0.1, "p10"),
        (0.25, "p25"),
        (0.5, "median"),
        (0.75, "p75"),
        (0.9, "p90"),
        (0.95, "p95"),
        (0.99, "p99"),
        (1.0, "max"),
    ];
    named.iter().filter_map(|(share, name)| Some((*share, lengths[*name].as_f64()?))).collect()
}

fn stage(point: &OperatingPoint, raw: &Value) -> Result<Measured, AccuracyError> {
    let count = point.completed.unwrap_or_default() as usize;
    let inputs = quantiles(&raw["successes"]["prompt_len"]);
    if inputs.len() < 2 {
        return Err(AccuracyError(format!("{}: found no percentiles of the lengths", point.label)));
    }
    let rps = rate(point);
    let schedule = |draw| {
        let mut chance = stream(draw, 0, "gaps");
        let gaps: Vec<f64> = (0..count).map(|_| rand_distr::Exp1.sample(&mut chance)).collect();
        let arrivals = super::loads::stretched_arrivals(&gaps, rps);
        let inputs = from_quantiles(count, &inputs, draw, "input lengths");
        let mut list = Builder::default();
        for i in 0..count {
            list.add(Some(arrivals[i]), (inputs[i], OUTPUT_TOKENS), &[])?;
        }
        Ok::<_, AccuracyError>(list.open(rps))
    };
    Ok(Measured {
        trial: Trial {
            label: format!("{rps} requests/s"),
            schedules: (0..DRAWS).map(schedule).collect::<Result<_, _>>()?,
            counted: 0..count as u64,
            seats: None,
            pace: 1.0,
        },
        observations: observations(&with_requested_tokens(point)),
    })
}

/// The point with TPOT and throughput by the tokens that were asked for, as the engine made them.
fn with_requested_tokens(point: &OperatingPoint) -> OperatingPoint {
    let mut point = point.clone();
    let gaps = f64::from(OUTPUT_TOKENS - 1);
    let between = |e2e: Option<f64>, ttft: Option<f64>| Some((e2e? - ttft?) / gaps);
    point.tpot_ms =
        Summary { mean_ms: between(point.e2e_ms.mean_ms, point.ttft_ms.mean_ms), percentiles_ms: Vec::new() };
    point.output_throughput_tps = point.request_throughput_rps.map(|rps| rps * f64::from(OUTPUT_TOKENS));
    point
}
