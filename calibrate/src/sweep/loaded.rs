//! A few loaded points, as the simulator in the loop sees them: what experiments one at a time cannot show.

use super::curves::Design;
use super::data::median;
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

/// Times that each point is measured, if the time allows: what differs between them is the machine's.
const ROUNDS_MAX: usize = 3;

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
) -> Result<Vec<Measured>, SweepError> {
    let from_s = lab.spent_s;
    let mut points = vec![closed(scheduler, design, pace, time_s)?];
    let answers = lab.run(&points[0].schedule)?;
    points[0].take(&answers);
    if let Some(rps) = throughput_rps(&answers) {
        let mut open = points[0].opened(OFFERED * rps)?;
        open.take(&lab.run(&open.schedule)?);
        points.push(open);
    }
    let round_s = lab.spent_s - from_s;
    for _ in 1..ROUNDS_MAX {
        if lab.spent_s + round_s > from_s + time_s {
            break;
        }
        lab.reference()?;
        for point in &mut points {
            let answers = lab.run(&point.schedule)?;
            point.take(&answers);
        }
    }
    let noise = noise(&points);
    Ok(points.into_iter().filter_map(|point| point.measured(noise)).collect())
}

/// A load that is run several times.
struct Point {
    label: String,
    schedule: Schedule,
    lengths: Vec<(u32, u32)>,
    /// Of each round: the metric's mean over the requests, and what chance moves it by, as a share.
    rounds: Vec<[Option<(f64, f64)>; 2]>,
}

const METRICS: [Metric; 2] = [Metric::Ttft(Statistic::Mean), Metric::Tpot(Statistic::Mean)];

/// A closed loop of half of the seats, if their tokens fit.
fn closed(scheduler: &EngineConfig, design: &Design, pace: Pace, time_s: f64) -> Result<Point, SweepError> {
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
    let mut schedule = list(&lengths, |_| None)?.closed(clients);
    schedule.shared_prefixes = false;
    Ok(Point { label: format!("{clients} in flight"), schedule, lengths, rounds: Vec::new() })
}

fn list(lengths: &[(u32, u32)], at_s: impl Fn(usize) -> Option<f64>) -> Result<Builder, SweepError> {
    let mut list = Builder::default();
    for (i, lengths) in lengths.iter().enumerate() {
        list.add(at_s(i), *lengths, &[])?;
    }
    Ok(list)
}

impl Point {
    /// The same requests in an open loop.
    fn opened(&self, rps: f64) -> Result<Point, SweepError> {
        let gaps = gamma_gaps(self.lengths.len(), 1.0, 1)
            .map_err(|error| SweepError::Unusable(format!("arrivals: {error}")))?;
        let arrivals = stretched_arrivals(&gaps, rps);
        let mut schedule = list(&self.lengths, |i| arrivals.get(i).copied())?.open(RATE_MAX_RPS);
        schedule.shared_prefixes = false;
        let lengths = self.lengths.clone();
        Ok(Point { label: format!("{rps:.3} requests/s"), schedule, lengths, rounds: Vec::new() })
    }

    /// Takes a round's answers, if all came.
    fn take(&mut self, answers: &[Answer]) {
        if answers.len() < self.schedule.measured.requests.len() {
            return;
        }
        let ttft_ms: Vec<f64> = answers.iter().map(|answer| 1e3 * answer.ttft_s()).collect();
        let tpot_ms = answers.iter().filter_map(|answer| {
            let (first, last) = (answer.tokens_s.first()?, answer.tokens_s.last()?);
            let gaps = answer.tokens_s.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
            Some(1e3 * (last - first) / gaps as f64)
        });
        self.rounds.push([mean(&ttft_ms), mean(&tpot_ms.collect::<Vec<f64>>())]);
    }

    /// The values of a metric over the rounds, and the mean variance of what chance moves each by.
    fn values(&self, metric: usize) -> (Vec<f64>, f64) {
        let known: Vec<(f64, f64)> = self.rounds.iter().filter_map(|round| round[metric]).collect();
        let variance = known.iter().map(|(_, sd)| sd * sd).sum::<f64>() / known.len().max(1) as f64;
        (known.into_iter().map(|(mean, _)| mean).collect(), variance)
    }

    /// With its medians over the rounds; `noise` is what a round differs by from another, as a share.
    fn measured(self, noise: f64) -> Option<Measured> {
        let observation = |(i, metric): (usize, Metric)| {
            let (values, variance) = self.values(i);
            let value = median(&values)?;
            let relative_sd = ((variance + noise * noise) / values.len() as f64).sqrt().hypot(TRUST);
            Some(Observation { metric, value, relative_sd })
        };
        let observations: Vec<Observation> =
            METRICS.into_iter().enumerate().filter_map(observation).collect();
        let counted = 0..self.schedule.measured.requests.len() as u64;
        let trial = Trial { label: self.label, schedules: vec![self.schedule], counted, seats: None };
        (!observations.is_empty()).then_some(Measured { trial, observations })
    }
}

/// The standard deviation between rounds of the same load, as a share, over all numbers together; 0 for one round.
fn noise(points: &[Point]) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for (point, metric) in
        points.iter().flat_map(|point| (0..METRICS.len()).map(move |metric| (point, metric)))
    {
        let (values, _) = point.values(metric);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        squares += values.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>();
        freedom += values.len().saturating_sub(1) as f64;
    }
    if freedom > 0.0 { (squares / freedom).sqrt() } else { 0.0 }
}

fn throughput_rps(answers: &[Answer]) -> Option<f64> {
    let from = answers.iter().map(|answer| answer.sent_s).fold(f64::INFINITY, f64::min);
    let to = answers.iter().filter_map(|answer| answer.tokens_s.last().copied()).fold(0.0, f64::max);
    (to > from).then(|| answers.len() as f64 / (to - from))
}

/// The mean, and its standard deviation as a share of it. None without values above zero.
fn mean(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    // The same arrivals are simulated, so requests differ from their simulation by less than from each other.
    (mean > 0.0).then(|| (mean, 0.2 * (variance / n).sqrt() / mean))
}
