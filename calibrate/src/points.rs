//! Operating points of benchmarks as trials: the load that each says it had, and what it measured.
//!
//! What a result says of its load is taken as it is: each request's lengths and its time of sending, else the point's
//! length distributions, its rate or concurrency. What it does not say is drawn, several times, and the metrics are
//! averaged; each measurement is then also uncertain by what such draws differ by.

mod cache;
mod noise;

pub(crate) use noise::noise_of;
pub use noise::{observations, widen_by_draws};

use crate::loads::{Builder, Lengths, gamma_gaps, stretched_arrivals, vllm_bench_gaps, whole_prompt};
use crate::posterior::Measured;
use crate::trial::Trial;
use scaleproof_pack::chance::stream;
use scaleproof_pack::import::{Answer, OfferedRate, OperatingPoint, Run, Tokens, Tool};
use scaleproof_pack::manifest::{ArrivalPattern, Distribution, Manifest, TOKENS_MAX};
use scaleproof_pack::schedule::{
    CONCURRENCY_MAX, Load, Planned, RATE_MAX_RPS, Sampler, Schedule, ScheduleError,
};
use scaleproof_pack::time::TimeError;
use std::fmt;

/// What is taken where a result does not say it.
#[derive(Clone, Debug)]
pub struct Assumed {
    /// Mean prompt tokens of a point without.
    pub input_tokens: Option<f64>,
    /// Mean output tokens of a point without.
    pub output_tokens: Option<f64>,
    /// How lengths lie about a mean.
    pub spread: Spread,
    /// Draws of what is not known, averaged; at least 1.
    pub draws: u64,
    /// Lengths, shared prefixes and sessions of every point, in place of its own; `true` with the shared prefixes.
    pub workload: Option<(Manifest, bool)>,
    /// Whether the engine keeps finished blocks for prompts that begin alike.
    pub prefix_caching: bool,
}

/// How lengths lie about a known mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// All of them are the mean.
    Fixed,
    /// Uniform, this share of the mean to either side; from 0 to 1.
    Uniform(f64),
    /// Lognormal with this standard deviation of the logarithm, from 0 to 3.
    Lognormal(f64),
}

/// A point as a trial.
#[derive(Clone, Debug)]
pub struct PointTrial {
    /// The system, as the source names it.
    pub system: String,
    /// The load and the numbers.
    pub measured: Measured,
    /// What was taken for what the source does not say.
    pub notes: Vec<String>,
}

/// Why a point is no trial.
#[derive(Debug)]
pub enum PointError {
    /// Something is not known that has to be, or is out of bounds.
    Unusable {
        /// What of the point.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it must be, and what to do.
        expected: &'static str,
    },
    /// The workload gives no schedule.
    Schedule(ScheduleError),
    /// A request at no time.
    Time(TimeError),
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointError::Unusable { field, found, expected } => {
                write!(f, "{field}: found {found}; expected {expected}")
            }
            PointError::Schedule(error) => error.fmt(f),
            PointError::Time(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PointError {}

impl From<ScheduleError> for PointError {
    fn from(error: ScheduleError) -> Self {
        PointError::Schedule(error)
    }
}

impl From<TimeError> for PointError {
    fn from(error: TimeError) -> Self {
        PointError::Time(error)
    }
}

fn unusable<T>(
    field: &'static str,
    found: impl Into<String>,
    expected: &'static str,
) -> Result<T, PointError> {
    Err(PointError::Unusable { field, found: found.into(), expected })
}

/// The most requests of a point: each candidate of a fit simulates them all.
const REQUESTS_MAX: u64 = 1_000_000;
/// Requests of a closed loop that does not say how many: this many a client.
const REQUESTS_PER_CLIENT: u64 = 10;
/// Requests of an open loop that says neither how many nor how long.
const REQUESTS_USUAL: u64 = 500;

/// A run as a trial.
///
/// # Errors
/// What is not known of its load and must be, what is out of bounds, and a point that measured nothing.
pub fn point_trial(run: &Run, assumed: &Assumed) -> Result<PointTrial, PointError> {
    let point = &run.point;
    let observations = observations(point);
    if observations.is_empty() {
        return unusable(
            "latencies",
            "none",
            "a TTFT, a TPOT, an E2E latency or a throughput; name another file",
        );
    }
    let mut notes = Vec::new();
    let load = Source::new(run, assumed, &mut notes)?;
    cache::check(point, assumed, &mut notes)?;
    let schedules = match &assumed.workload {
        Some((manifest, shared)) => load.of_workload(manifest, *shared)?,
        None => load.of_point(&mut notes)?,
    };
    if let Some(failed) = point.failed.filter(|failed| *failed > 0) {
        notes.push(format!("{failed} failed requests are not simulated"));
    }
    let trial = Trial {
        label: load.label(&schedules),
        counted: 0..load.count as u64,
        schedules,
        seats: None,
        pace: 1.0,
    };
    Ok(PointTrial { system: point.label.clone(), measured: Measured { trial, observations }, notes })
}

/// How the requests of a point came.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrivals {
    /// When they were sent, which the result says.
    AsSent,
    /// At a rate, with gaps of a gamma distribution.
    Rate { rps: f64, shape: f64 },
    /// All at once.
    AtOnce,
    /// As soon as one of so many clients was free.
    Closed { concurrency: u32 },
}

/// The load of a run.
struct Source<'a> {
    run: &'a Run,
    assumed: &'a Assumed,
    arrivals: Arrivals,
    /// The answers with what was sent, if the result lists them.
    answered: Vec<Answered>,
    count: usize,
}

