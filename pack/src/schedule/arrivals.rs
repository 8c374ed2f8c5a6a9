//! Arrival times: gaps of mean 1 in operational time, scaled by the offered rate, so that schedules of different
//! rates are the same schedule, stretched.

use super::draw::Sampler;
use super::{Load, Release};
use crate::chance::Stream;
use crate::manifest::{ArrivalPattern, Client, RatePiece};
use crate::time::{Nanos, TimeError};
use rand_distr::{Distribution, Exp1, Gamma};

/// An endless sequence of arrivals after time 0.
#[derive(Clone, Debug)]
struct Arrivals {
    gaps: Gaps,
    profile: Option<RateProfile>,
    stream: Stream,
    /// Seconds of mean gap.
    mean_gap_s: f64,
    /// Sum of the gaps so far, in mean gaps.
    elapsed: f64,
}

#[derive(Clone, Debug)]
enum Gaps {
    Constant,
    Exponential,
    Gamma(Gamma<f64>),
}

impl Arrivals {
    /// A trace has no pattern of its own: what is drawn beside it (its warm-up) is Poisson.
    fn new(pattern: &ArrivalPattern, mean_gap_s: f64, stream: Stream) -> Arrivals {
        let gaps = match pattern {
            ArrivalPattern::Constant => Gaps::Constant,
            ArrivalPattern::Gamma { shape } => {
                Gaps::Gamma(Gamma::new(*shape, 1.0 / shape).expect("a manifest's shape is positive"))
            }
            ArrivalPattern::Poisson | ArrivalPattern::Piecewise { .. } | ArrivalPattern::Trace(_) => {
                Gaps::Exponential
            }
        };
        let profile = match pattern {
            ArrivalPattern::Piecewise { pieces } => Some(RateProfile::new(pieces)),
            _ => None,
        };
        Arrivals { gaps, profile, stream, mean_gap_s, elapsed: 0.0 }
    }

    /// The next arrival.
    fn next(&mut self) -> Result<Nanos, TimeError> {
        self.elapsed += match &self.gaps {
            Gaps::Constant => 1.0,
            Gaps::Exponential => Exp1.sample(&mut self.stream),
            Gaps::Gamma(gamma) => gamma.sample(&mut self.stream),
        };
        let seconds = self.elapsed * self.mean_gap_s;
        Nanos::from_seconds(self.profile.as_ref().map_or(seconds, |profile| profile.time_of(seconds)))
    }
}

/// When the requests of a list are sent.
#[derive(Clone, Debug)]
pub(super) struct Releases {
    /// None in a closed loop.
    arrivals: Option<Arrivals>,
    /// When the arrivals' time begins.
    offset: Nanos,
    think: Option<Sampler>,
    think_stream: Stream,
}

impl Releases {
    /// `requests_per_arrival` is above 1 where sessions bring their later turns with them. `stream` gives the
    /// named streams of the part of the schedule that this is for.
    pub(super) fn new(
        client: &Client,
        load: Load,
        requests_per_arrival: f64,
        stream: &impl Fn(&str) -> Stream,
    ) -> Releases {
        let arrivals = match load {
            Load::Open { rps } => {
                Some(Arrivals::new(&client.arrivals, requests_per_arrival / rps, stream("arrivals")))
            }
            Load::Closed { .. } => None,
        };
        let think = client.think_time.as_ref().map(Sampler::seconds);
        Releases { arrivals, offset: Nanos::ZERO, think, think_stream: stream("think times") }
    }

    /// Moves all arrivals by `offset`.
    pub(super) fn beginning_at(mut self, offset: Nanos) -> Releases {
        self.offset = offset;
        self
    }

    /// When the next request is sent.
    pub(super) fn next(&mut self) -> Result<Release, TimeError> {
        match &mut self.arrivals {
            Some(arrivals) => Ok(Release::At(self.offset + arrivals.next()?)),
            None => self.when_free(),
        }
    }

    /// As soon as a closed-loop client is free and has paused.
    pub(super) fn when_free(&mut self) -> Result<Release, TimeError> {
        let think =
            self.think.as_ref().map_or(Ok(Nanos::ZERO), |think| think.draw_time(&mut self.think_stream))?;
        Ok(Release::WhenFree { think })
    }
}

/// How much warm-up there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarmUp {
    /// Open loop: arrivals before this.
    pub(super) until: Nanos,
    /// Closed loop: this many requests.
    pub(super) requests: usize,
}

impl WarmUp {
    /// Whether a request released so still belongs to it, after `before` others.
    pub(super) fn covers(&self, release: Release, before: usize) -> bool {
        match release {
            Release::At(at) => at < self.until,
            Release::WhenFree { .. } | Release::After { .. } => before < self.requests,
        }
    }
}

