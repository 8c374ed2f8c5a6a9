use super::*;
use crate::fleet::{LoadSource, Polled};
use crate::gate::{Gate, Size, Surroundings};
use crate::request::Alone;
use scaleproof_pack::fields::Reader;

const MS: u64 = 1_000_000;

/// A prompt token takes 0.1 ms, a decode step 1 ms and 0.5 ms for each row.
struct Linear;

impl Predictor for Linear {
    fn ingest_ms(&self, _: u32) -> f64 {
        0.0
    }

    fn prefill_ms(&self, prompt_tokens: f64, _: f64, _: f64) -> f64 {
        0.1 * prompt_tokens
    }

    fn decode_step_ms(&self, decoding: f64, _: f64) -> f64 {
        1.0 + 0.5 * decoding
    }
}

/// Two classes, with TTFT cutoffs of 100 and 1,000 ms and TPOT cutoffs of 10 and 20 ms.
fn classes() -> Vec<Class> {
    let class = |name: &str, ttft_ms: f64, tpot_ms: f64| Class {
        name: name.to_owned(),
        mix: 0.5,
        input_tokens: scaleproof_pack::manifest::Distribution::Fixed(100.0),
        output_tokens: scaleproof_pack::manifest::Distribution::Fixed(10.0),
        request_ttft_cutoff_ms: ttft_ms,
        request_tpot_cutoff_ms: tpot_ms,
        priority: 0,
        session: None,
        rule: None,
    };
    vec![class("chat", 100.0, 10.0), class("batch", 1000.0, 20.0)]
}

fn read(text: &str) -> Result<AdmissionPolicy, String> {
    Reader::read("f", text, |fields| AdmissionPolicy::read(fields, &classes()))
        .map_err(|faults| faults.to_string())
}

/// A gate before a fleet of one replica, driven by hand.
struct Driven {
    gate: Gate<u32>,
    fleet: Fleet,
    now: Nanos,
    tickets: u32,
}

impl Driven {
    fn new(text: &str) -> Driven {
        let policy = build(&read(text).unwrap()).unwrap();
        Driven {
            gate: Gate::new(policy),
            fleet: Fleet::new(1, LoadSource::InFlight),
            now: Nanos::ZERO,
            tickets: 0,
        }
    }

    fn size(class: u16) -> Size {
        Size { class, input_tokens: 100, output_tokens: 10 }
    }

    /// What an arrival is told. Its ticket is the number of arrivals before it.
    fn arrive(&mut self, class: u16) -> Decision {
        let Size { input_tokens, output_tokens, .. } = Driven::size(class);
        let request = RouteRequest {
            now: self.now,
            class,
            priority: 0,
            input_tokens,
            output_tokens,
            content: &Alone(0),
        };
        let ticket = self.tickets;
        self.tickets += 1;
        let around = Surroundings { now: self.now, fleet: &self.fleet, predictor: &Linear };
        self.gate.arrive(ticket, &request, around)
    }

    fn admitted(&mut self, class: u16) -> bool {
        self.arrive(class) == Decision::Admit
    }

    /// One that was let in has ended, after a first token; returns who goes on.
    fn end(&mut self, class: u16, arrived: Nanos, ttft_ms: f64) -> Vec<u32> {
        let size = Driven::size(class);
        self.gate.first_token(size);
        let ended = Ended {
            class,
            arrived,
            ok: true,
            ttft_ms: Some(ttft_ms),
            tpot_ms: Some(1.0),
            e2e_ms: ttft_ms + 9.0,
            output_tokens: 10,
        };
        let around = Surroundings { now: self.now, fleet: &self.fleet, predictor: &Linear };
        self.gate.ended(size, true, &ended, around);
        std::iter::from_fn(|| self.gate.release(around)).collect()
    }
}

