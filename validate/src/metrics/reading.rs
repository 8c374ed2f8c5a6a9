//! One scrape in every engine's common terms.

use super::dialect::{Dialect, Names};
use super::histogram::Histogram;
use super::line::ParseError;
use super::text::{Exposition, Sample};
use scaleproof_pack::experiment::EngineFacts;
use std::fmt;

/// What one scrape of one replica says. Counters are totals since its process began; None is a signal that the engine
/// does not have. The ranks of data parallelism inside one engine are added up; of tensor and pipeline parallel ranks
/// only the first counts, as all say the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Whose names the text has.
    pub dialect: Dialect,
    /// Requests waiting.
    pub waiting: Option<u64>,
    /// Requests running.
    pub running: Option<u64>,
    /// KV blocks in use; tokens where the engine tells no block size.
    pub kv_blocks_used: Option<u64>,
    /// KV blocks that requests can have; tokens where the engine tells no block size.
    pub kv_blocks_total: Option<u64>,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<u64>,
    /// Of those, found.
    pub prefix_hits: Option<u64>,
    /// Requests that lost their blocks.
    pub preemptions: Option<u64>,
    /// Cached blocks that were evicted (tokens without a block size).
    pub evictions: Option<u64>,
    /// Prompt tokens of requests, those found in the cache included.
    pub prompt_tokens: Option<u64>,
    /// Output tokens.
    pub generation_tokens: Option<u64>,
    /// Time to first token by the engine's own clock, in seconds.
    pub ttft: Option<Histogram>,
    /// Between two tokens, in seconds.
    pub itl: Option<Histogram>,
    /// Of whole requests, in seconds.
    pub e2e: Option<Histogram>,
    /// In the engine's queue, in seconds.
    pub queue_time: Option<Histogram>,
    /// Tokens of a KV block.
    pub block_size: Option<u32>,
    /// KV blocks as the engine is configured, with blocks that no request can have.
    pub num_blocks: Option<u64>,
    /// Whether the prefix cache is on.
    pub prefix_cache: Option<bool>,
}

/// Why a text is no reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadingError {
    /// It is not of the format.
    Parse(ParseError),
    /// It has no name that begins as an engine's do.
    NoEngine {
        /// How many samples it has.
        samples: usize,
    },
}

impl fmt::Display for ReadingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadingError::Parse(error) => error.fmt(f),
            ReadingError::NoEngine { samples } => {
                write!(f, "none of {samples} metrics is an engine's; expected names that begin with ")?;
                for (n, dialect) in Dialect::ALL.into_iter().enumerate() {
                    write!(f, "{}`{}`", if n == 0 { "" } else { ", " }, dialect.prefix())?;
                }
                write!(f, "; a router's metrics are not its replicas'")
            }
        }
    }
}

impl std::error::Error for ReadingError {}

impl Reading {
    /// Reads a text of metrics.
    ///
    /// # Errors
    /// A line that is not of the format, and a text without any engine's metrics.
    pub fn parse(text: &str) -> Result<Reading, ReadingError> {
        let text = Exposition::parse(text).map_err(ReadingError::Parse)?;
        let dialect = Dialect::of(&text).ok_or(ReadingError::NoEngine { samples: text.samples().len() })?;
        Ok(Reading::of(dialect, &text))
    }

    fn of(dialect: Dialect, text: &Exposition) -> Reading {
        let names = dialect.vocabulary();
        let count = |names: Names| first(text, names).map(whole);
        let histogram = |names: &[&str]| names.iter().find_map(|name| histogram_of(text, name));
        let pools = Pools::of(dialect, text);
        let block_size = pools.block_size;
        let blocks = |tokens: u64| tokens / u64::from(block_size.unwrap_or(1));
        Reading {
            dialect,
            waiting: count(names.waiting),
            running: count(names.running),
            kv_blocks_used: pools.used,
            kv_blocks_total: pools.usable,
            prefix_queries: count(names.prefix_queries),
            prefix_hits: count(names.prefix_hits),
            preemptions: count(names.preemptions),
            evictions: count(names.evicted_tokens).map(blocks),
            prompt_tokens: count(names.prompt_tokens),
            generation_tokens: count(names.generation_tokens),
            ttft: histogram(names.ttft),
            itl: histogram(names.itl),
            e2e: histogram(names.e2e),
            queue_time: histogram(names.queue_time),
            block_size,
            num_blocks: pools.configured,
            prefix_cache: pools.prefix_cache,
        }
    }

