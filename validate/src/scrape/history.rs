//! What one replica's scrapes said over a run.

use super::Counters;
use crate::metrics::Reading;
use crate::target::Target;
use scaleproof_pack::time::Nanos;

/// One replica's scrapes.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it is.
    pub target: Target,
    /// How often it was asked.
    pub asked: u64,
    /// How often it answered in time and could be understood.
    pub answered: u64,
    /// Why it last gave no row.
    pub last_error: Option<String>,
    /// Its first reading.
    pub first: Option<Reading>,
    /// Its counters at its last answer, as its process counts.
    raw: Counters,
    /// What they had grown by since the first answer, at each.
    samples: Vec<(Nanos, Counters)>,
}

impl History {
    pub(super) fn new(target: &Target) -> History {
        History {
            target: target.clone(),
            asked: 0,
            answered: 0,
            last_error: None,
            first: None,
            raw: Counters::default(),
            samples: Vec::new(),
        }
    }

    /// Notes what became of a scrape, and gives the reading back if it was one.
    pub(super) fn note(&mut self, at: Nanos, answer: Result<Reading, String>) -> Option<Reading> {
        self.asked += 1;
        let reading = match answer {
            Ok(reading) => reading,
            Err(error) => {
                self.last_error = Some(error);
                return None;
            }
        };
        self.answered += 1;
        let now = Counters::of(&reading);
        let grown = if self.first.is_some() { now.since(self.raw) } else { Counters::default() };
        self.samples.push((at, self.total() + grown));
        self.raw = now;
        self.first.get_or_insert_with(|| reading.clone());
        Some(reading)
    }

    /// What its counters have grown by since its first answer.
    #[must_use]
    pub fn total(&self) -> Counters {
        self.samples.last().map_or_else(Counters::default, |(_, total)| *total)
    }

    /// What its counters grew by from `from` to `to`: between the last scrape at or before the one and the first at or
    /// after the other, or what comes nearest to it. None if it answered fewer than twice.
    #[must_use]
    pub fn between(&self, from: Nanos, to: Nanos) -> Option<Counters> {
        let last = self.samples.len().checked_sub(1).filter(|&last| last > 0)?;
        let begin = self.samples.partition_point(|(at, _)| *at <= from).saturating_sub(1).min(last - 1);
        let end = self.samples.partition_point(|(at, _)| *at < to).clamp(begin + 1, last);
        Some(self.samples[end].1 - self.samples[begin].1)
    }
}
