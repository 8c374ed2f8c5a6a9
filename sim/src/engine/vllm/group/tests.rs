//! Stepping together decides what stepping row by row does, call by call.

use super::super::VllmScheduler;
use super::super::tests::{Step, config, request, steps};
use crate::engine::{Batch, BatchScheduler, Emitted, EngineConfig, Row, Sample};
use proptest::prelude::*;
use scaleproof_pack::prompt::{Segment, TokenStream};
use std::collections::{BTreeMap, VecDeque};

/// Requests whose number is a multiple of this may be stopped.
const STOPPABLE: u64 = 3;
/// Of others, every so many quotes an answer, given or to come.
const QUOTING: u64 = 5;

struct Twins {
    plain: VllmScheduler,
    grouping: VllmScheduler,
    in_flight: VecDeque<(Batch, Batch, Vec<Row>)>,
    /// Tokens that clients were given, by what the plain one emitted and the other one reported.
    given: BTreeMap<u64, u32>,
    reported: BTreeMap<u64, u32>,
    next: u64,
    grouped_rows: u64,
}

impl Twins {
    fn new(config: &EngineConfig) -> Twins {
        Twins {
            plain: VllmScheduler::new(config).unwrap(),
            grouping: VllmScheduler::grouping(config).unwrap(),
            in_flight: VecDeque::new(),
            given: BTreeMap::new(),
            reported: BTreeMap::new(),
            next: 0,
            grouped_rows: 0,
        }
    }

    fn add(&mut self, stream: u64, prompt: u32, max_tokens: u32, priority: i32) {
        let id = self.next;
        self.next += 1;
        let mut request = request(id, stream, prompt, max_tokens, priority);
        if id % QUOTING == 1 {
            let output = TokenStream::output(id / 2 + stream % 7);
            request.prompt.push(Segment { stream: output, start: 0, len: 1 + prompt % 20 });
        }
        for engine in [&mut self.plain, &mut self.grouping] {
            engine.add(request.clone());
            if id.is_multiple_of(STOPPABLE) {
                engine.report_each_token(id);
            }
        }
    }

    fn schedule(&mut self) {
        let (mut plain, mut grouping) = (Batch::default(), Batch::default());
        self.plain.schedule(&mut plain);
        self.grouping.schedule(&mut grouping);
        let rows = self.grouping.rows(&grouping);
        assert_eq!(rows, plain.rows);
        assert_eq!(self.plain.rows(&plain), plain.rows);
        let context: u64 = rows.iter().map(|row| u64::from(row.context)).sum();
        let listed: u64 = grouping.rows.iter().map(|row| u64::from(row.context)).sum();
        assert_eq!(grouping.grouped.context, context - listed);
        assert_eq!(grouping.grouped.count as usize, rows.len() - grouping.rows.len());
        assert_eq!(
            (&plain.admitted, &plain.resumed, &plain.preempted, plain.number),
            (&grouping.admitted, &grouping.resumed, &grouping.preempted, grouping.number)
        );
        self.grouped_rows += u64::from(grouping.grouped.count);
        self.compare();
        self.in_flight.push_back((plain, grouping, rows));
    }

    fn update(&mut self, stop: bool) {
        let Some((plain, grouping, _)) = self.in_flight.pop_front() else { return };
        let sample = |row: &Row| match (row.samples, stop && row.id.is_multiple_of(STOPPABLE)) {
            (false, _) => Sample::Nothing,
            (true, false) => Sample::Token,
            (true, true) => Sample::Stop,
        };
        let run = |engine: &mut VllmScheduler, batch: &Batch| {
            let samples: Vec<Sample> = batch.rows.iter().map(sample).collect();
            let mut emitted: Vec<Emitted> = Vec::new();
            engine.update(batch, &samples, &mut emitted);
            emitted
        };
        let (all, some) = (run(&mut self.plain, &plain), run(&mut self.grouping, &grouping));
        all.iter().for_each(|one| *self.given.entry(one.id).or_default() += one.tokens);
        some.iter().for_each(|one| *self.reported.entry(one.id).or_default() += one.tokens);
        let marked = |emitted: &[Emitted]| -> Vec<_> {
            let marked =
                emitted.iter().filter(|one| one.finish.is_some() || one.id.is_multiple_of(STOPPABLE));
            marked.map(|one| (one.id, one.finish)).collect()
        };
        assert_eq!(marked(&all), marked(&some), "ends and watched tokens, in order");
        self.compare();
    }

