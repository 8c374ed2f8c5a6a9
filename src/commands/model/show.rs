//! `scaleproof model show`: a model's shape, and how it and its KV cache fill a GPU.

use super::args::ShowArgs;
use crate::args::Format;
use crate::catalogue;
use crate::exit::{CommandError, Exit, Outcome};
use crate::study::print_out;
use crate::table::{grouped, table};
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::architecture::{Architecture, Gemm, Gemms, WeightBytes};
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::hardware::memory::{MemoryPlan, MemorySettings};
use serde_json::{Value, json};

/// What is shown.
struct Shown {
    model: Architecture,
    tp: u32,
    precision: Precision,
    kv_precision: Precision,
    gemms: Gemms,
    weights: WeightBytes,
    memory: Option<Memory>,
}

/// How a GPU's memory is divided.
struct Memory {
    gpu: Gpu,
    settings: MemorySettings,
    plan: MemoryPlan,
    max_model_len: Option<u32>,
}

/// Runs the command: exit 1 if the model does not fit.
pub fn run(args: &ShowArgs) -> Outcome {
    let shown = Shown::new(args)?;
    print_out(&match args.format {
        Format::Json => format!("{:#}\n", shown.json()),
        Format::Text => shown.text(),
    })?;
    Ok(Exit::from_gate(shown.memory.as_ref().is_none_or(Memory::fits)))
}

impl Shown {
    fn new(args: &ShowArgs) -> Result<Shown, CommandError> {
        let model = catalogue::architecture(&args.model)?;
        let precision = args.placement.precision.map_or(model.precision, |word| word.precision());
        let kv_precision = args.placement.kv_precision.precision();
        let gemms = model.gemms(args.placement.tp).map_err(CommandError::bad_input)?;
        let weights = model.weight_bytes(precision, args.placement.tp).map_err(CommandError::bad_input)?;
        let memory = match &args.gpu {
            Some(name) => {
                let gpu = catalogue::gpu(name)?;
                let settings = args.memory.settings(&gpu, &args.placement, precision);
                let plan = MemoryPlan::new(&model, &gpu, &settings).map_err(CommandError::bad_input)?;
                Some(Memory { gpu, settings, plan, max_model_len: args.memory.max_model_len })
            }
            None => None,
        };
        Ok(Shown { model, tp: args.placement.tp, precision, kv_precision, gemms, weights, memory })
    }

    fn kv_bytes_per_token(&self) -> u64 {
        self.model.kv_bytes_per_token(self.kv_precision, self.tp)
    }

    fn products(&self) -> impl Iterator<Item = &Gemm> {
        self.gemms.layer.iter().chain([&self.gemms.lm_head])
    }

    fn json(&self) -> Value {
        let model = &self.model;
        let products: Vec<Value> =
            self.products().map(|gemm| json!({"name": gemm.name, "n": gemm.n, "k": gemm.k})).collect();
        json!({
            "model": model.name,
            "source": model.source,
            "family": model.family.word(),
            "layers": model.layers,
            "hidden": model.hidden,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
            "head_dim": model.head_dim,
            "intermediate": model.intermediate,
            "vocab": model.vocab,
            "tied_embeddings": model.tied_embeddings,
            "qkv_bias": model.qkv_bias,
            "max_position_embeddings": model.max_position_embeddings,
            "torch_dtype": model.torch_dtype,
            "parameters": model.parameters(),
            "non_embedding_parameters": model.non_embedding_parameters(),
            "tp": self.tp,
            "precision": self.precision.word(),
            "kv_precision": self.kv_precision.word(),
            "gemms_per_gpu": products,
            "flops_per_token": model.flops_per_token(),
            "lm_head_flops_per_row": model.lm_head_flops_per_row(),
            "attention_flops_per_pair": model.attention_flops_per_pair(),
            "weight_bytes_per_gpu": self.weights.total(),
            "kv_bytes_per_token_per_gpu": self.kv_bytes_per_token(),
            "memory": self.memory.as_ref().map(Memory::json),
        })
    }

