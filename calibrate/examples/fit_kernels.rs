//! Fits the efficiencies of models/kernels/hopper.yaml on measured kernels: the parquet tables of aiconfigurator for
//! H100 and H200 (docs/calibration.md says where they are from), for the element-wise kernels the layer table of
//! LLMServingSim, and for the launches without graphs the token times of splitwise-sim.
//!
//! cargo run --release -p scaleproof-calibrate --example fit_kernels -- PROFILES [--write FILE]

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use scaleproof_calibrate::hardware::Found;
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::kernels::roof_us;
use scaleproof_calibrate::least_squares::{Fit, Row, fit};
use scaleproof_calibrate::physics::HOST_US;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
/// A table's rows, each by column name.
type Table = Vec<BTreeMap<String, Field>>;
/// Kind of kernel, measurements, and the fit's median relative error.
type Errors = Vec<(String, usize, f64)>;

/// Matrices smaller than this in either direction are of no dense model.
const SIDE_MIN: i64 = 2048;
/// vLLM's own all-reduce takes messages up to this; the table goes on beyond, with a kernel that no engine would use.
const OWN_BYTES_MAX: f64 = 8_388_608.0;
/// Of the link's bandwidth.
const LIBRARY_EFFICIENCY: f64 = 0.82;
/// Beyond this, tables are thin.
const TOKENS_MAX: i64 = 16_384;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fit_kernels PROFILES [--write FILE]";
    let profiles = PathBuf::from(arguments.next().ok_or(usage)?);
    let mut tables = Vec::new();
    for (gpu, folder) in [("h100-sxm", "h100_sxm"), ("h200", "h200_sxm")] {
        let Found::Entry(gpu) = Gpu::find(gpu)? else { return Err("a catalogue name is no file".into()) };
        tables.push((gpu, profiles.join("aiconfigurator").join(folder)));
    }
    let layers = profiles.join("llmservingsim/RTXPRO6000_meta-llama_Llama-3.1-8B_tp1/dense.csv");
    let served = profiles.join("splitwise-sim/perf_model.csv");
    let text = text(&tables, &layers, &served)?;
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

fn text(tables: &[(Gpu, PathBuf)], layers: &Path, served: &Path) -> Result<String> {
    let mut errors = Vec::new();
    let mut out = String::from(
        "# Written by the command below: change that program, not this file. Times in microseconds, of one layer.\n\
         kernels: hopper\n\
         gpus: [h100-sxm, h200]\n\
         source: \"aiconfigurator 095f58a5 (vLLM 0.24.0 kernels on H100 SXM and H200); element-wise kernels: \
         LLMServingSim 5daddb21 (vLLM 0.19.0 on RTX PRO 6000); launches: splitwise-sim 8f99e7dc (Llama-2-70B on \
         H100, 2023)\"\n\
         command: cargo run --release -p scaleproof-calibrate --example fit_kernels -- PROFILES --write \
         models/kernels/hopper.yaml\n\
         # Knots: [tokens, launch_us, efficiency].\n\
         products:\n",
    );
    for (precision, dtype, source) in [
        (Precision::Bf16, "bfloat16", "torch.nn.functional.linear"),
        (Precision::Fp8, "fp8", "CutlassFP8ScaledMMLinearKernel"),
    ] {
        products(&mut out, tables, precision, (dtype, source), &mut errors)?;
    }
    writeln!(out, "decode:")?;
    for (precision, dtype) in [(Precision::Bf16, "bfloat16"), (Precision::Fp8, "fp8")] {
        decode(&mut out, tables, precision, dtype, &mut errors)?;
    }
    prefill(&mut out, tables, &mut errors)?;
    collective(&mut out, tables, &mut errors)?;
    element_wise(&mut out, layers, &mut errors)?;
    launches(&mut out, served, &mut errors)?;
    writeln!(out, "# Measurements, and the median of |fitted/measured - 1|.\nfit_errors:")?;
    for (kind, count, error) in errors {
        writeln!(out, "  {kind}: {{count: {count}, median_relative: {error:.3}}}")?;
    }
    Ok(out)
}

