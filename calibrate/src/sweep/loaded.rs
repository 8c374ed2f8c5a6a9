//! A few loaded points, as the simulator in the loop sees them: what experiments one at a time cannot show.

use super::curves::Design;
use super::drift::Drift;
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

/// Times that each point is measured, if the time allows: the machine is not the same at all times.
const ROUNDS_MAX: usize = 3;

/// A run of a loaded point.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Seconds of experiments before its middle.
    pub at_s: f64,
    /// What was measured.
    pub measured: Measured,
}

impl Loaded {
    /// With the machine's pace at its time, and how far that is known.
    #[must_use]
    pub fn at_pace(&self, drift: &Drift) -> Measured {
        let mut measured = self.measured.clone();
        measured.trial.pace = drift.pace(self.at_s);
        for observation in &mut measured.observations {
            observation.relative_sd = observation.relative_sd.hypot(drift.scatter);
        }
        measured
    }
}

/// Measures a closed loop and an open one, in turns; fewer if the answers do not come. Both have requests of many lengths.
///
/// # Errors
/// As [`Lab::open`].
pub fn measure(
    lab: &mut Lab<'_>,
    scheduler: &EngineConfig,
    design: &Design,
    pace: Pace,
    time_s: f64,
) -> Result<Vec<Loaded>, SweepError> {
    let from_s = lab.spent_s;
    let (clients, lengths) = size(scheduler, design, pace, time_s);
    let mut closed = list(&lengths, |_| None)?.closed(clients);
    closed.shared_prefixes = false;
    let label = format!("{clients} in flight");
    let mut points = Vec::new();
    let (answers, at_s) = timed(lab, &closed)?;
    points.extend(point(&label, &closed, &answers, at_s));
    let Some(rps) = throughput_rps(&answers) else { return Ok(points) };
    let gaps = gamma_gaps(lengths.len(), 1.0, 1)
        .map_err(|error| SweepError::Unusable(format!("arrivals: {error}")))?;
    let arrivals = stretched_arrivals(&gaps, OFFERED * rps);
    let mut open = list(&lengths, |i| arrivals.get(i).copied())?.open(RATE_MAX_RPS);
    open.shared_prefixes = false;
    let loads = [(label, closed), (format!("{:.3} requests/s", OFFERED * rps), open)];
    let (answers, at_s) = timed(lab, &loads[1].1)?;
    points.extend(point(&loads[1].0, &loads[1].1, &answers, at_s));
    let round_s = lab.spent_s - from_s;
    for _ in 1..ROUNDS_MAX {
        if lab.spent_s + round_s > from_s + time_s {
            break;
        }
        for (label, schedule) in &loads {
            lab.reference()?;
            let (answers, at_s) = timed(lab, schedule)?;
            points.extend(point(label, schedule, &answers, at_s));
        }
    }
    Ok(points)
}

/// Clients of the closed loop, half of the seats if their tokens fit; and the lengths of its requests.
fn size(scheduler: &EngineConfig, design: &Design, pace: Pace, time_s: f64) -> (u32, Vec<(u32, u32)>) {
    let reach = design.prompts.iter().map(|prompt| prompt.0).max().unwrap_or(64);
    let input = (reach / 2).clamp(32, 1536);
    let output = 96.min(scheduler.max_model_len / 4).max(4);
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let fits = (pool / u64::from(2 * (input + output))).clamp(1, 32) as u32;
    let clients = (scheduler.max_num_seqs / 2).clamp(1, fits);
    let request_s = 0.6 * f64::from(input) * pace.token_s
        + 0.6 * f64::from(output) * pace.steps_of_s(clients, input) / f64::from(clients);
    let count = ((0.4 * time_s / request_s.max(1e-6)) as usize).clamp(clients as usize + 4, REQUESTS_MAX);
    (clients, uniform_lengths(count, (input, output), 0.1, 1))
}

fn list(lengths: &[(u32, u32)], at_s: impl Fn(usize) -> Option<f64>) -> Result<Builder, SweepError> {
    let mut list = Builder::default();
    for (i, lengths) in lengths.iter().enumerate() {
        list.add(at_s(i), *lengths, &[])?;
    }
    Ok(list)
}

/// Runs a schedule; with the middle of its time.
fn timed(lab: &mut Lab<'_>, schedule: &Schedule) -> Result<(Vec<Answer>, f64), SweepError> {
    let from_s = lab.spent_s;
    let answers = lab.run(schedule)?;
    Ok((answers, f64::midpoint(from_s, lab.spent_s)))
}

fn throughput_rps(answers: &[Answer]) -> Option<f64> {
    let from = answers.iter().map(|answer| answer.sent_s).fold(f64::INFINITY, f64::min);
    let to = answers.iter().filter_map(|answer| answer.tokens_s.last().copied()).fold(0.0, f64::max);
    (to > from).then(|| answers.len() as f64 / (to - from))
}

/// A point with its means, each with what chance moves it by.
fn point(label: &str, schedule: &Schedule, answers: &[Answer], at_s: f64) -> Option<Loaded> {
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
    let trial = Trial {
        label: label.to_owned(),
        schedules: vec![schedule.clone()],
        counted: 0..count as u64,
        seats: None,
        pace: 1.0,
    };
    let measured = Measured { trial, observations: observations.into_iter().flatten().collect() };
    Some(Loaded { at_s, measured })
}
