//! Loads as benchmarks make them.

use rand::RngExt;
use rand_distr::Distribution;
use rand_mt::Mt;
use scaleproof_pack::chance::stream;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::{Nanos, TimeError};

/// A request of a load: prompt and output tokens.
pub type Lengths = (u32, u32);

/// The gaps that `vllm bench serve` draws with seed 0 for Poisson arrivals at rate 1: NumPy's legacy generator, whose
/// gamma of shape 1 is -ln(1 - u) for a 53-bit uniform u.
pub fn vllm_bench_gaps(count: usize) -> Vec<f64> {
    let mut generator = Mt::new(0);
    let mut uniform = || {
        let (high, low) = (generator.next_u32() >> 5, generator.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    };
    (0..count).map(|_| -(1.0 - uniform()).ln()).collect()
}

/// Gaps of mean 1 whose distribution is gamma of this shape (above 0): 1 is Poisson's, more is steadier.
pub fn gamma_gaps(count: usize, shape: f64, draw: u64) -> Result<Vec<f64>, rand_distr::GammaError> {
    let mut chance = stream(draw, 0, "gaps");
    let gamma = rand_distr::Gamma::new(shape, 1.0 / shape)?;
    Ok((0..count).map(|_| gamma.sample(&mut chance)).collect())
}

/// The sums of the gaps, stretched so that the last is `count/rps`, as `vllm bench serve` has them since 0.9.
pub fn stretched_arrivals(gaps: &[f64], rps: f64) -> Vec<f64> {
    let total: f64 = gaps.iter().sum();
    let scale = gaps.len() as f64 / rps / total;
    gaps.iter()
        .scan(0.0, |sum, gap| {
            *sum += gap;
            Some(*sum * scale)
        })
        .collect()
}

/// Adds requests to a list.
#[derive(Default)]
pub struct Builder {
    list: PlannedList,
}

impl Builder {
    /// Requests so far.
    pub fn len(&self) -> u64 {
        self.list.requests.len() as u64
    }

    /// A request at a time in seconds, or when a client is free; its prompt is `prompt`, from its beginning.
    pub fn add(
        &mut self,
        at_s: Option<f64>,
        (input, output): Lengths,
        prompt: &[Segment],
    ) -> Result<(), TimeError> {
        let release = match at_s {
            Some(at_s) => Release::At(Nanos::from_seconds(at_s)?),
            None => Release::WhenFree { think: Nanos::ZERO },
        };
        let segments_from = self.list.segments.len() as u32;
        self.list.segments.extend_from_slice(prompt);
        self.list.requests.push(Planned {
            release,
            class: 0,
            priority: 0,
            input_tokens: input.max(1),
            output_tokens: output.max(1),
            cancel_after: None,
            segments_from,
            segments_len: prompt.len() as u32,
        });
        Ok(())
    }

    /// The schedule of an open loop.
    pub fn open(self, rps: f64) -> Schedule {
        Schedule::of(Load::Open { rps }, self.list)
    }

    /// The schedule of a closed loop.
    pub fn closed(self, concurrency: u32) -> Schedule {
        Schedule::of(Load::Closed { concurrency }, self.list)
    }
}

/// The prompt of `tokens` that is number `index`, or the beginning of one: the same wherever it is asked for.
pub fn whole_prompt(index: u64, tokens: u32) -> Segment {
    Segment { stream: TokenStream::group(index), start: 0, len: tokens }
}

/// Lengths uniform between a share of the nominal ones and those themselves, each on its own.
pub fn uniform_lengths(count: usize, (input, output): Lengths, share: f64, draw: u64) -> Vec<Lengths> {
    let (mut inputs, mut outputs) = (stream(draw, 0, "input lengths"), stream(draw, 0, "output lengths"));
    let low = |nominal: u32| ((f64::from(nominal) * share) as u32).clamp(1, nominal);
    (0..count)
        .map(|_| (inputs.random_range(low(input)..=input), outputs.random_range(low(output)..=output)))
        .collect()
}

/// Values whose distribution has the given quantiles (pairs of a share and a value, rising), linear between.
pub fn from_quantiles(count: usize, quantiles: &[(f64, f64)], draw: u64, name: &str) -> Vec<u32> {
    let mut chance = stream(draw, 0, name);
    (0..count)
        .map(|_| {
            let share: f64 = chance.random();
            let after = quantiles.partition_point(|(q, _)| *q < share).clamp(1, quantiles.len() - 1);
            let ((q0, v0), (q1, v1)) = (quantiles[after - 1], quantiles[after]);
            let value = v0 + (v1 - v0) * ((share - q0) / (q1 - q0).max(1e-12)).clamp(0.0, 1.0);
            value.round().max(1.0) as u32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NumPy's documented first uniforms of seed 0 are 0.5488135, 0.71518937, 0.60276338.
    #[test]
    fn the_gaps_are_numpys() {
        let uniforms: Vec<f64> = vllm_bench_gaps(3).iter().map(|gap| 1.0 - (-gap).exp()).collect();
        for (found, known) in uniforms.iter().zip([0.548_813_5, 0.715_189_37, 0.602_763_38]) {
            assert!((found - known).abs() < 1e-8, "{uniforms:?}");
        }
    }

    #[test]
    fn stretched_arrivals_end_at_count_over_rate() {
        let arrivals = stretched_arrivals(&vllm_bench_gaps(300), 2.0);
        assert!((arrivals[299] - 150.0).abs() < 1e-9 && arrivals.is_sorted());
    }
}