fn read(path: &Path) -> Result<Table> {
    let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut table = Vec::new();
    for row in SerializedFileReader::new(file)?.get_row_iter(None)? {
        table.push(row?.into_columns().into_iter().collect());
    }
    Ok(table)
}

fn word<'a>(row: &'a BTreeMap<String, Field>, name: &str) -> &'a str {
    if let Some(Field::Str(text)) = row.get(name) { text } else { "" }
}

fn int(row: &BTreeMap<String, Field>, name: &str) -> i64 {
    if let Some(Field::Long(value)) = row.get(name) { *value } else { -1 }
}

/// Milliseconds in the table.
fn micros(row: &BTreeMap<String, Field>) -> f64 {
    if let Some(Field::Double(value)) = row.get("latency") { 1e3 * value } else { 0.0 }
}

fn fitted(rows: &[Row], what: &str) -> Result<Fit> {
    fit(rows).ok_or_else(|| format!("{what}: no rows to fit").into())
}

/// Launch and efficiency at each number of tokens, over both GPUs and all sizes of matrices.
fn products(
    out: &mut String,
    tables: &[(Gpu, PathBuf)],
    precision: Precision,
    (dtype, source): (&str, &str),
    errors: &mut Errors,
) -> Result<()> {
    let mut by_tokens: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for (gpu, folder) in tables {
        for row in read(&folder.join("gemm_perf.parquet"))? {
            let (m, n, k) = (int(&row, "m"), int(&row, "n"), int(&row, "k"));
            let wanted = word(&row, "gemm_dtype") == dtype && word(&row, "kernel_source") == source;
            if !wanted || n < SIDE_MIN || k < SIDE_MIN || m > TOKENS_MAX {
                continue;
            }
            let roof_us = roof_us(u32::try_from(m)?, (n.try_into()?, k.try_into()?), precision, gpu);
            by_tokens.entry(m).or_default().push(Row { features: vec![1.0, roof_us], target: micros(&row) });
        }
    }
    let mut fits = BTreeMap::new();
    for (&tokens, rows) in &by_tokens {
        fits.insert(tokens, fitted(rows, dtype)?);
    }
    // Beyond a graph's sizes the tables have counts one above a multiple of 16, at which FP8 takes up to twice as long;
    // no served engine shows that (docs/accuracy.md), so they are left out.
    let wanted = |m: i64| m <= 256 || m % 16 == 0;
    let knot = |(m, fit): (&i64, &Fit)| {
        format!("[{m}, {:.2}, {:.3}]", fit.coefficients[0], 1.0 / fit.coefficients[1])
    };
    let knots: Vec<String> = fits.iter().filter(|(m, _)| wanted(**m)).map(knot).collect();
    writeln!(out, "  {}:\n    knots:\n      [{}]", precision.word(), knots.join(", "))?;
    let mut medians: Vec<f64> = fits.values().map(|fit| fit.median_relative_error).collect();
    medians.sort_by(f64::total_cmp);
    let count = by_tokens.values().map(Vec::len).sum();
    errors.push((format!("products_{}", precision.word()), count, medians[medians.len() / 2]));
    Ok(())
}

/// Rows of an attention table for heads of 128 in groups as dense models have them.
fn attention(folder: &Path, file: &str, cache: &str) -> Result<Table> {
    let keep = |row: &BTreeMap<String, Field>| {
        int(row, "head_dim") == 128
            && int(row, "window_size") == 0
            && word(row, "kv_cache_dtype") == cache
            && word(row, "kernel_source") == "vllm_flash_attn_fa3"
            && [4, 5, 8].contains(&(int(row, "num_heads") / int(row, "num_key_value_heads").max(1)))
    };
    Ok(read(&folder.join(file))?.into_iter().filter(keep).collect())
}

