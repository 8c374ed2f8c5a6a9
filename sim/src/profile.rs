//! An engine's profile: its scheduler's settings and what its steps cost, for one model, precision, GPU, tensor
//! parallel degree and engine version. Read from models/*.yaml.

use crate::engine::cudagraph::{CudagraphMode, Cudagraphs};
use crate::engine::{EngineConfig, SchedulingPolicy};
use crate::replica::{Extremes, FrontEnd};
use crate::step_time::{Coefficients, GraphSettings, GraphTimes, HostCost, StepTime};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, Item, above, from_to};
use scaleproof_pack::time::Nanos;
use std::fmt;

/// What a profile rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Parameters made for teaching or tests; of no real hardware.
    Fixture,
    /// From specifications and other systems' measurements; never compared with this engine.
    Prior,
    /// Fitted to measurements of this engine.
    Calibrated,
}

impl ProfileKind {
    const WORDS: [(&'static str, ProfileKind); 3] = [
        ("fixture", ProfileKind::Fixture),
        ("prior", ProfileKind::Prior),
        ("calibrated", ProfileKind::Calibrated),
    ];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// The batches for which a profile's step time was fitted. All bounds are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Tokens of a batch.
    pub batch_tokens: (u32, u32),
    /// Rows of a batch.
    pub rows: (u32, u32),
    /// Tokens of context of a row, its own of the step included.
    pub context_tokens: (u32, u32),
}

impl Validity {
    /// What of the batches seen lies above the region, in words; empty if nothing does.
    #[must_use]
    pub fn exceeded(&self, seen: &Extremes) -> Vec<String> {
        [
            ("batch tokens", seen.batch_tokens, self.batch_tokens.1),
            ("rows", seen.rows, self.rows.1),
            ("context tokens", seen.context_tokens, self.context_tokens.1),
        ]
        .iter()
        .filter(|(_, found, limit)| found > limit)
        .map(|(what, found, limit)| format!("{what} reached {found}, the profile holds to {limit}"))
        .collect()
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((t0, t1), (r0, r1), (c0, c1)) = (self.batch_tokens, self.rows, self.context_tokens);
        write!(f, "batch tokens {t0} to {t1}, rows {r0} to {r1}, context tokens {c0} to {c1}")
    }
}

/// A checked profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it rests on.
    pub kind: ProfileKind,
    /// The GPU, if it is of a real one.
    pub gpu: Option<String>,
    /// Model id it was made for.
    pub model_id: String,
    /// Model revision it was made for.
    pub model_revision: String,
    /// Precision it was made for.
    pub precision: String,
    /// Tensor and pipeline parallel degrees of a replica.
    pub tp: u32,
    /// See `tp`.
    pub pp: u32,
    /// The scheduler's settings.
    pub scheduler: EngineConfig,
    /// The API server's latency.
    pub front_end: FrontEnd,
    /// What a step costs.
    pub step_time: StepTime,
    /// Where it holds.
    pub validity: Validity,
    /// How it was made.
    pub method: String,
    /// What it was made from.
    pub sources: Vec<String>,
    /// What the fit left; empty for a profile that was not fitted.
    pub residuals: Vec<Residual>,
}

/// A measured number and what the fitted profile makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// What, with its unit and where it was measured.
    pub metric: String,
    /// As measured or published.
    pub target: f64,
    /// As simulated with the profile.
    pub fitted: f64,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Profile, Faults> {
        Profile::of(&Document::parse(file, text)?)
    }

    /// The same for a file that is parsed already.
    ///
    /// # Errors
    /// As [`Profile::parse`].
    pub fn of(document: &Document) -> Result<Profile, Faults> {
        document.read(|fields| {
            let name = fields.req("profile").string();
            let kind = fields.req("kind").word(&ProfileKind::WORDS);
            let gpu = fields.opt("gpu").string();
            let model = mapping(&fields.req("model"), |f| {
                let (id, revision) = (f.req("id").string(), f.req("revision").string());
                Some((id?, revision?, f.req("precision").string()?))
            });
            let placement = mapping(&fields.req("placement"), |f| {
                let (tp, pp) = (f.req("tp").u32(1..=1024), f.req("pp").u32(1..=1024));
                Some((tp?, pp?))
            });
            let scheduler = mapping(&fields.req("scheduler"), |f| read_scheduler(f, None));
            let front_end = mapping(&fields.req("front_end"), read_front_end);
            let step_time = mapping(&fields.req("step_time"), |f| read_step_time(f, scheduler.as_ref()));
            let validity = mapping(&fields.req("validity"), read_validity);
            let provenance = mapping(&fields.req("provenance"), read_provenance);
            let (model_id, model_revision, precision) = model?;
            let ((tp, pp), (method, sources, residuals)) = (placement?, provenance?);
            Some(Profile {
                name: name?,
                kind: kind?,
                gpu,
                model_id,
                model_revision,
                precision,
                tp,
                pp,
                scheduler: scheduler?,
                front_end: front_end?,
                step_time: step_time?,
                validity: validity?,
                method,
                sources,
                residuals,
            })
        })
    }
}

