//! The gateway in a run: who goes in, who waits, who is refused, and what the records say of it.

use super::tests::{MS, Seen, config, open, request, simulate, told};
use super::*;
use crate::engine::EngineConfig;
use crate::engine::vllm::VllmScheduler;
use crate::setup::GatewayConfig;
use scaleproof_pack::fields::Reader;
use scaleproof_pack::record::Outcome;
use scaleproof_pack::schedule::Planned;
use scaleproof_policy::{AdmissionPolicy, RouteRequest};

fn with_admission(text: &str) -> RunConfig {
    let admission = Reader::read("f", text, |fields| AdmissionPolicy::read(fields, &[])).unwrap();
    RunConfig { gateway: GatewayConfig { admission, ..GatewayConfig::default() }, ..config() }
}

#[test]
fn who_waits_goes_in_with_the_next_end_and_who_waits_too_long_is_rejected() {
    let config =
        with_admission("{policy: in_flight_limit, max_in_flight: 1, max_queue: 2, max_wait_seconds: 0.055}");
    // Three steps of 10 ms each; one inside at a time.
    let requests = (0..5).map(|i| request(i, 100, 3)).collect();
    let records = simulate(&config, &EngineConfig::default(), &open(requests));
    assert_eq!(
        told(&records),
        [
            (Outcome::Ok, Some(10), 30),
            (Outcome::Ok, Some(40), 60),
            // It would go in at 60, after 58.
            (Outcome::Rejected, None, 57),
            (Outcome::Rejected, None, 4),
            (Outcome::Rejected, None, 5),
        ]
    );
    assert_eq!(
        records.iter().map(|r| r.reason).collect::<Vec<_>>()[2..4],
        ["waited too long at the gateway", "gateway queue full"]
    );
    assert!(records[2].replica.is_none() && records[2].computed_tokens == Some(0));
    assert_eq!(records[1].sent, Nanos(MS), "the wait is part of its latency");
}

#[test]
fn a_client_may_leave_the_queue_and_makes_room_there() {
    let config = with_admission("{policy: in_flight_limit, max_in_flight: 1, max_queue: 1}");
    let leaves = Planned { cancel_after: Some(Nanos(10 * MS)), ..request(1, 100, 3) };
    let records = simulate(
        &config,
        &EngineConfig::default(),
        &open(vec![request(0, 100, 3), leaves, request(20, 100, 3)]),
    );
    let ended: Vec<(Outcome, u64)> =
        told(&records).into_iter().map(|(outcome, _, end)| (outcome, end)).collect();
    assert_eq!(ended, [(Outcome::Ok, 30), (Outcome::Cancelled, 11), (Outcome::Ok, 60)]);
}

#[test]
fn a_run_takes_policies_of_ones_own() {
    struct Last;
    impl Router for Last {
        fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
            fleet.available().last().copied()
        }
    }
    let config = RunConfig { replicas: 3, ..config() };
    let policies = Policies { router: Box::new(Last), admission: None };
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::new(&EngineConfig::default()).unwrap())
    };
    let requests = (0..4).map(|i| request(i, 100, 3)).collect();
    let summary = run_with(&config, policies, &open(requests), &engine, &mut Seen::default()).unwrap();
    let steps: Vec<bool> = summary.replicas.iter().map(|totals| totals.steps > 0).collect();
    assert_eq!(steps, [false, false, true]);
}

#[test]
fn what_was_computed_is_in_the_record() {
    let cancelled = Planned { cancel_after: Some(Nanos(15 * MS)), ..request(0, 100, 9) };
    let early = Planned { cancel_after: Some(Nanos(12 * MS)), ..request(1, 300, 9) };
    let engine = EngineConfig { max_num_batched_tokens: 128, ..EngineConfig::default() };
    let records = simulate(&config(), &engine, &open(vec![cancelled, early]));
    // The first has its prompt and one token; of the second a step of 127 tokens was scheduled at 10.
    let computed: Vec<Option<u32>> = records.iter().map(|record| record.computed_tokens).collect();
    assert_eq!(computed, [Some(100), Some(127)]);
}