fn decode(
    out: &mut String,
    tables: &[(Gpu, PathBuf)],
    precision: Precision,
    cache: &str,
    errors: &mut Errors,
) -> Result<()> {
    let mut rows = Vec::new();
    for (gpu, folder) in tables {
        for row in attention(folder, "generation_attention_perf.parquet", cache)? {
            let (batch, heads) = (int(&row, "batch_size") as f64, int(&row, "num_key_value_heads") as f64);
            if batch > 512.0 {
                continue;
            }
            let context = batch * (int(&row, "step") + 1) as f64;
            let bytes = context * 2.0 * heads * 128.0 * precision.bytes(1) as f64;
            let features = vec![1.0, batch * heads, 1e6 * bytes / gpu.hbm_bytes_per_s];
            rows.push(Row { features, target: micros(&row) });
        }
    }
    let fit = fitted(&rows, "decode attention")?;
    let c = &fit.coefficients;
    // An 8-bit cache is unpacked where it is read: the multiprocessors' work, not the bandwidth, bounds it.
    let in_waves = if precision == Precision::Fp8 { ", in_waves: true" } else { "" };
    writeln!(
        out,
        "  {}: {{floor_us: {:.2}, row_head_us: {:.4}, efficiency: {:.3}{in_waves}}}",
        precision.word(),
        c[0],
        c[1],
        1.0 / c[2]
    )?;
    errors.push((format!("decode_{}", precision.word()), rows.len(), fit.median_relative_error));
    Ok(())
}

fn prefill(out: &mut String, tables: &[(Gpu, PathBuf)], errors: &mut Errors) -> Result<()> {
    let mut rows = Vec::new();
    for (gpu, folder) in tables {
        let peak = gpu.peak_flops(Precision::Bf16).ok_or("no peak in 16 bits")?;
        for row in attention(folder, "context_attention_perf.parquet", "bfloat16")? {
            let (batch, length) = (int(&row, "batch_size") as f64, int(&row, "isl") as f64);
            if batch > 16.0 {
                continue;
            }
            let heads = int(&row, "num_heads") as f64;
            let operations = batch * length * length / 2.0 * 4.0 * heads * 128.0;
            let features = vec![1.0, batch * length * heads, 1e6 * operations / peak];
            rows.push(Row { features, target: micros(&row) });
        }
    }
    let fit = fitted(&rows, "prefill attention")?;
    let c = &fit.coefficients;
    writeln!(
        out,
        "prefill: {{floor_us: {:.2}, token_head_us: {:.6}, efficiency: {:.3}}}",
        c[0],
        c[1],
        1.0 / c[2]
    )?;
    errors.push(("prefill".to_owned(), rows.len(), fit.median_relative_error));
    Ok(())
}

fn collective(out: &mut String, tables: &[(Gpu, PathBuf)], errors: &mut Errors) -> Result<()> {
    let mut by_gpus: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    let mut launches = Vec::new();
    for (gpu, folder) in tables {
        for row in read(&folder.join("custom_allreduce_perf.parquet"))? {
            let (gpus, bytes) = (int(&row, "num_gpus"), int(&row, "message_size") as f64);
            let library = word(&row, "backend") == "vllm_eager" && bytes < 65_536.0;
            if library {
                launches.push(micros(&row));
            }
            if word(&row, "backend") != "vllm_graph" || bytes > OWN_BYTES_MAX {
                continue;
            }
            let ring = 2.0 * (gpus - 1) as f64 / gpus as f64;
            let features = vec![1.0, 1e6 * ring * bytes / gpu.link_bytes_per_s];
            by_gpus.entry(gpus).or_default().push(Row { features, target: micros(&row) });
        }
    }
    let (mut floors, mut shares, mut worst) = (Vec::new(), Vec::new(), 0.0_f64);
    for (gpus, rows) in &by_gpus {
        let fit = fitted(rows, "all-reduce")?;
        floors.push(fit.coefficients[0]);
        shares.push(format!("[{gpus}, {:.3}]", 1.0 / fit.coefficients[1]));
        worst = worst.max(fit.median_relative_error);
    }
    let floor = floors.iter().sum::<f64>() / floors.len().max(1) as f64;
    let launch = launches.iter().sum::<f64>() / launches.len().max(1) as f64;
    writeln!(out, "collective:\n  floor_us: {floor:.2}\n  efficiency: [{}]", shares.join(", "))?;
    writeln!(out, "  own_bytes_max: {OWN_BYTES_MAX}\n  library_floor_us: {launch:.2}")?;
    writeln!(
        out,
        "  # 370 of 450 GB/s: what NCCL's maintainers say of its rings (NVIDIA/nccl-tests issue 212)."
    )?;
    writeln!(out, "  library_efficiency: {LIBRARY_EFFICIENCY}")?;
    errors.push(("collective".to_owned(), by_gpus.values().map(Vec::len).sum(), worst));
    Ok(())
}

