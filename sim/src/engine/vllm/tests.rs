use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use scaleproof_pack::prompt::{Segment, TokenStream};

use super::*;
use crate::engine::{Finish, SchedulingPolicy};

pub(super) fn request(id: u64, stream: u64, prompt: u32, max_tokens: u32, priority: i32) -> EngineRequest {
    EngineRequest {
        id,
        prompt: vec![Segment { stream: TokenStream::group(stream), start: 0, len: prompt }],
        output: TokenStream::output(id),
        max_tokens,
        priority,
    }
}

fn scheduler(config: EngineConfig) -> VllmScheduler {
    VllmScheduler::new(&config).unwrap()
}

/// An engine with its steps in flight.
struct Engine {
    scheduler: VllmScheduler,
    config: EngineConfig,
    in_flight: VecDeque<Batch>,
    /// What each request asked for and has got.
    asked: BTreeMap<u64, (u32, u32)>,
    received: BTreeMap<u64, u32>,
    ended: BTreeMap<u64, Finish>,
}

impl Engine {
    fn new(config: EngineConfig) -> Engine {
        Engine {
            scheduler: scheduler(config.clone()),
            config,
            in_flight: VecDeque::new(),
            asked: BTreeMap::new(),
            received: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    fn add(&mut self, request: EngineRequest) {
        let prompt = request.prompt.iter().map(|segment| segment.len).sum();
        self.asked.insert(request.id, (prompt, request.max_tokens));
        self.scheduler.add(request);
    }

    fn schedule(&mut self) {
        let mut batch = Batch::default();
        self.scheduler.schedule(&mut batch);
        self.check_batch(&batch);
        self.in_flight.push_back(batch);
    }

    fn update(&mut self, stop: bool) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        let token = if stop { Sample::Stop } else { Sample::Token };
        let samples: Vec<Sample> =
            batch.rows.iter().map(|row| if row.samples { token } else { Sample::Nothing }).collect();
        let mut emitted = Vec::new();
        self.scheduler.update(&batch, &samples, &mut emitted);
        for one in emitted {
            assert!(!self.ended.contains_key(&one.id), "request {} has ended", one.id);
            *self.received.entry(one.id).or_default() += one.tokens;
            if let Some(finish) = one.finish {
                self.ended.insert(one.id, finish);
                assert!(!self.scheduler.knows(one.id));
            }
        }
        self.check();
    }

    fn check_batch(&self, batch: &Batch) {
        let tokens: u32 = batch.rows.iter().map(|row| row.tokens).sum();
        assert!(tokens <= self.config.max_num_batched_tokens);
        let running: Vec<u64> = self.scheduler.running().collect();
        assert!(running.len() <= self.config.max_num_seqs as usize);
        let mut places = batch.rows.iter().map(|row| running.iter().position(|&id| id == row.id).unwrap());
        assert!(
            places.clone().zip(places.by_ref().skip(1)).all(|(one, next)| one < next),
            "rows as they run"
        );
        for row in &batch.rows {
            assert!(row.tokens > 0);
            assert!(row.context + row.tokens <= self.config.max_model_len);
            assert!(row.prefill || (row.tokens == 1 && row.samples), "{row:?} decodes");
        }
        assert!(batch.preempted.is_empty() || (batch.admitted.is_empty() && batch.resumed.is_empty()));
        self.check();
    }

    fn check(&self) {
        let scheduler = &self.scheduler;
        let slots = || scheduler.running.iter().chain(scheduler.waiting.iter());
        let holdings = slots().map(|slot| &scheduler.requests.get(slot).holding);
        scheduler.pool.assert_sound(holdings, self.config.usable_blocks());
        for slot in slots() {
            let request = scheduler.requests.get(slot);
            assert_eq!(scheduler.requests.find(request.id), Some(slot));
            let owned = request.holding.len() * self.config.block_size;
            assert!(
                owned >= request.computed_tokens.min(self.config.max_model_len),
                "computed without blocks"
            );
        }
        for slot in scheduler.waiting.iter() {
            assert!(scheduler.requests.get(slot).holding.is_empty(), "who waits has no blocks");
        }
        let load = scheduler.load();
        assert_eq!(load.kv_blocks_total - load.kv_blocks_used, scheduler.free_blocks());
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Add { stream: u64, prompt: u32, max_tokens: u32, priority: i32 },
    Abort { which: u64 },
    Schedule,
    Update { stop: bool },
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u64..40, 1_u32..60, 1_u32..30, -1_i32..2).prop_map(|(stream, prompt, max_tokens, priority)| {
            Step::Add { stream, prompt, max_tokens, priority }
        }),
        1 => (0_u64..60).prop_map(|which| Step::Abort { which }),
        12 => Just(Step::Schedule),
        12 => prop::bool::weighted(0.03).prop_map(|stop| Step::Update { stop }),
    ];
    prop::collection::vec(step, 0..250)
}

pub(super) fn config() -> impl Strategy<Value = EngineConfig> {
    let sizes = (1_u32..20, 2_u32..9, 1_u32..40, 1_u32..9);
    let knobs = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0_u32..3, 0.0..0.5_f64);
    (sizes, knobs).prop_map(|(sizes, knobs)| {
        let (block_size, blocks, budget, max_num_seqs) = sizes;
        let (async_scheduling, enable_prefix_caching, scheduler_reserve_full_isl, fcfs, limit, watermark) =
            knobs;
        EngineConfig {
            // Every request of `steps` fits alone.
            num_blocks: 1 + 90_u32.div_ceil(block_size) + blocks,
            block_size,
            max_num_batched_tokens: budget.max(max_num_seqs),
            max_num_seqs,
            max_model_len: 70 + budget,
            policy: if fcfs { SchedulingPolicy::Fcfs } else { SchedulingPolicy::Priority },
            async_scheduling,
            enable_prefix_caching,
            long_prefill_token_threshold: limit * 7,
            scheduler_reserve_full_isl,
            watermark,
        }
    })
}

