//! A few loaded points, as the simulator in the loop sees them: what experiments one at a time cannot show.

use super::curves::Design;
use super::lab::{Answer, Lab, SweepError};
use super::structure::Pace;
use crate::loads::{Builder, gamma_gaps, stretched_arrivals, uniform_lengths};
use crate::posterior::Measured;
use crate::trial::{Metric, Observation, Statistic, Trial};
use scaleproof_pack::schedule::{RATE_MAX_RPS, Schedule};
use scaleproof_sim::engine::EngineConfig;

/// Share of the closed loop's throughput that is offered in the open one.
const OFFERED: f64 = 0.7;
/// Requests of a point at most.
const REQUESTS_MAX: usize = 240;
/// How far the simulator is trusted with a loaded point, as a share.
const TRUST: f64 = 0.01;

/// Measures a closed loop and an open one; fewer if the answers do not come. Both have requests of many lengths.
///
/// # Errors
/// As [`Lab::open`].
pub fn measure(
    lab: &mut Lab<'_>,
    scheduler: &EngineConfig,
    design: &Design,
    pace: Pace,
    time_s: f64,
) -> Result<Vec<Measured>, SweepError> {
    let reach = design.prompts.iter().map(|prompt| prompt.0).max().unwrap_or(64);
    let input = (reach / 2).clamp(32, 1536);
    let output = 96.min(scheduler.max_model_len / 4).max(4);
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let fits = (pool / u64::from(2 * (input + output))).clamp(1, 32) as u32;
    let clients = (scheduler.max_num_seqs / 2).clamp(1, fits);
    let request_s = 0.6 * f64::from(input) * pace.token_s
        + 0.6 * f64::from(output) * pace.step_s * 1.5 / f64::from(clients);
    let count = ((0.4 * time_s / request_s.max(1e-6)) as usize).clamp(clients as usize + 4, REQUESTS_MAX);
    let lengths = uniform_lengths(count, (input, output), 0.1, 1);
    let list = |at_s: &dyn Fn(usize) -> Option<f64>| {
        let mut list = Builder::default();
        for (i, lengths) in lengths.iter().enumerate() {
            list.add(at_s(i), *lengths, &[])?;
        }
        Ok::<_, SweepError>(list)
    };
    let mut closed = list(&|_| None)?.closed(clients);
    closed.shared_prefixes = false;
    let answers = lab.run(&closed)?;
    let mut points = Vec::new();
    let Some(rps) = throughput_rps(&answers) else { return Ok(points) };
    points.extend(point(format!("{clients} in flight"), closed, &answers));
    let gaps =
        gamma_gaps(count, 1.0, 1).map_err(|error| SweepError::Unusable(format!("arrivals: {error}")))?;
    let arrivals = stretched_arrivals(&gaps, OFFERED * rps);
    let mut open = list(&|i| arrivals.get(i).copied())?.open(RATE_MAX_RPS);
    open.shared_prefixes = false;
    let answers = lab.run(&open)?;
    points.extend(point(format!("{:.3} requests/s", OFFERED * rps), open, &answers));
    Ok(points)
}

fn throughput_rps(answers: &[Answer]) -> Option<f64> {
    let from = answers.iter().map(|answer| answer.sent_s).fold(f64::INFINITY, f64::min);
    let to = answers.iter().filter_map(|answer| answer.tokens_s.last().copied()).fold(0.0, f64::max);
    (to > from).then(|| answers.len() as f64 / (to - from))
}

/// A point with its means, each with what chance moves it by.
fn point(label: String, schedule: Schedule, answers: &[Answer]) -> Option<Measured> {
    let count = schedule.measured.requests.len();
    if answers.len() < count {
        return None;
    }
    let ttft_ms: Vec<f64> = answers.iter().map(|answer| 1e3 * answer.ttft_s()).collect();
    let tpot_ms = answers.iter().filter_map(|answer| {
        let (first, last) = (answer.tokens_s.first()?, answer.tokens_s.last()?);
        let gaps = answer.tokens_s.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
        Some(1e3 * (last - first) / gaps as f64)
    });
    let tpot_ms: Vec<f64> = tpot_ms.collect();
    let observation = |metric, values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        // The same arrivals are simulated, so requests differ from their simulation by less than from each other.
        let relative_sd = (0.2 * (variance / n).sqrt() / mean).hypot(TRUST);
        (mean > 0.0).then_some(Observation { metric, value: mean, relative_sd })
    };
    let observations = [
        observation(Metric::Ttft(Statistic::Mean), &ttft_ms),
        observation(Metric::Tpot(Statistic::Mean), &tpot_ms),
    ];
    let trial = Trial { label, schedules: vec![schedule], counted: 0..count as u64, seats: None };
    Some(Measured { trial, observations: observations.into_iter().flatten().collect() })
}