/// A rate that changes over rounds of equal length, with a mean of 1: a time change. A Poisson process of rate 1 in
/// operational time becomes one of the varying rate when each of its times m is moved to the t at which the rate's
/// integral from 0 to t is m.
#[derive(Clone, Debug)]
struct RateProfile {
    pieces: Vec<RatePiece>,
    /// For each piece, the round's seconds before it, and the integral up to its end.
    before_s: Vec<f64>,
    integral_to: Vec<f64>,
    round_s: f64,
}

impl RateProfile {
    fn new(pieces: &[RatePiece]) -> RateProfile {
        let round_s: f64 = pieces.iter().map(|piece| piece.seconds).sum();
        let integral: f64 = pieces.iter().map(area).sum();
        let factor = round_s / integral;
        let scaled =
            |piece: &RatePiece| RatePiece { from: piece.from * factor, to: piece.to * factor, ..*piece };
        let pieces: Vec<RatePiece> = pieces.iter().map(scaled).collect();
        let lengths: Vec<f64> = pieces.iter().map(|piece| piece.seconds).collect();
        let areas: Vec<f64> = pieces.iter().map(area).collect();
        let ends = super::draw::cumulative(&lengths);
        let before_s = ends.iter().zip(&lengths).map(|(end, length)| end - length).collect();
        RateProfile { before_s, integral_to: super::draw::cumulative(&areas), round_s, pieces }
    }

    /// The time at which the integral reaches `mass`.
    fn time_of(&self, mass: f64) -> f64 {
        // A round's integral is its length, the mean being 1.
        let rounds = (mass / self.round_s).floor();
        let mass = mass - rounds * self.round_s;
        let last = self.pieces.len() - 1;
        let index = self.integral_to.partition_point(|end| *end < mass).min(last);
        let piece = &self.pieces[index];
        let inside = (mass - (self.integral_to[index] - area(piece))).max(0.0);
        rounds * self.round_s + self.before_s[index] + time_in(piece, inside)
    }
}

fn area(piece: &RatePiece) -> f64 {
    piece.seconds * (piece.from + piece.to) / 2.0
}

/// The time x into the piece at which from x + (to - from)/(2 seconds) x^2 is `mass`.
fn time_in(piece: &RatePiece, mass: f64) -> f64 {
    if mass <= 0.0 {
        return 0.0;
    }
    let slope = (piece.to - piece.from) / piece.seconds;
    let root = (piece.from * piece.from + 2.0 * slope * mass).max(0.0).sqrt();
    // This form of the quadratic's solution keeps its digits for a slope near 0.
    (2.0 * mass / (piece.from + root)).min(piece.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::stream;

    fn times(pattern: &ArrivalPattern, rps: f64, count: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(pattern, 1.0 / rps, stream(7, 0, "arrivals"));
        (0..count).map(|_| arrivals.next().unwrap().seconds()).collect()
    }

    /// Mean and coefficient of variation of the gaps.
    fn gaps(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn mean_rates_and_variation_are_those_asked_for() {
        for (pattern, variation) in [
            (ArrivalPattern::Constant, 0.0),
            (ArrivalPattern::Poisson, 1.0),
            (ArrivalPattern::Gamma { shape: 0.25 }, 2.0),
            (ArrivalPattern::Gamma { shape: 4.0 }, 0.5),
        ] {
            let (mean, found) = gaps(&times(&pattern, 20.0, 200_000));
            assert!((mean * 20.0 - 1.0).abs() < 0.015, "{pattern:?}: mean {mean}");
            assert!((found - variation).abs() < 0.03, "{pattern:?}: variation {found}");
        }
    }

    #[test]
    fn rates_stretch_one_and_the_same_schedule() {
        let (slow, fast) =
            (times(&ArrivalPattern::Poisson, 1.0, 99), times(&ArrivalPattern::Poisson, 4.0, 99));
        for (slow, fast) in slow.iter().zip(&fast) {
            assert!((slow / 4.0 - fast).abs() < 1e-8);
        }
    }

    #[test]
    fn a_piecewise_rate_has_its_mean_over_a_round_and_its_shape_within() {
        let pieces = vec![
            RatePiece { seconds: 10.0, from: 0.0, to: 4.0 },
            RatePiece { seconds: 5.0, from: 0.0, to: 0.0 },
            RatePiece { seconds: 25.0, from: 4.0, to: 4.0 },
        ];
        let count = 400_000;
        let times = times(&ArrivalPattern::Piecewise { pieces }, 100.0, count);
        let rate = count as f64 / times[count - 1];
        assert!((rate - 100.0).abs() < 1.0, "{rate}");
        let share = |from: f64, to: f64| {
            times.iter().filter(|t| (from..to).contains(&(*t % 40.0))).count() as f64 / count as f64
        };
        // Integrals 20, 0 and 100 of 120; the ramp's first half holds a quarter of its arrivals.
        for (found, expected) in
            [(share(0.0, 10.0), 1.0 / 6.0), (share(0.0, 5.0), 1.0 / 24.0), (share(10.001, 14.999), 0.0)]
        {
            assert!((found - expected).abs() < 0.005, "{found}, not {expected}");
        }
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
