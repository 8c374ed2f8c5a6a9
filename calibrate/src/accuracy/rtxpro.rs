//! Llama-3.1-8B on one RTX PRO 6000, served by vLLM 0.19.0: kernel tables only, no served data.

use super::layer_tables::{Region, Rows, coefficients};
use super::loads::Builder;
use super::{AccuracyError, Points, Set, goal, text, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::Measured;
use crate::trial::{Metric, Observation, Statistic, Trial};
use scaleproof_pack::import::Summary;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::time::Nanos;
use serde_json::Value;
use std::path::Path;

const LAYERS: f64 = 32.0;
/// Tokens of a hashed block of the load.
const BLOCK: u32 = 16;

/// All requests, predicted from the kernels.
pub fn judge(data: &Path) -> Result<Set, AccuracyError> {
    let folder = data.join("measured/rtxpro6000-llama8b");
    let requests = lines(&folder.join("requests.jsonl"))?;
    let longest =
        requests.iter().map(|r| number(r, "input_toks") + number(r, "output_toks")).fold(0.0, f64::max);
    let mut spec = usual_prior("llama-3.1-8b", "rtx-pro-6000", 1, (Precision::Bf16, Precision::Bf16))?;
    spec.memory.max_num_seqs = 128;
    spec.memory.max_num_batched_tokens = 2048;
    let (mut profile, _) = prior(&spec)?;
    let tables = data.join("profiles/llmservingsim/RTXPRO6000_meta-llama_Llama-3.1-8B_tp1");
    let region = Region { rows: f64::from(spec.memory.max_num_seqs), context: longest };
    let [decode, mixed] =
        [Rows::Decode, Rows::Mixed].map(|rows| coefficients(&tables, LAYERS, &region, rows));
    let (decode, mixed) = (decode?, mixed?);
    "rtxpro6000-llama8b-kernels".clone_into(&mut profile.name);
    profile.step_time.eager = mixed.clone();
    if let Some(graphs) = &mut profile.step_time.graphs {
        (graphs.full, graphs.piecewise) = (decode, mixed);
    }
    // Times are the engine's own, behind its API server.
    profile.front_end.request = Nanos::ZERO;
    let held_out = vec![Measured {
        trial: trial(&requests, &lines(&folder.join("workload.jsonl"))?)?,
        observations: observed(&requests),
    }];
    let comparisons = Points { fitted: Vec::new(), held_out }.compare(&profile)?;
    Ok(Set {
        name: "rtxpro6000-llama8b",
        system: "Llama-3.1-8B BF16 on one RTX PRO 6000, vLLM 0.19.0, 300 ShareGPT requests at 10/s"
            .to_owned(),
        fitted_on: "kernel tables only; nothing served".to_owned(),
        notes: vec![
            "TTFT runs from the engine's queue to the first token, as the engine stamped them.".to_owned(),
        ],
        profile,
        comparisons,
        goals: vec![
            goal(Metric::Tpot(Statistic::Mean), 0.02),
            goal(Metric::Ttft(Statistic::Mean), 0.05),
            goal(Metric::Ttft(Statistic::Percentile(50.0)), 0.08),
            goal(Metric::Ttft(Statistic::Percentile(99.0)), 0.15),
        ],
    })
}

fn lines(path: &Path) -> Result<Vec<Value>, AccuracyError> {
    text(path)?
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|e| AccuracyError(format!("{}: {e}", path.display()))))
        .collect()
}

fn number(request: &Value, name: &str) -> f64 {
    request[name].as_f64().unwrap_or_default()
}

/// The arrivals as the engine saw them, with the prompts' shared blocks.
fn trial(requests: &[Value], workload: &[Value]) -> Result<Trial, AccuracyError> {
    let begin = requests.iter().map(|r| number(r, "queued_ts")).fold(f64::INFINITY, f64::min);
    let mut list = Builder::default();
    for (request, planned) in requests.iter().zip(workload) {
        let hashes = planned["hash_ids"].as_array().cloned().unwrap_or_default();
        let input = number(request, "input_toks") as u32;
        // The last block of a prompt may be a part of one, which no other prompt shares.
        let prompt: Vec<Segment> = hashes
            .iter()
            .filter_map(Value::as_u64)
            .take((input / BLOCK) as usize)
            .map(|id| Segment { stream: TokenStream::trace_block(id), start: 0, len: BLOCK })
            .collect();
        let lengths = (input, number(request, "output_toks") as u32);
        list.add(Some(number(request, "queued_ts") - begin), lengths, &prompt)?;
    }
    let counted = 0..list.len();
    let schedules = vec![list.open(10.0)];
    Ok(Trial { label: "300 requests at 10/s".to_owned(), schedules, counted, seats: None, pace: 1.0 })
}

fn observed(requests: &[Value]) -> Vec<Observation> {
    let between = |r: &Value, from: &str, to: &str| 1e3 * (number(r, to) - number(r, from));
    let mut ttft: Vec<f64> = requests.iter().map(|r| between(r, "queued_ts", "first_token_ts")).collect();
    let mut tpot: Vec<f64> = requests
        .iter()
        .filter(|r| number(r, "output_toks") > 1.0)
        .map(|r| between(r, "first_token_ts", "last_token_ts") / (number(r, "output_toks") - 1.0))
        .collect();
    let (ttft, tpot) = (Summary::of(&mut ttft), Summary::of(&mut tpot));
    let of = |metric, value: Option<f64>| {
        value.map(|value| Observation { metric, value, relative_sd: super::noise_of(metric).unwrap_or(0.05) })
    };
    [
        of(Metric::Ttft(Statistic::Mean), ttft.mean_ms),
        of(Metric::Ttft(Statistic::Percentile(50.0)), ttft.median_ms()),
        of(Metric::Ttft(Statistic::Percentile(99.0)), ttft.at_ms(99.0)),
        of(Metric::Tpot(Statistic::Mean), tpot.mean_ms),
        of(Metric::Tpot(Statistic::Percentile(50.0)), tpot.median_ms()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
