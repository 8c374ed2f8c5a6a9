//! The prefix cache over a measured window: what was hit, what should have been, and whether it was warm when the
//! window began.

use crate::schedule::{Release, Schedule};
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use serde::{Deserialize, Serialize};

/// A cache whose first tenth of the window hits this much less than expected was not warm yet.
const WARM_WITHIN: f64 = 0.01;
/// One part of so many, the first of the window, shows whether the cache was warm.
const PARTS: u64 = 10;

/// The prefix cache of one operating point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Prompt tokens found in the cache / prompt tokens looked up, over the window, all replicas.
    pub hit_share: Option<f64>,
    /// The same over the window's first tenth.
    pub early_hit_share: Option<f64>,
    /// What the prefix groups imply if every group is always cached; null where prompts share more than groups.
    pub expected_hit_share: Option<f64>,
    /// The same for the requests of the window's first tenth.
    pub expected_early_hit_share: Option<f64>,
    /// Whether the window's first tenth hit what is expected, within one point; null without an expectation.
    pub warm_from_the_start: Option<bool>,
    /// Cached blocks evicted in the window.
    pub evictions: u64,
    /// The same per second.
    pub evictions_per_s: Option<f64>,
}

impl CacheReport {
    /// That of a run of `schedule` by its timeline, in order of time, from the window's beginning `from` on.
    /// `block_size`: tokens of a cache block.
    #[must_use]
    pub fn of(schedule: &Schedule, rows: &[TimelineRow], from: Nanos, block_size: u32) -> CacheReport {
        let to = rows.last().map_or(from, |row| row.at);
        let early = from + Nanos(to.since(from).0 / PARTS);
        let (whole, first_tenth) = (Counted::between(rows, from, to), Counted::between(rows, from, early));
        let expected_early = expected_hit_share(schedule, block_size, early);
        let early_hit_share = first_tenth.hit_share();
        let seconds = to.since(from).seconds();
        CacheReport {
            hit_share: whole.hit_share(),
            early_hit_share,
            expected_hit_share: expected_hit_share(schedule, block_size, Nanos(u64::MAX)),
            expected_early_hit_share: expected_early,
            warm_from_the_start: expected_early
                .zip(early_hit_share)
                .map(|(expected, early)| early >= expected - WARM_WITHIN),
            evictions: whole.evictions,
            evictions_per_s: (seconds > 0.0).then(|| whole.evictions as f64 / seconds),
        }
    }
}

/// Counters' growth over a span, all replicas together.
#[derive(Default)]
struct Counted {
    queries: u64,
    hits: u64,
    evictions: u64,
}

impl Counted {
    fn between(rows: &[TimelineRow], from: Nanos, to: Nanos) -> Counted {
        let at = |time: Nanos| {
            let moment = rows.iter().rev().find(|row| row.at <= time).map(|row| row.at);
            let mut sum = Counted::default();
            for row in rows.iter().filter(|row| Some(row.at) == moment) {
                sum.queries += row.prefix_queries;
                sum.hits += row.prefix_hits;
                sum.evictions += row.evictions;
            }
            sum
        };
        let (begin, end) = (at(from), at(to));
        Counted {
            queries: end.queries.saturating_sub(begin.queries),
            hits: end.hits.saturating_sub(begin.hits),
            evictions: end.evictions.saturating_sub(begin.evictions),
        }
    }

    fn hit_share(&self) -> Option<f64> {
        (self.queries > 0).then(|| self.hits as f64 / self.queries as f64)
    }
}

/// Whole blocks of each prompt's group, at most all but its last token, over all prompt tokens; of the requests sent
/// until `until` (all of a closed loop's, whose times are not known before).
fn expected_hit_share(schedule: &Schedule, block_size: u32, until: Nanos) -> Option<f64> {
    let (mut hits, mut tokens) = (0u64, 0u64);
    for planned in &schedule.measured.requests {
        if matches!(planned.release, Release::At(at) if at > until) {
            continue;
        }
        let segments = schedule.measured.segments_of(planned);
        if segments.iter().any(|segment| segment.stream.as_group().is_none()) {
            return None;
        }
        let shared: u32 = segments.iter().map(|segment| segment.len).sum();
        let cacheable = shared.min(planned.input_tokens.saturating_sub(1));
        hits += u64::from(cacheable / block_size * block_size);
        tokens += u64::from(planned.input_tokens);
    }
    (tokens > 0).then(|| hits as f64 / tokens as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::{Segment, TokenStream};
    use crate::schedule::{Load, Planned, PlannedList};

    fn schedule(shared: &[(u32, u32)], stream: TokenStream) -> Schedule {
        let mut list = PlannedList::default();
        for &(input_tokens, len) in shared {
            let segments_from = list.segments.len() as u32;
            list.segments.push(Segment { stream, start: 0, len });
            list.requests.push(Planned {
                release: Release::At(Nanos::ZERO),
                class: 0,
                priority: 0,
                input_tokens,
                output_tokens: 1,
                cancel_after: None,
                segments_from,
                segments_len: 1,
            });
        }
        Schedule::of(Load::Open { rps: 1.0 }, list)
    }

    #[test]
    fn the_groups_imply_whole_blocks_of_all_but_the_last_token() {
        let of = |shared: &[(u32, u32)]| {
            expected_hit_share(&schedule(shared, TokenStream::group(1)), 16, Nanos::ZERO)
        };
        assert_eq!(of(&[(100, 40)]), Some(0.32), "2 blocks of 16 in 100");
        assert_eq!(of(&[(64, 64)]), Some(0.75), "the last block is computed again");
        assert_eq!(of(&[]), None);
        assert_eq!(
            expected_hit_share(&schedule(&[(100, 40)], TokenStream::unique(1)), 16, Nanos::ZERO),
            None
        );
    }

    #[test]
    fn a_cache_that_warms_up_inside_the_window_is_told() {
        let row = |second: u64, queries, hits| TimelineRow {
            at: Nanos(second * 1_000_000_000),
            prefix_queries: queries,
            prefix_hits: hits,
            evictions: second,
            ..TimelineRow::default()
        };
        let plan = schedule(&[(100, 40)], TokenStream::group(1));
        let cold = [row(0, 0, 0), row(1, 100, 0), row(10, 1000, 288)];
        let found = CacheReport::of(&plan, &cold, Nanos::ZERO, 16);
        assert_eq!((found.hit_share, found.early_hit_share), (Some(0.288), Some(0.0)));
        assert_eq!((found.warm_from_the_start, found.evictions), (Some(false), 10));
        let warm = [row(0, 50, 9), row(1, 150, 41), row(10, 1050, 329)];
        assert_eq!(CacheReport::of(&plan, &warm, Nanos::ZERO, 16).warm_from_the_start, Some(true));
    }
}
