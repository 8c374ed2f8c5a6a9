mod faults;

use super::*;
use crate::engine::vllm::VllmScheduler;
use crate::engine::{EngineConfig, SchedulingPolicy};
use crate::front_end::{FrontEnd, FrontEndProcess};
use crate::setup::{GatewayConfig, ServerLimits};
use crate::step_time::{Coefficients, HostCost, StepTime};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::{Load, Release};
use scaleproof_pack::schedule::{Planned, PlannedList};
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;

pub(super) const MS: u64 = 1_000_000;

/// A request of `input` and `output` tokens at `at_ms`.
pub(super) fn request(at_ms: u64, input: u32, output: u32) -> Planned {
    Planned {
        release: Release::At(Nanos(at_ms * MS)),
        class: 0,
        priority: 0,
        input_tokens: input,
        output_tokens: output,
        cancel_after: None,
        segments_from: 0,
        segments_len: 0,
    }
}

fn schedule(load: Load, requests: Vec<Planned>) -> Schedule {
    Schedule::of(load, PlannedList { requests, segments: Vec::new() })
}

pub(super) fn open(requests: Vec<Planned>) -> Schedule {
    schedule(Load::Open { rps: 1.0 }, requests)
}

/// Steps of 10 ms, no limits, one replica.
pub(super) fn config() -> RunConfig {
    RunConfig {
        replicas: 1,
        step_time: StepTime {
            graphs: None,
            eager: Coefficients {
                base_us: 10_000.0,
                batch_token_knots: vec![(1.0, 0.0)],
                decode_context_token_us: 0.0,
                prefill_pair_us: 0.0,
                prefill_context_token_us: 0.0,
                row_us: 0.0,
                sampled_row_us: 0.0,
                launch_us: 0.0,
                decode_wave_rows: 0.0,
            },
            host: HostCost::default(),
            hardware: None,
        },
        front_end: FrontEnd::default(),
        limits: ServerLimits { max_request_tokens: 8192, max_queued_requests: None, max_queued_tokens: None },
        router: RouterPolicy::RoundRobin,
        gateway: GatewayConfig::default(),
        poll_interval: None,
        timeout: None,
        ttft_timeout: None,
        sample_interval: Nanos(100 * MS),
        enough: Enough { successes: 0, max_requests: 0 },
        faults: None,
    }
}

#[derive(Default)]
pub(super) struct Seen {
    records: Vec<Record>,
    stop: bool,
}

impl Observer for Seen {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }

    fn stop(&mut self) -> bool {
        self.stop
    }
}

pub(super) fn simulate(config: &RunConfig, engine: &EngineConfig, schedule: &Schedule) -> Vec<Record> {
    let mut seen = Seen::default();
    run(config, schedule, &|| Box::new(VllmScheduler::new(engine).unwrap()), &mut seen).unwrap();
    seen.records.sort_by_key(|record| record.id);
    seen.records
}

/// Outcome, and first token and end in milliseconds.
pub(super) fn told(records: &[Record]) -> Vec<(Outcome, Option<u64>, u64)> {
    records.iter().map(|r| (r.outcome, r.first_token.map(|at| at.0 / MS), r.ended.0 / MS)).collect()
}

#[test]
fn a_request_alone_takes_a_step_a_token() {
    let records = simulate(&config(), &EngineConfig::default(), &open(vec![request(5, 100, 3)]));
    assert_eq!(told(&records), [(Outcome::Ok, Some(15), 35)]);
}

#[test]
fn steps_in_flight_together_do_not_overlap() {
    let asynchronous = EngineConfig { async_scheduling: true, ..EngineConfig::default() };
    let records = simulate(&config(), &asynchronous, &open(vec![request(0, 100, 3), request(1, 100, 1)]));
    // The second is too late for both steps that are under way at its arrival. It is in the third, which ends at 30.
    assert_eq!(told(&records), [(Outcome::Ok, Some(10), 30), (Outcome::Ok, Some(30), 30)]);
}

#[test]
fn the_front_end_comes_before_and_behind() {
    let front_end = FrontEnd {
        request: Nanos(2 * MS),
        prompt_token_us: 30.0,
        output_token: Nanos(4 * MS),
        ..FrontEnd::default()
    };
    let config = RunConfig { front_end, ..config() };
    let records = simulate(&config, &EngineConfig::default(), &open(vec![request(0, 100, 2)]));
    assert_eq!(told(&records), [(Outcome::Ok, Some(2 + 3 + 10 + 4), 29)]);
}