    /// The signals of a timeline that this engine does not have, in words: their columns stay zero.
    #[must_use]
    pub fn lacking(&self) -> Vec<&'static str> {
        let signals = [
            ("requests waiting", self.waiting),
            ("requests running", self.running),
            ("KV blocks used", self.kv_blocks_used),
            ("KV blocks in all", self.kv_blocks_total),
            ("prefix queries", self.prefix_queries),
            ("prefix hits", self.prefix_hits),
            ("preemptions", self.preemptions),
            ("evictions", self.evictions),
        ];
        signals.into_iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect()
    }

    /// What the metrics say of the engine; the rest is left open.
    #[must_use]
    pub fn facts(&self) -> EngineFacts {
        EngineFacts {
            block_size: self.block_size,
            num_blocks: self.num_blocks,
            prefix_cache: self.prefix_cache,
            ..EngineFacts::default()
        }
    }
}

/// The KV pools of a replica's ranks.
struct Pools {
    block_size: Option<u32>,
    configured: Option<u64>,
    usable: Option<u64>,
    used: Option<u64>,
    prefix_cache: Option<bool>,
}

impl Pools {
    fn of(dialect: Dialect, text: &Exposition) -> Pools {
        let names = dialect.vocabulary();
        let count = |names: Names| first(text, names).map(whole);
        let info = |label: &str| {
            let (name, _, _) = names.cache_info?;
            text.series(name).find_map(|sample| sample.label(label))
        };
        let info_number = |label: &str| info(label)?.parse::<u64>().ok();
        let (size_label, count_label) = names.cache_info.map_or(("", ""), |(_, size, count)| (size, count));
        let block_size = count(names.block_size).or_else(|| info_number(size_label));
        let block_size = block_size.and_then(|size| u32::try_from(size).ok()).filter(|&size| size > 0);
        let blocks = |tokens: u64| tokens / u64::from(block_size.unwrap_or(1));
        let ranks = names.kv_usage.iter().map(|name| text.series(name[0]).filter(first_rank).count()).max();
        let each = info_number(count_label);
        let configured = count(names.kv_blocks_total)
            .or_else(|| each.map(|blocks| blocks.saturating_mul(ranks.unwrap_or(1).max(1) as u64)))
            .or_else(|| count(names.kv_tokens_total).map(blocks));
        let usable = match dialect {
            // Each rank keeps one block back, and counts its usage without it.
            Dialect::Vllm => configured.map(|all| all.saturating_sub(ranks.unwrap_or(1) as u64)),
            _ => configured,
        };
        let shared = || Some(mean(text, names.kv_usage)? * usable? as f64);
        Pools {
            block_size,
            configured,
            usable,
            used: count(names.kv_blocks_used)
                .or_else(|| count(names.kv_tokens_used).map(blocks))
                .or_else(|| shared().map(|used| whole(used.round()))),
            prefix_cache: info("enable_prefix_caching")
                .and_then(|word| word.to_ascii_lowercase().parse().ok()),
        }
    }
}

/// Whether a sample is of the first tensor and pipeline parallel rank, or of none.
fn first_rank(sample: &&Sample) -> bool {
    ["tp_rank", "pp_rank"].iter().all(|label| sample.label(label).is_none_or(|rank| rank == "0"))
}

/// A name's finite values on first ranks.
fn values<'s>(text: &'s Exposition, name: &'s str) -> impl Iterator<Item = f64> + 's {
    text.series(name).filter(first_rank).map(|sample| sample.value).filter(|value| value.is_finite())
}

/// The sum of the first of the alternatives that the text has the first series of.
fn first(text: &Exposition, alternatives: Names) -> Option<f64> {
    let there = alternatives.iter().find(|names| values(text, names[0]).next().is_some())?;
    Some(there.iter().flat_map(|name| values(text, name)).sum())
}

/// The mean over the ranks of the first of the alternatives that the text has.
fn mean(text: &Exposition, alternatives: Names) -> Option<f64> {
    let there = alternatives.iter().find(|names| values(text, names[0]).next().is_some())?;
    let (sum, count) =
        values(text, there[0]).fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    Some(sum / count)
}

/// A histogram of a family, added up over all labels but `le`. None if the text has no count of that name.
fn histogram_of(text: &Exposition, family: &str) -> Option<Histogram> {
    let of = |suffix: &str| values(text, &format!("{family}{suffix}")).reduce(|a, b| a + b);
    let count = of("_count")?;
    let bucket_name = format!("{family}_bucket");
    let edge = |sample: &Sample| Some((sample.label("le")?.parse().ok()?, sample.value));
    let buckets = text.series(&bucket_name).filter(first_rank).filter_map(edge);
    Some(Histogram::new(buckets, of("_sum").unwrap_or(0.0), count))
}

/// A count written as a float.
fn whole(value: f64) -> u64 {
    value as u64
}
