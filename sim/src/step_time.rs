//! What a step costs: additive terms over the whole batch, then the host's share.
//!
//! ```text
//! T_gpu = max(base + G(N) + k1 w sum_dec(c+1) + k2 sum_pre(q c + q^2/2) + k3 sum_pre(c) + k4 rows + k5 sampled, launch)
//! T_cpu = u0 + u1 rows
//! T     = max(T_gpu, T_cpu) with asynchronous scheduling, T_gpu + T_cpu without
//! ```
//! w: what decode attention takes longer because it takes whole waves ([`waves`]); 1 where a profile does not say so.
//! Each way to run a batch (eager, one graph, piecewise graphs) has coefficients of its own.
//!
//! N: tokens of the batch (padded to a graph size where one applies); q: tokens of a row in this step; c: its
//! tokens before. GEMM and attention run one after the other, so their times add; G is flat while the weights'
//! read dominates and grows by the token beyond, hence piecewise linear. It may fall: a kernel takes larger tiles
//! for more tokens, and can then be faster (docs/calibration.md).

use crate::engine::cudagraph::{CudagraphMode, Cudagraphs, Execution};
use crate::engine::{Batch, DecodeRows, EngineConfig};
use crate::hardware::{BelowBound, Hardware};
use crate::waves;
use scaleproof_pack::time::{Nanos, TimeError};
use std::fmt;

/// Coefficients of one graph mode, all non-negative, in microseconds per unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficients {
    /// Every step.
    pub base_us: f64,
    /// G as (tokens, microseconds), tokens rising. Constant before the first knot, beyond the
    /// last one continued at the slope of the last piece, if that rises.
    pub batch_token_knots: Vec<(f64, f64)>,
    /// Each token of context read by a decode row.
    pub decode_context_token_us: f64,
    /// Rows whose heads fill the GPU's multiprocessors once, for an attention kernel that takes whole waves of them
    /// ([`waves`]); 0 for one that does not, which is any whose steps hold prompts too.
    pub decode_wave_rows: f64,
    /// Each query-key pair of a prefill row.
    pub prefill_pair_us: f64,
    /// Each token of context read by a prefill row.
    pub prefill_context_token_us: f64,
    /// Each row.
    pub row_us: f64,
    /// Each sampled row.
    pub sampled_row_us: f64,
    /// What the host takes to launch the step's kernels one by one, beside the GPU that runs them: a step takes no less.
    pub launch_us: f64,
}

impl Coefficients {
    fn batch_tokens_us(&self, tokens: f64) -> f64 {
        let knots = &self.batch_token_knots;
        let after = knots.partition_point(|&(n, _)| n <= tokens);
        match (after, knots.len()) {
            (_, 0) => 0.0,
            (0, _) => knots[0].1,
            (_, 1) => knots[0].1,
            (after, len) => {
                let right = after.min(len - 1);
                let ((n0, t0), (n1, t1)) = (knots[right - 1], knots[right]);
                let beyond = tokens > n1 && t1 < t0;
                if beyond { t1 } else { t0 + (t1 - t0) * (tokens - n0) / (n1 - n0) }
            }
        }
    }

    fn gpu_us(&self, shape: &BatchShape, padded_tokens: f64) -> f64 {
        let decode_context = shape.decode_context as f64;
        let rows = f64::from(shape.rows);
        let waste = if self.decode_wave_rows > 0.0 && rows > 0.0 {
            waves::waste(rows, decode_context / rows, self.decode_wave_rows)
        } else {
            1.0
        };
        let kernels_us = self.base_us
            + self.batch_tokens_us(padded_tokens)
            + self.decode_context_token_us * decode_context * waste
            + self.prefill_pair_us * shape.prefill_pairs as f64 / 2.0
            + self.prefill_context_token_us * shape.prefill_context as f64
            + self.row_us * rows
            + self.sampled_row_us * f64::from(shape.sampled);
        // `max` would take the other one for what is no number.
        if kernels_us < self.launch_us { self.launch_us } else { kernels_us }
    }
}

/// The host's share of a step, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCost {
    /// Every step.
    pub base_us: f64,
    /// Each row.
    pub row_us: f64,
}

/// A batch as the step-time model sees it: sums, so that rows need not be walked twice. Integers, so that the
/// order of adding cannot matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchShape {
    /// Tokens computed.
    pub tokens: u64,
    /// Rows.
    pub rows: u32,
    /// Rows that sample.
    pub sampled: u32,
    /// Sum of (context + 1) over decode rows.
    pub decode_context: u64,
    /// Sum of 2 q c + q^2 over prefill rows: twice the query-key pairs.
    pub prefill_pairs: u64,
    /// Sum of context over prefill rows.
    pub prefill_context: u64,
    /// The longest row that is not grouped: its context and its tokens.
    pub longest_row: u32,
}

