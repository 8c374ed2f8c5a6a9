//! Reading a profile's sections.

use super::uncertainty::{Correction, Factor, Knob, Uncertainty};
use super::{FitError, Provenance, Residual, Validity};
use crate::engine::cudagraph::{CudagraphMode, Cudagraphs};
use crate::engine::{EngineConfig, SchedulingPolicy};
use crate::front_end::{FrontEnd, FrontEndProcess};
use crate::hardware::Hardware;
use crate::step_time::{Coefficients, GraphSettings, GraphTimes, HostCost, StepTime};
use scaleproof_pack::fields::{Fields, Item, above, from_to, mapping};
use scaleproof_pack::time::Nanos;

/// The kinds of graphs a file may name.
pub(super) const GRAPH_MODES: [(&str, CudagraphMode); 4] = [
    ("piecewise", CudagraphMode::Piecewise),
    ("full", CudagraphMode::Full),
    ("full_decode_only", CudagraphMode::FullDecodeOnly),
    ("full_and_piecewise", CudagraphMode::FullAndPiecewise),
];

/// The greatest standard deviation of a factor's logarithm: 2 says that it may be seven times as much or as little, and
/// knows nothing.
const LOG_SD_MAX: f64 = 2.0;

/// The queue's orders a file may name.
pub(super) const POLICIES: [(&str, SchedulingPolicy); 2] =
    [("fcfs", SchedulingPolicy::Fcfs), ("priority", SchedulingPolicy::Priority)];

/// Reads scheduler settings: all that have no usual value, or, over `base`, whichever are there. Reports what makes
/// them unusable together.
pub(crate) fn read_scheduler(fields: &mut Fields<'_>, base: Option<&EngineConfig>) -> Option<EngineConfig> {
    const TOKENS_MAX: u32 = EngineConfig::TOKENS_MAX;
    let needed = |fields: &mut Fields<'_>, name, range, usual: Option<u32>| match usual {
        Some(usual) => fields.opt(name).u32(range).or(Some(usual)),
        None => fields.req(name).u32(range),
    };
    let num_blocks =
        needed(fields, "num_blocks", 2..=EngineConfig::NUM_BLOCKS_MAX, base.map(|b| b.num_blocks));
    let block_size = needed(fields, "block_size", 1..=TOKENS_MAX, base.map(|b| b.block_size));
    let budget =
        needed(fields, "max_num_batched_tokens", 1..=TOKENS_MAX, base.map(|b| b.max_num_batched_tokens));
    let seats = needed(fields, "max_num_seqs", 1..=TOKENS_MAX, base.map(|b| b.max_num_seqs));
    // A request has a token of a prompt and one of an answer.
    let length = needed(fields, "max_model_len", 2..=TOKENS_MAX, base.map(|b| b.max_model_len));
    let usual = base.cloned().unwrap_or(EngineConfig { async_scheduling: true, ..EngineConfig::default() });
    let policy = fields.opt("policy").word(&POLICIES).unwrap_or(usual.policy);
    let async_scheduling = fields.opt("async_scheduling").bool().unwrap_or(usual.async_scheduling);
    let caching = fields.opt("enable_prefix_caching").bool().unwrap_or(usual.enable_prefix_caching);
    let threshold = fields.opt("long_prefill_token_threshold").u32(0..=TOKENS_MAX);
    let reserve = fields.opt("scheduler_reserve_full_isl").bool().unwrap_or(usual.scheduler_reserve_full_isl);
    let watermark = fields.opt("watermark").f64(from_to(0.0, 0.999)).unwrap_or(usual.watermark);
    let settings = EngineConfig {
        num_blocks: num_blocks?,
        block_size: block_size?,
        max_num_batched_tokens: budget?,
        max_num_seqs: seats?,
        max_model_len: length?,
        policy,
        async_scheduling,
        enable_prefix_caching: caching,
        long_prefill_token_threshold: threshold.unwrap_or(usual.long_prefill_token_threshold),
        scheduler_reserve_full_isl: reserve,
        watermark,
    };
    for fault in settings.check() {
        fields.opt(fault.field).fault(fault.found, &fault.expected, "");
    }
    Some(settings)
}

/// The greatest cost of one unit, in microseconds: an hour. Sums over a batch stay far inside a time.
const COST_MAX_US: f64 = 3.6e9;

pub(super) fn read_front_end(fields: &mut Fields<'_>) -> Option<FrontEnd> {
    let process = fields.opt("process").word(&FrontEndProcess::WORDS);
    let request_ms = fields.req("request_ms").f64(from_to(0.0, 1e6));
    let busy_ms = fields.opt("busy_ms").f64(from_to(0.0, request_ms.unwrap_or(1e6)));
    let prompt_token_us = fields.req("prompt_token_us").f64(from_to(0.0, 1e6));
    let output_token_ms = fields.req("output_token_ms").f64(from_to(0.0, 1e6));
    Some(FrontEnd {
        process: process.unwrap_or_default(),
        request: Nanos::from_millis(request_ms?).ok()?,
        busy: Nanos::from_millis(busy_ms.or(request_ms)?).ok()?,
        prompt_token_us: prompt_token_us?,
        output_token: Nanos::from_millis(output_token_ms?).ok()?,
    })
}

