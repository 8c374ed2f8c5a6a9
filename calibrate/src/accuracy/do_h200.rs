//! Llama-3.1-70B FP8 on one H200, served by vLLM 0.14.1, loaded by `vllm bench serve` at Poisson rates.

use super::loads::{Builder, Lengths, stretched_arrivals, vllm_bench_gaps, whole_prompt};
use super::{
    AccuracyError, EARLIER_RPS, Points, Set, blocks, files, goal, observations, rate, run_of, text,
    usual_prior,
};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::Measured;
use crate::trial::{Metric, Statistic, Trial};
use rand::RngExt;
use scaleproof_pack::chance::stream;
use scaleproof_pack::import::OperatingPoint;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_sim::profile::Profile;
use std::path::Path;

/// From the server's log.
const KV_TOKENS: u32 = 348_304;
/// Between two rates.
const PAUSE_S: f64 = 30.0;
/// The points that are fitted on: this many of the lowest rates.
const FITTED: usize = 2;

const TTFT_P50: Metric = Metric::Ttft(Statistic::Percentile(50.0));
const TTFT_P99: Metric = Metric::Ttft(Statistic::Percentile(99.0));
const TPOT_MEAN: Metric = Metric::Tpot(Statistic::Mean);

/// ShareGPT prompts: the two lowest rates calibrate, the others are predicted.
pub fn sharegpt(data: &Path) -> Result<Set, AccuracyError> {
    let (prior, points) = sharegpt_points(data)?;
    let (posterior, comparisons) = points.judge(&prior)?;
    Ok(Set {
        name: "do-h200-llama70b-fp8/sharegpt",
        system: system(),
        fitted_on: format!("the {FITTED} lowest rates"),
        notes: vec![
            "Arrivals are the ones that `vllm bench serve` draws with seed 0. Prompt lengths are known in order, \
             output lengths of the first 200 requests; the last 100 take those of the first 100, scaled to the \
             measured total."
                .to_owned(),
            "Every rate has the same prompts on one running server: the first is cold, before each other one the \
             simulator serves an uncounted round of the same prompts."
                .to_owned(),
        ],
        profile: posterior.profile,
        comparisons,
        goals: vec![
            goal(TPOT_MEAN, 0.02),
            goal(TTFT_P50, 0.05),
            goal(TTFT_P99, 0.10),
            goal(Metric::OutputThroughput, 0.02),
        ],
    })
}

fn system() -> String {
    "Llama-3.1-70B FP8, KV cache FP8, one H200, TP1, vLLM 0.14.1".to_owned()
}

fn engine_prior() -> Result<Profile, AccuracyError> {
    let mut spec = usual_prior("llama-3.1-70b", "h200", 1, (Precision::Fp8, Precision::Fp8))?;
    spec.num_blocks = Some(blocks(KV_TOKENS, spec.memory.block_size));
    spec.max_model_len = Some(131_072);
    Ok(prior(&spec)?.0)
}

fn sharegpt_points(data: &Path) -> Result<(Profile, Points), AccuracyError> {
    let folder = data.join("measured/do-h200-llama70b-fp8/sharegpt");
    let lengths = data.join("traces/sharegpt_seed0_llama3_tokenizer.csv");
    let known = known_lengths(&text(&lengths)?)?;
    let measured = rates(&folder)?
        .into_iter()
        .map(|(point, cold)| {
            let lengths = completed_lengths(&known, &point);
            let prompts: Vec<Vec<Segment>> =
                lengths.iter().zip(0..).map(|(l, i)| vec![whole_prompt(i, l.0)]).collect();
            measured_at(&point, &lengths, &prompts, cold)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((engine_prior()?, split(measured)))
}

fn split(mut measured: Vec<Measured>) -> Points {
    let held_out = measured.split_off(FITTED.min(measured.len()));
    Points { fitted: measured, held_out }
}

/// The points of a folder by rate, and whether each was the first on the server.
fn rates(folder: &Path) -> Result<Vec<(OperatingPoint, bool)>, AccuracyError> {
    let mut found = Vec::new();
    for path in files(folder, ".json")? {
        let raw: serde_json::Value = serde_json::from_str(&text(&path)?)
            .map_err(|error| AccuracyError(format!("{}: {error}", path.display())))?;
        let date = raw["date"].as_str().unwrap_or_default().to_owned();
        found.push((date, run_of(&path)?.point));
    }
    let first = found.iter().map(|(date, _)| date.clone()).min();
    let mut points: Vec<(OperatingPoint, bool)> =
        found.into_iter().map(|(date, point)| (point, Some(date) == first)).collect();
    points.sort_by(|a, b| rate(&a.0).total_cmp(&rate(&b.0)));
    Ok(points)
}

/// Prompt and, where known, output tokens in the order of the requests.
fn known_lengths(text: &str) -> Result<Vec<(u32, Option<u32>)>, AccuracyError> {
    let number = |field: Option<&str>| field.and_then(|f| f.trim().parse().ok());
    text.lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',').skip(1);
            let input = number(fields.next());
            let input =
                input.ok_or_else(|| AccuracyError(format!("lengths: found {line:?}, expected numbers")))?;
            Ok((input, number(fields.next())))
        })
        .collect()
}

