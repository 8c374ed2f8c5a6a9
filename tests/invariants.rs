//! What holds in every run, whatever is asked of the simulator: random manifests, profiles and scenarios, read from their
//! texts as a user's are, on pools so small that requests lose their blocks.
//!
//! A failing case prints its texts; proptest prints the seed and keeps the case in `invariants.proptest-regressions`.

use proptest::prelude::*;
use proptest::sample::select;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::manifest::{Manifest, TraceFormat};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::report::{Origin, RunFacts};
use scaleproof_pack::schedule::{Load, Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::trace::Trace;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{
    Batch, BatchScheduler, Emitted, EngineConfig, EngineLoad, EngineRequest, EngineTotals, Sample,
};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::{RunConfig, RunSummary, run};
use std::collections::{BTreeMap, BTreeSet};

/// A scenario as its files would have it, and how it is run.
#[derive(Clone, Debug)]
struct Case {
    manifest: String,
    scenario: String,
    profile: String,
    trace: Option<String>,
    load: Load,
    warm: bool,
}

/// One in `n` takes `value`, the others nothing.
fn sometimes(n: u32, value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![n - 1 => Just(String::new()), 1 => value].boxed()
}

/// A length of a few tokens up to `max`, fixed or drawn.
fn length(max: u32) -> BoxedStrategy<String> {
    prop_oneof![
        (1..=max).prop_map(|n| n.to_string()),
        (1..=max, 0..=max).prop_map(|(a, b)| format!("{{distribution: uniform, min: {a}, max: {}}}", a + b)),
        (1..=max).prop_map(|mean| format!("{{distribution: geometric, mean: {mean}}}")),
    ]
    .boxed()
}

/// A pause of up to a second.
fn pause() -> BoxedStrategy<String> {
    prop_oneof![Just("0".to_owned()), Just("{distribution: uniform, min: 0, max: 1}".to_owned())].boxed()
}

fn class(index: usize, trace: bool) -> BoxedStrategy<String> {
    let session = (1..5u32, pause())
        .prop_map(|(turns, think)| format!(", session: {{turns: {turns}, think_seconds: {think}}}"));
    let session = if trace { Just(String::new()).boxed() } else { sometimes(2, session) };
    let lengths = if trace {
        Just(String::new()).boxed()
    } else {
        (length(60), length(25)).prop_map(|(i, o)| format!(", input_tokens: {i}, output_tokens: {o}")).boxed()
    };
    (lengths, -1..2i32, session)
        .prop_map(move |(lengths, priority, session)| {
            format!(
                "  - {{name: c{index}, MIX{index}request_ttft_cutoff_ms: 50, request_tpot_cutoff_ms: 8, \
                 priority: {priority}{lengths}{session}}}\n"
            )
        })
        .boxed()
}

fn client() -> BoxedStrategy<String> {
    let timeout = (1..400u32, 1..100u32).prop_map(|(whole, share)| {
        let (whole_s, ttft_s) = (f64::from(whole) / 1e3, f64::from(whole * share) / 1e5);
        format!("  timeout_seconds: {whole_s}\n  ttft_timeout_seconds: {ttft_s}\n")
    });
    let ttft = (1..200u32).prop_map(|ms| format!("  ttft_timeout_seconds: {}\n", f64::from(ms) / 1e3));
    let cancellation = (1..=10u32).prop_map(|tenths| {
        let after = "{distribution: uniform, min: 0, max: 0.2}";
        format!("  cancellation: {{probability: {}, after_seconds: {after}}}\n", f64::from(tenths) / 10.0)
    });
    let think = pause().prop_map(|pause| format!("  think_time_seconds: {pause}\n"));
    (
        prop_oneof![2 => Just(String::new()), 1 => timeout, 1 => ttft],
        sometimes(3, cancellation),
        sometimes(2, think),
    )
        .prop_map(|(timeouts, cancellation, think)| timeouts + &cancellation + &think)
        .boxed()
}

/// Classes with their counts, which may be 0.
fn manifest(trace: bool) -> BoxedStrategy<String> {
    let classes = (1..4usize).prop_flat_map(move |n| {
        let lines: Vec<_> = (0..n).map(|index| class(index, trace)).collect();
        (lines, prop::collection::vec(0..25u64, n))
    });
    let pattern = if trace {
        Just("trace\n  trace: {file: t.jsonl, format: mooncake}".to_owned()).boxed()
    } else {
        let pieces = "piecewise\n  pieces: [{seconds: 0.2, rate: 4}, {seconds: 0.3, from: 0, to: 1}]";
        select(vec!["constant", "poisson", "gamma\n  gamma_shape: 0.3", pieces])
            .prop_map(str::to_owned)
            .boxed()
    };
    (classes, pattern, client(), any::<u64>(), 0..30u64, select(vec!["enabled", "disabled"]))
        .prop_map(move |((lines, counts), pattern, client, seed, successes, cache)| {
            let total: u64 = counts.iter().sum();
            let mut workload = lines.concat();
            let mut counted = Vec::new();
            for (index, count) in counts.iter().enumerate() {
                // A schedule of nothing still needs a mix.
                let mix = if total == 0 { 1.0 / counts.len() as f64 } else { *count as f64 / total as f64 };
                let mix = if trace { String::new() } else { format!("mix: {mix}, ") };
                workload = workload.replace(&format!("MIX{index}"), &mix);
                counted.push(format!("c{index}: {count}"));
            }
            let counts = format!(
                "  initial_scheduled_requests: {total}\n  class_schedule_counts: {{{}}}\n",
                counted.join(", ")
            );
            let counts = if trace { String::new() } else { counts };
            format!(
                "cutoff: 2026-01-02\n\
                 model: {{id: m, revision: r1, tokenizer_revision: t1, precision: bf16}}\n\
                 engine:\n  name: e\n  version: \"1\"\n  placement: {{tp: 1, pp: 1, dp: 1, replicas: 1, gpus: 1}}\n  \
                 prefix_cache: {cache}\n  speculative_decoding: disabled\n  disaggregated_prefill: disabled\n\
                 client:\n  location: here\n  streaming: true\n  arrival_pattern: {pattern}\n  \
                 minimum_duration_seconds: 0\n  request_schedule_seed: {seed}\n  warmup_seconds: 0.1\n{counts}{client}\
                 workload:\n{workload}\
                 acceptance: {{class_slo_attainment_min: 0.9, min_successful_samples_per_class: {successes}, \
                 error_rate_max: 0.1, queue_trend_required: flat, target_utilization: 0.75}}\n"
            )
        })
        .boxed()
}

/// A few seats, blocks and tokens a step. `scale` multiplies what is measured in tokens.
fn profile(scale: u32) -> BoxedStrategy<String> {
    let pool = (1..400u32, select(vec![1u32, 4, 16]), 1..60u32, 1..9u32, select(vec![60u32, 200, 100_000]));
    let switches = (select(vec!["fcfs", "priority"]), any::<bool>(), any::<bool>(), any::<bool>());
    let limits = (select(vec![0u32, 7]), select(vec!["0", "0.1"]), 0..3u32);
    (pool, switches, limits)
        .prop_map(move |((tokens, size, budget, seats, longest), (policy, asynchronous, caching, reserve), limits)| {
            let (threshold, watermark, front_end) = limits;
            // The engine keeps one block for itself.
            let blocks = 1 + tokens.div_ceil(size);
            let (size, budget) = (size * scale, (budget * scale).max(seats));
            let (longest, threshold) = (longest * scale, threshold * scale);
            format!(
                "profile: p\nkind: fixture\n\
                 model: {{id: m, revision: r1, precision: bf16}}\n\
                 placement: {{tp: 1, pp: 1}}\n\
                 scheduler:\n  num_blocks: {blocks}\n  block_size: {size}\n  max_num_batched_tokens: {budget}\n  \
                 max_num_seqs: {seats}\n  max_model_len: {longest}\n  policy: {policy}\n  \
                 async_scheduling: {asynchronous}\n  enable_prefix_caching: {caching}\n  \
                 scheduler_reserve_full_isl: {reserve}\n  long_prefill_token_threshold: {threshold}\n  \
                 watermark: {watermark}\n\
                 front_end: {{request_ms: {front_end}, prompt_token_us: {front_end}, output_token_ms: {front_end}}}\n\
                 step_time:\n  base_us: 1000\n  batch_token_knots: [[8, 0], [64, 5000]]\n  \
                 decode_context_token_us: 1\n  prefill_pair_us: 0.1\n  prefill_context_token_us: 1\n  row_us: 100\n  \
                 sampled_row_us: 10\n  host: {{base_us: 300, row_us: 30}}\n\
                 validity: {{batch_tokens: [1, 64], rows: [1, 8], context_tokens: [1, 100]}}\n\
                 provenance: {{method: drawn, sources: [none]}}\n"
            )
        })
        .boxed()
}

fn scenario() -> BoxedStrategy<String> {
    let router = select(vec!["round_robin", "random", "least_outstanding", "power_of_two"]);
    let poll = sometimes(2, Just(", poll_interval_seconds: 0.05".to_owned()));
    let queue = sometimes(3, (1..9u32).prop_map(|n| format!("engine: {{max_num_queued_reqs: {n}}}\n")));
    let tokens = sometimes(3, (1..99u32).prop_map(|n| format!("engine: {{max_num_queued_tokens: {n}}}\n")));
    let groups = sometimes(
        2,
        (0..40u32).prop_map(|n| {
            format!(
                "prefix_groups: [{{name: g, tokens: {n}, weight: 2}}, {{name: h, tokens: 20, weight: 1}}]\n"
            )
        }),
    );
    (router, poll, queue, tokens, groups)
        .prop_map(|(router, poll, queue, tokens, groups)| {
            let engine = if queue.is_empty() { tokens } else { queue };
            format!(
                "profile: p.yaml\nrouter: {{policy: {router}{poll}}}\n{engine}{groups}\
                 experiment: {{rates_rps: [1], sample_interval_seconds: 0.02, max_continuation: 3}}\n"
            )
        })
        .boxed()
}

fn load() -> BoxedStrategy<Load> {
    prop_oneof![
        (1..300u32).prop_map(|rps| Load::Open { rps: f64::from(rps) }),
        (1..30u32).prop_map(|concurrency| Load::Closed { concurrency }),
    ]
    .boxed()
}

fn case() -> BoxedStrategy<Case> {
    (manifest(false), scenario(), profile(1), load(), any::<bool>())
        .prop_map(|(manifest, scenario, profile, load, warm)| Case {
            manifest,
            scenario,
            profile,
            trace: None,
            load,
            warm,
        })
        .boxed()
}

/// Replays of Mooncake traces whose prompts share blocks.
fn trace_case() -> BoxedStrategy<Case> {
    let row = (0..60u64, 1..4000u32, 1..25u32, 0..3u64);
    let rows = prop::collection::vec(row, 1..40).prop_map(|rows| {
        let mut at_ms = 0;
        let mut text = String::new();
        for (gap_ms, input, output, family) in rows {
            at_ms += gap_ms;
            let ids: Vec<String> = (0..input.div_ceil(512)).map(|i| (family * 100 + u64::from(i)).to_string()).collect();
            text += &format!(
                "{{\"timestamp\": {at_ms}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": [{}]}}\n",
                ids.join(", ")
            );
        }
        text
    });
    (manifest(true), scenario(), profile(64), load(), any::<bool>(), rows)
        .prop_map(|(manifest, scenario, profile, load, warm, rows)| Case {
            manifest,
            scenario: scenario
                .lines()
                .filter(|line| !line.starts_with("prefix_groups"))
                .collect::<Vec<_>>()
                .join("\n"),
            profile,
            trace: Some(rows),
            load,
            warm,
        })
        .boxed()
}

