//! What repeats by itself: the router's polls and the timeline's samples.

use super::Simulation;
use crate::event::Event;
use crate::setup::RunError;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_policy::Polled;

/// Timeline rows of a run. An observer may keep them all: these take about a gigabyte.
const TIMELINE_ROWS_MAX: u64 = 20_000_000;

impl Simulation<'_> {
    /// Whether polls and samples still have something to see. Events of ended attempts do not count, and where
    /// nothing can happen any more the run has stalled.
    pub(super) fn goes_on(&self) -> bool {
        self.events.has_pending() && (self.attempts.open() > 0 || self.events.has_sends())
    }

    pub(super) fn poll(&mut self, now: Nanos) {
        for replica in 0..self.replicas.len() {
            if !self.answers(replica as u32) {
                continue;
            }
            let unit = &mut self.replicas[replica];
            unit.catch_up(now, true);
            let load = unit.engine().load();
            let kv_usage = f64::from(load.kv_blocks_used) / f64::from(load.kv_blocks_total.max(1));
            let found = Polled { waiting: load.waiting, running: load.running, kv_usage };
            self.fleet.polled(replica as u32, found);
        }
        if let Some(interval) = self.config.polls()
            && self.goes_on()
        {
            self.events.push(now + interval, Event::Poll);
        }
    }

    pub(super) fn sample(&mut self, now: Nanos) -> Result<(), RunError> {
        self.sampled += self.replicas.len() as u64;
        if self.sampled > TIMELINE_ROWS_MAX {
            return Err(RunError::TooManySamples { rows: self.sampled, now });
        }
        for replica in 0..self.replicas.len() {
            if !self.answers(replica as u32) {
                continue;
            }
            let unit = &mut self.replicas[replica];
            unit.catch_up(now, true);
            let (load, totals) = (unit.engine().load(), unit.engine_totals());
            let server = &self.servers[replica];
            self.observer.sample(&TimelineRow {
                at: now,
                replica: replica as u32,
                waiting: load.waiting,
                running: load.running,
                kv_blocks_used: load.kv_blocks_used,
                kv_blocks_total: load.kv_blocks_total,
                prefix_queries: totals.prefix_queries,
                prefix_hits: totals.prefix_hits,
                evictions: totals.evictions,
                preemptions: totals.preemptions,
                generation_tokens: unit.generated_tokens(),
                ttft_count: server.ttft_count,
                ttft_sum: server.ttft_sum,
            });
        }
        if self.goes_on() {
            self.events.push(now + self.config.sample_interval, Event::Sample);
        }
        Ok(())
    }
}
