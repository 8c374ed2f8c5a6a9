//! Everything that `emulate` can do to a replica, and how the attempts end that meet it.

use crate::fleet::{Fleet, INPUT, run, run_and, schedule};
use scaleproof_emulate::{Fault, Misbehaviour};
use scaleproof_pack::record::{Outcome, Record, TokensFrom};

/// Longer than anything takes here that comes to its end.
const PATIENT_MS: u64 = 60_000;
/// Shorter than anything that does not.
const IMPATIENT_MS: u64 = 1_000;

/// Twelve requests of eight tokens to one replica under a fault.
fn under(fault: Fault, patience_ms: u64) -> Vec<Record> {
    let fleet = Fleet::new(1);
    let mut client = fleet.client(patience_ms);
    fleet.fault(0, &fault);
    run(&mut client, &schedule(12, 8)).0
}

fn misbehaving(how: Misbehaviour, patience_ms: u64) -> Vec<Record> {
    under(Fault::Misbehave { how, probability: 1.0 }, patience_ms)
}

#[track_caller]
fn all(records: &[Record], outcome: Outcome, reason: &str, output_tokens: u32) {
    for record in records {
        let found = (record.outcome, record.reason, record.output_tokens);
        assert_eq!(found, (outcome, reason, output_tokens), "request {}: {:?}", record.id, record.wire);
    }
}

/// All came to their end, with the server's own counts.
#[track_caller]
fn well(records: &[Record]) {
    all(records, Outcome::Ok, "", 8);
    for record in records {
        let wire = record.wire.as_ref().unwrap();
        assert_eq!((wire.usage_input_tokens, wire.tokens_from), (Some(INPUT), TokensFrom::Usage));
        assert_eq!(wire.chunks.iter().map(|chunk| chunk.1).sum::<u32>(), 8);
        assert!(record.first_token.unwrap() <= record.ended);
    }
}

#[test]
fn without_a_fault_all_is_well() {
    let fleet = Fleet::new(2);
    let (records, live) = run(&mut fleet.client(PATIENT_MS), &schedule(40, 8));
    well(&records);
    assert!(records.iter().all(|record| record.replica == Some((record.id % 2) as u32)), "round robin");
    assert_eq!((live.gaps, live.block_size), (Vec::new(), Some(16)));
}

#[test]
fn a_stalled_engine_costs_patience_and_no_more() {
    for health in [true, false] {
        let records = under(Fault::Stall { health }, IMPATIENT_MS);
        all(&records, Outcome::Timeout, "no whole answer in time", 0);
    }
    // No block can be had by anybody.
    let records = under(Fault::KvCut { share: 1.0 }, IMPATIENT_MS);
    all(&records, Outcome::Timeout, "no whole answer in time", 0);
}

#[test]
fn what_only_delays_is_waited_for() {
    well(&under(Fault::Slow { factor: 20.0 }, PATIENT_MS));
    well(&under(Fault::KvCut { share: 0.99 }, PATIENT_MS));
    let records = under(Fault::Latency { request_ms: 30.0, token_ms: 20.0 }, PATIENT_MS);
    well(&records);
    assert!(records.iter().all(|record| record.ttft().unwrap().millis() >= 50.0));
}

#[test]
fn refusals_are_rejections_and_a_broken_answer_is_an_error() {
    for status in [429, 503] {
        let refuse = Fault::Refuse { status, probability: 1.0, retry_after_seconds: Some(1) };
        let records = under(refuse, PATIENT_MS);
        all(&records, Outcome::Rejected, "refused", 0);
        assert!(records.iter().all(|record| record.wire.as_ref().unwrap().http_status == Some(status)));
    }
    let records =
        under(Fault::Refuse { status: 500, probability: 1.0, retry_after_seconds: None }, PATIENT_MS);
    all(&records, Outcome::Error, "HTTP error", 0);
    let records = under(Fault::Drop { after_tokens: 3, probability: 1.0 }, PATIENT_MS);
    all(&records, Outcome::Error, "the stream broke", 3);
}

#[test]
fn a_broken_protocol_is_an_error_and_an_odd_one_is_read() {
    let records = misbehaving(Misbehaviour::InvalidSse, PATIENT_MS);
    all(&records, Outcome::Error, "unreadable stream", 1);
    let records = misbehaving(Misbehaviour::NoReply, PATIENT_MS);
    all(&records, Outcome::Error, "no answer: the connection broke", 0);
    for odd in [Misbehaviour::SplitUtf8, Misbehaviour::UsageOnEveryChunk, Misbehaviour::NeverDone] {
        well(&misbehaving(odd, PATIENT_MS));
    }
    // All tokens came; that the stream stays open changes nothing of them.
    well(&misbehaving(Misbehaviour::NeverEnds, PATIENT_MS));
}

#[test]
fn a_slow_loris_is_given_up() {
    // Some 200 bytes a token, 5 ms each: a few tokens at most.
    for record in misbehaving(Misbehaviour::ByteByByte, IMPATIENT_MS) {
        assert_eq!((record.outcome, record.reason), (Outcome::Timeout, "no whole answer in time"));
        assert!(record.output_tokens < 8);
    }
}

#[test]
fn a_process_that_dies_loses_what_it_had_and_refuses_the_rest() {
    let fleet = Fleet::new(1);
    let mut client = fleet.client(PATIENT_MS);
    let stop = || fleet.fault(0, &Fault::Stop { start_up_seconds: None });
    // Answers of three seconds and a half: those sent until the process dies are in flight then.
    let (records, _) = run_and(&mut client, &schedule(600, 3500), Some((20, Box::new(stop))));
    let lost = records.iter().filter(|record| record.outcome == Outcome::Lost).count();
    assert!(lost >= 20, "{lost} were lost");
    for record in &records {
        let expected = [(Outcome::Lost, "the replica died"), (Outcome::Error, "cannot connect")];
        assert!(expected.contains(&(record.outcome, record.reason)), "{record:?}");
    }
    let last = records.last().unwrap();
    assert_eq!(last.reason, "cannot connect");
    // It comes back, and so does the client.
    fleet.fault(0, &Fault::Start { start_up_seconds: 0.0 });
    well(&run(&mut client, &schedule(12, 8)).0);
}

#[test]
fn a_fault_of_one_replica_is_that_ones() {
    let fleet = Fleet::new(2);
    let mut client = fleet.client(PATIENT_MS);
    fleet.fault(1, &Fault::Refuse { status: 503, probability: 1.0, retry_after_seconds: None });
    let (records, _) = run(&mut client, &schedule(20, 8));
    let of = |replica| -> Vec<Record> {
        records.iter().filter(|record| record.replica == Some(replica)).cloned().collect()
    };
    well(&of(0));
    all(&of(1), Outcome::Rejected, "refused", 0);
    fleet.fault(1, &Fault::Heal {});
    well(&run(&mut client, &schedule(20, 8)).0);
}