/// Reads a mapping and reports its unknown fields.
pub(crate) fn mapping<T>(item: &Item<'_>, read: impl FnOnce(&mut Fields<'_>) -> Option<T>) -> Option<T> {
    let mut fields = item.fields()?;
    let value = read(&mut fields);
    fields.finish();
    value
}

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
    let length = needed(fields, "max_model_len", 1..=TOKENS_MAX, base.map(|b| b.max_model_len));
    let usual = base.cloned().unwrap_or(EngineConfig { async_scheduling: true, ..EngineConfig::default() });
    let policies = [("fcfs", SchedulingPolicy::Fcfs), ("priority", SchedulingPolicy::Priority)];
    let policy = fields.opt("policy").word(&policies).unwrap_or(usual.policy);
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

fn read_front_end(fields: &mut Fields<'_>) -> Option<FrontEnd> {
    let request_ms = fields.req("request_ms").f64(from_to(0.0, 1e6));
    let prompt_token_us = fields.req("prompt_token_us").f64(from_to(0.0, 1e6));
    let output_token_ms = fields.req("output_token_ms").f64(from_to(0.0, 1e6));
    Some(FrontEnd {
        request: Nanos::from_millis(request_ms?).ok()?,
        prompt_token_us: prompt_token_us?,
        output_token: Nanos::from_millis(output_token_ms?).ok()?,
    })
}

fn read_step_time(fields: &mut Fields<'_>, scheduler: Option<&EngineConfig>) -> Option<StepTime> {
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
    Some(StepTime { eager: eager?, graphs, host: host? })
}

fn read_coefficients(fields: &mut Fields<'_>) -> Option<Coefficients> {
    let mut cost = |name| fields.req(name).f64(from_to(0.0, COST_MAX_US));
    let base_us = cost("base_us");
    let decode_context_token_us = cost("decode_context_token_us");
    let prefill_pair_us = cost("prefill_pair_us");
    let prefill_context_token_us = cost("prefill_context_token_us");
    let row_us = cost("row_us");
    let sampled_row_us = cost("sampled_row_us");
    let knots = read_knots(&fields.req("batch_token_knots"));
    Some(Coefficients {
        base_us: base_us?,
        batch_token_knots: knots?,
        decode_context_token_us: decode_context_token_us?,
        prefill_pair_us: prefill_pair_us?,
        prefill_context_token_us: prefill_context_token_us?,
        row_us: row_us?,
        sampled_row_us: sampled_row_us?,
    })
}

/// The greatest number of tokens a graph may be recorded for.
const GRAPH_TOKENS_MAX: u32 = 1 << 20;

fn read_graphs(fields: &mut Fields<'_>) -> Option<(GraphSettings, Coefficients, Coefficients)> {
    let modes = [
        ("piecewise", CudagraphMode::Piecewise),
        ("full", CudagraphMode::Full),
        ("full_decode_only", CudagraphMode::FullDecodeOnly),
        ("full_and_piecewise", CudagraphMode::FullAndPiecewise),
    ];
    let mode = fields.req("mode").word(&modes);
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

/// Knots as `[tokens, microseconds]`, tokens rising, times not falling.
fn read_knots(item: &Item<'_>) -> Option<Vec<(f64, f64)>> {
    let mut knots: Vec<(f64, f64)> = Vec::new();
    for pair in item.list(1..=1000)? {
        let values = pair.list(2..=2)?;
        let knot = (values[0].f64(above(0.0, 1e9))?, values[1].f64(from_to(0.0, COST_MAX_US))?);
        if let Some(last) = knots.last().filter(|last| knot.0 <= last.0 || knot.1 < last.1) {
            let found = format!("[{}, {}] after [{}, {}]", knot.0, knot.1, last.0, last.1);
            pair.fault(found, "more tokens than the knot before, and no less time", "order the knots");
            return None;
        }
        knots.push(knot);
    }
    Some(knots)
}

fn read_validity(fields: &mut Fields<'_>) -> Option<Validity> {
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

type Provenance = (String, Vec<String>, Vec<Residual>);

fn read_provenance(fields: &mut Fields<'_>) -> Option<Provenance> {
    let method = fields.req("method").string();
    let sources = fields.req("sources").list(1..=100);
    let _ = (fields.opt("date").string(), fields.opt("command").string());
    let residuals = fields.opt("residuals").list(0..=10_000).unwrap_or_default();
    let residuals: Option<Vec<Residual>> =
        residuals.iter().map(|item| mapping(item, read_residual)).collect();
    let sources: Option<Vec<String>> = sources?.iter().map(Item::string).collect();
    Some((method?, sources?, residuals?))
}

fn read_residual(fields: &mut Fields<'_>) -> Option<Residual> {
    let metric = fields.req("metric").string();
    let mut number = |name| fields.req(name).f64(from_to(-1e15, 1e15));
    let (target, fitted) = (number("target"), number("fitted"));
    Some(Residual { metric: metric?, target: target?, fitted: fitted? })
}

#[cfg(test)]
pub(crate) mod tests;
