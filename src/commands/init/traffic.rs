//! What is offered: classes as given, with counts that follow their mixes, or a trace with classes by its lengths.

use super::args::{ClassSpec, InitArgs, TraceFormatWord};
use super::paths::relative;
use crate::exit::CommandError;
use crate::files::read_bytes;
use crate::study::shown;
use scaleproof_pack::grid::largest_remainder;
use scaleproof_pack::percentile::nearest_rank;
use scaleproof_pack::report::EXPLORATORY_BELOW;
use scaleproof_pack::schedule::recorded_rate_rps;
use scaleproof_pack::trace::{Trace, TraceRow};
use scaleproof_sim::profile::rounded;
use std::collections::BTreeMap;

/// Requests of the rarest class unless a count is given: its gate's successes and a tenth more.
const RAREST_CLASS_REQUESTS: f64 = 1.1 * EXPLORATORY_BELOW as f64;

/// What is offered.
pub enum Traffic {
    /// Generated arrivals.
    Classes {
        /// The classes, each with its requests.
        classes: Vec<(ClassSpec, u64)>,
        /// All requests.
        total: u64,
    },
    /// A replay.
    Trace(TraceTraffic),
}

/// A trace and its classes.
pub struct TraceTraffic {
    /// Its path as the manifest has it.
    pub file: String,
    pub format: TraceFormatWord,
    pub rows: usize,
    /// Its own rate, None if all rows come at once.
    pub rate_rps: Option<f64>,
    pub classes: Vec<TraceClass>,
    pub ttft_ms: f64,
    pub tpot_ms: f64,
}

/// A class of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceClass {
    pub name: String,
    /// Prompts up to this many tokens; None for a class that the rows name, and for the one that takes the rest.
    pub input_max: Option<u32>,
    /// Why it ends there.
    pub rule: String,
    pub rows: usize,
}

/// What the arguments ask for.
pub fn of(args: &InitArgs) -> Result<Traffic, CommandError> {
    match (&args.trace, args.trace_format) {
        (Some(path), Some(format)) => {
            let trace = Trace::parse(&shown(path), format.format(), &read_bytes(path)?)
                .map_err(CommandError::bad_input)?;
            Ok(Traffic::Trace(TraceTraffic {
                file: relative(&args.dir, path)?,
                format,
                rows: trace.rows.len(),
                rate_rps: recorded_rate_rps(&trace.rows),
                classes: trace_classes(&trace.rows),
                ttft_ms: args.ttft_ms,
                tpot_ms: args.tpot_ms,
            }))
        }
        _ if args.classes.is_empty() => Err(CommandError::bad_input(
            "--class: found none; expected a class of requests, or --trace; as --class chat:1:1024:128:500:40",
        )),
        _ => {
            let total = args.requests.unwrap_or_else(|| enough(&args.classes));
            let mixes: Vec<f64> = args.classes.iter().map(|class| class.mix).collect();
            let counts = largest_remainder(&mixes, total);
            Ok(Traffic::Classes { classes: args.classes.iter().cloned().zip(counts).collect(), total })
        }
    }
}

impl Traffic {
    /// Rates for a first sweep.
    pub fn usual_rates_rps(&self, replicas: u32) -> Vec<f64> {
        match self {
            Traffic::Trace(TraceTraffic { rate_rps: Some(own), .. }) => {
                [0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0].map(|factor| rounded(own * factor, 3)).to_vec()
            }
            _ => usual_rates_rps(replicas),
        }
    }
}

/// Rates for a first sweep where nothing is known of the traffic's own, a fifth apart: a plan divides the highest that
/// passes, so it asks for up to that much too many replicas.
pub fn usual_rates_rps(replicas: u32) -> Vec<f64> {
    const OF_ONE: [f64; 12] = [1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2];
    OF_ONE.map(|rate| rounded(rate * f64::from(replicas), 3)).to_vec()
}

/// Requests in all, in hundreds, so that the rarest class has enough.
fn enough(classes: &[ClassSpec]) -> u64 {
    let rarest = classes.iter().map(|class| class.mix).filter(|mix| *mix > 0.0).fold(1.0, f64::min);
    ((RAREST_CLASS_REQUESTS / rarest / 100.0).ceil() * 100.0) as u64
}

/// The classes that the rows name, or three by quantiles of the prompt length: to the P50, to the P90, and the rest.
pub fn trace_classes(rows: &[TraceRow]) -> Vec<TraceClass> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *named.entry(row.class.as_deref().unwrap_or_default()).or_default() += 1;
    }
    if named.keys().any(|name| !name.is_empty()) {
        let class = |(name, rows): (&str, usize)| TraceClass {
            name: if name.is_empty() { "unnamed" } else { name }.to_owned(),
            input_max: None,
            rule: "as the rows name it".to_owned(),
            rows,
        };
        // The first class also takes the rows that name none, so one of those comes first.
        return named.into_iter().map(class).collect();
    }
    let mut lengths: Vec<u32> = rows.iter().map(|row| row.input_tokens).collect();
    let mut at = |percent| nearest_rank(&mut lengths, percent, Ord::cmp);
    let bounds = [("short", at(50), 50), ("long", at(90), 90)];
    let mut classes: Vec<TraceClass> = Vec::new();
    let mut below = 0;
    for (name, bound, percent) in bounds {
        let Some(bound) = bound.filter(|bound| *bound > below) else { continue };
        let taken = rows.iter().filter(|row| row.input_tokens > below && row.input_tokens <= bound).count();
        let rule = format!("prompts to the P{percent} of the trace, {bound} tokens");
        classes.push(TraceClass { name: name.to_owned(), input_max: Some(bound), rule, rows: taken });
        below = bound;
    }
    let rest = rows.iter().filter(|row| row.input_tokens > below).count();
    if rest > 0 {
        let rule = format!("the rest, prompts above {below} tokens");
        classes.push(TraceClass { name: "longest".to_owned(), input_max: None, rule, rows: rest });
    }
    classes
}