#[test]
fn requests_wait_for_each_other_where_the_front_end_is_one_process() {
    let told = |process, first_ms: [u64; 4]| {
        let front_end =
            FrontEnd { process, request: Nanos(6 * MS), busy: Nanos(6 * MS), ..FrontEnd::default() };
        let config = RunConfig { front_end, ..config() };
        let requests = first_ms.map(|ms| request(ms, 100, 1)).to_vec();
        told(&simulate(&config, &EngineConfig::default(), &open(requests)))
            .iter()
            .map(|(_, _, ended)| *ended)
            .collect::<Vec<_>>()
    };
    assert_eq!(told(FrontEndProcess::Parallel, [0, 0, 0, 30]), [16, 26, 26, 46]);
    // In the queue after 6, 12 and 18: the first step's end has two of them, the last comes alone.
    assert_eq!(told(FrontEndProcess::Serial, [0, 0, 0, 30]), [16, 26, 36, 46]);
    // The first step is the first one's, decided at 6; two come in meanwhile, 6 each, and it ends at 28. The last holds the second up.
    assert_eq!(told(FrontEndProcess::Shared, [0, 0, 0, 30]), [28, 44, 44, 54]);
    // Nobody works when the last comes: a latency.
    assert_eq!(told(FrontEndProcess::Shared, [0, 0, 0, 90]), [28, 38, 38, 106]);
}

#[test]
fn a_front_end_on_the_core_of_the_steps_holds_up_decoding_alike_with_and_without_a_look_ahead() {
    let front_end = FrontEnd {
        process: FrontEndProcess::Shared,
        request: Nanos(5 * MS),
        busy: Nanos(3 * MS),
        ..FrontEnd::default()
    };
    let config = RunConfig { front_end, ..config() };
    let schedule = open(vec![request(0, 100, 60), request(104, 100, 50), request(333, 100, 1)]);
    for async_scheduling in [false, true] {
        let engine = EngineConfig { async_scheduling, ..EngineConfig::default() };
        let by_row = told(&simulate(&config, &engine, &schedule));
        // Of 60 steps the first waits for its own request, and two more are held up.
        assert_eq!(by_row[0], (Outcome::Ok, Some(15), 5 + 60 * 10 + 2 * 3), "{async_scheduling}");
        let mut seen = Seen::default();
        run(&config, &schedule, &|| Box::new(VllmScheduler::grouping(&engine).unwrap()), &mut seen).unwrap();
        seen.records.sort_by_key(|record| record.id);
        assert_eq!(told(&seen.records), by_row, "{async_scheduling}");
    }
}

#[test]
fn a_token_in_the_very_moment_of_a_limit_is_in_time() {
    let one = |timeout: Option<u64>, ttft_timeout: Option<u64>, output_delay_ms: u64| {
        let front_end = FrontEnd { output_token: Nanos(output_delay_ms * MS), ..FrontEnd::default() };
        let config = RunConfig {
            timeout: timeout.map(|ms| Nanos(ms * MS)),
            ttft_timeout: ttft_timeout.map(|ms| Nanos(ms * MS)),
            front_end,
            ..config()
        };
        told(&simulate(&config, &EngineConfig::default(), &open(vec![request(0, 100, 3)])))[0]
    };
    assert_eq!(one(Some(30), Some(10), 0), (Outcome::Ok, Some(10), 30));
    assert_eq!(one(Some(29), None, 0), (Outcome::Timeout, Some(10), 29));
    assert_eq!(one(None, Some(9), 0), (Outcome::Timeout, None, 9));
    // The step ends in time, its token arrives too late.
    assert_eq!(one(Some(33), None, 4), (Outcome::Timeout, Some(14), 33));
    assert_eq!(one(None, Some(13), 4), (Outcome::Timeout, None, 13));
    assert_eq!(one(Some(34), Some(14), 4), (Outcome::Ok, Some(14), 34));
}

#[test]
fn a_client_that_goes_makes_room() {
    let engine = EngineConfig { max_num_seqs: 1, ..EngineConfig::default() };
    let cancelled = Planned { cancel_after: Some(Nanos(25 * MS)), ..request(0, 100, 50) };
    let records = simulate(&config(), &engine, &open(vec![cancelled, request(1, 100, 1)]));
    // The step under way at 25 ends at 30; only the next one has the second request.
    assert_eq!(told(&records), [(Outcome::Cancelled, Some(10), 25), (Outcome::Ok, Some(40), 40)]);
    assert_eq!(records[0].output_tokens, 2);
}

#[test]
fn limits_of_the_server_refuse_within_a_millisecond() {
    let limits =
        ServerLimits { max_request_tokens: 103, max_queued_requests: Some(2), max_queued_tokens: None };
    let config = RunConfig { limits, ..config() };
    let requests =
        vec![request(0, 100, 3), request(1, 101, 3), request(2, 100, 3), request(3, 9, 1), request(50, 9, 1)];
    let records = simulate(&config, &EngineConfig::default(), &open(requests));
    let outcomes: Vec<Outcome> = records.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Error, Outcome::Ok, Outcome::Rejected, Outcome::Ok]);
    assert_eq!((records[1].ended, records[3].ended), (Nanos(2 * MS), Nanos(4 * MS)));
}

