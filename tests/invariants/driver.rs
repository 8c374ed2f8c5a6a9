//! The live driver against the simulator: with a virtual clock, and answers that end when the simulator's did, it sends the
//! same requests at the same times, whatever the schedule.

use super::{Collected, Read, simulate_grouping};
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::Load;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use scaleproof_validate::Dispatch;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Simulates a case, then drives its schedule against the same answers.
pub fn sends_what_the_simulator_consumes(mut read: Read) {
    // The simulator settles a delayed token and a refusal before its client knows of them, also one that the client does
    // not wait for. A client cannot, so what it then takes first would differ.
    read.config.front_end.output_token = Nanos::ZERO;
    let closed = matches!(read.schedule.load, Load::Closed { .. });
    let limits = &mut read.config.limits;
    if closed {
        (limits.max_queued_requests, limits.max_queued_tokens) = (None, None);
    }
    let longest = u64::from(limits.max_request_tokens);
    let (Collected { records, .. }, _) = simulate_grouping(&read);
    let too_long =
        |record: &Record| u64::from(record.input_tokens) + u64::from(record.requested_tokens) > longest;
    if closed && records.iter().any(too_long) {
        return;
    }
    let mut answers: BTreeMap<(bool, u64), (usize, &Record)> = records
        .iter()
        .enumerate()
        .map(|(order, record)| ((record.warmup, record.id), (order, record)))
        .collect();
    let mut dispatch = Dispatch::new(&read.schedule, read.config.enough, Nanos::ZERO);
    let mut ends: BinaryHeap<Reverse<(Nanos, usize, RequestRef)>> = BinaryHeap::new();
    loop {
        let next_end = ends.peek().map(|Reverse((at, ..))| *at);
        match dispatch.next() {
            // Who is sent at a moment comes before who ends at it.
            Some(due) if next_end.is_none_or(|end| due.at <= end) => {
                let sent = dispatch.take(due.at).expect("its time has come");
                let place = (sent.request.warmup, sent.request.index);
                let (order, record) = answers.remove(&place).expect("the simulator sent it too, once");
                assert_eq!(
                    (sent.at, dispatch.planned(sent.request).class),
                    (record.sent, record.class),
                    "{record:?}"
                );
                ends.push(Reverse((record.ended, order, sent.request)));
            }
            _ => {
                let Some(Reverse((at, order, request))) = ends.pop() else { break };
                dispatch.ended(request, records[order].outcome, at);
            }
        }
    }
    assert!(dispatch.is_over() && answers.is_empty(), "never sent: {answers:?}");
}