/// The engine, watched: what it says it holds is what its own decisions add up to.
struct Watched {
    engine: VllmScheduler,
    config: EngineConfig,
    /// Tokens computed of each running request.
    running: BTreeMap<u64, u32>,
    /// Whether no two prompts share a token: then every block has one owner.
    unshared: bool,
}

impl Watched {
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
        assert!(load.kv_blocks_used >= most, "{load:?}, one holds {most}");
        if self.unshared {
            assert_eq!(load.kv_blocks_used, held, "blocks leaked or have two owners");
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
}

#[derive(Default)]
struct Collected {
    records: Vec<Record>,
    samples: Vec<TimelineRow>,
}

impl Observer for Collected {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.samples.push(*row);
    }
}

/// A case read, as the command line reads it.
struct Read {
    manifest: Manifest,
    scheduler: EngineConfig,
    schedule: Schedule,
    config: RunConfig,
}

fn read(case: &Case) -> Read {
    let mut manifest = Manifest::parse("m.yaml", &case.manifest).unwrap_or_else(|faults| panic!("{faults}"));
    let profile = Profile::parse("p.yaml", &case.profile).unwrap_or_else(|faults| panic!("{faults}"));
    let scenario = Scenario::parse("s.yaml", &case.scenario, &profile, &manifest)
        .unwrap_or_else(|faults| panic!("{faults}"));
    manifest.prefix_groups.clone_from(&scenario.prefix_groups);
    let trace = case.trace.as_ref().map(|text| {
        Trace::parse("t.jsonl", TraceFormat::Mooncake, text.as_bytes())
            .unwrap_or_else(|faults| panic!("{faults}"))
    });
    let schedule = Schedule::generate(&manifest, case.load, 0, trace.as_ref(), case.warm)
        .unwrap_or_else(|error| panic!("{error}"));
    let replicas = 1 + manifest.client.request_schedule_seed as u32 % 3;
    let config = scenario.run_config(&manifest, &profile, replicas);
    Read { manifest, scheduler: scenario.scheduler, schedule, config }
}