pub(super) fn read_step_time(
    fields: &mut Fields<'_>,
    scheduler: Option<&EngineConfig>,
    hardware: Option<Hardware>,
) -> Option<StepTime> {
    let eager = read_coefficients(fields);
    let host = mapping(&fields.req("host"), |f| {
        let base_us = f.req("base_us").f64(from_to(0.0, COST_MAX_US));
        Some(HostCost { base_us: base_us?, row_us: f.req("row_us").f64(from_to(0.0, COST_MAX_US))? })
    });
    let graphs_item = fields.opt("cudagraphs");
    let graphs = if graphs_item.is_present() {
        let (settings, full, piecewise) = mapping(&graphs_item, read_graphs)?;
        Some(GraphTimes::new(settings, full, piecewise, scheduler?))
    } else {
        None
    };
    Some(StepTime { eager: eager?, graphs, host: host?, hardware })
}

fn read_coefficients(fields: &mut Fields<'_>) -> Option<Coefficients> {
    let mut cost = |name| fields.req(name).f64(from_to(0.0, COST_MAX_US));
    let base_us = cost("base_us");
    let decode_context_token_us = cost("decode_context_token_us");
    let prefill_pair_us = cost("prefill_pair_us");
    let prefill_context_token_us = cost("prefill_context_token_us");
    let row_us = cost("row_us");
    let sampled_row_us = cost("sampled_row_us");
    let launch_us = fields.opt("launch_us").f64(from_to(0.0, COST_MAX_US)).unwrap_or(0.0);
    let decode_wave_rows = fields.opt("decode_wave_rows").f64(from_to(0.0, 1e6)).unwrap_or(0.0);
    let knots = read_knots(&fields.req("batch_token_knots"));
    Some(Coefficients {
        base_us: base_us?,
        batch_token_knots: knots?,
        decode_context_token_us: decode_context_token_us?,
        prefill_pair_us: prefill_pair_us?,
        prefill_context_token_us: prefill_context_token_us?,
        row_us: row_us?,
        sampled_row_us: sampled_row_us?,
        launch_us,
        decode_wave_rows,
    })
}

/// The greatest number of tokens a graph may be recorded for.
const GRAPH_TOKENS_MAX: u32 = 1 << 20;

fn read_graphs(fields: &mut Fields<'_>) -> Option<(GraphSettings, Coefficients, Coefficients)> {
    let mode = fields.req("mode").word(&GRAPH_MODES);
    let sizes_item = fields.opt("sizes");
    let sizes: Option<Vec<u32>> = if sizes_item.is_present() {
        sizes_item.list(1..=10_000)?.iter().map(|size| size.u32(1..=GRAPH_TOKENS_MAX)).collect()
    } else {
        Some(Vec::new())
    };
    let ceiling = fields.opt("ceiling").u32(1..=GRAPH_TOKENS_MAX).unwrap_or(Cudagraphs::CEILING);
    let full = mapping(&fields.req("full"), read_coefficients);
    let piecewise = mapping(&fields.req("piecewise"), read_coefficients);
    Some((GraphSettings { mode: mode?, sizes: sizes?, ceiling }, full?, piecewise?))
}

/// Knots as `[tokens, microseconds]`, tokens rising.
fn read_knots(item: &Item<'_>) -> Option<Vec<(f64, f64)>> {
    let mut knots: Vec<(f64, f64)> = Vec::new();
    for pair in item.list(1..=1000)? {
        let values = pair.list(2..=2)?;
        let knot = (values[0].f64(above(0.0, 1e9))?, values[1].f64(from_to(0.0, COST_MAX_US))?);
        if let Some(last) = knots.last().filter(|last| knot.0 <= last.0) {
            let found = format!("[{}, {}] after [{}, {}]", knot.0, knot.1, last.0, last.1);
            pair.fault(found, "more tokens than the knot before", "order the knots");
            return None;
        }
        knots.push(knot);
    }
    Some(knots)
}

pub(super) fn read_validity(fields: &mut Fields<'_>) -> Option<Validity> {
    let mut range = |name| -> Option<(u32, u32)> {
        let item = fields.req(name);
        let bounds = item.list(2..=2)?;
        let (low, high) = (bounds[0].u32(0..=u32::MAX)?, bounds[1].u32(0..=u32::MAX)?);
        if low > high {
            item.fault(format!("[{low}, {high}]"), "the lower bound first", "swap them");
        }
        Some((low, high))
    };
    let (batch_tokens, rows, context_tokens) =
        (range("batch_tokens"), range("rows"), range("context_tokens"));
    Some(Validity { batch_tokens: batch_tokens?, rows: rows?, context_tokens: context_tokens? })
}

