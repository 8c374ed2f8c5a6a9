//! A few loaded points, as the simulator in the loop sees them: what experiments one at a time cannot show.

use super::curves::Design;
use super::drift::Drift;
use super::lab::{Answer, Lab, SweepError};
use super::structure::Pace;
use crate::loads::{Builder, gamma_gaps, stretched_arrivals, uniform_lengths};
use crate::posterior::Measured;
use crate::trial::{EARLY_PERCENT, Metric, Observation, Statistic, Trial};
use scaleproof_pack::percentile::nearest_rank;
use scaleproof_pack::schedule::{Planned, RATE_MAX_RPS, Schedule};
use scaleproof_sim::engine::EngineConfig;

/// Share of the closed loop's throughput that is offered in the open one.
const OFFERED: f64 = 0.7;
/// Requests of a point at most.
const REQUESTS_MAX: usize = 240;
/// How far the simulator is trusted with a loaded point, as a share.
const TRUST: f64 = 0.01;

/// Requests of a burst at most, and the prompt and output tokens of each.
const BURST: u32 = 32;
const BURST_REQUEST: (u32, u32) = (4, 1);
/// Bursts in a round at most, and their share of its time.
const BURSTS_MAX: u32 = 8;
const BURSTS_SHARE: f64 = 0.15;
/// As [`TRUST`], of bursts: what a client, a network and a server do with many connections at once, the simulator does not know.
pub(super) const BURST_TRUST: f64 = 0.05;

/// Of a burst, beside the mean: the first answer comes early where the engine need not wait for a server that reads the others.
pub(super) const FIRST_OF_BURST: Metric = Metric::Ttft(Statistic::Percentile(EARLY_PERCENT as f64));

/// What is measured, the schedule, and how far the simulator is trusted with it.
type Load = (String, Schedule, f64);

/// Times that each point is measured, if the time allows, and at most: the machine is not the same at all times.
const ROUNDS: (usize, usize) = (2, 3);
/// Of a round's time, for the closed loop; the open one takes longer by 1/[`OFFERED`], and then there are bursts.
const CLOSED_SHARE: f64 = 0.3;
/// Prompts of a point are not made shorter than this for the sake of rounds.
const PROMPTS_MIN: u32 = 128;

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
    fn at_pace(&self, drift: &Drift) -> Measured {
        let mut measured = self.measured.clone();
        measured.trial.pace = drift.pace(self.at_s);
        for observation in &mut measured.observations {
            observation.relative_sd = observation.relative_sd.hypot(drift.scatter);
        }
        measured
    }
}

/// Measures bursts, a closed loop and an open one, in turns; fewer if the answers do not come. The loops have requests of many
/// lengths.
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
    let mut points = Vec::new();
    let mut run = |lab: &mut Lab<'_>, (label, schedule, trust): &Load| {
        let (answers, at_s) = timed(lab, schedule)?;
        points.extend(point(label, schedule, &answers, at_s, *trust));
        Ok::<_, SweepError>(throughput_rps(&answers))
    };
    let (clients, lengths) = size(scheduler, design, pace, time_s);
    let mut closed = list(&lengths, |_| None)?.closed(clients);
    closed.shared_prefixes = false;
    let mut loads: Vec<Load> = bursts(scheduler, pace, time_s)?.into_iter().collect();
    loads.push((format!("{clients} in flight"), closed, TRUST));
    let mut throughput = None;
    for load in &loads {
        throughput = run(lab, load)?;
    }
    let Some(rps) = throughput else { return Ok(points) };
    let gaps = gamma_gaps(lengths.len(), 1.0, 1)
        .map_err(|error| SweepError::Unusable(format!("arrivals: {error}")))?;
    let arrivals = stretched_arrivals(&gaps, OFFERED * rps);
    let mut open = list(&lengths, |i| arrivals.get(i).copied())?.open(RATE_MAX_RPS);
    open.shared_prefixes = false;
    loads.push((format!("{:.3} requests/s", OFFERED * rps), open, TRUST));
    run(lab, &loads[loads.len() - 1])?;
    let round_s = lab.spent_s - from_s;
    for _ in 1..ROUNDS.1 {
        if lab.spent_s + round_s > from_s + time_s {
            break;
        }
        for load in &loads {
            run(lab, load)?;
        }
    }
    Ok(points)
}

/// Requests at once with next to nothing to compute: whether they wait for each other in the front end shows. None if there is no time
/// for them.
fn bursts(scheduler: &EngineConfig, pace: Pace, time_s: f64) -> Result<Option<Load>, SweepError> {
    let count = scheduler.max_num_seqs.min(BURST);
    let (input, output) = BURST_REQUEST;
    // As if each were served alone, twice over: none meets the next.
    let apart_s = 2.0 * f64::from(count) * (pace.ttft_s + f64::from(input) * pace.token_s);
    let bursts = (BURSTS_SHARE * time_s / apart_s).min(f64::from(BURSTS_MAX)) as u32;
    if bursts == 0 {
        return Ok(None);
    }
    let lengths = vec![(input, output); (bursts * count) as usize];
    let mut burst = list(&lengths, |i| Some(f64::from(i as u32 / count) * apart_s))?.open(RATE_MAX_RPS);
    burst.shared_prefixes = false;
    Ok(Some((format!("{count} at once"), burst, BURST_TRUST)))
}

