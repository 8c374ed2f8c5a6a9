//! Step costs from measured layers alone: LLMServingSim's tables of one model on one GPU (dense.csv, attention.csv,
//! per_sequence.csv; microseconds a layer).

use super::{AccuracyError, text};
use crate::least_squares::{Fit, Row, fit};
use crate::physics::{INPUTS_US, LAYER_LAUNCH_US};
use scaleproof_sim::step_time::Coefficients;
use std::collections::BTreeMap;
use std::path::Path;

/// Where attention is fitted: rows and context as the load can make them. Fitting a straight line further out would
/// bend it where it is used.
pub struct Region {
    /// Decode rows; mixed steps are fitted from half of them on, since a load that makes them fills the engine.
    pub rows: f64,
    /// Tokens of context of a row.
    pub context: f64,
}

/// Kernels of a layer: two norms, four matrix products, rotary embedding, cache write, attention, activation.
const LAYER_KERNELS: f64 = 10.0;
/// Between two kernels of a recorded graph; the tables have the kernels alone.
const KERNEL_GAP_US: f64 = 1.0;

/// What the rows of a step are: attention takes other kernels when a prompt is among them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Decode rows only.
    Decode,
    /// Some of a prompt among them.
    Mixed,
}

/// The costs of a step of `layers` layers with such rows.
pub fn coefficients(
    folder: &Path,
    layers: f64,
    region: &Region,
    kind: Rows,
) -> Result<Coefficients, AccuracyError> {
    let attention = attention(folder, region, kind)?;
    let [floor_us, row_us, decode_us, pair_us, context_us, token_us] = attention.coefficients[..] else {
        return Err(AccuracyError("attention: expected six coefficients".to_owned()));
    };
    let sampled = sampled(folder, region)?;
    let knots = dense(folder, layers)?
        .into_iter()
        .map(|(tokens, us)| (f64::from(tokens), us + layers * token_us * f64::from(tokens)))
        .collect();
    let layer_us = match kind {
        Rows::Decode => KERNEL_GAP_US * LAYER_KERNELS,
        Rows::Mixed => KERNEL_GAP_US * LAYER_KERNELS + LAYER_LAUNCH_US,
    };
    Ok(Coefficients {
        base_us: layers * (floor_us + layer_us) + sampled.coefficients[0] + INPUTS_US,
        batch_token_knots: knots,
        decode_context_token_us: layers * decode_us,
        prefill_pair_us: layers * pair_us,
        prefill_context_token_us: layers * context_us,
        row_us: layers * row_us,
        sampled_row_us: sampled.coefficients[1],
        launch_us: 0.0,
        decode_wave_rows: 0.0,
    })
}

/// A line of a table: its words, then its numbers.
type Line = (Vec<String>, Vec<f64>);

/// The numbers of a table, but for its first line and its first `words` columns, which are text.
fn table(path: &Path, words: usize) -> Result<Vec<Line>, AccuracyError> {
    let text = text(path)?;
    let row = |line: &str| {
        let mut fields = line.split(',');
        let words = fields.by_ref().take(words).map(str::to_owned).collect();
        let numbers: Result<Vec<f64>, _> = fields.map(str::parse).collect();
        numbers
            .map(|numbers| (words, numbers))
            .map_err(|e| AccuracyError(format!("{}: {line:?}: {e}", path.display())))
    };
    text.lines().skip(1).map(row).collect()
}

fn fitted(rows: &[Row], what: &str) -> Result<Fit, AccuracyError> {
    fit(rows).ok_or_else(|| AccuracyError(format!("{what}: no rows to fit")))
}

/// Matrix products and element-wise kernels of a step by its tokens: every layer's, and those outside the layers.
fn dense(folder: &Path, layers: f64) -> Result<BTreeMap<u32, f64>, AccuracyError> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for (words, numbers) in table(&folder.join("dense.csv"), 1)? {
        let [tokens, us] = numbers[..] else { continue };
        let times = match words[0].as_str() {
            "embedding" | "final_layernorm" => 1.0,
            // Before attention and before the MLP; and the tables lack the write into the KV cache, which moves what the
            // rotary embedding does.
            "layernorm" | "rotary_emb" => 2.0 * layers,
            _ => layers,
        };
        *sums.entry(tokens as u32).or_default() += times * us;
    }
    Ok(sums)
}

/// Features: one, decode rows, their context, prefill pairs, prefill context, prefill tokens.
fn attention(folder: &Path, region: &Region, kind: Rows) -> Result<Fit, AccuracyError> {
    let mut rows = Vec::new();
    for (_, numbers) in table(&folder.join("attention.csv"), 0)? {
        let [chunk, behind, decodes, context, us] = numbers[..] else { continue };
        let (found, fewest) =
            if chunk > 0.0 { (Rows::Mixed, region.rows / 2.0) } else { (Rows::Decode, 1.0) };
        if found != kind
            || decodes < fewest
            || decodes > region.rows
            || context > region.context
            || behind + chunk > region.context
        {
            continue;
        }
        let pairs = chunk * behind + chunk * chunk / 2.0;
        let features = vec![1.0, decodes, decodes * context, pairs, behind, chunk];
        rows.push(Row { features, target: us });
    }
    fitted(&rows, "attention.csv")
}

/// Output head and sampler: one, and each sampled row.
fn sampled(folder: &Path, region: &Region) -> Result<Fit, AccuracyError> {
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for (_, numbers) in table(&folder.join("per_sequence.csv"), 1)? {
        let [sequences, us] = numbers[..] else { continue };
        *sums.entry(sequences as u32).or_default() += us;
    }
    let within = sums.iter().filter(|(sequences, _)| f64::from(**sequences) <= region.rows);
    let rows: Vec<Row> =
        within.map(|(&n, &target)| Row { features: vec![1.0, f64::from(n)], target }).collect();
    fitted(&rows, "per_sequence.csv")
}
