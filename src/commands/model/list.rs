//! `scaleproof model list`: the catalogue.

use super::args::ListArgs;
use crate::args::Format;
use crate::exit::{CommandError, Exit, Outcome};
use crate::study::print_out;
use crate::table::{grouped, table};
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::architecture::Architecture;
use scaleproof_calibrate::hardware::gpu::Gpu;
use serde_json::{Map, Value, json};

/// Runs the command.
pub fn run(args: &ListArgs) -> Outcome {
    let models = Architecture::catalogue().map_err(CommandError::could_not_run)?;
    let gpus = Gpu::catalogue().map_err(CommandError::could_not_run)?;
    print_out(&match args.format {
        Format::Json => {
            let models: Vec<Value> = models.iter().map(model_json).collect();
            let gpus: Vec<Value> = gpus.iter().map(gpu_json).collect();
            format!("{:#}\n", json!({"models": models, "gpus": gpus}))
        }
        Format::Text => text(&models, &gpus),
    })?;
    Ok(Exit::Passed)
}

fn model_json(model: &Architecture) -> Value {
    json!({
        "name": model.name,
        "aliases": model.aliases,
        "family": model.family.word(),
        "parameters": model.parameters(),
        "max_position_embeddings": model.max_position_embeddings,
        "source": model.source,
    })
}

fn gpu_json(gpu: &Gpu) -> Value {
    let peaks: Map<String, Value> =
        gpu.peaks.iter().map(|(precision, peak)| (precision.word().to_owned(), json!(peak))).collect();
    let sources: Map<String, Value> =
        gpu.sources.iter().map(|(field, source)| ((*field).to_owned(), json!(source))).collect();
    json!({
        "name": gpu.name,
        "aliases": gpu.aliases,
        "hbm_bytes": gpu.hbm_bytes,
        "visible_bytes": gpu.visible_bytes,
        "hbm_bytes_per_s": gpu.hbm_bytes_per_s,
        "dense_flops": peaks,
        "link": gpu.link.word(),
        "link_bytes_per_s": gpu.link_bytes_per_s,
        "pcie_bytes_per_s": gpu.pcie_bytes_per_s,
        "sm_count": gpu.sm_count,
        "sources": sources,
    })
}

fn text(models: &[Architecture], gpus: &[Gpu]) -> String {
    let rows: Vec<Vec<String>> = models
        .iter()
        .map(|model| {
            let parameters = format!("{:.2}", model.parameters() as f64 / 1e9);
            let context = grouped(u64::from(model.max_position_embeddings));
            let family = model.family.word().to_owned();
            vec![model.name.clone(), family, parameters, context, model.aliases.join(", ")]
        })
        .collect();
    let models = table(&["model", "family", "parameters (1e9)", "context", "also"], &rows);
    let rows: Vec<Vec<String>> = gpus
        .iter()
        .map(|gpu| {
            let tera = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{:.1}", rate / 1e12));
            vec![
                gpu.name.clone(),
                (gpu.hbm_bytes >> 30).to_string(),
                format!("{:.3}", gpu.hbm_bytes_per_s / 1e12),
                tera(gpu.peak_flops(Precision::Bf16)),
                tera(gpu.peak_flops(Precision::Fp8)),
                format!("{} {:.0} GB/s", gpu.link.word(), gpu.link_bytes_per_s / 1e9),
                gpu.aliases.join(", "),
            ]
        })
        .collect();
    let headers = ["GPU", "GiB", "TB/s", "bf16 TFLOP/s", "fp8 TFLOP/s", "link, each way", "also"];
    format!("{models}\n{}", table(&headers, &rows))
}