impl From<DecodeRows> for BatchShape {
    fn from(rows: DecodeRows) -> BatchShape {
        BatchShape {
            tokens: u64::from(rows.count),
            rows: rows.count,
            sampled: rows.count,
            decode_context: rows.context + u64::from(rows.count),
            ..BatchShape::default()
        }
    }
}

impl BatchShape {
    /// The sums of a batch.
    #[must_use]
    pub fn of(batch: &Batch) -> BatchShape {
        let mut shape = BatchShape::from(batch.grouped);
        shape.rows += batch.rows.len() as u32;
        for row in &batch.rows {
            let (q, c) = (u64::from(row.tokens), u64::from(row.context));
            shape.tokens += q;
            shape.longest_row = shape.longest_row.max(row.context + row.tokens);
            shape.sampled += u32::from(row.samples);
            if row.prefill {
                shape.prefill_pairs += 2 * q * c + q * q;
                shape.prefill_context += c;
            } else {
                shape.decode_context += c + q;
            }
        }
        shape
    }
}

/// Batches that replay recorded CUDA graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphTimes {
    /// Which graphs the engine records.
    pub settings: GraphSettings,
    /// For one graph of the whole model.
    pub full: Coefficients,
    /// For piecewise graphs.
    pub piecewise: Coefficients,
    /// The graphs, for the engine's seats and token budget.
    graphs: Cudagraphs,
}

/// What decides which graphs an engine records, beside its seats and token budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphSettings {
    /// Which kinds.
    pub mode: CudagraphMode,
    /// The sizes in tokens; empty for the engine's default ones.
    pub sizes: Vec<u32>,
    /// The largest default size.
    pub ceiling: u32,
}

impl GraphSettings {
    fn graphs(&self, engine: &EngineConfig) -> Cudagraphs {
        let (seats, budget) = (engine.max_num_seqs, engine.max_num_batched_tokens);
        if self.sizes.is_empty() {
            Cudagraphs::with_default_sizes(self.mode, seats, budget, self.ceiling)
        } else {
            Cudagraphs::with_sizes(self.mode, seats, budget, &self.sizes)
        }
    }
}

impl GraphTimes {
    /// The graphs that `engine` records, with their costs.
    #[must_use]
    pub fn new(
        settings: GraphSettings,
        full: Coefficients,
        piecewise: Coefficients,
        engine: &EngineConfig,
    ) -> Self {
        let graphs = settings.graphs(engine);
        GraphTimes { settings, full, piecewise, graphs }
    }
}

/// The step-time model of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// For batches that run without a graph.
    pub eager: Coefficients,
    /// For those that replay one; None if the engine records none.
    pub graphs: Option<GraphTimes>,
    /// The host's share.
    pub host: HostCost,
    /// The GPU under it, if it is of a real one: no step may be faster than that can be.
    pub hardware: Option<Hardware>,
}

/// Why a batch has no time.
#[derive(Clone, Debug, PartialEq)]
pub enum StepTimeError {
    /// The coefficients give something that is no time.
    Time(TimeError),
    /// Less than the hardware needs.
    BelowBound(BelowBound),
}

