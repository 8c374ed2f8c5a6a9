//! vLLM's V1 scheduler: the decisions of `Scheduler` and `AsyncScheduler` of version 0.32.0 for dense models with
//! full attention, call by call. `docs/engines.md` says what is not modelled.

mod ends;
mod group;
mod queue;
mod request;
mod schedule;
mod seats;
#[cfg(test)]
mod tests;
mod update;

use group::{DecodeGroup, Left};
use queue::WaitingQueue;
use request::{Requests, Slot, Status};
use seats::{RowSlots, Seats};

use super::block_pool::{BlockPool, Hit};
use super::{
    Batch, BatchScheduler, Emitted, EngineConfig, EngineLoad, EngineRequest, EngineTotals, Sample,
    SettingFault,
};

/// One engine's scheduler and its block pool.
#[derive(Clone, Debug)]
pub struct VllmScheduler {
    config: EngineConfig,
    pool: BlockPool,
    requests: Requests,
    /// In the order of admission.
    running: Seats,
    /// Those of them that are not grouped.
    listed: Seats,
    group: DecodeGroup,
    /// In the order of their seats.
    left: Vec<Left>,
    /// Batches with rows that were scheduled, and how many of them were updated: they are numbered from 1.
    scheduled: u64,
    updated: u64,
    row_slots: RowSlots,
    waiting: WaitingQueue,
    /// Whether a request ended since the last `schedule`: the workers still have to be told, so one more call is due.
    ended_unreported: bool,
    arrivals: u64,
    admissions: u64,
    totals: EngineTotals,
    /// Usable blocks that nobody may take.
    withheld: u32,
    /// Scratch of the admission at hand.
    hit: Hit,
}

impl VllmScheduler {
    /// An idle engine that lists every row of its batches.
    ///
    /// # Errors
    /// All faults of `config` (`EngineConfig::check`).
    pub fn new(config: &EngineConfig) -> Result<VllmScheduler, Vec<SettingFault>> {
        let faults = config.check();
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(VllmScheduler {
            pool: BlockPool::new(config.num_blocks, config.block_size, config.enable_prefix_caching),
            requests: Requests::default(),
            running: Seats::default(),
            listed: Seats::default(),
            group: DecodeGroup::new(false, config.block_size),
            left: Vec::new(),
            scheduled: 0,
            updated: 0,
            row_slots: RowSlots::default(),
            waiting: WaitingQueue::new(config.policy),
            ended_unreported: false,
            arrivals: 0,
            admissions: 0,
            totals: EngineTotals::default(),
            withheld: 0,
            hit: Hit::default(),
            config: config.clone(),
        })
    }

    /// An idle engine that steps requests which decode together, and lists none of their rows: many times as fast, with
    /// the same decisions. No listed row may sample a stop token unless each token of its request is reported
    /// (`BatchScheduler::report_each_token`).
    ///
    /// # Errors
    /// As [`VllmScheduler::new`].
    pub fn grouping(config: &EngineConfig) -> Result<VllmScheduler, Vec<SettingFault>> {
        let engine = VllmScheduler::new(config)?;
        Ok(VllmScheduler { group: DecodeGroup::new(true, config.block_size), ..engine })
    }

    /// `add`, with an arrival order among equal priorities that is not the order of the calls. Ranks differ.
    pub fn add_ranked(&mut self, request: EngineRequest, rank: u64) {
        debug_assert!(self.requests.find(request.id).is_none(), "request {} is known", request.id);
        let priority = request.priority;
        let slot = self.requests.insert(request, rank, self.config.block_size);
        self.requests.get_mut(slot).place = self.waiting.push(slot, priority, rank);
        self.quote(slot);
    }

    /// Whether a request is known: waiting, running or preempted.
    #[must_use]
    pub fn knows(&self, id: u64) -> bool {
        self.requests.find(id).is_some()
    }

    /// The running requests, in their order.
    pub fn running(&self) -> impl Iterator<Item = u64> {
        self.running.iter().map(|slot| self.requests.get(slot).id)
    }

    /// The waiting requests, in the order in which they are tried.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|slot| self.requests.get(slot).id)
    }

    /// Blocks that could be allocated now.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    /// Ends a request that is in neither queue any more.
    fn forget(&mut self, slot: Slot) {
        self.unquote(slot);
        self.pool.release(&mut self.requests.get_mut(slot).holding);
        self.requests.remove(slot);
        self.ended_unreported = true;
    }
}

impl BatchScheduler for VllmScheduler {
    fn add(&mut self, request: EngineRequest) {
        self.arrivals += 1;
        self.add_ranked(request, self.arrivals);
    }

    fn abort(&mut self, id: u64) -> bool {
        let Some(slot) = self.requests.find(id) else { return false };
        match self.requests.get(slot).status {
            Status::Running => self.unseat(slot),
            _ => self.waiting.remove(self.requests.get(slot).place),
        }
        self.forget(slot);
        true
    }

    fn has_requests(&self) -> bool {
        self.ended_unreported || !self.running.is_empty() || self.waiting.len() > 0
    }

    fn schedule(&mut self, batch: &mut Batch) {
        self.schedule_step(batch);
    }

    fn update(&mut self, batch: &Batch, samples: &[Sample], emitted: &mut Vec<Emitted>) {
        self.update_step(batch, samples, emitted);
    }

    fn load(&self) -> EngineLoad {
        let usable = self.config.usable_blocks();
        let kv_blocks_total = usable - self.withheld;
        EngineLoad {
            waiting: self.waiting.len() as u32,
            running: self.running.len() as u32,
            kv_blocks_used: self.pool.used_of(usable).min(kv_blocks_total),
            kv_blocks_total,
        }
    }

    fn totals(&self) -> EngineTotals {
        EngineTotals { evictions: self.pool.evictions(), ..self.totals }
    }

    fn depth(&self) -> usize {
        self.config.depth()
    }

    fn list_every_row(&mut self) {
        self.dissolve();
        self.group = DecodeGroup::new(false, self.config.block_size);
    }

    fn report_each_token(&mut self, id: u64) {
        let Some(slot) = self.requests.find(id) else { return };
        if self.requests.get(slot).grouped_from > 0 {
            self.leave(slot);
        }
        self.requests.get_mut(slot).watched = true;
    }

    fn unreported_tokens(&self, id: u64) -> u32 {
        self.requests.find(id).map_or(0, |slot| self.unreported(self.requests.get(slot)))
    }

    fn prefilled_tokens(&self, id: u64) -> u32 {
        // Of what a grouped request decodes, which its client has not seen, nobody keeps count.
        let prefilled = |slot| {
            let request = self.requests.get(slot);
            request.computed_tokens.min(request.prompt_tokens)
        };
        self.requests.find(id).map_or(0, prefilled)
    }

    fn longest_grouped_row(&self) -> u32 {
        self.longest_row()
    }

    fn quiet_steps(&self) -> u32 {
        self.sure_steps()
    }

    fn step_quietly(&mut self, steps: u32) {
        self.step_group(steps);
    }

    fn withhold_blocks(&mut self, share: f64) {
        self.withheld = (f64::from(self.config.usable_blocks()) * share) as u32;
        self.pool.withhold(self.withheld);
    }
}
