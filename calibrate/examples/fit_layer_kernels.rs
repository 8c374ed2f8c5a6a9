//! Fits the efficiencies of models/kernels/rtx-pro-6000.yaml on measured layers: LLMServingSim's tables of two models
//! on an RTX PRO 6000 (docs/calibration.md says where they are from). What they lack, FP8 and collectives, is taken
//! from the other kernels.
//!
//! cargo run --release -p scaleproof-calibrate --example fit_layer_kernels -- PROFILES [--write FILE]

use scaleproof_calibrate::hardware::architecture::{Architecture, Gemms};
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::hardware::{Found, Precision};
use scaleproof_calibrate::kernels::roof_us;
use scaleproof_calibrate::least_squares::{Fit, Row, fit};
use scaleproof_calibrate::physics::element_wise_bytes;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The tables' folders: model, tensor parallel degree, folder.
const TABLES: [(&str, u32, &str); 2] = [
    ("llama-3.1-8b", 1, "RTXPRO6000_meta-llama_Llama-3.1-8B_tp1"),
    ("qwen3-32b", 2, "RTXPRO6000_Qwen_Qwen3-32B_tp2"),
];

/// One model's tables.
struct Tables {
    model: Architecture,
    tp: u32,
    gemms: Gemms,
    folder: PathBuf,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fit_layer_kernels PROFILES [--write FILE]";
    let profiles = PathBuf::from(arguments.next().ok_or(usage)?);
    let Found::Entry(gpu) = Gpu::find("rtx-pro-6000")? else {
        return Err("a catalogue name is no file".into());
    };
    let mut tables = Vec::new();
    for (model, tp, folder) in TABLES {
        let Found::Entry(model) = Architecture::find(model)? else {
            return Err("a catalogue name is no file".into());
        };
        let (gemms, folder) = (model.gemms(tp)?, profiles.join("llmservingsim").join(folder));
        tables.push(Tables { model, tp, gemms, folder });
    }
    let text = text(&gpu, &tables)?;
    match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => print(&text),
        (Some("--write"), Some(file)) => std::fs::write(file, text)?,
        _ => return Err(usage.into()),
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the command's output")]
fn print(text: &str) {
    print!("{text}");
}

fn text(gpu: &Gpu, tables: &[Tables]) -> Result<String> {
    let mut errors = Vec::new();
    let mut out = String::from(
        "# Written by the command below: change that program, not this file. Times in microseconds, of one layer.\n\
         # Precisions that are not here, collectives and launches are taken from hopper.yaml.\n\
         kernels: rtx-pro-6000\n\
         gpus: [rtx-pro-6000]\n\
         source: \"LLMServingSim 5daddb21 (vLLM 0.19.0 layers of Llama-3.1-8B and of Qwen3-32B on RTX PRO 6000)\"\n\
         command: cargo run --release -p scaleproof-calibrate --example fit_layer_kernels -- PROFILES --write \
         models/kernels/rtx-pro-6000.yaml\n\
         # Knots: [tokens, launch_us, efficiency].\n",
    );
    products(&mut out, gpu, tables, &mut errors)?;
    decode(&mut out, gpu, tables, &mut errors)?;
    prefill(&mut out, gpu, tables, &mut errors)?;
    element_wise(&mut out, gpu, tables, &mut errors)?;
    writeln!(out, "# Measurements, and the median of |fitted/measured - 1|.\nfit_errors:")?;
    for (kind, count, error) in errors {
        writeln!(out, "  {kind}: {{count: {count}, median_relative: {error:.3}}}")?;
    }
    Ok(out)
}

/// The lines of a table after its header, each with `words` words before its numbers.
fn read(path: &Path, words: usize) -> Result<Vec<(String, Vec<f64>)>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let line = |line: &str| {
        let mut fields = line.split(',');
        let word = fields.by_ref().take(words).collect();
        let numbers: std::result::Result<Vec<f64>, _> = fields.map(str::parse).collect();
        Ok((word, numbers.map_err(|e| format!("{}: {line:?}: {e}", path.display()))?))
    };
    text.lines().skip(1).map(line).collect()
}

fn fitted(rows: &[Row], what: &str) -> Result<Fit> {
    fit(rows).ok_or_else(|| format!("{what}: no rows to fit").into())
}