impl fmt::Display for StepTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepTimeError::Time(error) => error.fmt(f),
            StepTimeError::BelowBound(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StepTimeError {}

impl From<TimeError> for StepTimeError {
    fn from(error: TimeError) -> Self {
        StepTimeError::Time(error)
    }
}

impl StepTime {
    /// The same model on an engine with other settings: its graphs follow its seats and its token budget.
    #[must_use]
    pub fn on(&self, engine: &EngineConfig) -> StepTime {
        let mut model = self.clone();
        if let Some(times) = &mut model.graphs {
            times.graphs = times.settings.graphs(engine);
        }
        model
    }

    /// How long a batch takes. `overlapped`: the host works beside the GPU (asynchronous scheduling).
    ///
    /// # Errors
    /// If the coefficients give something that is no time, or less than the hardware needs.
    pub fn duration(&self, shape: &BatchShape, overlapped: bool) -> Result<Nanos, StepTimeError> {
        let step_us = self.step_us(shape, overlapped);
        if let Some(hardware) = &self.hardware {
            hardware.check(shape, step_us).map_err(StepTimeError::BelowBound)?;
        }
        Ok(Nanos::from_seconds(step_us / 1e6)?)
    }

    /// The same in microseconds as the coefficients give it, whether the hardware can do it or not.
    #[must_use]
    pub fn step_us(&self, shape: &BatchShape, overlapped: bool) -> f64 {
        let (coefficients, tokens) = match &self.graphs {
            None => (&self.eager, shape.tokens as u32),
            Some(times) => match times.graphs.pad_counts(shape.tokens as u32, shape.rows) {
                (Execution::Full, padded) => (&times.full, padded),
                (Execution::Piecewise, padded) => (&times.piecewise, padded),
                (Execution::Eager, tokens) => (&self.eager, tokens),
            },
        };
        let gpu_us = coefficients.gpu_us(shape, f64::from(tokens));
        let host_us = self.host.base_us + self.host.row_us * f64::from(shape.rows);
        if overlapped { gpu_us.max(host_us) } else { gpu_us + host_us }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values that binary fractions hold exactly")]
mod tests {
    use super::*;
    use crate::engine::Row;

    fn coefficients() -> Coefficients {
        Coefficients {
            base_us: 10.0,
            batch_token_knots: vec![(100.0, 5.0), (200.0, 25.0)],
            decode_context_token_us: 0.5,
            prefill_pair_us: 0.25,
            prefill_context_token_us: 0.125,
            row_us: 2.0,
            sampled_row_us: 1.0,
            launch_us: 0.0,
            decode_wave_rows: 0.0,
        }
    }

    #[test]
    fn the_token_term_is_flat_then_piecewise_then_continued() {
        let c = coefficients();
        let at_ns = |n| (1e3 * c.batch_tokens_us(n)).round() as u64;
        let found = [at_ns(1.0), at_ns(100.0), at_ns(150.0), at_ns(200.0), at_ns(300.0)];
        assert_eq!(found, [5_000, 5_000, 15_000, 25_000, 45_000]);
    }

    #[test]
    fn a_mixed_batch_adds_up_by_hand() {
        let row = |tokens, context, prefill: bool| Row { id: 0, tokens, context, samples: !prefill, prefill };
        let batch = Batch { rows: vec![row(1, 9, false), row(8, 4, true)], ..Default::default() };
        let shape = BatchShape::of(&batch);
        let model = StepTime {
            eager: coefficients(),
            graphs: None,
            host: HostCost { base_us: 30.0, row_us: 5.0 },
            hardware: None,
        };
        // base 10 + G(9) 5 + decode 0.5 x 10 + pairs 0.25 x (32 + 32) + context 0.125 x 4 + rows 4 + sampled 1
        let gpu_us = 10.0 + 5.0 + 5.0 + 16.0 + 0.5 + 4.0 + 1.0;
        assert_eq!(model.duration(&shape, true).unwrap(), Nanos::from_millis(gpu_us / 1e3).unwrap());
        assert_eq!(
            model.duration(&shape, false).unwrap(),
            Nanos::from_millis((gpu_us + 40.0) / 1e3).unwrap()
        );
        let mut launched = model;
        launched.eager.launch_us = gpu_us + 7.0;
        let expected = Nanos::from_millis((gpu_us + 47.0) / 1e3).unwrap();
        assert_eq!(launched.duration(&shape, false).unwrap(), expected, "launches outlast the kernels");
    }

    #[test]
    fn a_batch_is_padded_to_its_graph_and_priced_by_its_kind() {
        let flat = |base_us, token_us: f64| Coefficients {
            base_us,
            batch_token_knots: vec![(1.0, token_us), (1001.0, 1001.0 * token_us)],
            decode_context_token_us: 0.0,
            prefill_pair_us: 0.0,
            prefill_context_token_us: 0.0,
            row_us: 0.0,
            sampled_row_us: 0.0,
            launch_us: 0.0,
            decode_wave_rows: 0.0,
        };
        let engine =
            EngineConfig { max_num_seqs: 1024, max_num_batched_tokens: 8192, ..EngineConfig::default() };
        let settings = GraphSettings { mode: CudagraphMode::default(), sizes: Vec::new(), ceiling: 512 };
        let graphs = GraphTimes::new(settings, flat(100.0, 1.0), flat(200.0, 1.0), &engine);
        let model = StepTime {
            eager: flat(300.0, 1.0),
            graphs: Some(graphs),
            host: HostCost::default(),
            hardware: None,
        };
        let micros = |tokens, rows| {
            let shape = BatchShape { tokens, rows, ..BatchShape::default() };
            model.duration(&shape, true).unwrap().0 / 1000
        };
        assert_eq!(micros(33, 33), 140, "decode: one graph, 33 padded to 40");
        assert_eq!(micros(500, 4), 712, "mixed: piecewise, padded to 512");
        assert_eq!(micros(513, 513), 813, "beyond the largest graph: eager, not padded");
        let small = EngineConfig { max_num_seqs: 16, ..engine };
        let shape = BatchShape { tokens: 33, rows: 33, ..BatchShape::default() };
        assert_eq!(
            model.on(&small).duration(&shape, true).unwrap().0 / 1000,
            333,
            "16 seats: graphs up to 32"
        );
    }
}