/// A request with its answer.
struct Answered {
    sent_s: Option<f64>,
    input_tokens: Option<u32>,
    answer: Answer,
}

impl<'a> Source<'a> {
    fn new(run: &'a Run, assumed: &'a Assumed, notes: &mut Vec<String>) -> Result<Self, PointError> {
        let answered = run.requests.iter().filter_map(|request| {
            let answer = *request.answer()?;
            let sent_s = request.sent.map(|sent| sent.seconds());
            Some(Answered { sent_s, input_tokens: request.input_tokens, answer })
        });
        let answered: Vec<Answered> = answered.collect();
        let arrivals = arrivals(&run.point, &answered, notes)?;
        let count = count(&run.point, &answered, arrivals, notes)?;
        Ok(Source { run, assumed, arrivals, answered, count })
    }

    /// The load in words, with the mean lengths of what is simulated.
    fn label(&self, schedules: &[Schedule]) -> String {
        let load = match (self.arrivals, self.run.point.offered_rate) {
            (Arrivals::Closed { concurrency }, _) => format!("{concurrency} in flight"),
            (Arrivals::AtOnce, _) => format!("{} at once", self.count),
            (Arrivals::Rate { rps, .. }, _) | (Arrivals::AsSent, Some(OfferedRate::Rps(rps))) => {
                format!("{rps} requests/s")
            }
            (Arrivals::AsSent, _) => format!("{} as sent", self.count),
        };
        let requests = || schedules.iter().flat_map(|schedule| &schedule.measured.requests);
        let mean = |tokens: fn(&Planned) -> u32| {
            let total: u64 = requests().map(|request| u64::from(tokens(request))).sum();
            (total as f64 / requests().count().max(1) as f64).round()
        };
        format!("{load}, {} in, {} out", mean(|r| r.input_tokens), mean(|r| r.output_tokens))
    }

    /// Schedules of the workload's requests under the point's load.
    fn of_workload(&self, manifest: &Manifest, shared: bool) -> Result<Vec<Schedule>, PointError> {
        let mut manifest = manifest.clone();
        if matches!(manifest.client.arrivals, ArrivalPattern::Trace(_)) {
            return unusable("workload", "a trace", "classes with their lengths; take another scenario");
        }
        manifest.client.initial_scheduled_requests = self.count as u64;
        manifest.client.minimum_duration_seconds = 0.0;
        let mut before = 0;
        let mut mix = 0.0;
        let counts = manifest.classes.iter().map(|class| {
            mix += class.mix;
            let upto = ((mix * self.count as f64).round() as u64).min(self.count as u64);
            let count = upto.saturating_sub(before);
            before = upto;
            count
        });
        manifest.client.class_schedule_counts = counts.collect();
        let load = match self.arrivals {
            Arrivals::Closed { concurrency } => Load::Closed { concurrency },
            Arrivals::AtOnce => Load::Open { rps: RATE_MAX_RPS },
            Arrivals::Rate { rps, shape } => {
                if self.run.point.gamma_shape.is_some() {
                    manifest.client.arrivals = ArrivalPattern::Gamma { shape };
                }
                Load::Open { rps }
            }
            Arrivals::AsSent => match self.run.point.offered_rate {
                Some(OfferedRate::Rps(rps)) => Load::Open { rps },
                _ => return unusable("rate", "none", "a rate or a concurrency, for a workload of one's own"),
            },
        };
        let generate = |draw| Schedule::generate(&manifest, load, draw, None, shared);
        Ok((0..self.assumed.draws).map(generate).collect::<Result<_, _>>()?)
    }