/// The four element-wise kernels of a layer of Llama-3.1-8B, on the GPU they were measured on.
fn element_wise(out: &mut String, layers: &Path, errors: &mut Errors) -> Result<()> {
    let Found::Entry(gpu) = Gpu::find("rtx-pro-6000")? else {
        return Err("a catalogue name is no file".into());
    };
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for line in std::fs::read_to_string(layers)?.lines().skip(1) {
        let [layer, tokens, time] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("{}: found {line:?}, expected layer,tokens,time_us", layers.display()).into());
        };
        // Two norms, one rotary embedding and one activation a layer.
        let count = match layer {
            "layernorm" => 2.0,
            "rotary_emb" | "act_fn" => 1.0,
            _ => continue,
        };
        *sums.entry(tokens.parse()?).or_default() += count * time.parse::<f64>()?;
    }
    let rows: Vec<Row> = sums
        .iter()
        .map(|(&tokens, &target)| {
            let bytes = f64::from(tokens) * element_wise_bytes(4096.0, 14_336.0);
            Row { features: vec![1.0, 1e6 * bytes / gpu.hbm_bytes_per_s], target }
        })
        .collect();
    let fit = fitted(&rows, "element-wise")?;
    let c = &fit.coefficients;
    writeln!(out, "element_wise: {{floor_us: {:.2}, efficiency: {:.3}}}", c[0], 1.0 / c[1])?;
    errors.push(("element_wise".to_owned(), rows.len(), fit.median_relative_error));
    Ok(())
}

/// Layers of Llama-2-70B.
const LAYERS: f64 = 80.0;

/// What the host takes to launch a layer's kernels without a graph: token times of one row on four and on eight H100, in
/// software of before graphs. More GPUs make the kernels shorter and the token no faster, so it waits for the host.
fn launches(out: &mut String, served: &Path, errors: &mut Errors) -> Result<()> {
    let mut times = Vec::new();
    let text = std::fs::read_to_string(served).map_err(|e| format!("{}: {e}", served.display()))?;
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [model, gpu, _, batch, _, _, _, _, token_ms, _, gpus] = fields[..] else {
            return Err(format!("{}: found {line:?}, expected 11 fields", served.display()).into());
        };
        if model == "llama2-70b" && gpu == "h100-80gb" && batch == "1" && ["4", "8"].contains(&gpus) {
            times.push((1e3 * token_ms.parse::<f64>()? - HOST_US) / LAYERS);
        }
    }
    times.sort_by(f64::total_cmp);
    let layer_us = *times.get(times.len() / 2).ok_or("launches: no rows")?;
    let mut off: Vec<f64> = times.iter().map(|us| (layer_us / us - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    writeln!(out, "# Of a layer, by a host that launches kernel by kernel.\nlaunches_us: {layer_us:.0}")?;
    errors.push(("launches".to_owned(), times.len(), off[off.len() / 2]));
    Ok(())
}

/// Bytes that the element-wise kernels of a layer move for a token: each norm reads and writes the residual and its
/// result, the activation reads gate and up and writes their product.
fn element_wise_bytes(hidden: f64, intermediate: f64) -> f64 {
    scaleproof_calibrate::physics::element_wise_bytes(hidden, intermediate)
}
