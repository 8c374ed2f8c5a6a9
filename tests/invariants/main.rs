//! What holds in every run, whatever is asked of the simulator: random manifests, profiles and scenarios, read from their
//! texts as a user's are, on pools so small that requests lose their blocks.
//!
//! A failing case prints its texts; proptest prints the seed and keeps the case in `main.proptest-regressions`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on panics")]

mod cases;
mod disturbed;
mod driver;
mod watched;

use cases::{Case, case, trace_case};
use proptest::prelude::*;
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
use scaleproof_sim::engine::{BatchScheduler, EngineConfig};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::{RunConfig, RunSummary, run};
use std::collections::BTreeMap;
use watched::Watched;

#[derive(Default)]
struct Collected {
    records: Vec<Record>,
    samples: Vec<TimelineRow>,
}

impl Collected {
    fn assert_same(&self, again: &Collected) {
        let what = "not the same twice, or row by row";
        for (one, other) in self.records.iter().zip(&again.records) {
            assert_eq!(one, other, "{what}");
        }
        for (one, other) in self.samples.iter().zip(&again.samples) {
            assert_eq!(one, other, "{what}");
        }
        assert_eq!(
            (self.records.len(), self.samples.len()),
            (again.records.len(), again.samples.len()),
            "{what}"
        );
    }
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

/// Row by row, each step watched.
fn simulate(read: &Read) -> (Collected, RunSummary) {
    simulate_with(read, || Box::new(Watched::new(&read.scheduler, read.unshared())))
}

/// As the commands simulate: requests that decode are stepped together.
fn simulate_grouping(read: &Read) -> (Collected, RunSummary) {
    simulate_with(read, || Box::new(VllmScheduler::grouping(&read.scheduler).unwrap()))
}

fn simulate_with(
    read: &Read,
    engine: impl Fn() -> Box<dyn BatchScheduler + Send>,
) -> (Collected, RunSummary) {
    let mut collected = Collected::default();
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
            // A refusal takes the way in, and at least a millisecond.
            Outcome::Rejected | Outcome::Error => {
                let way = self.config.front_end.ingest(record.input_tokens).unwrap().max(Nanos(1_000_000));
                assert_eq!(record.e2e(), way, "{record:?}");
            }
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
        for (again, summary_again) in [simulate_grouping(self), simulate_grouping(self)] {
            collected.assert_same(&again);
            assert_eq!(summary, summary_again);
        }
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

proptest! {
    #![proptest_config(configured(500))]

    #[test]
    fn the_live_driver_sends_what_the_simulator_consumes(case in case(), trace_case in trace_case()) {
        driver::sends_what_the_simulator_consumes(read(&case));
        driver::sends_what_the_simulator_consumes(read(&trace_case));
    }
}

proptest! {
    #![proptest_config(configured(600))]

    /// Whatever goes wrong: every attempt ends once, nothing is stuck, no new work for a removed replica, and the same
    /// again.
    #[test]
    fn disturbed_runs_keep_the_invariants(case in case(), plan in disturbed::plan()) {
        let mut read = read(&case);
        read.config.faults = Some(Box::new(plan));
        let (collected, summary) = simulate(&read);
        read.by_place(&collected.records, summary.continued);
        prop_assert_eq!(summary.attempts, collected.records.len() as u64);
        collected.records.iter().for_each(disturbed::check_record);
        read.check_clients(&collected.records);
        disturbed::check_removed(&collected, &summary);
        disturbed::check_last_samples(&read, &collected);
        for (again, summary_again) in [simulate_grouping(&read), simulate_grouping(&read)] {
            collected.assert_same(&again);
            prop_assert_eq!(&summary, &summary_again);
        }
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