/// Kind of kernel, measurements, and the fit's median relative error.
type Errors = Vec<(&'static str, usize, f64)>;

/// Launch and efficiency at each number of tokens, over both models' matrices.
fn products(out: &mut String, gpu: &Gpu, tables: &[Tables], errors: &mut Errors) -> Result<()> {
    let mut by_tokens: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
    for table in tables {
        for (word, numbers) in read(&table.folder.join("dense.csv"), 1)? {
            let [tokens, us] = numbers[..] else { continue };
            let name = word.trim_end_matches("_proj");
            let Some(gemm) = table.gemms.layer.iter().find(|gemm| gemm.name == name) else { continue };
            let roof_us = roof_us(tokens as u32, (gemm.n, gemm.k), Precision::Bf16, gpu);
            let row = Row { features: vec![1.0, roof_us], target: us };
            by_tokens.entry(tokens as u32).or_default().push(row);
        }
    }
    let (mut knots, mut medians, mut count) = (Vec::new(), Vec::new(), 0);
    // The table goes on in sixteens: every eighth of them is enough beyond what graphs replay.
    for (&m, rows) in by_tokens.iter().filter(|(m, _)| **m <= 256 || **m % 128 == 0) {
        let fit = fitted(rows, "products")?;
        knots.push(format!("[{m}, {:.2}, {:.3}]", fit.coefficients[0], 1.0 / fit.coefficients[1]));
        medians.push(fit.median_relative_error);
        count += rows.len();
    }
    medians.sort_by(f64::total_cmp);
    writeln!(out, "products:\n  bf16:\n    knots:\n      [{}]", knots.join(", "))?;
    errors.push(("products_bf16", count, medians[medians.len() / 2]));
    Ok(())
}

/// Rows of the attention tables: heads of query, of key and value, prompt tokens, those before them, decode rows, their
/// context, and the time.
fn attention(tables: &[Tables]) -> Result<Vec<[f64; 7]>> {
    let mut rows = Vec::new();
    for table in tables {
        let heads = f64::from(table.model.heads / table.tp);
        let kv_heads = f64::from(table.model.kv_heads_per_gpu(table.tp));
        for (_, numbers) in read(&table.folder.join("attention.csv"), 0)? {
            let [chunk, behind, decodes, context, us] = numbers[..] else { continue };
            rows.push([heads, kv_heads, chunk, behind, decodes, context, us]);
        }
    }
    Ok(rows)
}

fn decode(out: &mut String, gpu: &Gpu, tables: &[Tables], errors: &mut Errors) -> Result<()> {
    let mut rows = Vec::new();
    for [_, kv_heads, chunk, _, decodes, context, us] in attention(tables)? {
        if chunk == 0.0 {
            let bytes = decodes * context * 2.0 * kv_heads * 128.0 * 2.0;
            let features = vec![1.0, decodes * kv_heads, 1e6 * bytes / gpu.hbm_bytes_per_s];
            rows.push(Row { features, target: us });
        }
    }
    let fit = fitted(&rows, "decode attention")?;
    let c = &fit.coefficients;
    let (floor, head, efficiency) = (c[0], c[1], 1.0 / c[2]);
    writeln!(
        out,
        "decode:\n  bf16: {{floor_us: {floor:.2}, row_head_us: {head:.4}, efficiency: {efficiency:.3}}}"
    )?;
    errors.push(("decode_bf16", rows.len(), fit.median_relative_error));
    Ok(())
}

fn prefill(out: &mut String, gpu: &Gpu, tables: &[Tables], errors: &mut Errors) -> Result<()> {
    let peak = gpu.peak_flops(Precision::Bf16).ok_or("no peak in 16 bits")?;
    let mut rows = Vec::new();
    for [heads, _, chunk, behind, decodes, _, us] in attention(tables)? {
        if decodes == 0.0 {
            let operations = (chunk * behind + chunk * chunk / 2.0) * 4.0 * heads * 128.0;
            rows.push(Row { features: vec![1.0, chunk * heads, 1e6 * operations / peak], target: us });
        }
    }
    let fit = fitted(&rows, "prefill attention")?;
    let c = &fit.coefficients;
    let (floor, token, efficiency) = (c[0], c[1], 1.0 / c[2]);
    writeln!(
        out,
        "prefill: {{floor_us: {floor:.2}, token_head_us: {token:.6}, efficiency: {efficiency:.3}}}"
    )?;
    errors.push(("prefill", rows.len(), fit.median_relative_error));
    Ok(())
}

/// Two norms, a rotary embedding and an activation of a layer.
fn element_wise(out: &mut String, gpu: &Gpu, tables: &[Tables], errors: &mut Errors) -> Result<()> {
    let mut rows = Vec::new();
    for table in tables {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (word, numbers) in read(&table.folder.join("dense.csv"), 1)? {
            let [tokens, us] = numbers[..] else { continue };
            let count = match word.as_str() {
                "layernorm" => 2.0,
                "rotary_emb" | "act_fn" => 1.0,
                _ => continue,
            };
            *sums.entry(tokens as u32).or_default() += count * us;
        }
        let mlp = f64::from(table.model.intermediate / table.tp);
        rows.extend(sums.into_iter().map(|(tokens, target)| {
            let bytes = f64::from(tokens) * element_wise_bytes(f64::from(table.model.hidden), mlp);
            Row { features: vec![1.0, 1e6 * bytes / gpu.hbm_bytes_per_s], target }
        }));
    }
    let fit = fitted(&rows, "element-wise")?;
    let (floor, efficiency) = (fit.coefficients[0], 1.0 / fit.coefficients[1]);
    writeln!(out, "element_wise: {{floor_us: {floor:.2}, efficiency: {efficiency:.3}}}")?;
    errors.push(("element_wise", rows.len(), fit.median_relative_error));
    Ok(())
}