#[test]
fn a_turn_follows_its_predecessor_however_that_ended() {
    let turn = |predecessor, delay_ms| Planned {
        release: Release::After { predecessor, delay: Nanos(delay_ms * MS) },
        ..request(0, 100, 2)
    };
    let first = Planned { cancel_after: Some(Nanos(15 * MS)), ..request(0, 100, 9) };
    let records = simulate(&config(), &EngineConfig::default(), &open(vec![first, turn(0, 100), turn(1, 7)]));
    assert_eq!(
        told(&records),
        [(Outcome::Cancelled, Some(10), 15), (Outcome::Ok, Some(125), 135), (Outcome::Ok, Some(152), 162)]
    );
}

#[test]
fn a_closed_loop_sends_when_a_client_is_free() {
    let thinking =
        |think_ms| Planned { release: Release::WhenFree { think: Nanos(think_ms * MS) }, ..request(0, 9, 1) };
    let requests = vec![thinking(0), thinking(3), thinking(50), thinking(0)];
    let schedule = schedule(Load::Closed { concurrency: 2 }, requests);
    let records = simulate(&config(), &EngineConfig::default(), &schedule);
    let sent: Vec<u64> = records.iter().map(|record| record.sent.0 / MS).collect();
    // Clients end at 10 and 20; the first pauses for 50, the other sends at once.
    assert_eq!(sent, [0, 3, 60, 20]);
}

/// Two run, the less urgent one first in line. It finds no block and gives up its own; then the other must go on at
/// once, because nothing else will ever wake the engine.
#[test]
fn an_engine_whose_candidate_gave_up_its_blocks_goes_on() {
    let engine = EngineConfig {
        num_blocks: 6,
        block_size: 4,
        policy: SchedulingPolicy::Priority,
        enable_prefix_caching: false,
        ..EngineConfig::default()
    };
    let urgent = Planned { priority: -1, ..request(1, 8, 9) };
    let records = simulate(&config(), &engine, &open(vec![request(0, 5, 9), urgent]));
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok), "{records:?}");
    assert_eq!((records[0].preemptions, records[1].preemptions), (1, 0));
}

#[test]
fn a_run_can_be_stopped_and_keeps_what_it_had() {
    let requests = (0..5000).map(|i| request(i, 9, 1)).collect();
    let mut seen = Seen { stop: true, ..Seen::default() };
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::new(&EngineConfig::default()).unwrap())
    };
    let summary = run(&config(), &open(requests), &engine, &mut seen).unwrap();
    assert!(summary.stopped && !seen.records.is_empty() && seen.records.len() < 5000);
    assert_eq!(summary.attempts, seen.records.len() as u64);
}

#[test]
fn a_time_that_is_none_is_an_error() {
    let mut config = config();
    config.step_time.eager.base_us = f64::NAN;
    let schedule = open(vec![request(0, 9, 1)]);
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::new(&EngineConfig::default()).unwrap())
    };
    let failed = |config: &RunConfig| run(config, &schedule, &engine, &mut Seen::default()).unwrap_err();
    assert!(matches!(failed(&config), RunError::StepTime(_)));
    config.step_time.eager.base_us = 3.1e15;
    assert!(matches!(failed(&config), RunError::TooManySamples { .. }), "a sample each 100 ms of a century");
    config.sample_interval = Nanos::from_seconds(1e6).unwrap();
    config.front_end.request = Nanos::from_seconds(3e8).unwrap();
    assert_eq!(failed(&config), RunError::TooLong { unfinished: 1 });
}

/// An engine that never computes anything: its requests are named.
#[test]
fn a_stall_names_its_requests() {
    struct Idle;
    impl BatchScheduler for Idle {
        fn add(&mut self, _: EngineRequest) {}
        fn abort(&mut self, _: u64) -> bool {
            false
        }
        fn has_requests(&self) -> bool {
            true
        }
        fn schedule(&mut self, batch: &mut Batch) {
            batch.clear();
        }
        fn update(&mut self, _: &Batch, _: &[crate::engine::Sample], _: &mut Vec<Emitted>) {}
        fn load(&self) -> crate::engine::EngineLoad {
            crate::engine::EngineLoad::default()
        }
        fn totals(&self) -> crate::engine::EngineTotals {
            crate::engine::EngineTotals::default()
        }
        fn depth(&self) -> usize {
            1
        }
    }
    let schedule = open(vec![request(0, 9, 1), request(4, 9, 1)]);
    let error = run(&config(), &schedule, &|| Box::new(Idle), &mut Seen::default()).unwrap_err();
    assert!(error.to_string().starts_with("stalled: 2 requests can never finish (first: 0, 1)"), "{error}");
}