    /// Schedules of the point's own requests; one if nothing has to be drawn.
    fn of_point(&self, notes: &mut Vec<String>) -> Result<Vec<Schedule>, PointError> {
        let point = &self.run.point;
        let inputs: Option<Vec<u32>> = self.answered.iter().map(|a| a.input_tokens).collect();
        let outputs: Vec<u32> = self.answered.iter().map(|a| a.answer.output_tokens).collect();
        let listed = !self.answered.is_empty();
        let input =
            side("input_tokens", inputs.filter(|_| listed), &point.input_tokens, self.assumed.input_tokens)?;
        let output = side(
            "output_tokens",
            Some(outputs).filter(|_| listed),
            &point.output_tokens,
            self.assumed.output_tokens,
        )?;
        let fixed = |side: &Side| match side {
            Side::Listed(_) => true,
            Side::Mean(_) => self.assumed.spread == Spread::Fixed,
            Side::Drawn(_) => false,
        };
        for (side, what) in [(&input, "prompts"), (&output, "answers")] {
            if let (Side::Mean(mean), Spread::Fixed) = (side, self.assumed.spread) {
                notes.push(format!("all {what} have the mean length, {mean:.0} tokens"));
            }
        }
        let random = matches!(self.arrivals, Arrivals::Rate { .. }) && !self.is_vllm_bench();
        let known = fixed(&input) && fixed(&output) && !random;
        let draws = if known { 1 } else { self.assumed.draws };
        (0..draws)
            .map(|draw| {
                let inputs = input.lengths(self.count, self.assumed.spread, draw, "input lengths");
                let outputs = output.lengths(self.count, self.assumed.spread, draw, "output lengths");
                self.schedule(&inputs, &outputs, draw)
            })
            .collect()
    }

    /// Whether its arrivals are those of `vllm bench serve` with the seed that it has unless told another.
    fn is_vllm_bench(&self) -> bool {
        self.run.point.source.tool == Tool::VllmBench && is_poisson(self.arrivals)
    }

    fn schedule(&self, inputs: &[u32], outputs: &[u32], draw: u64) -> Result<Schedule, PointError> {
        let at_s: Vec<Option<f64>> = match self.arrivals {
            Arrivals::Closed { .. } => vec![None; self.count],
            Arrivals::AtOnce => vec![Some(0.0); self.count],
            Arrivals::AsSent => {
                let times = self.answered.iter().map(|a| a.sent_s.unwrap_or(0.0));
                let first = times.clone().fold(f64::INFINITY, f64::min);
                times.map(|at| Some(at - first)).collect()
            }
            Arrivals::Rate { rps, shape } => {
                let gaps = if self.is_vllm_bench() {
                    vllm_bench_gaps(self.count)
                } else {
                    match gamma_gaps(self.count, shape, draw) {
                        Ok(gaps) => gaps,
                        Err(_) => return unusable("gamma_shape", shape.to_string(), "a number above 0"),
                    }
                };
                stretched_arrivals(&gaps, rps).into_iter().map(Some).collect()
            }
        };
        let mut order: Vec<(Option<f64>, Lengths)> =
            at_s.into_iter().zip(inputs.iter().copied().zip(outputs.iter().copied())).collect();
        order.sort_by(|a, b| a.0.unwrap_or(0.0).total_cmp(&b.0.unwrap_or(0.0)));
        let mut list = Builder::default();
        let hit_share = self.run.point.prefix_hit_share.unwrap_or(0.0);
        for (at_s, lengths) in order {
            let cached = (f64::from(lengths.0) * hit_share).round() as u32;
            let shared = (cached > 0).then(|| whole_prompt(0, cached));
            list.add(at_s, lengths, shared.as_slice())?;
        }
        Ok(match self.arrivals {
            Arrivals::Closed { concurrency } => list.closed(concurrency),
            Arrivals::Rate { rps, .. } => list.open(rps),
            Arrivals::AtOnce | Arrivals::AsSent => list.open(RATE_MAX_RPS),
        })
    }
}

fn is_poisson(arrivals: Arrivals) -> bool {
    matches!(arrivals, Arrivals::Rate { shape, .. } if (shape - 1.0).abs() < 1e-9)
}