/// Lengths of a point's requests: unknown outputs are those of the first requests, scaled to the point's total.
fn completed_lengths(known: &[(u32, Option<u32>)], point: &OperatingPoint) -> Vec<Lengths> {
    let count = point.completed.unwrap_or_default() as usize;
    let known = &known[..count.min(known.len())];
    let sum: u64 = known.iter().filter_map(|(_, output)| output.map(u64::from)).sum();
    let outputs: Vec<u32> = known.iter().filter_map(|(_, output)| *output).collect();
    let unknown = known.len() - outputs.len();
    let stand_in: u64 = outputs.iter().take(unknown).map(|o| u64::from(*o)).sum();
    let left = point.output_tokens.total.unwrap_or(sum).saturating_sub(sum);
    let scale = left as f64 / stand_in.max(1) as f64;
    let mut next = outputs.iter().cycle();
    known
        .iter()
        .map(|&(input, output)| {
            let drawn = || next.next().map_or(1, |&o| (f64::from(o) * scale).round() as u32);
            (input, output.unwrap_or_else(drawn).max(1))
        })
        .collect()
}

/// One rate: an uncounted round first unless cold, then the counted requests.
fn measured_at(
    point: &OperatingPoint,
    lengths: &[Lengths],
    prompts: &[Vec<Segment>],
    cold: bool,
) -> Result<Measured, AccuracyError> {
    let gaps = vllm_bench_gaps(lengths.len());
    let mut list = Builder::default();
    let mut begin_s = 1.0;
    if !cold {
        for (i, at_s) in stretched_arrivals(&gaps, EARLIER_RPS).into_iter().enumerate() {
            list.add(Some(at_s), lengths[i], &prompts[i])?;
        }
        begin_s = lengths.len() as f64 / EARLIER_RPS + PAUSE_S;
    }
    let from = list.len();
    for (i, at_s) in stretched_arrivals(&gaps, rate(point)).into_iter().enumerate() {
        list.add(Some(begin_s + at_s), lengths[i], &prompts[i])?;
    }
    let counted = from..list.len();
    let label = format!("{} requests/s", rate(point));
    let schedules = vec![list.open(rate(point))];
    Ok(Measured {
        trial: Trial { label, schedules, counted, seats: None, pace: 1.0 },
        observations: observations(point),
    })
}

/// Turns of a conversation.
const TURNS: u32 = 5;
/// What a turn may add to its prompt, in tokens: the one under which the lowest rate's median TTFT comes out best.
const ADDED: [f64; 8] = [50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0];

