//! `scaleproof model predict`: step times from physics, as tables and as a profile.

use super::args::PredictArgs;
use super::command_line;
use super::show::gib;
use crate::args::Format;
use crate::catalogue;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, read_text};
use crate::study::{print_out, shown};
use crate::table::{grouped, number, table};
use scaleproof_calibrate::carry::carry;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_calibrate::hardware::memory::{MemoryPlan, MemorySettings};
use scaleproof_calibrate::physics::{PriorSpec, prior};
use scaleproof_calibrate::steps::{Cost, Decode, Prefill, decode_table, prefill_table};
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;
use serde_json::{Value, json};
use std::path::Path;

/// What is printed.
struct Prediction {
    gpu: Gpu,
    settings: MemorySettings,
    weight_bytes: u64,
    plan: MemoryPlan,
    profile: Profile,
    prefill: Vec<Prefill>,
    decode: Vec<Decode>,
}

/// Runs the command: what does not fit, or has no kernels, is bad input.
pub fn run(args: &PredictArgs) -> Outcome {
    let prediction = predict(args)?;
    if let Some(out) = &args.out {
        let comment = ["Written by the command in its provenance. No engine was measured for it.".to_owned()];
        files::write(out, prediction.profile.to_yaml(&comment).as_bytes())?;
    }
    print_out(&match args.format {
        Format::Json => format!("{:#}\n", prediction.json(args.out.as_deref())),
        Format::Text => prediction.text(args.out.as_deref()),
    })?;
    Ok(Exit::Passed)
}

fn predict(args: &PredictArgs) -> Result<Prediction, CommandError> {
    let architecture = catalogue::architecture(&args.model)?;
    let gpu = catalogue::gpu(&args.gpu)?;
    let precision = args.placement.precision.map_or(architecture.precision, |word| word.precision());
    let settings = args.memory.settings(&gpu, &args.placement, precision);
    let graphs = if args.enforce_eager { CudagraphMode::None } else { CudagraphMode::FullAndPiecewise };
    let spec = PriorSpec {
        memory: settings,
        num_blocks: args.num_blocks,
        max_model_len: args.memory.max_model_len,
        async_scheduling: !args.no_async_scheduling,
        prefix_caching: !args.no_prefix_caching,
        graphs,
        architecture,
        gpu: gpu.clone(),
    };
    let (mut profile, plan) = prior(&spec).map_err(CommandError::bad_input)?;
    check(&profile, args.memory.max_model_len)?;
    let architecture = &spec.architecture;
    profile.provenance.sources.push(format!("architecture {}: {}", architecture.name, architecture.source));
    if let Some(like) = &args.like {
        let from = Profile::parse(&shown(like), &read_text(like)?).map_err(CommandError::bad_input)?;
        let failed = |error| CommandError::bad_input(format!("{}: {error}", like.display()));
        profile = carry(&profile, &from).map_err(failed)?;
        profile.name = format!("{}-like-{}", profile.name, from.name);
        profile.provenance.sources.push(format!("profile {}", from.name));
    }
    profile.provenance.command = Some(command_line());
    args.provenance.note_in(&mut profile);
    let below = |error| CommandError::bad_input(format!("{}: {error}", profile.name));
    profile.check_bound().map_err(below)?;
    let failed = CommandError::could_not_run;
    let weight_bytes = architecture.weight_bytes(precision, settings.tp).map_err(CommandError::bad_input)?;
    Ok(Prediction {
        gpu,
        settings,
        weight_bytes: weight_bytes.total(),
        plan,
        prefill: prefill_table(&profile).map_err(failed)?,
        decode: decode_table(&profile).map_err(failed)?,
        profile,
    })
}

/// Settings that the engine would not start with.
fn check(profile: &Profile, max_model_len: Option<u32>) -> Result<(), CommandError> {
    let scheduler = &profile.scheduler;
    let fault = |field, found, expected: &str| format!("{field}: found {found}; expected {expected}");
    let mut faults: Vec<String> =
        scheduler.check().iter().map(|f| fault(f.field, f.found.clone(), &f.expected)).collect();
    if let Some(asked) = max_model_len.filter(|asked| *asked > scheduler.max_model_len) {
        let most = format!("at most {}, which the KV cache holds", scheduler.max_model_len);
        faults.push(fault("max_model_len", asked.to_string(), &most));
    }
    if faults.is_empty() { Ok(()) } else { Err(CommandError::bad_input(faults.join("\n"))) }
}

impl Prediction {
    /// Tokens that the KV cache holds, by the blocks that the profile has.
    fn kv_tokens(&self) -> u64 {
        u64::from(self.profile.scheduler.usable_blocks()) * u64::from(self.profile.scheduler.block_size)
    }