#[test]
fn an_in_flight_limit_queues_refuses_and_goes_on_in_order() {
    let mut driven =
        Driven::new("{policy: in_flight_limit, max_in_flight: 2, max_queue: 2, max_wait_seconds: 3}");
    assert!(driven.admitted(0) && driven.admitted(1));
    for class in [1, 0] {
        driven.now = Nanos(driven.now.0 + MS);
        assert_eq!(driven.arrive(class), Decision::Wait { at_most: Nanos(3000 * MS) });
    }
    assert_eq!(driven.arrive(0), Decision::Refuse("gateway queue full"));
    assert_eq!(driven.end(0, Nanos::ZERO, 5.0), [2], "the first that came, whatever its class");
    driven.gate.left(3, 0);
    assert_eq!(driven.end(1, Nanos::ZERO, 5.0), Vec::<u32>::new(), "the other one left");
    assert!(driven.admitted(0));
}

#[test]
fn queue_limits_count_those_without_a_first_token() {
    let mut driven = Driven::new("{policy: queue_limit, max_queued_tokens_per_replica: 150}");
    assert!(driven.admitted(0) && driven.admitted(0));
    assert!(!driven.admitted(0), "200 tokens wait");
    driven.gate.first_token(Driven::size(0));
    assert!(driven.admitted(0));
    let mut driven = Driven::new("{policy: queue_limit, max_queued_reqs_per_replica: 1}");
    assert!(driven.admitted(0) && !driven.admitted(1));
}

#[test]
fn a_bucket_holds_its_burst_and_fills_at_its_rate() {
    let mut driven = Driven::new("{policy: token_bucket, classes: {chat: {rate_rps: 2, burst: 3}}}");
    assert_eq!((0..5).filter(|_| driven.admitted(0)).count(), 3);
    assert!(driven.admitted(1), "not limited");
    driven.now = Nanos(499 * MS);
    assert!(!driven.admitted(0));
    driven.now = Nanos(501 * MS);
    assert!(driven.admitted(0) && !driven.admitted(0));
    driven.now = Nanos(100_000 * MS);
    assert_eq!((0..5).filter(|_| driven.admitted(0)).count(), 3, "never more than the burst");
}

#[test]
fn saturation_sheds_the_classes_in_their_turn() {
    let mut driven = Driven::new("{policy: shed, shed_at: {batch: 1, chat: 2}}");
    let mut shed = |waiting, kv_usage| {
        driven.fleet.polled(0, Polled { waiting, running: 0, kv_usage });
        [driven.admitted(0), driven.admitted(1)]
    };
    assert_eq!(shed(4, 0.79), [true, true]);
    assert_eq!(shed(5, 0.0), [true, false]);
    assert_eq!(shed(0, 0.8), [true, false]);
    assert_eq!(shed(10, 0.0), [false, false]);
}

#[test]
fn aimd_rises_with_use_and_falls_once_for_a_congestion() {
    let mut driven = Driven::new("{policy: aimd, initial_limit: 10, decrease: 0.5}");
    let fill = |driven: &mut Driven| (0..100).filter(|_| driven.admitted(0)).count();
    assert_eq!(fill(&mut driven), 10);
    driven.now = Nanos(1000 * MS);
    // Ten successes add 10 / 10; ten misses of one congestion halve once, and one that arrived later halves again.
    (0..10).for_each(|_| {
        driven.end(0, Nanos(900 * MS), 100.0);
        assert!(driven.admitted(0));
    });
    assert_eq!(fill(&mut driven), 0, "9.99: the limit rose by a bit less than 1");
    driven.end(0, Nanos(900 * MS), 100.0);
    assert_eq!(fill(&mut driven), 2, "11");
    (0..11).for_each(|_| drop(driven.end(0, Nanos(900 * MS), 101.0)));
    assert_eq!(fill(&mut driven), 5);
    driven.now = Nanos(2000 * MS);
    (0..5).for_each(|_| drop(driven.end(0, Nanos(1000 * MS), 101.0)));
    assert_eq!(fill(&mut driven), 4, "2.7, but never below 4");
}