fn simulate(read: &Read) -> (Collected, RunSummary) {
    let mut collected = Collected::default();
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(Watched {
            engine: VllmScheduler::new(&read.scheduler).unwrap(),
            config: read.scheduler.clone(),
            running: BTreeMap::new(),
            unshared: read.unshared(),
        })
    };
    let summary = run(&read.config, &read.schedule, &engine, &mut collected)
        .unwrap_or_else(|error| panic!("the run did not end: {error}"));
    (collected, summary)
}

impl Read {
    /// Whether no prompt can hit what another one left.
    fn unshared(&self) -> bool {
        !self.schedule.shared_prefixes || !self.scheduler.enable_prefix_caching
    }

    /// Records by their place in the schedule: each there exactly once, and all of them.
    fn by_place<'a>(&self, records: &'a [Record], continued: u64) -> BTreeMap<(bool, u64), &'a Record> {
        let mut places = BTreeMap::new();
        for record in records {
            let earlier = places.insert((record.warmup, record.id), record);
            assert!(earlier.is_none(), "ended twice: {earlier:?} and {record:?}");
        }
        let count = |warmup: bool| places.keys().filter(|key| key.0 == warmup).count() as u64;
        assert_eq!(count(true), self.schedule.warmup.requests.len() as u64);
        assert_eq!(count(false), self.schedule.measured.requests.len() as u64 + continued);
        for (number, (_, id)) in places.keys().filter(|key| !key.0).enumerate() {
            assert_eq!(number as u64, *id, "a request was left out");
        }
        places
    }

    fn check_record(&self, record: &Record) {
        let Record { scheduled, sent, first_token, ended, .. } = *record;
        assert!(scheduled <= sent && sent <= ended, "time ran backwards: {record:?}");
        assert!(
            first_token.is_none_or(|first| sent <= first && first <= ended),
            "time ran backwards: {record:?}"
        );
        assert_eq!(first_token.is_some(), record.output_tokens > 0, "{record:?}");
        assert_eq!(
            record.outcome == Outcome::Ok,
            record.output_tokens == record.requested_tokens,
            "{record:?}"
        );
        assert!(record.output_tokens <= record.requested_tokens, "{record:?}");
        assert_eq!(record.outcome == Outcome::Ok, record.reason.is_empty(), "{record:?}");
        assert!(record.replica.is_some_and(|replica| replica < self.config.replicas), "{record:?}");
        assert!(record.cached_tokens < record.input_tokens, "the last token is always computed: {record:?}");
        assert_eq!(record.cached_tokens % self.scheduler.block_size, 0, "{record:?}");
        assert!(record.cached_tokens == 0 || !self.unshared(), "a hit where nothing is shared: {record:?}");
        let within = |limit: Option<Nanos>, from_sent: Nanos| limit.is_none_or(|limit| from_sent <= limit);
        assert!(within(self.config.timeout, record.e2e()), "beyond its time limit: {record:?}");
        assert!(within(self.config.ttft_timeout, record.ttft().unwrap_or_default()), "{record:?}");
        match record.outcome {
            Outcome::Timeout => {
                let limits = [self.config.timeout, self.config.ttft_timeout];
                assert!(limits.contains(&Some(record.e2e())), "gave up at another time: {record:?}");
            }
            Outcome::Rejected | Outcome::Error => assert_eq!(record.e2e(), Nanos::ZERO, "{record:?}"),
            Outcome::Lost => panic!("nothing can be lost yet: {record:?}"),
            Outcome::Ok | Outcome::Cancelled => {}
        }
    }

    /// Every request is sent when the schedule says.
    fn check_releases(&self, places: &BTreeMap<(bool, u64), &Record>) {
        for (warmup, list) in [(true, &self.schedule.warmup), (false, &self.schedule.measured)] {
            for (index, planned) in list.requests.iter().enumerate() {
                let record = places[&(warmup, index as u64)];
                match planned.release {
                    Release::At(at) => assert_eq!(record.sent, at),
                    Release::After { predecessor, delay } => {
                        assert_eq!(record.sent, places[&(warmup, predecessor)].ended + delay);
                    }
                    Release::WhenFree { think } => assert!(record.sent >= think),
                }
            }
        }
    }

    /// At no time does a closed loop have more in flight than it has clients.
    fn check_clients(&self, records: &[Record]) {
        let Load::Closed { concurrency } = self.schedule.load else { return };
        // Who ends at a moment makes room for who is sent at it.
        let ends = records.iter().map(|record| (record.ended, 1, -1));
        let sends = records.iter().map(|record| (record.sent, 2, 1));
        let at_once = records.iter().filter(|record| record.sent == record.ended).count();
        let mut changes: Vec<(Nanos, i32, i64)> = ends.chain(sends).collect();
        changes.sort();
        let mut in_flight = 0;
        for (at, _, change) in changes {
            in_flight += change;
            // A refused request ends as it is sent, and its end sorts first.
            assert!(in_flight <= i64::from(concurrency), "{in_flight} in flight at {at:?}");
            assert!(in_flight >= -(at_once as i64), "{in_flight} in flight at {at:?}");
        }
        assert_eq!(in_flight, 0);
    }

    fn check_samples(&self, collected: &Collected) {
        let replicas = self.config.replicas as usize;
        let rounds: Vec<&[TimelineRow]> = collected.samples.chunks(replicas).collect();
        for (number, round) in rounds.iter().enumerate() {
            for (replica, row) in round.iter().enumerate() {
                assert_eq!(
                    (row.replica as usize, row.at),
                    (replica, Nanos(number as u64 * self.config.sample_interval.0))
                );
                let here = |record: &&Record| {
                    record.replica == Some(row.replica) && record.sent <= row.at && row.at <= record.ended
                };
                let in_flight = collected.records.iter().filter(here).count();
                assert!(
                    (row.waiting + row.running) as usize <= in_flight,
                    "{row:?} with {in_flight} in flight"
                );
            }
        }
        let last = rounds.last().expect("there is always a sample");
        assert_eq!(last.len(), replicas);
        for row in *last {
            assert_eq!((row.waiting, row.running, row.kv_blocks_used), (0, 0, 0), "left at the end: {row:?}");
        }
        let total = |of: fn(&TimelineRow) -> u64| last.iter().map(of).sum::<u64>();
        let recorded =
            |of: fn(&Record) -> u32| collected.records.iter().map(|r| u64::from(of(r))).sum::<u64>();
        assert_eq!(total(|row| row.preemptions), recorded(|record| record.preemptions));
        assert_eq!(total(|row| row.prefix_hits), recorded(|record| record.cached_tokens));
    }

    /// The analyzer counts what there is, and a run goes on until its classes have what they need.
    fn check_report(&self, collected: &Collected) {
        let mut analyzer = Analyzer::new(&self.manifest);
        collected.records.iter().for_each(|record| analyzer.push(record));
        collected.samples.iter().for_each(|row| analyzer.push_sample(row));
        let report = analyzer.finish(RunFacts::of(Origin::Simulated, &self.schedule), Stated::default());
        let measured = collected.records.iter().filter(|record| !record.warmup).count() as u64;
        assert_eq!(report.attempted, measured);
        assert_eq!(report.outcomes.attempted(), measured);
        assert_eq!(report.successful + report.failed, measured);
        assert_eq!(report.classes.values().map(|class| class.attempted_count).sum::<u64>(), measured);
        assert!(!report.capacity_gate_pass || report.successful > 0, "nothing looks perfect");
        let in_trace = !matches!(self.schedule.continuation().next(), Some(Ok(_)));
        if measured < self.config.enough.max_requests && !in_trace {
            for class in report.classes.values().filter(|class| class.attempted_count > 0) {
                assert!(class.successful_count >= self.config.enough.successes, "ended too early: {class:?}");
            }
        }
    }

    fn check(&self) {
        let (collected, summary) = simulate(self);
        let places = self.by_place(&collected.records, summary.continued);
        assert_eq!(summary.attempts, collected.records.len() as u64);
        assert_eq!(summary.ended, collected.records.iter().map(|r| r.ended).max().unwrap_or_default());
        collected.records.iter().for_each(|record| self.check_record(record));
        self.check_releases(&places);
        self.check_clients(&collected.records);
        self.check_samples(&collected);
        self.check_report(&collected);
        let (again, summary_again) = simulate(self);
        assert!(
            collected.records == again.records && collected.samples == again.samples,
            "not the same twice"
        );
        assert_eq!(summary, summary_again);
    }
}