fn arrivals(
    point: &OperatingPoint,
    answered: &[Answered],
    notes: &mut Vec<String>,
) -> Result<Arrivals, PointError> {
    let timed = !answered.is_empty() && answered.iter().all(|a| a.sent_s.is_some());
    let closed = |concurrency: u32| {
        if concurrency > CONCURRENCY_MAX {
            return unusable("concurrency", concurrency.to_string(), "at most 1000000");
        }
        Ok(Arrivals::Closed { concurrency })
    };
    match (point.offered_rate, point.concurrency) {
        (None | Some(OfferedRate::Infinite), Some(concurrency)) => closed(concurrency),
        _ if timed => Ok(Arrivals::AsSent),
        (Some(OfferedRate::Infinite), None) => Ok(Arrivals::AtOnce),
        (Some(OfferedRate::Rps(rps)), limit) => {
            if !(rps > 0.0 && rps <= RATE_MAX_RPS) {
                return unusable("rate", rps.to_string(), "requests per second, above 0 and at most 1000000");
            }
            if let Some(limit) = limit {
                notes.push(format!("the client's limit of {limit} in flight is not simulated"));
            }
            let arrivals = Arrivals::Rate { rps, shape: point.gamma_shape.unwrap_or(1.0) };
            if point.source.tool == Tool::VllmBench && is_poisson(arrivals) {
                notes.push("arrivals are those that vllm bench serve draws with its seed 0".to_owned());
            }
            Ok(arrivals)
        }
        (None, None) => unusable(
            "load",
            "neither a rate nor a concurrency, nor each request's time of sending",
            "one of them; add it to a table of points",
        ),
    }
}

fn count(
    point: &OperatingPoint,
    answered: &[Answered],
    arrivals: Arrivals,
    notes: &mut Vec<String>,
) -> Result<usize, PointError> {
    let listed = (!answered.is_empty()).then_some(answered.len() as u64);
    let stated = listed.or(point.completed).or(point.attempted).filter(|count| *count > 0);
    let count = stated.unwrap_or_else(|| {
        let (count, taken) = match (arrivals, point.duration_s) {
            (Arrivals::Closed { concurrency }, _) => (
                REQUESTS_PER_CLIENT * u64::from(concurrency),
                format!("{REQUESTS_PER_CLIENT} a client are taken"),
            ),
            (Arrivals::Rate { rps, .. }, Some(duration_s)) if duration_s > 0.0 => {
                ((rps * duration_s).ceil() as u64, "its rate times its duration is taken".to_owned())
            }
            _ => (REQUESTS_USUAL, format!("{REQUESTS_USUAL} are taken")),
        };
        notes.push(format!("the source does not say how many requests there were: {taken}"));
        count
    });
    if count > REQUESTS_MAX {
        return unusable(
            "requests",
            count.to_string(),
            "at most 1000000, which every step of a fit simulates",
        );
    }
    Ok(count as usize)
}

/// The lengths of a point's prompts, or of its answers.
enum Side {
    /// Each request's.
    Listed(Vec<u32>),
    /// By the point's own distribution.
    Drawn(Sampler),
    /// Their mean.
    Mean(f64),
}

fn side(
    field: &'static str,
    listed: Option<Vec<u32>>,
    tokens: &Tokens,
    assumed: Option<f64>,
) -> Result<Side, PointError> {
    if let Some(listed) = listed {
        return Ok(Side::Listed(listed));
    }
    if let Some(lengths) = &tokens.lengths {
        return Ok(Side::Drawn(Sampler::tokens(lengths)));
    }
    match tokens.mean.or(assumed) {
        Some(mean) if mean >= 1.0 && mean <= f64::from(TOKENS_MAX) => Ok(Side::Mean(mean)),
        Some(mean) => unusable(field, mean.to_string(), "a mean from 1 to 10000000"),
        None => unusable(field, "no lengths", "them; give --workload, or a mean by the option of that name"),
    }
}

impl Side {
    fn lengths(&self, count: usize, spread: Spread, draw: u64, name: &str) -> Vec<u32> {
        let sampler = match self {
            Side::Listed(lengths) => return lengths.clone(),
            Side::Drawn(sampler) => sampler.clone(),
            Side::Mean(mean) => Sampler::tokens(&about(*mean, spread)),
        };
        let mut chance = stream(draw, 0, name);
        (0..count).map(|_| sampler.draw_tokens(&mut chance)).collect()
    }
}

/// Lengths about a mean.
fn about(mean: f64, spread: Spread) -> Distribution {
    match spread {
        Spread::Fixed => Distribution::Fixed(mean),
        Spread::Uniform(share) => Distribution::Uniform {
            min: (mean * (1.0 - share)).round().max(1.0),
            max: (mean * (1.0 + share)).round().min(f64::from(TOKENS_MAX)),
        },
        // The mean of a lognormal is its median times exp(sigma^2/2).
        Spread::Lognormal(sigma) => Distribution::Lognormal {
            median: (mean * (-sigma * sigma / 2.0).exp()).max(1.0),
            sigma,
            min: 1.0,
            max: f64::from(TOKENS_MAX),
        },
    }
}

#[cfg(test)]
mod tests;
