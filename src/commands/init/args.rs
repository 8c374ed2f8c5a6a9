//! The arguments of `init`.

use crate::args::{Format, rate, seed};
use clap::{Args, ValueEnum};
use scaleproof_pack::manifest::TraceFormat;
use std::path::PathBuf;

/// Arguments of `init`.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// The directory to write workload-manifest.yaml and scenario.yaml into
    pub dir: PathBuf,
    /// The engine's profile, which also names model, precision and parallel degrees
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Independent replicas [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replicas: Option<u32>,
    /// Tensor parallel degree of a replica; must be the profile's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Option<u32>,
    /// A class of requests, as name:mix:input:output:ttft_ms:tpot_ms; again for each. Mixes sum to 1, lengths are
    /// tokens, the last two are the cutoffs
    #[arg(long = "class", value_name = "SPEC", value_parser = class, conflicts_with = "trace")]
    pub classes: Vec<ClassSpec>,
    /// Measured requests [default: enough for 2,200 of the rarest class]
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub requests: Option<u64>,
    /// Take arrivals and lengths from this trace; its classes are made from quantiles of the prompt length
    #[arg(long, value_name = "FILE", requires = "trace_format")]
    pub trace: Option<PathBuf>,
    /// The trace's format
    #[arg(long, value_enum, requires = "trace")]
    pub trace_format: Option<TraceFormatWord>,
    /// TTFT cutoff of a trace's classes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = rate)]
    pub ttft_ms: f64,
    /// TPOT cutoff of a trace's classes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "50", value_parser = rate)]
    pub tpot_ms: f64,
    /// Offered rates of the sweep, rising [default: twelve from 1 to 8.2 for each replica; around a trace's own]
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', value_parser = rate)]
    pub rates: Vec<f64>,
    /// The engine and its exact version [default: the profile's name and the hash of its file]
    #[arg(long, value_name = "NAME@VERSION", value_parser = engine)]
    pub engine: Option<(String, String)>,
    /// Revision of the tokenizer [default: the model's]
    #[arg(long, value_name = "REVISION")]
    pub tokenizer_revision: Option<String>,
    /// The date on which the system was frozen, as 2026-08-29 [default: today, UTC]
    #[arg(long, value_name = "DATE")]
    pub cutoff: Option<String>,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1, value_parser = seed)]
    pub seed: u64,
    /// How to print what was written
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

impl InitArgs {
    /// Whether there is nothing to go by, so that questions may help.
    pub fn says_nothing(&self) -> bool {
        self.profile.is_none() && self.classes.is_empty() && self.trace.is_none()
    }
}

/// The formats of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormatWord {
    /// JSONL with timestamps in milliseconds and hash ids of 512-token blocks.
    Mooncake,
    /// CSV: TIMESTAMP,ContextTokens,GeneratedTokens.
    Azure,
    /// CSV: arrival_s or arrival_ms, input_tokens, output_tokens, and class if there is one.
    Csv,
}

impl TraceFormatWord {
    pub fn format(self) -> TraceFormat {
        match self {
            TraceFormatWord::Mooncake => TraceFormat::Mooncake,
            TraceFormatWord::Azure => TraceFormat::Azure,
            TraceFormatWord::Csv => TraceFormat::Csv,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            TraceFormatWord::Mooncake => "mooncake",
            TraceFormatWord::Azure => "azure",
            TraceFormatWord::Csv => "csv",
        }
    }
}

/// A class as the flag has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    pub name: String,
    pub mix: f64,
    pub input_tokens: u32,
    pub output_tokens: u32,
    pub ttft_ms: f64,
    pub tpot_ms: f64,
}

/// Reads `name:mix:input:output:ttft_ms:tpot_ms`. Bounds are the manifest's business.
pub fn class(text: &str) -> Result<ClassSpec, String> {
    const FORM: &str = "name:mix:input:output:ttft_ms:tpot_ms, as chat:0.8:1024:128:500:40";
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let [name, mix, input, output, ttft, tpot] = parts[..] else {
        return Err(format!("found {} parts; expected six: {FORM}", parts.len()));
    };
    let number = |part: &str, what: &str| {
        let value = part.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| format!("{what}: found {part:?}; expected a number: {FORM}"))
    };
    let tokens = |part: &str, what: &str| {
        part.parse().map_err(|_| format!("{what}: found {part:?}; expected a whole number of tokens: {FORM}"))
    };
    if name.is_empty() {
        return Err(format!("name: found nothing; expected a name: {FORM}"));
    }
    Ok(ClassSpec {
        name: name.to_owned(),
        mix: number(mix, "mix")?,
        input_tokens: tokens(input, "input")?,
        output_tokens: tokens(output, "output")?,
        ttft_ms: number(ttft, "ttft_ms")?,
        tpot_ms: number(tpot, "tpot_ms")?,
    })
}

fn engine(text: &str) -> Result<(String, String), String> {
    match text.split_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Ok((name.to_owned(), version.to_owned()))
        }
        _ => Err(format!("found {text:?}; expected a name and a version, as vllm@0.11.2")),
    }
}
