//! The parts that a run spends its time in, one by one: `cargo bench --bench hot`. Whole runs: `scaleproof bench`.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use divan::{Bencher, black_box};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::chance;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::report::{Origin, RunFacts};
use scaleproof_pack::requests_csv;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_policy::{Alone, Fleet, LoadSource, RouteRequest, RouterPolicy};
use scaleproof_sim::engine::block_pool::{BlockPool, Hit, Holding};
use scaleproof_sim::engine::token_chain::TokenChain;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{Batch, BatchScheduler, EngineConfig, EngineRequest, Sample};
use scaleproof_sim::event::{Event, EventQueue, StepEnd};
use std::cmp::Reverse;

fn main() {
    divan::main();
}

fn prompt(stream: TokenStream, tokens: u32) -> Vec<Segment> {
    vec![Segment { stream, start: 0, len: tokens }]
}

/// A prompt of its own through a full pool: look-up, growth over evicted blocks, names, release.
#[divan::bench(args = [1024, 8192])]
fn block_pool_request(bencher: Bencher<'_, '_>, tokens: u32) {
    let mut pool = BlockPool::new(22_500, 16, true);
    let (mut hit, mut number) = (Hit::default(), 0);
    bencher.bench_local(|| {
        number += 1;
        let chain =
            TokenChain::new(&prompt(TokenStream::unique(number), tokens), TokenStream::output(number), 16);
        let mut holding = Holding::default();
        pool.lookup(&chain, tokens - 1, &mut hit);
        pool.adopt(&mut holding, &hit);
        assert!(pool.grow(&mut holding, tokens));
        pool.register(&mut holding, &chain, tokens);
        pool.release(&mut holding);
    });
}

/// A prompt whose first half others have.
#[divan::bench]
fn block_pool_shared_request(bencher: Bencher<'_, '_>) {
    let mut pool = BlockPool::new(22_500, 16, true);
    let (mut hit, mut number) = (Hit::default(), 0);
    bencher.bench_local(|| {
        number += 1;
        let mut segments = prompt(TokenStream::group(number % 8), 512);
        segments.extend(prompt(TokenStream::unique(number), 512));
        let chain = TokenChain::new(&segments, TokenStream::output(number), 16);
        let mut holding = Holding::default();
        pool.lookup(&chain, 1023, &mut hit);
        pool.adopt(&mut holding, &hit);
        assert!(pool.grow(&mut holding, 1024));
        pool.register(&mut holding, &chain, 1024);
        pool.release(&mut holding);
    });
}

fn engine(grouping: bool) -> VllmScheduler {
    let config = EngineConfig {
        num_blocks: 22_500,
        max_num_batched_tokens: 2048,
        max_num_seqs: 56,
        max_model_len: 1 << 20,
        async_scheduling: true,
        ..EngineConfig::default()
    };
    if grouping { VllmScheduler::grouping(&config).unwrap() } else { VllmScheduler::new(&config).unwrap() }
}

/// One step of 56 requests that decode: its schedule call and its update.
#[divan::bench(args = [true, false])]
fn scheduler_decode_step(bencher: Bencher<'_, '_>, grouping: bool) {
    let (mut scheduler, mut batches) = (engine(grouping), [Batch::default(), Batch::default()]);
    for id in 0..56 {
        let (prompt, output) = (prompt(TokenStream::unique(id), 36), TokenStream::output(id));
        scheduler.add(EngineRequest { id, prompt, output, max_tokens: 6000, priority: 0 });
    }
    let (mut number, mut emitted, mut samples) = (0, Vec::new(), Vec::new());
    scheduler.schedule(&mut batches[1]);
    bencher.bench_local(|| {
        if !scheduler.has_requests() {
            return;
        }
        scheduler.schedule(&mut batches[number % 2]);
        number += 1;
        samples.clear();
        samples.resize(batches[number % 2].rows.len(), Sample::Token);
        emitted.clear();
        scheduler.update(&batches[number % 2], &samples, &mut emitted);
    });
}