    fn text(&self) -> String {
        let model = &self.model;
        let of = |value: u32| grouped(u64::from(value));
        let mut text = format!("{}: {}\n", model.name, model.source);
        text += &format!(
            "{} family: {} layers, hidden {}, {} query heads and {} of key and value, each {} wide, MLP {}, \
             vocabulary {}{}{}\n",
            model.family.word(),
            model.layers,
            of(model.hidden),
            model.heads,
            model.kv_heads,
            model.head_dim,
            of(model.intermediate),
            of(model.vocab),
            if model.tied_embeddings { ", tied embeddings" } else { "" },
            if model.qkv_bias { ", bias on query, key and value" } else { "" },
        );
        text += &format!(
            "{} parameters, {} without embedding and output head; context {} tokens\n",
            grouped(model.parameters()),
            grouped(model.non_embedding_parameters()),
            of(model.max_position_embeddings),
        );
        text += &format!(
            "each token {:.2} GFLOP in the layers' products, each sampled row {:.2} in the output head, each pair of \
             tokens {:.3} MFLOP in attention\n\n",
            model.flops_per_token() / 1e9,
            model.lm_head_flops_per_row() / 1e9,
            model.attention_flops_per_pair() / 1e6,
        );
        let rows: Vec<Vec<String>> = self
            .products()
            .map(|gemm| vec![gemm.name.to_owned(), grouped(gemm.n), grouped(gemm.k), grouped(gemm.weights())])
            .collect();
        text += &format!("on each GPU of TP{}, layers in {}:\n", self.tp, self.precision.word());
        text += &table(&["product", "n", "k", "weights"], &rows);
        text += &format!(
            "weights {} bytes = {}\nKV cache in {}: {} bytes a token\n",
            grouped(self.weights.total()),
            gib(self.weights.total() as f64),
            self.kv_precision.word(),
            grouped(self.kv_bytes_per_token()),
        );
        text + &self.memory.as_ref().map(|memory| memory.text(model)).unwrap_or_default()
    }
}

pub fn gib(bytes: f64) -> String {
    format!("{:.2} GiB", bytes / (1u64 << 30) as f64)
}

impl Memory {
    fn fits(&self) -> bool {
        self.plan.fits(self.max_model_len.map_or(1, u64::from))
    }

    fn json(&self) -> Value {
        let lines: Vec<Value> = self
            .plan
            .lines
            .iter()
            .map(|line| json!({"label": line.label, "formula": line.formula, "bytes": line.bytes}))
            .collect();
        json!({
            "gpu": self.gpu.name,
            "gpu_memory_utilization": self.settings.gpu_memory_utilization,
            "max_num_batched_tokens": self.settings.max_num_batched_tokens,
            "max_num_seqs": self.settings.max_num_seqs,
            "block_size": self.settings.block_size,
            "lines": lines,
            "kv_bytes": self.plan.kv_bytes,
            "num_blocks": self.plan.num_blocks,
            "kv_tokens": self.plan.kv_tokens,
            "max_model_len": self.max_model_len,
            "fits": self.fits(),
        })
    }

    fn text(&self, model: &Architecture) -> String {
        let row = |label: &str, bytes: i64, formula: &str| {
            let signed = if bytes < 0 { "-" } else { "" };
            let bytes = format!("{signed}{}", grouped(bytes.unsigned_abs()));
            // A column of numbers stands to the right; these are no numbers.
            let words = !formula.starts_with(|c: char| c.is_ascii_digit());
            vec![label.to_owned(), bytes, if words { formula.to_owned() } else { format!("= {formula}") }]
        };
        let mut rows: Vec<Vec<String>> =
            self.plan.lines.iter().map(|line| row(line.label, line.bytes, &line.formula)).collect();
        rows.push(row("KV cache", self.plan.kv_bytes, "the sum"));
        let mut text = format!("\nmemory of each {}:\n", self.gpu.name);
        text += &table(&["part", "bytes", "how"], &rows);
        text += &format!(
            "{} blocks of {} tokens x {} bytes: {} tokens\n",
            grouped(self.plan.num_blocks),
            self.settings.block_size,
            grouped(self.plan.kv_bytes_per_token),
            grouped(self.plan.kv_tokens),
        );
        if self.gpu.peak_flops(self.settings.precision).is_none() {
            text += &format!(
                "note: {} has no {} tensor cores: its products are in 16 bits\n",
                self.gpu.name,
                self.settings.precision.word()
            );
        }
        text + &self.verdict(model)
    }

    fn verdict(&self, model: &Architecture) -> String {
        let tokens = grouped(self.plan.kv_tokens);
        if self.plan.kv_bytes < 0 {
            let missing = gib(-self.plan.kv_bytes as f64);
            return format!("does not fit: {missing} a GPU are missing before the first token of KV cache\n");
        }
        if let Some(longest) = self.max_model_len.filter(|_| !self.fits()) {
            let longest = grouped(u64::from(longest));
            return format!(
                "does not fit: a request of {longest} tokens needs more than the {tokens} there are\n"
            );
        }
        if !self.fits() {
            return "does not fit: there is no room for one block of KV cache\n".to_owned();
        }
        if self.max_model_len.is_none() && !self.plan.fits(u64::from(model.max_position_embeddings)) {
            let context = grouped(u64::from(model.max_position_embeddings));
            return format!(
                "fits, but not the whole context of {context} tokens: set max_model_len to {tokens} or less\n"
            );
        }
        "fits\n".to_owned()
    }
}
