//! Replicas in this process, and a client for them.

#[path = "../../emulate/tests/support/mod.rs"]
mod emulated;

use scaleproof_emulate::{Config, Emulator, Fault};
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;
use scaleproof_validate::{
    Endpoint, Limits, LiveConfig, LiveEngine, LiveObserver, LiveRun, Routing, Status, Target,
};
use tokio::runtime::Runtime;

/// Prompt tokens of every request.
pub const INPUT: u32 = 64;

/// A fleet whose steps take a millisecond.
pub struct Fleet {
    runtime: Runtime,
    emulator: Emulator,
}

impl Fleet {
    /// Without a fault.
    pub fn new(replicas: u32) -> Fleet {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let emulator = runtime.block_on(Emulator::start(config(replicas))).unwrap();
        Fleet { runtime, emulator }
    }

    /// Does something to a replica.
    pub fn fault(&self, replica: u32, fault: &Fault) {
        self.runtime.block_on(self.emulator.fault(replica, fault)).unwrap();
    }

    /// A client that knows the replicas already: what is done to them now meets its run.
    pub fn client(&self, patience_ms: u64) -> LiveEngine {
        let addresses = self.runtime.block_on(self.emulator.addresses());
        let targets =
            addresses.iter().map(|address| Target::parse(&format!("http://{address}")).unwrap()).collect();
        let mut client = LiveEngine::new(live_config(targets, patience_ms), 1).unwrap();
        client.prepare().unwrap();
        client
    }
}

fn config(replicas: u32) -> Config {
    Config { replicas, time_scale: 1.0, ..emulated::of_steps(1.0) }
}

fn live_config(targets: Vec<Target>, patience_ms: u64) -> LiveConfig {
    LiveConfig {
        targets,
        tls: None,
        token: None,
        endpoint: Endpoint::Completions,
        model: None,
        streaming: true,
        ignore_eos: true,
        sampling: Vec::new(),
        timeout: Some(Nanos(patience_ms * 1_000_000)),
        ttft_timeout: None,
        ramp: Nanos::ZERO,
        replicas: Vec::new(),
        sample_interval: Nanos(100_000_000),
        routing: Routing { policy: RouterPolicy::RoundRobin, poll_interval: None },
        threads: 1,
        vocabulary: None,
        limits: Limits::default(),
        resilience: None,
        absent: Vec::new(),
        give_up: None,
    }
}

/// An open loop of so many requests, 5 ms apart, with answers of `output` tokens.
pub fn schedule(count: u32, output: u32) -> Schedule {
    let mut list = PlannedList::default();
    for number in 0..count {
        let stream = TokenStream::unique(u64::from(number));
        list.segments.push(Segment { stream, start: 0, len: INPUT });
        list.requests.push(Planned {
            release: Release::At(Nanos(u64::from(number) * 5_000_000)),
            class: 0,
            priority: 0,
            input_tokens: INPUT,
            output_tokens: output,
            cancel_after: None,
            segments_from: number,
            segments_len: 1,
        });
    }
    Schedule::of(Load::Open { rps: 200.0 }, list)
}

/// What a run yielded, and what is done once so many requests have been sent.
#[derive(Default)]
struct Seen<'a> {
    records: Vec<Record>,
    then: Option<(u64, Box<dyn FnOnce() + 'a>)>,
}

impl Observer for Seen<'_> {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

impl LiveObserver for Seen<'_> {
    fn status(&mut self, status: &Status) {
        if let Some((_, act)) = self.then.take_if(|(sent, _)| status.sent >= *sent) {
            act();
        }
    }
}

/// Sends a schedule. The records in order of their ids, each request with exactly one.
pub fn run(client: &mut LiveEngine, schedule: &Schedule) -> (Vec<Record>, LiveRun) {
    run_and(client, schedule, None)
}

/// The same, and does something once so many requests have been sent.
pub fn run_and<'a>(
    client: &mut LiveEngine,
    schedule: &Schedule,
    then: Option<(u64, Box<dyn FnOnce() + 'a>)>,
) -> (Vec<Record>, LiveRun) {
    let mut seen = Seen { records: Vec::new(), then };
    let enough = Enough { successes: 0, max_requests: 0 };
    let run = client.run_live(schedule, enough, &mut seen).unwrap();
    assert!(seen.then.is_none(), "too few requests were sent for what was to be done");
    let mut records = seen.records;
    records.sort_by_key(|record| record.id);
    let count = schedule.measured.requests.len() as u64;
    assert!(records.iter().map(|record| record.id).eq(0..count), "each request has one record");
    assert_eq!((run.status.sent, run.status.ended), (count, count));
    assert!(records.iter().all(|record| record.sent <= record.ended && record.scheduled <= record.sent));
    (records, run)
}