    fn abort(&mut self, id: u64) {
        let late = self.grouping.unreported_tokens(id);
        assert_eq!(self.plain.unreported_tokens(id), 0);
        *self.reported.entry(id).or_default() += late;
        assert_eq!(self.plain.abort(id), self.grouping.abort(id));
        assert_eq!(self.given.get(&id).unwrap_or(&0), self.reported.get(&id).unwrap_or(&0));
        self.compare();
    }

    fn compare(&self) {
        let (plain, grouping) = (&self.plain, &self.grouping);
        assert_eq!((plain.load(), plain.totals()), (grouping.load(), grouping.totals()));
        assert!(plain.running().eq(grouping.running()) && plain.waiting().eq(grouping.waiting()));
        assert_eq!(plain.has_requests(), grouping.has_requests());
        for id in plain.running().chain(plain.waiting()) {
            let reported = self.reported.get(&id).unwrap_or(&0) + grouping.unreported_tokens(id);
            assert_eq!(self.given.get(&id).unwrap_or(&0), &reported, "tokens of {id}");
        }
    }
}

/// Returns how many rows were grouped. `deeper`: a driver that keeps more in flight than the engine asks for.
fn compare(config: &EngineConfig, steps: &[Step], deeper: usize) -> u64 {
    let depth = config.depth() + deeper;
    let mut twins = Twins::new(config);
    for step in steps {
        match *step {
            Step::Add { stream, prompt, max_tokens, priority } => {
                twins.add(stream % 6, prompt, max_tokens * 2, priority);
            }
            Step::Abort { which } => twins.abort(which),
            Step::Schedule if twins.in_flight.len() < depth => twins.schedule(),
            Step::Schedule => {}
            Step::Update { stop } => twins.update(stop),
        }
    }
    // Not all of them need have an end: some may be too long for the pool.
    for _ in 0..300 {
        if !twins.plain.has_requests() && twins.in_flight.is_empty() {
            break;
        }
        twins.schedule();
        while twins.in_flight.len() >= depth || !twins.plain.has_requests() && !twins.in_flight.is_empty() {
            twins.update(false);
        }
    }
    twins.grouped_rows
}

proptest! {
    #[test]
    fn rows_that_are_stepped_together_are_the_same(
        config in config(), steps in steps(), deeper in prop_oneof![3 => Just(0_usize), 1 => 1_usize..3]
    ) {
        compare(&config, &steps, deeper);
    }
}

/// The comparison would hold too if nothing were ever grouped.
#[test]
fn most_decode_rows_are_grouped() {
    for async_scheduling in [false, true] {
        let config = EngineConfig { async_scheduling, ..EngineConfig::default() };
        let mut twins = Twins::new(&config);
        (0..9).for_each(|stream| twins.add(stream, 40, 100, 0));
        let mut rows = 0;
        while twins.plain.has_requests() {
            twins.schedule();
            rows += twins.in_flight.back().map_or(0, |step| step.2.len());
            if twins.in_flight.len() >= config.depth() {
                twins.update(false);
            }
        }
        // Three of nine are watched, two quote what another two say.
        let expected = if async_scheduling { 4 * 97 } else { 4 * 98 };
        assert!(twins.grouped_rows >= expected, "{} of {rows}", twins.grouped_rows);
    }
}