fn configured(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(proptest::test_runner::FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(configured(2000))]

    #[test]
    fn generated_schedules_keep_the_invariants(case in case()) {
        read(&case).check();
    }
}

proptest! {
    #![proptest_config(configured(500))]

    #[test]
    fn replayed_traces_keep_the_invariants(case in trace_case()) {
        read(&case).check();
    }
}

/// Invariants of cases in which nothing happens would hold too.
#[test]
fn the_cases_reach_all_that_can_happen() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut outcomes, mut preempted, mut hits, mut continued, mut later_turns) = ([0u64; 6], 0, 0, 0, 0);
    for _ in 0..300 {
        let read = read(&case().new_tree(&mut runner).unwrap().current());
        let (collected, summary) = simulate(&read);
        for record in &collected.records {
            outcomes[record.outcome as usize] += 1;
            preempted += u64::from(record.preemptions);
            hits += u64::from(record.cached_tokens > 0);
        }
        continued += summary.continued;
        let requests = &read.schedule.measured.requests;
        later_turns += requests.iter().filter(|r| matches!(r.release, Release::After { .. })).count();
    }
    println!(
        "outcomes {outcomes:?}, {preempted} preemptions, {hits} hits, {continued} continued, {later_turns} turns"
    );
    // None is lost before replicas can die.
    assert!(outcomes[..5].iter().all(|&n| n > 100) && outcomes[5] == 0, "{outcomes:?}");
    assert!(preempted > 100 && hits > 100 && continued > 100 && later_turns > 100);
}
