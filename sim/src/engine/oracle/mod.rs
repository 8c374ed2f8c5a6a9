//! Drives the scheduler call by call with a fake model runner, as the recorded cases of the real engine were made.
//! No time passes: arrivals are keyed to `schedule` calls.

mod case;
mod record;

use std::collections::VecDeque;

use super::vllm::VllmScheduler;
use super::{Batch, BatchScheduler, Emitted, EngineConfig, Finish, Row, Sample, SettingFault};
use case::{Case, CaseRequest};
use record::Line;

pub use case::OracleError;
pub use record::{Difference, first_difference};

/// Schedule calls after which a case without a bound of its own is given up.
const CALLS_MAX: u64 = 1_000_000;

/// Runs a case and returns its records, a JSON line each: one for every `schedule` call, one for every `update`.
/// `docs/engines.md` describes the case and the records.
///
/// # Errors
/// The text is no usable case, or its run can have no end.
pub fn run(case_json: &str) -> Result<Vec<String>, OracleError> {
    run_within(case_json, CALLS_MAX, VllmScheduler::new)
}

/// The same with the scheduler as the simulator uses it, which steps requests that decode together. The records are the
/// same.
///
/// # Errors
/// As [`run`].
pub fn run_grouping(case_json: &str) -> Result<Vec<String>, OracleError> {
    run_within(case_json, CALLS_MAX, VllmScheduler::grouping)
}

type Make = fn(&EngineConfig) -> Result<VllmScheduler, Vec<SettingFault>>;

fn run_within(case_json: &str, calls_max: u64, make: Make) -> Result<Vec<String>, OracleError> {
    let case = Case::read(case_json)?;
    let scheduler = make(&case.engine)
        .map_err(|faults| OracleError::Case(faults.iter().map(ToString::to_string).collect()))?;
    Driver::new(&case, scheduler, calls_max).run()
}

/// A step in flight.
struct InFlight {
    call: u64,
    batch: Batch,
    /// All its rows, those of a group too.
    rows: Vec<Row>,
}

struct Driver<'a> {
    case: &'a Case,
    scheduler: VllmScheduler,
    /// Positions still to be added, and to be aborted, in that order.
    arrivals: VecDeque<usize>,
    aborts: VecDeque<(i64, usize)>,
    /// Tokens that the fake runner sampled for each request.
    sampled: Vec<u32>,
    in_flight: VecDeque<InFlight>,
    call: i64,
    calls: u64,
    calls_max: u64,
    records: Vec<String>,
}