#[test]
fn the_gradient_falls_while_the_latency_rises() {
    let mut driven = Driven::new("{policy: gradient, initial_limit: 20, smoothing: 1}");
    let fill = |driven: &mut Driven| (0..100).filter(|_| driven.admitted(0)).count();
    assert_eq!(fill(&mut driven), 20);
    driven.end(0, Nanos::ZERO, 10.0);
    assert_eq!(fill(&mut driven), 5, "20 + sqrt 20 = 24.5");
    driven.end(0, Nanos::ZERO, 40.0);
    (0..22).for_each(|_| drop(driven.end(0, Nanos::ZERO, 0.0)));
    assert_eq!(fill(&mut driven), 16, "24.5 x 0.5 + 4.9 = 17.2, one is inside");
}

#[test]
fn a_request_predicted_too_late_is_refused() {
    let mut driven = Driven::new("policy: deadline");
    // 0.1 ms a token, 100 tokens each, and half of a step of 1 ms that is under way: the tenth would need 100.5.
    assert_eq!((0..20).filter(|_| driven.admitted(0)).count(), 9);
    assert!(driven.admitted(1));
    assert_eq!(driven.arrive(0), Decision::Refuse("predicted TTFT too long"));
}

#[test]
fn the_decode_load_to_come_is_what_counts() {
    let mut driven = Driven::new("{policy: decode_load, margin: 1}");
    // 1 + 0.5 rows <= 10 allows 18 rows, own included; the TTFT cutoff would refuse the tenth that waits.
    for _ in 0..18 {
        assert!(driven.admitted(0));
        driven.gate.first_token(Driven::size(0));
    }
    assert_eq!(driven.arrive(0), Decision::Refuse("predicted decode load too high"));
    let mut driven = Driven::new("policy: decode_load");
    for _ in 0..12 {
        assert!(driven.admitted(0));
        driven.gate.first_token(Driven::size(0));
    }
    (0..6).for_each(|_| assert!(driven.admitted(0)));
    assert_eq!(driven.arrive(0), Decision::Refuse("predicted decode load too high"), "12 decode and 6 will");
}

#[test]
fn reservations_hold_and_weights_decide_who_goes_on() {
    let text = "{policy: fair_share, max_in_flight: 4, classes: {chat: {reserved: 2, weight: 3}, batch: {weight: 1}}}";
    let mut driven = Driven::new(text);
    assert!(driven.admitted(1) && driven.admitted(1));
    assert!(!driven.admitted(1), "two seats are chat's");
    assert!(driven.admitted(0) && driven.admitted(0) && !driven.admitted(0));
    // Ticket 2 is batch's, 5 is chat's. Of batch 1 is inside, of chat 2: 1/1 against 2/3.
    assert_eq!(driven.end(1, Nanos::ZERO, 1.0), [5]);
    assert_eq!(driven.end(0, Nanos::ZERO, 1.0), [2]);
}

#[test]
fn faults_name_the_field_and_the_classes() {
    for (text, fault) in [
        ("{policy: tokens}", "policy: found \"tokens\"; expected one of: none, queue_limit"),
        ("{policy: queue_limit}", "max_queued_reqs_per_replica: found no limit; expected this one, or"),
        ("{policy: aimd, decrease: 1.5}", "decrease: found 1.5; expected a number above 0 and at most 1"),
        ("{policy: gradient, min_limit: 9, max_limit: 8}", "max_limit: found 8; expected at least min_limit"),
        (
            "{policy: shed, shed_at: {chatt: 1}}",
            "shed_at.chatt: found a class that the manifest does not have",
        ),
        ("{policy: none, max_queue: 1}", "max_queue: found an unknown field"),
        (
            "{policy: fair_share, max_in_flight: 2, classes: {chat: {reserved: 2}}}",
            "classes: found 2 seats reserved of 2; expected fewer",
        ),
    ] {
        let found = read(text).unwrap_err();
        assert!(found.contains(fault), "{found}");
    }
    for (word, _) in
        Kind::WORDS.iter().filter(|(_, kind)| matches!(kind, Kind::Aimd | Kind::Deadline | Kind::None))
    {
        assert_eq!(read(&format!("policy: {word}")).unwrap().word(), *word);
    }
}