    fn json(&self, out: Option<&Path>) -> Value {
        let profile = &self.profile;
        let prefill = |row: &Prefill| {
            let mut value = cost_json(&row.cost);
            value["prompt_tokens"] = json!(row.tokens);
            value["steps"] = json!(row.steps);
            value
        };
        let decode = |row: &Decode| {
            let mut value = cost_json(&row.cost);
            value["rows"] = json!(row.rows);
            value["context_tokens"] = json!(row.context);
            value
        };
        let factors = profile.provenance.factors.factors.iter();
        json!({
            "profile": profile.name,
            "kind": profile.kind.word(),
            "expected_relative_error": profile.provenance.expected_relative_error,
            "method": profile.provenance.method,
            "sources": profile.provenance.sources,
            "fit_errors": profile.provenance.fit_errors,
            "gpu": self.gpu.name,
            "model": profile.model_id,
            "tp": profile.tp,
            "precision": profile.precision,
            "kv_precision": self.settings.kv_precision.word(),
            "memory": {
                "taken_bytes": self.plan.lines.first().map(|line| line.bytes),
                "weight_bytes": self.weight_bytes,
                "kv_bytes": self.plan.kv_bytes,
                "num_blocks": profile.scheduler.num_blocks,
                "kv_tokens": self.kv_tokens(),
                "max_model_len": profile.scheduler.max_model_len,
            },
            "factors": factors.map(|(knob, value)| json!({"factor": knob.word(), "value": value})).collect::<Vec<_>>(),
            "prefill": self.prefill.iter().map(prefill).collect::<Vec<_>>(),
            "decode": self.decode.iter().map(decode).collect::<Vec<_>>(),
            "written": out.map(shown),
        })
    }

    fn text(&self, out: Option<&Path>) -> String {
        let profile = &self.profile;
        let error = profile.provenance.expected_relative_error.unwrap_or_default();
        let mut text = format!(
            "{}: an uncalibrated prior; expect step times to be off by some {:.0} %\n{}\n",
            profile.name,
            100.0 * error,
            profile.provenance.method
        );
        for (knob, value) in &profile.provenance.factors.factors {
            text += &format!("factor {} {value}\n", knob.word());
        }
        for error in &profile.provenance.fit_errors {
            let percent = 100.0 * error.median_relative;
            text +=
                &format!("{}: median error {percent:.1} %, of {} measurements\n", error.kind, error.count);
        }
        text += &self.memory_text();
        let rows: Vec<Vec<String>> = self
            .prefill
            .iter()
            .map(|row| {
                [vec![grouped(row.tokens.into()), row.steps.to_string()], cost_cells(&row.cost)].concat()
            })
            .collect();
        text += "\nprefill, a prompt alone:\n";
        text += &table(&["prompt", "steps", "ms", "tokens/s", "bound ms", "times the bound"], &rows);
        let rows: Vec<Vec<String>> = self
            .decode
            .iter()
            .map(|row| {
                [vec![row.rows.to_string(), grouped(row.context.into())], cost_cells(&row.cost)].concat()
            })
            .collect();
        text += "\ndecode, a step:\n";
        text += &table(&["rows", "context", "ms", "tokens/s", "bound ms", "times the bound"], &rows);
        match out {
            Some(out) => text + &format!("profile: {}\n", out.display()),
            None => text,
        }
    }

    fn memory_text(&self) -> String {
        let taken = self.plan.lines.first().map_or(0, |line| line.bytes) as f64;
        let (weights, kv) = (self.weight_bytes as f64, self.plan.kv_bytes as f64);
        let scheduler = &self.profile.scheduler;
        let mut text = format!(
            "memory of each {}: {} taken, {} weights, {} working memory, {} KV cache\n\
             {} blocks of {} tokens: {} tokens of KV cache, requests up to {}\n",
            self.gpu.name,
            gib(taken),
            gib(weights),
            gib(taken - weights - kv),
            gib(kv),
            grouped(scheduler.num_blocks.into()),
            scheduler.block_size,
            grouped(self.kv_tokens()),
            grouped(scheduler.max_model_len.into()),
        );
        if self.gpu.peak_flops(self.settings.precision).is_none() {
            let word = self.settings.precision.word();
            text +=
                &format!("note: {} has no {word} tensor cores: its products are in 16 bits\n", self.gpu.name);
        }
        text
    }
}

fn cost_json(cost: &Cost) -> Value {
    json!({
        "time_ms": cost.time_ms,
        "tokens_per_s": cost.tokens_per_s,
        "bound_ms": cost.bound_ms,
        "times_the_bound": cost.ratio(),
    })
}

fn cost_cells(cost: &Cost) -> Vec<String> {
    vec![
        number(Some(cost.time_ms), 2),
        grouped(cost.tokens_per_s.round() as u64),
        number(cost.bound_ms, 2),
        number(cost.ratio(), 2),
    ]
}