/// Whether a loaded point is one of bursts.
pub(super) fn is_burst(schedule: &Schedule) -> bool {
    let one = |request: &Planned| (request.input_tokens, request.output_tokens) == BURST_REQUEST;
    schedule.measured.requests.iter().all(one)
}

/// Loaded points at the machine's pace. Where a point was measured in several rounds, no number of it is trusted more than
/// they are alike.
#[must_use]
pub fn at_their_pace(points: &[Loaded], drift: &Drift) -> Vec<Measured> {
    let rounds: Vec<Measured> = points.iter().map(|point| point.at_pace(drift)).collect();
    let mut trusted = rounds.clone();
    for Measured { trial, observations } in &mut trusted {
        for seen in observations {
            seen.relative_sd = seen.relative_sd.max(spread(&rounds, &trial.label, seen.metric));
        }
    }
    trusted
}

/// Standard deviation of a number over the rounds of a point, the machine's pace divided out, as a share; 0 of one round.
fn spread(rounds: &[Measured], label: &str, metric: Metric) -> f64 {
    let rounds = rounds.iter().filter(|round| round.trial.label == label);
    let value = |round: &Measured| {
        let seen = round.observations.iter().find(|seen| seen.metric == metric)?;
        Some(seen.value / round.trial.pace)
    };
    let values: Vec<f64> = rounds.filter_map(value).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
    if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 }
}

/// Clients of the closed loop, half of the seats if their tokens fit; and the lengths of its requests, shorter where there would be no
/// time for two rounds of two requests a client.
fn size(scheduler: &EngineConfig, design: &Design, pace: Pace, time_s: f64) -> (u32, Vec<(u32, u32)>) {
    let reach = design.prompts.iter().map(|prompt| prompt.0).max().unwrap_or(64);
    let mut input = (reach / 2).clamp(32, 1536);
    let output = 96.min(scheduler.max_model_len / 4).max(4);
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let fits = (pool / u64::from(2 * (input + output))).clamp(1, 32) as u32;
    let clients = (scheduler.max_num_seqs / 2).clamp(1, fits);
    let count = |input: u32| {
        let request_s = 0.6 * f64::from(input) * pace.token_s
            + 0.6 * f64::from(output) * pace.steps_of_s(clients, input) / f64::from(clients);
        (CLOSED_SHARE * time_s / ROUNDS.0 as f64 / request_s.max(1e-6)) as usize
    };
    while input > PROMPTS_MIN && count(input) < 2 * clients as usize {
        input = input * 2 / 3;
    }
    let count = count(input).clamp(clients as usize + 4, REQUESTS_MAX);
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
    lab.keep_the_pace()?;
    let from_s = lab.spent_s;
    let answers = lab.run(schedule)?;
    Ok((answers, f64::midpoint(from_s, lab.spent_s)))
}

fn throughput_rps(answers: &[Answer]) -> Option<f64> {
    let from = answers.iter().map(|answer| answer.sent_s).fold(f64::INFINITY, f64::min);
    let to = answers.iter().filter_map(|answer| answer.tokens_s.last().copied()).fold(0.0, f64::max);
    (to > from).then(|| answers.len() as f64 / (to - from))
}

/// A point with its numbers, each with what chance moves it by.
fn point(label: &str, schedule: &Schedule, answers: &[Answer], at_s: f64, trust: f64) -> Option<Loaded> {
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
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let observation = |metric, value: f64, values: &[f64]| {
        let (n, mean) = (values.len() as f64, mean(values));
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        // The same arrivals are simulated, so requests differ from their simulation by less than from each other.
        let relative_sd = (0.2 * (variance / n).sqrt() / mean).hypot(trust);
        (value > 0.0).then_some(Observation { metric, value, relative_sd })
    };
    let mut observations = vec![
        observation(Metric::Ttft(Statistic::Mean), mean(&ttft_ms), &ttft_ms),
        observation(Metric::Tpot(Statistic::Mean), mean(&tpot_ms), &tpot_ms),
    ];
    if is_burst(schedule) {
        let first = nearest_rank(&mut ttft_ms.clone(), EARLY_PERCENT, f64::total_cmp)?;
        observations.push(observation(FIRST_OF_BURST, first, &ttft_ms));
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_differ_are_trusted_less() {
        let closed = list(&[(64, 4)], |_| None).unwrap().closed(1);
        let round = |label, first_s: f64, at_s| {
            let tokens_s = vec![first_s, first_s + 0.1, first_s + 0.2, first_s + 0.3];
            let answer = Answer { index: 0, sent_s: 0.0, tokens_s, input: 64, cached: 0 };
            point(label, &closed, &[answer], at_s, TRUST).unwrap()
        };
        let points = [round("a", 1.0, 0.0), round("a", 1.2, 100.0), round("b", 1.2, 50.0)];
        let sds = |drift: &Drift| -> Vec<f64> {
            let trusted = at_their_pace(&points, drift);
            trusted.iter().map(|measured| measured.observations[0].relative_sd).collect()
        };
        let [first, second, alone] = sds(&Drift::default())[..] else { panic!("three points") };
        assert!((first - 0.1286).abs() < 1e-4 && (second - first).abs() < 1e-12, "{first} {second}");
        assert!((alone - TRUST).abs() < 1e-12, "{alone}");
        // A machine that was slower by as much at that time: then they are alike.
        let drift = Drift { paces: vec![(0.0, 1.0), (100.0, 1.2)], ..Drift::default() };
        assert!(sds(&drift).iter().all(|sd| (sd - TRUST).abs() < 1e-12));
    }
}
