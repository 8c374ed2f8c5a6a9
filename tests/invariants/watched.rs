//! The engine with somebody who keeps count.

use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{
    Batch, BatchScheduler, Emitted, EngineConfig, EngineLoad, EngineRequest, EngineTotals, Sample,
};
use std::collections::{BTreeMap, BTreeSet};

/// The engine, watched: what it says it holds is what its own decisions add up to.
pub struct Watched {
    engine: VllmScheduler,
    config: EngineConfig,
    /// Tokens computed of each running request.
    running: BTreeMap<u64, u32>,
    /// Whether no two prompts share a token: then every block has one owner.
    unshared: bool,
}

impl Watched {
    /// A new engine of these settings.
    pub fn new(config: &EngineConfig, unshared: bool) -> Watched {
        let engine = VllmScheduler::new(config).unwrap();
        Watched { engine, config: config.clone(), running: BTreeMap::new(), unshared }
    }

    fn blocks_of(&self, tokens: u32) -> u32 {
        tokens.min(self.config.max_model_len).div_ceil(self.config.block_size)
    }

    fn check(&self) {
        let load = self.engine.load();
        let held: u32 = self.running.values().map(|&tokens| self.blocks_of(tokens)).sum();
        let most = self.running.values().map(|&tokens| self.blocks_of(tokens)).max().unwrap_or(0);
        assert_eq!(load.running as usize, self.running.len());
        assert!(
            load.kv_blocks_used <= load.kv_blocks_total && load.kv_blocks_used <= held,
            "{load:?}, held {held}"
        );
        assert!(load.kv_blocks_used >= most.min(load.kv_blocks_total), "{load:?}, one holds {most}");
        if self.unshared {
            // Of a pool that was cut while they were held, more may be held than there are.
            assert_eq!(
                load.kv_blocks_used,
                held.min(load.kv_blocks_total),
                "blocks leaked or have two owners"
            );
        }
    }
}

impl BatchScheduler for Watched {
    fn add(&mut self, request: EngineRequest) {
        self.engine.add(request);
        self.check();
    }

    fn abort(&mut self, id: u64) -> bool {
        self.running.remove(&id);
        let known = self.engine.abort(id);
        self.check();
        known
    }

    fn has_requests(&self) -> bool {
        self.engine.has_requests()
    }

    fn schedule(&mut self, batch: &mut Batch) {
        self.engine.schedule(batch);
        for id in &batch.preempted {
            assert!(self.running.remove(id).is_some(), "{id} lost blocks that it did not have");
        }
        for &(id, hit) in batch.admitted.iter().chain(&batch.resumed) {
            assert!(self.running.insert(id, hit).is_none(), "{id} was running");
        }
        let mut seen = BTreeSet::new();
        for row in &batch.rows {
            assert!(seen.insert(row.id), "{} is twice in a batch", row.id);
            let computed = self.running.get_mut(&row.id).expect("a row of a request that does not run");
            assert_eq!(*computed, row.context, "tokens computed before");
            assert!(row.tokens > 0);
            *computed += row.tokens;
        }
        let tokens: u32 = batch.rows.iter().map(|row| row.tokens).sum();
        assert!(tokens <= self.config.max_num_batched_tokens, "{tokens} tokens in a batch");
        assert!(self.running.len() <= self.config.max_num_seqs as usize);
        self.check();
    }

    fn update(&mut self, batch: &Batch, samples: &[Sample], emitted: &mut Vec<Emitted>) {
        let before = emitted.len();
        self.engine.update(batch, samples, emitted);
        for token in &emitted[before..] {
            if token.finish.is_some() {
                self.running.remove(&token.id);
            }
        }
        self.check();
    }

    fn load(&self) -> EngineLoad {
        self.engine.load()
    }

    fn totals(&self) -> EngineTotals {
        self.engine.totals()
    }

    fn depth(&self) -> usize {
        self.engine.depth()
    }

    fn prefilled_tokens(&self, id: u64) -> u32 {
        self.engine.prefilled_tokens(id)
    }

    fn withhold_blocks(&mut self, share: f64) {
        self.engine.withhold_blocks(share);
    }
}