pub(super) fn read_provenance(fields: &mut Fields<'_>) -> Option<Provenance> {
    let method = fields.req("method").string();
    let sources = fields.req("sources").list(1..=100);
    let (date, command) = (fields.opt("date").string(), fields.opt("command").string());
    let engine_version = fields.opt("engine_version").string();
    let data_sha256 = fields.opt("data_sha256").string();
    let expected_error = fields.opt("expected_relative_error").f64(from_to(0.0, 10.0));
    let factors = read_factors(&fields.opt("factors"));
    let residuals = list_of(&fields.opt("residuals"), read_residual);
    let fit_errors = list_of(&fields.opt("fit_errors"), read_fit_error);
    let sources: Option<Vec<String>> = sources?.iter().map(Item::string).collect();
    Some(Provenance {
        method: method?,
        sources: sources?,
        date,
        command,
        engine_version,
        data_sha256,
        expected_relative_error: expected_error,
        factors: factors?,
        residuals: residuals?,
        fit_errors: fit_errors?,
    })
}

/// The items of a list of mappings; none if the field is not there.
fn list_of<T>(item: &Item<'_>, mut read: impl FnMut(&mut Fields<'_>) -> Option<T>) -> Option<Vec<T>> {
    if !item.is_present() {
        return Some(Vec::new());
    }
    item.list(0..=10_000)?.iter().map(|item| mapping(item, &mut read)).collect()
}

fn read_fit_error(fields: &mut Fields<'_>) -> Option<FitError> {
    let kind = fields.req("kind").string();
    let count = fields.req("count").u32(0..=u32::MAX);
    let median_relative = fields.req("median_relative").f64(from_to(0.0, 1e6));
    Some(FitError { kind: kind?, count: count?, median_relative: median_relative? })
}

/// What the hardware bound needs: all above 0.
pub(super) fn read_hardware(fields: &mut Fields<'_>) -> Option<Hardware> {
    let mut positive = |name| fields.req(name).f64(above(0.0, 1e30));
    let peak_flops_per_s = positive("peak_flops_per_s");
    let hbm_bytes_per_s = positive("hbm_bytes_per_s");
    let weight_bytes = positive("weight_bytes");
    let kv_bytes_per_token = positive("kv_bytes_per_token");
    let token_flops = positive("token_flops");
    let pair_flops = positive("pair_flops");
    Some(Hardware {
        peak_flops_per_s: peak_flops_per_s?,
        hbm_bytes_per_s: hbm_bytes_per_s?,
        weight_bytes: weight_bytes?,
        kv_bytes_per_token: kv_bytes_per_token?,
        token_flops: token_flops?,
        pair_flops: pair_flops?,
    })
}

/// The factors' posterior, each with a row of the lower triangle.
pub(super) fn read_uncertainty(item: &Item<'_>) -> Option<Uncertainty> {
    let mut factors = Vec::new();
    for (row, item) in item.list(1..=Knob::ALL.len())?.iter().enumerate() {
        factors.push(mapping(item, |fields| {
            let knob = fields.req("factor").word(&Knob::WORDS);
            let prior_sd = fields.req("prior_sd").f64(from_to(0.0, LOG_SD_MAX));
            let deviations = fields.req("deviations").list(row + 1..=row + 1)?;
            let deviations: Option<Vec<f64>> =
                deviations.iter().map(|d| d.f64(from_to(-LOG_SD_MAX, LOG_SD_MAX))).collect();
            Some(Factor { knob: knob?, prior_sd: prior_sd?, deviations: deviations? })
        })?);
    }
    each_once(item, &factors.iter().map(|factor| factor.knob).collect::<Vec<_>>());
    Some(Uncertainty { factors })
}

/// What the prior's costs were multiplied by.
fn read_factors(item: &Item<'_>) -> Option<Correction> {
    let factors = list_of(item, |fields| {
        let knob = fields.req("factor").word(&Knob::WORDS);
        let value = fields.req("value").f64(above(0.0, 1e6));
        Some((knob?, value?))
    })?;
    each_once(item, &factors.iter().map(|(knob, _)| *knob).collect::<Vec<_>>());
    Some(Correction { factors })
}

fn each_once(item: &Item<'_>, knobs: &[Knob]) {
    if let Some(i) = (1..knobs.len()).find(|&i| knobs[..i].contains(&knobs[i])) {
        item.fault(format!("{} twice", knobs[i].word()), "each factor once", "remove one");
    }
}

fn read_residual(fields: &mut Fields<'_>) -> Option<Residual> {
    let metric = fields.req("metric").string();
    let mut number = |name| fields.req(name).f64(from_to(-1e15, 1e15));
    let (target, fitted) = (number("target"), number("fitted"));
    Some(Residual { metric: metric?, target: target?, fitted: fitted? })
}