fn run(config: EngineConfig, steps: Vec<Step>) {
    let depth = config.depth();
    let mut engine = Engine::new(config);
    let mut next = 0;
    for step in steps {
        match step {
            Step::Add { stream, prompt, max_tokens, priority } => {
                engine.add(request(next, stream, prompt, max_tokens, priority));
                next += 1;
            }
            Step::Abort { which } => {
                let known = engine.scheduler.knows(which);
                assert_eq!(engine.scheduler.abort(which), known);
                engine.check();
            }
            Step::Schedule if engine.in_flight.len() < depth => engine.schedule(),
            Step::Schedule => {}
            Step::Update { stop } => engine.update(stop),
        }
    }
    for _ in 0..100_000 {
        if !engine.scheduler.has_requests() && engine.in_flight.is_empty() {
            break;
        }
        engine.schedule();
        while engine.in_flight.len() >= depth
            || !engine.scheduler.has_requests() && !engine.in_flight.is_empty()
        {
            engine.update(false);
        }
    }
    assert!(!engine.scheduler.has_requests(), "requests that fit come to an end");
    assert_eq!(engine.scheduler.load().kv_blocks_used, 0, "blocks leak");
    for (id, finish) in &engine.ended {
        let (prompt, max_tokens) = engine.asked[id];
        let most = max_tokens.min(engine.config.max_model_len - prompt);
        match finish {
            Finish::Length => assert_eq!(engine.received[id], most),
            Finish::Stop => assert!((1..=most).contains(&engine.received[id])),
        }
    }
}

proptest! {
    /// Whatever comes in whatever order, pool and queues stay sound, every request ends, and no block leaks.
    #[test]
    fn nothing_leaks_and_everything_ends(config in config(), steps in steps()) {
        run(config, steps);
    }
}

#[test]
fn an_abort_finds_a_request_in_every_state() {
    let config = EngineConfig { num_blocks: 8, async_scheduling: true, ..EngineConfig::default() };
    let mut engine = Engine::new(config);
    assert!(!engine.scheduler.abort(7), "unknown");
    (0..3).for_each(|id| engine.add(request(id, id, 46, 40, 0)));
    assert!(engine.scheduler.abort(2), "waiting, never tried");
    engine.schedule();
    engine.schedule();
    assert!(engine.scheduler.abort(0), "running, with two steps in flight");
    engine.update(false);
    engine.update(false);
    assert_eq!(engine.received.get(&0), None, "its outputs are dropped");
    assert_eq!(engine.received.get(&1), Some(&2));
    engine.add(request(3, 3, 30, 90, 0));
    while engine.scheduler.totals().preemptions == 0 {
        engine.schedule();
        engine.update(false);
    }
    assert!(engine.scheduler.abort(3), "preempted");
    assert!(!engine.scheduler.abort(3), "gone");
    assert!(engine.scheduler.abort(1));
    assert_eq!((engine.scheduler.load().running, engine.scheduler.load().waiting), (0, 0));
    assert_eq!(engine.scheduler.load().kv_blocks_used, 0);
    assert!(engine.scheduler.has_requests(), "the ends are still to be reported");
    engine.schedule();
    assert!(!engine.scheduler.has_requests());
}

#[test]
fn the_totals_count_first_admissions() {
    let mut engine = Engine::new(EngineConfig::default());
    engine.add(request(0, 1, 64, 1, 0));
    engine.add(request(1, 1, 64, 1, 0));
    engine.schedule();
    let totals = engine.scheduler.totals();
    assert_eq!((totals.prefix_queries, totals.prefix_hits), (128, 48));
    let rows = &engine.in_flight[0].rows;
    assert_eq!((rows[1].tokens, rows[1].context, rows[1].samples, rows[1].prefill), (16, 48, true, true));
}

#[test]
fn the_last_prefill_chunk_of_one_token_is_prefill_and_a_decode_is_not() {
    let config = EngineConfig { max_num_batched_tokens: 32, ..EngineConfig::default() };
    let mut engine = Engine::new(config);
    engine.add(request(0, 1, 33, 5, 0));
    let mut rows = Vec::new();
    for _ in 0..3 {
        engine.schedule();
        let row = engine.in_flight[0].rows[0];
        rows.push((row.tokens, row.context, row.samples, row.prefill));
        engine.update(false);
    }
    assert_eq!(rows, [(32, 0, false, true), (1, 32, true, true), (1, 33, true, false)]);
}

#[test]
fn a_bad_configuration_is_refused() {
    let faults = VllmScheduler::new(&EngineConfig { block_size: 0, ..EngineConfig::default() }).unwrap_err();
    assert_eq!(faults.len(), 1);
}

#[test]
fn absurd_lengths_do_not_overflow() {
    let mut engine = Engine::new(EngineConfig { async_scheduling: true, ..EngineConfig::default() });
    engine.add(request(0, 1, 5, u32::MAX, i32::MAX));
    let whole = Segment { stream: TokenStream::group(1), start: 7, len: u32::MAX };
    engine.scheduler.add(EngineRequest { prompt: vec![whole; 3], ..request(1, 1, 1, u32::MAX, i32::MIN) });
    for _ in 0..20 {
        engine.schedule();
        engine.update(false);
    }
    assert_eq!(engine.scheduler.load().waiting, 1);
}