impl<'a> Driver<'a> {
    fn new(case: &'a Case, scheduler: VllmScheduler, calls_max: u64) -> Driver<'a> {
        let mut arrivals: Vec<usize> = (0..case.requests.len()).collect();
        arrivals.sort_by_key(|&position| (case.requests[position].arrives_at_call, position));
        let mut aborts: Vec<(i64, usize)> = case
            .requests
            .iter()
            .enumerate()
            .filter_map(|(position, request)| request.abort_at_call.map(|call| (call, position)))
            .collect();
        aborts.sort_unstable();
        Driver {
            case,
            scheduler,
            arrivals: arrivals.into(),
            aborts: aborts.into(),
            sampled: vec![0; case.requests.len()],
            in_flight: VecDeque::new(),
            call: 0,
            calls: 0,
            calls_max,
            records: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Vec<String>, OracleError> {
        while !self.arrivals.is_empty() || !self.in_flight.is_empty() || self.scheduler.has_requests() {
            self.take_in();
            if self.scheduler.has_requests() {
                if self.case.max_calls.is_some_and(|most| self.calls >= most) {
                    break;
                }
                let executed = self.schedule()?;
                let room = self.in_flight.len() < self.case.depth;
                if room && (executed || self.scheduler.has_requests()) {
                    continue;
                }
            }
            if let Some(step) = self.in_flight.pop_front() {
                self.complete(&step);
            }
        }
        Ok(self.records)
    }

    /// Adds what has arrived and aborts what is to be aborted by now. An idle engine skips to the next arrival.
    fn take_in(&mut self) {
        if let Some(&next) = self.arrivals.front()
            && self.in_flight.is_empty()
            && !self.scheduler.has_requests()
        {
            self.call = self.call.max(self.case.requests[next].arrives_at_call);
        }
        while let Some(&position) = self.arrivals.front()
            && self.case.requests[position].arrives_at_call <= self.call
        {
            self.arrivals.pop_front();
            let request = &self.case.requests[position];
            self.scheduler.add_ranked(request.engine.clone(), position as u64);
            if request.stops_after.is_some() {
                self.scheduler.report_each_token(position as u64);
            }
        }
        while let Some(&(call, position)) = self.aborts.front()
            && call <= self.call
        {
            self.aborts.pop_front();
            self.scheduler.abort(position as u64);
        }
    }

    /// One `schedule` call. Whether its batch has tokens.
    fn schedule(&mut self) -> Result<bool, OracleError> {
        let mut batch = Batch::default();
        self.scheduler.schedule(&mut batch);
        let rows = self.scheduler.rows(&batch);
        self.record_schedule(&batch, &rows);
        let executed = !batch.is_empty();
        let idle = !executed
            && batch.preempted.is_empty()
            && self.in_flight.iter().all(|step| step.batch.is_empty());
        if idle && self.arrivals.is_empty() && self.aborts.is_empty() && self.case.max_calls.is_none() {
            self.check_stalled()?;
        }
        self.in_flight.push_back(InFlight { call: self.call as u64, batch, rows });
        self.call += 1;
        self.calls += 1;
        if self.case.max_calls.is_none() && self.calls >= self.calls_max {
            return Err(OracleError::Endless { calls: self.calls_max });
        }
        Ok(executed)
    }

    /// An engine that scheduled nothing, with nothing in flight and nothing to come, will never schedule anything.
    fn check_stalled(&self) -> Result<(), OracleError> {
        if !self.scheduler.has_requests() {
            return Ok(());
        }
        let known = self.scheduler.running().chain(self.scheduler.waiting());
        Err(OracleError::Stalled {
            call: self.call as u64,
            waiting: known.map(|id| self.name(id).to_owned()).collect(),
        })
    }

    /// Samples for, updates with and records the batch of a step.
    fn complete(&mut self, step: &InFlight) {
        let mut samples = Vec::with_capacity(step.batch.rows.len());
        for row in &step.batch.rows {
            samples.push(if row.samples { self.sample(row.id) } else { Sample::Nothing });
        }
        // Of a row that is not listed, the token is not reported with this update.
        let listed = |row: &Row| step.batch.rows.iter().any(|other| other.id == row.id);
        let received = |row: &&Row| !listed(row) && self.scheduler.knows(row.id);
        let grouped: Vec<u64> = step.rows.iter().filter(received).map(|row| row.id).collect();
        let mut emitted = Vec::new();
        self.scheduler.update(&step.batch, &samples, &mut emitted);
        let token = |row: &Row| match emitted.iter().find(|one| one.id == row.id) {
            Some(one) => Some(Emitted { tokens: 1, ..*one }),
            None if grouped.contains(&row.id) => Some(Emitted { id: row.id, tokens: 1, finish: None }),
            None => None,
        };
        let tokens: Vec<Emitted> = step.rows.iter().filter_map(token).collect();
        self.record_update(step.call, &tokens);
    }

    fn sample(&mut self, id: u64) -> Sample {
        let count = &mut self.sampled[id as usize];
        *count += 1;
        if self.case.requests[id as usize].stops_after == Some(*count) { Sample::Stop } else { Sample::Token }
    }

    fn name(&self, id: u64) -> &'a str {
        let request: &CaseRequest = &self.case.requests[id as usize];
        &request.name
    }

    fn record_schedule(&mut self, batch: &Batch, rows: &[Row]) {
        let counted = |&(id, tokens): &(u64, u32)| (self.name(id), tokens);
        let mut resumed: Vec<(&str, u32)> = batch.resumed.iter().map(counted).collect();
        resumed.sort_unstable();
        let mut preempted: Vec<&str> = batch.preempted.iter().map(|&id| self.name(id)).collect();
        preempted.sort_unstable();
        let line = Line::new()
            .number("call", self.call as u64)
            .counts("scheduled", rows.iter().map(|row| (self.name(row.id), row.tokens)))
            .counts("admitted", batch.admitted.iter().map(counted))
            .counts("resumed", resumed)
            .names("preempted", preempted)
            .names("running", self.scheduler.running().map(|id| self.name(id)))
            .names("waiting", self.scheduler.waiting().map(|id| self.name(id)))
            .number("free_blocks", u64::from(self.scheduler.free_blocks()))
            .finish();
        self.records.push(line);
    }

    fn record_update(&mut self, call: u64, emitted: &[Emitted]) {
        let finished = emitted.iter().filter_map(|one| {
            let word = match one.finish? {
                Finish::Length => "length",
                Finish::Stop => "stop",
            };
            Some((self.name(one.id), word))
        });
        let line = Line::new()
            .number("update", call)
            .counts("emitted", emitted.iter().map(|one| (self.name(one.id), one.tokens)))
            .pairs("finished", finished)
            .number("free_blocks", u64::from(self.scheduler.free_blocks()))
            .finish();
        self.records.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"id":"a","arrives_at_call":3,"prompt":[{"stream":1,"len":20}],"max_tokens":2}"#;

    fn case(engine: &str, requests: &[&str]) -> String {
        format!(r#"{{"engine":{{{engine}}},"requests":[{}]}}"#, requests.join(","))
    }

    #[test]
    fn a_run_is_one_line_a_call() {
        let lines = run(&case(r#""num_blocks":11"#, &[REQUEST])).unwrap();
        assert_eq!(
            lines[0],
            r#"{"call":3,"scheduled":[["a",20]],"admitted":[["a",0]],"resumed":[],"preempted":[],"running":["a"],"waiting":[],"free_blocks":8}"#
        );
        assert_eq!(
            lines[3],
            r#"{"update":4,"emitted":[["a",1]],"finished":[["a","length"]],"free_blocks":10}"#
        );
        assert_eq!(lines.len(), 6, "the end is reported in an empty call");
    }

    #[test]
    fn all_faults_of_a_case_are_named() {
        let broken = case(
            r#""watermark":2.0"#,
            &[
                REQUEST,
                REQUEST,
                r#"{"id":"b","arrives_at_call":9223372036854775807,"prompt":[],"max_tokens":0}"#,
                r#"{"id":"c","arrives_at_call":0,"prompt":[{"output_of":"d","len":1},{"len":1}],"max_tokens":1}"#,
                r#"{"id":"e","arrives_at_call":0,"prompt":[{"stream":1,"start":7,"len":4294967295}],"max_tokens":1}"#,
            ],
        );
        let OracleError::Case(faults) = run(&broken).unwrap_err() else { panic!("no faults") };
        let fields: Vec<&str> = faults.iter().filter_map(|fault| fault.split(": ").next()).collect();
        let expected = [
            "engine.watermark",
            "requests[1].id",
            "requests[2].max_tokens",
            "requests[2].arrives_at_call",
            "requests[2].prompt",
            "requests[3].prompt[0]",
            "requests[3].prompt[1]",
            "requests[4].prompt[0]",
            "requests[4].prompt",
        ];
        assert_eq!(fields, expected, "{faults:?}");
    }

    #[test]
    fn a_text_that_is_no_case_is_an_error_with_its_place() {
        let error = run(&case(r#""blocks":3"#, &[])).unwrap_err().to_string();
        assert!(error.contains("unknown field `blocks`") && error.contains("line 1, column"), "{error}");
        assert!(matches!(run(""), Err(OracleError::Syntax { .. })));
        assert!(matches!(run(&case("", &[r#"{"id":"a"}"#])), Err(OracleError::Syntax { .. })));
    }

    #[test]
    fn a_request_that_never_fits_is_an_error_that_names_it() {
        let error = run(&case(r#""num_blocks":2"#, &[REQUEST])).unwrap_err();
        assert_eq!(error, OracleError::Stalled { call: 3, waiting: vec!["a".into()] });
    }

    #[test]
    fn a_request_that_preempts_itself_for_ever_is_an_error() {
        let engine = r#""num_blocks":2,"max_num_batched_tokens":16,"scheduler_reserve_full_isl":false,"enable_prefix_caching":false"#;
        let error = run_within(&case(engine, &[REQUEST]), 100, VllmScheduler::new).unwrap_err();
        assert_eq!(error, OracleError::Endless { calls: 100 });
    }

    #[test]
    fn no_requests_are_no_records() {
        assert_eq!(run(&case("", &[])), Ok(Vec::new()));
    }
}
