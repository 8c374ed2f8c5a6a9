//! A measured time as a sum of features with coefficients, for one form of the step time: without graphs, with graphs of the
//! usual sizes, or without graphs and with launches that no step is shorter than.

use super::curves::chunk_sizes;
use super::data::{Kind, Measurement};
use scaleproof_pack::time::{Nanos, TimeError};
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::engine::cudagraph::{CudagraphMode, Cudagraphs, Execution};
use scaleproof_sim::profile::rounded;
use scaleproof_sim::profile::uncertainty::Knob;
use scaleproof_sim::step_time::{Coefficients, GraphSettings, GraphTimes, HostCost, StepTime};
use scaleproof_sim::{FrontEnd, FrontEndProcess};

/// A step as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    tokens: u32,
    rows: u32,
    decode_context: f64,
    pairs: f64,
    prefill_context: f64,
}

/// The steps that a measured time is made of. None if they cannot be known.
fn steps(row: &Measurement, scheduler: &EngineConfig) -> Option<Vec<Shape>> {
    let decode = Shape {
        tokens: row.rows,
        rows: row.rows,
        decode_context: row.context,
        pairs: 0.0,
        prefill_context: 0.0,
    };
    if row.kind == Kind::Decode {
        return Some(vec![decode]);
    }
    let chunks = chunk_sizes(row.new_tokens(), row.rows, scheduler);
    let prompts = row.prompts.max(1);
    let room = scheduler.max_num_batched_tokens.saturating_sub(row.rows);
    if prompts > 1 && (chunks.len() > 1 || prompts.checked_mul(row.new_tokens())? > room) {
        return None;
    }
    let mut before = f64::from(row.cached_tokens);
    let step = |chunk: &u32| {
        let (q, n) = (f64::from(*chunk), f64::from(prompts));
        let shape = Shape {
            tokens: row.rows + prompts * chunk,
            rows: row.rows + prompts,
            pairs: n * (q * before + q * q / 2.0),
            prefill_context: n * before,
            ..decode
        };
        before += q;
        shape
    };
    Some(chunks.iter().map(step).collect())
}

/// Columns before those of a mode: the front end's request and prompt token, and the row.
const COMMON: usize = 3;
/// The row's.
const ROW: usize = 2;
/// Columns of attention: decode context, pairs, prefill context.
const ATTENTION: usize = 3;
/// A batch closer than this to a round one is no knot.
const KNOT_RATIO: f64 = 1.3;

/// Where each coefficient stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    scheduler: EngineConfig,
    graphs: Option<Cudagraphs>,
    /// Knots of G: eager, full, piecewise.
    knots: [Vec<u32>; 3],
    /// The coefficients by which steps are told that wait for the host's launches; None where none does. The last is what
    /// launches take.
    launches: Option<Vec<f64>>,
}

fn mode(execution: Execution) -> usize {
    match execution {
        Execution::Eager => 0,
        Execution::Full => 1,
        Execution::Piecewise => 2,
    }
}

impl Form {
    /// The modes by number.
    pub(super) const MODES: [usize; 3] = [0, 1, 2];

    /// With knots where batches were measured.
    #[must_use]
    pub fn new(scheduler: &EngineConfig, graphs: bool, rows: &[Measurement]) -> Form {
        let (seats, budget) = (scheduler.max_num_seqs, scheduler.max_num_batched_tokens);
        let usual = || {
            let kinds = CudagraphMode::FullAndPiecewise;
            Cudagraphs::with_default_sizes(kinds, seats, budget, Cudagraphs::CEILING)
        };
        let mut form = Form {
            scheduler: scheduler.clone(),
            graphs: graphs.then(usual),
            knots: Default::default(),
            launches: None,
        };
        let mut seen: [Vec<u32>; 3] = Default::default();
        for row in rows.iter().filter(|row| !row.held_out) {
            for shape in steps(row, scheduler).into_iter().flatten() {
                let (execution, tokens) = form.pad(&shape);
                seen[mode(execution)].push(tokens);
            }
        }
        form.knots = seen.map(thinned);
        form
    }

    fn pad(&self, shape: &Shape) -> (Execution, u32) {
        let eager = (Execution::Eager, shape.tokens);
        self.graphs.as_ref().map_or(eager, |graphs| graphs.pad_counts(shape.tokens, shape.rows))
    }

    /// The same form, of an engine whose steps take no less than the host's launches do. Which steps those are is told by
    /// `coefficients` of it.
    #[must_use]
    pub fn launched(&self, coefficients: Vec<f64>) -> Form {
        Form { launches: Some(coefficients), ..self.clone() }
    }