/// Conversations with their history: the ShareGPT profile and the lowest rate calibrate, the others are predicted.
pub fn multiturn(data: &Path) -> Result<Set, AccuracyError> {
    let (sharegpt_prior, sharegpt) = sharegpt_points(data)?;
    let prior = super::fit(&sharegpt_prior, &sharegpt.fitted)?.profile;
    let folder = data.join("measured/do-h200-llama70b-fp8/multiturn-baseline");
    let rates = rates(&folder)?;
    let at = |added: f64, (point, cold): &(OperatingPoint, bool)| {
        let (lengths, prompts) = conversations(point, added);
        measured_at(point, &lengths, &prompts, *cold)
    };
    let lowest = rates.first().ok_or_else(|| AccuracyError(format!("{}: no rates", folder.display())))?;
    let mut best = (f64::INFINITY, ADDED[0]);
    for added in ADDED {
        let served = at(added, lowest)?.trial.serve(&prior)?;
        let ratio =
            Trial::mean(&served, TTFT_P50).zip(lowest.0.ttft_ms.median_ms()).map(|(s, m)| (s / m).ln().abs());
        best = ratio.filter(|r| *r < best.0).map_or(best, |r| (r, added));
    }
    let added = best.1;
    let mut measured = rates.iter().map(|rate| at(added, rate)).collect::<Result<Vec<_>, _>>()?;
    let held_out = measured.split_off(1.min(measured.len()));
    let points = Points { fitted: measured, held_out };
    let (posterior, comparisons) = points.judge(&prior)?;
    Ok(Set {
        name: "do-h200-llama70b-fp8/multiturn-baseline",
        system: system(),
        fitted_on: "the ShareGPT set's profile, then the lowest rate".to_owned(),
        notes: vec![
            format!(
            "Lengths are known in total only. Taken: conversations one after the other in the order of the file, {TURNS} \
             turns each; the first prompt uniform between half of what the measured mean leaves and half as much again (the \
             lowest rate's 99th percentile of TTFT knows none twice as long), every further turn \
             {added} tokens longer (the one of {ADDED:?} under which the median TTFT of the lowest rate comes out best), \
             its history in the cache; answers uniform up to twice \
             the measured mean (at the lowest rate, the 95th and 99th percentile of E2E are twice its median)."
        ),
            "Decode attention over the 8-bit cache takes whole waves of multiprocessors (sim/src/waves.rs): one holds 16 rows. The \
             measured median gap between tokens shows it, 25.5 ms at 0.75 requests/s with 10 rows in the mean, 35.1 with 17, and \
             still 35.9 with 27. The form was taken up because of these points, but no number of it is fitted: \
             multiprocessors and heads are the GPU's and the model's, the slack is the scheduler's. The fitted lowest rate has \
             6 rows in the mean."
                .to_owned(),
            "TPOT is too high at 1.5 and 2 requests/s, and mean TTFT everywhere: the measured mean TTFT falls from the first rate \
             to the second, so some first prompts were found in the cache from the rate before; under the lengths taken here \
             the cache has lost them by then, and what is computed again costs most at the highest rate."
                .to_owned(),
        ],
        profile: posterior.profile,
        comparisons,
        goals: vec![goal(TPOT_MEAN, 0.05), goal(TTFT_P50, 0.10)],
    })
}

/// The entries of a point in the order of its requests: one conversation after the other, turn by turn.
fn conversations(point: &OperatingPoint, added: f64) -> (Vec<Lengths>, Vec<Vec<Segment>>) {
    let count = point.completed.unwrap_or_default() as usize;
    let mean_input = point.input_tokens.mean.unwrap_or_default();
    let answer = point.output_tokens.mean.unwrap_or(1.0);
    // The first prompt is what the turns leave of the mean.
    let first = (mean_input - added * f64::from(TURNS - 1) / 2.0).max(1.0);
    let mut firsts = stream(0, 0, "first prompts");
    let mut answers = stream(0, 0, "answers");
    let mut entries = Vec::with_capacity(count);
    for conversation in 0..count.div_ceil(TURNS as usize) {
        let begin = first * (0.5 + firsts.random::<f64>());
        for turn in 0..TURNS {
            let input = (begin + added * f64::from(turn)).round().max(1.0) as u32;
            let output = (2.0 * answer * answers.random::<f64>()).round().max(1.0) as u32;
            let history = Segment { stream: TokenStream::group(conversation as u64), start: 0, len: input };
            entries.push(((input, output), vec![history]));
        }
    }
    entries.truncate(count);
    entries.into_iter().unzip()
}