/// An event in, an event out, beside so many others and as many ends of steps.
#[divan::bench(args = [4, 1000])]
fn event_queue(bencher: Bencher<'_, '_>, pending: u32) {
    let mut queue = EventQueue::new(pending);
    let end = |at| Some(StepEnd { at, launched: at, began: Reverse(Nanos::ZERO), turn: 0 });
    for replica in 0..pending {
        queue.set_step_end(replica, end(Nanos(u64::from(replica) * 7919)));
        queue.push(Nanos(u64::from(replica) * 6007), Event::Sample);
    }
    bencher.bench_local(|| {
        let (now, event) = queue.pop().unwrap();
        let later = now + Nanos(20_000_000 + now.0 % 1009);
        match event {
            Event::StepEnded(replica) => queue.set_step_end(replica, end(later)),
            other => queue.push(later, other),
        }
    });
}

/// A choice, and its effect on the loads.
#[divan::bench(args = [4, 1000])]
fn router_least_outstanding(bencher: Bencher<'_, '_>, replicas: u32) {
    let mut fleet = Fleet::new(replicas, LoadSource::InFlight);
    let mut router = scaleproof_policy::build(RouterPolicy::LeastOutstanding);
    let mut chance = chance::stream(1, 0, "router");
    let request = RouteRequest {
        now: Nanos::ZERO,
        class: 0,
        priority: 0,
        input_tokens: 512,
        output_tokens: 128,
        content: &Alone(0),
    };
    let mut sent = std::collections::VecDeque::new();
    bencher.bench_local(|| {
        let replica = router.choose(&request, &fleet, &mut chance).unwrap();
        fleet.sent(replica);
        sent.push_back(replica);
        if sent.len() > 30 * replicas as usize {
            fleet.ended(sent.pop_front().unwrap());
        }
    });
}

fn manifest() -> Manifest {
    let text = include_str!("../scenarios/tp2-dp4/workload-manifest.yaml");
    Manifest::parse("workload-manifest.yaml", text).unwrap()
}

fn records(count: u64) -> Vec<Record> {
    let record = |id: u64| Record {
        id,
        class: (id % 3) as u16,
        warmup: false,
        scheduled: Nanos(id * 41_000_000),
        sent: Nanos(id * 41_000_000),
        first_token: Some(Nanos(id * 41_000_000 + 150_000_000 + id * 7919 % 100_000_000)),
        ended: Nanos(id * 41_000_000 + 4_000_000_000 + id * 104_729 % 1_000_000_000),
        input_tokens: 1024,
        cached_tokens: 0,
        output_tokens: 128,
        requested_tokens: 128,
        outcome: Outcome::Ok,
        replica: Some((id % 4) as u32),
        preemptions: 0,
        retries: 0,
        computed_tokens: None,
        wire: None,
        reason: "",
    };
    (0..count).map(record).collect()
}

/// 22,000 records, to the report.
#[divan::bench]
fn analyzer(bencher: Bencher<'_, '_>) {
    let (manifest, records) = (manifest(), records(22_000));
    let schedule = Schedule::generate(&manifest, Load::Open { rps: 24.0 }, 0, None, false).unwrap();
    bencher.bench_local(|| {
        let mut analyzer = Analyzer::new(&manifest);
        records.iter().for_each(|record| analyzer.push(record));
        analyzer.finish(RunFacts::of(Origin::Simulated, &schedule), Stated::default())
    });
}

/// 22,000 rows of requests.csv.
#[divan::bench]
fn requests_csv_rows(bencher: Bencher<'_, '_>) {
    let (manifest, records) = (manifest(), records(22_000));
    bencher.bench_local(|| {
        let names = manifest.classes.iter().map(|class| class.name.as_str());
        let mut writer = requests_csv::Writer::new(std::io::sink(), names);
        records.iter().for_each(|record| writer.row(record).unwrap());
        writer.finish().unwrap()
    });
}

/// The worked example's schedule, drawn and hashed.
#[divan::bench]
fn schedule() -> Schedule {
    Schedule::generate(black_box(&manifest()), Load::Open { rps: 24.0 }, 0, None, false).unwrap()
}