    /// Coefficients.
    #[must_use]
    pub fn width(&self) -> usize {
        self.launch_at() + usize::from(self.launches.is_some())
    }

    /// Whether steps are padded to graphs' sizes.
    #[must_use]
    pub fn has_graphs(&self) -> bool {
        self.graphs.is_some()
    }

    /// Where the launches' coefficient stands, in a form that has it.
    pub(super) fn launch_at(&self) -> usize {
        self.knots_from(self.knots.len())
    }

    /// Whether what rows cost comes after the batch and its launches: with synchronous scheduling, as the host's work.
    pub(super) fn rows_after(&self) -> bool {
        self.has_launches() && !self.scheduler.async_scheduling
    }

    /// Whether it has one.
    pub(super) fn has_launches(&self) -> bool {
        self.launches.is_some()
    }

    /// Where attention's columns of a mode begin: mixed batches run on the same kernels, whether piecewise or eager.
    pub(super) fn attention_from(mode: usize) -> usize {
        COMMON + if mode == 1 { ATTENTION } else { 0 }
    }

    /// Where G's columns of a mode begin.
    pub(super) fn knots_from(&self, mode: usize) -> usize {
        COMMON + 2 * ATTENTION + self.knots[..mode].iter().map(Vec::len).sum::<usize>()
    }

    /// The batches at which G has a coefficient, in a mode.
    pub(super) fn knots(&self, mode: usize) -> &[u32] {
        &self.knots[mode]
    }

    /// The features of a measured time. None for one that this form does not describe.
    #[must_use]
    pub fn features(&self, row: &Measurement) -> Option<Vec<f64>> {
        if row.kind == Kind::Wait {
            return None;
        }
        let mut features = vec![0.0; self.width()];
        if row.kind == Kind::Prompt {
            features[0] = 1.0;
            features[1] = f64::from(row.prompt_tokens);
        }
        for shape in steps(row, &self.scheduler)? {
            self.add_step(&mut features, &shape);
        }
        Some(features)
    }

    /// Adds the features of a step: those of its batch, or that it waits for launches.
    fn add_step(&self, features: &mut [f64], shape: &Shape) {
        let step = self.step(shape);
        if let Some(coefficients) = &self.launches {
            let launch = self.launch_at();
            let batch_us: f64 = step.iter().zip(coefficients).map(|(f, c)| f * c).sum();
            let after_us = if self.rows_after() { step[ROW] * coefficients[ROW] } else { 0.0 };
            if batch_us - after_us < coefficients[launch] {
                features[launch] += 1.0;
                features[ROW] += if self.rows_after() { step[ROW] } else { 0.0 };
                return;
            }
        }
        features.iter_mut().zip(step).for_each(|(sum, own)| *sum += own);
    }

    fn step(&self, shape: &Shape) -> Vec<f64> {
        let mut features = vec![0.0; self.width()];
        let (execution, tokens) = self.pad(shape);
        let mode = mode(execution);
        features[ROW] = f64::from(shape.rows);
        let attention = Self::attention_from(mode);
        features[attention] = shape.decode_context;
        features[attention + 1] = shape.pairs;
        features[attention + 2] = shape.prefill_context;
        let from = self.knots_from(mode);
        for (knot, share) in hats(&self.knots[mode], tokens) {
            features[from + knot] += share;
        }
        features
    }

    /// What of a predicted time each factor scales, in the order of [`Knob::ALL`].
    #[must_use]
    pub fn parts(&self, features: &[f64], coefficients: &[f64]) -> [f64; 6] {
        let of = |i: usize| features[i] * coefficients[i];
        let mut parts = [0.0; 6];
        for mode in 0..3 {
            let range = self.knots_from(mode)..self.knots_from(mode + 1);
            let floor = coefficients.get(range.start).copied().unwrap_or(0.0);
            let steps: f64 = features[range.clone()].iter().sum();
            if !range.is_empty() {
                parts[0] += steps * floor;
                parts[1] += range.map(of).sum::<f64>() - steps * floor;
            }
        }
        for attention in [Self::attention_from(0), Self::attention_from(1)] {
            parts[2] += of(attention);
            parts[3] += of(attention + 1) + of(attention + 2);
        }
        if self.has_launches() {
            parts[0] += of(self.launch_at());
        }
        parts[4] = of(ROW);
        parts[5] = of(0) + of(1);
        debug_assert_eq!(Knob::ALL[5], Knob::FrontEnd);
        parts
    }

    fn coefficients(&self, mode: usize, values: &[f64]) -> Coefficients {
        let digits = |value: f64| rounded(value, 6);
        let from = self.knots_from(mode);
        let knots = self.knots[mode].iter().enumerate();
        let attention = Self::attention_from(mode);
        Coefficients {
            base_us: 0.0,
            batch_token_knots: knots.map(|(i, n)| (f64::from(*n), digits(values[from + i]))).collect(),
            decode_context_token_us: digits(values[attention]),
            prefill_pair_us: digits(values[attention + 1]),
            prefill_context_token_us: digits(values[attention + 2]),
            row_us: if self.rows_after() { 0.0 } else { digits(values[ROW]) },
            sampled_row_us: 0.0,
            launch_us: if self.has_launches() { digits(values[self.launch_at()]) } else { 0.0 },
            decode_wave_rows: 0.0,
        }
    }

    /// The step time of these coefficients. A mode in which nothing was measured costs what the one next to it does.
    #[must_use]
    pub fn step_time(&self, values: &[f64]) -> StepTime {
        let filled = |mode: usize, instead: [usize; 2]| {
            let measured = |mode: &usize| !self.knots[*mode].is_empty();
            let from = std::iter::once(mode).chain(instead).find(measured).unwrap_or(mode);
            self.coefficients(from, values)
        };
        let settings = GraphSettings {
            mode: CudagraphMode::FullAndPiecewise,
            sizes: Vec::new(),
            ceiling: Cudagraphs::CEILING,
        };
        let graphs = self
            .graphs
            .as_ref()
            .map(|_| GraphTimes::new(settings, filled(1, [2, 0]), filled(2, [0, 1]), &self.scheduler));
        let row_us = if self.rows_after() { rounded(values[ROW], 6) } else { 0.0 };
        let host = HostCost { base_us: 0.0, row_us };
        StepTime { eager: filled(0, [2, 1]), graphs, host, hardware: None }
    }

    /// The front end of these coefficients.
    ///
    /// # Errors
    /// A latency that is no time.
    pub fn front_end(values: &[f64]) -> Result<FrontEnd, TimeError> {
        let request = Nanos::from_seconds((values[0] / 1e6 * 1e6).round() / 1e6)?;
        Ok(FrontEnd {
            process: FrontEndProcess::Parallel,
            request,
            busy: request,
            prompt_token_us: rounded(values[1], 6),
            output_token: Nanos::ZERO,
        })
    }
}

/// Sorted, each once: the powers of two and their threes, where kernels and graphs change; others only far from those;
/// and the largest.
fn thinned(mut tokens: Vec<u32>) -> Vec<u32> {
    tokens.sort_unstable();
    tokens.dedup();
    let round = |n: u32| matches!(n >> n.trailing_zeros().min(31), 1 | 3);
    let mut kept: Vec<u32> = tokens.iter().copied().filter(|n| *n > 0 && round(*n)).collect();
    for &n in tokens.iter().filter(|n| **n > 0) {
        let at = kept.partition_point(|knot| *knot < n);
        let near = |knot: &u32| f64::from(n.max(*knot)) < KNOT_RATIO * f64::from(n.min(*knot));
        let neighbours = [at.checked_sub(1).and_then(|i| kept.get(i)), kept.get(at)];
        if !neighbours.into_iter().flatten().any(near) {
            kept.insert(at, n);
        }
    }
    if let (Some(most), Some(last)) = (tokens.last(), kept.last())
        && most > last
    {
        kept.push(*most);
    }
    kept
}

/// The hat functions at `tokens`: their weights add to 1.
fn hats(knots: &[u32], tokens: u32) -> Vec<(usize, f64)> {
    let after = knots.partition_point(|knot| *knot <= tokens);
    match (after.checked_sub(1), knots.get(after)) {
        (Some(left), Some(right)) => {
            let share = f64::from(tokens - knots[left]) / f64::from(right - knots[left]);
            vec![(left, 1.0 - share), (after, share)]
        }
        (Some(last), None) => vec![(last, 1.0)],
        (None, Some(_)) => vec![(0, 1.0)],
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hats_add_to_one_between_and_beyond() {
        assert_eq!(hats(&[10, 20], 15), [(0, 0.5), (1, 0.5)]);
        assert_eq!(hats(&[10, 20], 5), [(0, 1.0)]);
        assert_eq!(hats(&[10, 20], 25), [(1, 1.0)]);
        assert_eq!(thinned(vec![250, 1, 2, 256, 270, 11, 0, 11, 300]), [1, 2, 11, 256, 300]);
    }
}
