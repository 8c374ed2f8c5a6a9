use super::*;
use crate::record::{Outcome, Record};
use crate::timeline::TimelineRow;

const SECOND: u64 = 1_000_000_000;

/// Ten minutes of two replicas that serve, a row each second, bent by `change`, which removes a row by None.
fn rows(change: impl Fn(u64, TimelineRow) -> Option<TimelineRow>) -> Vec<TimelineRow> {
    let healthy = |second: u64, replica| TimelineRow {
        at: Nanos(second * SECOND),
        replica,
        waiting: u32::from(second.is_multiple_of(3)),
        running: 10,
        kv_blocks_used: 400,
        kv_blocks_total: 1000,
        generation_tokens: 100 * second,
        ttft_count: 5 * second,
        ttft_sum: Nanos(second * SECOND),
        ..TimelineRow::default()
    };
    (0..600)
        .flat_map(|second| [(second, 0), (second, 1)])
        .filter_map(|(second, replica)| change(second, healthy(second, replica)))
        .collect()
}

/// Five attempts a second at each replica, with a TTFT of 0.2 s as the servers see it, bent by `change`.
fn records(change: impl Fn(u64, Record) -> Record) -> Vec<Record> {
    let one = |id: u64| {
        let mut record = crate::testing::ok(id, 0, 0, 0, 2);
        record.sent = Nanos(id * SECOND / 10);
        record.scheduled = record.sent;
        record.first_token = Some(record.sent + Nanos(SECOND / 5));
        record.ended = record.sent + Nanos(2 * SECOND);
        record.replica = Some(u32::from(id % 2 == 1));
        change(record.sent.0 / SECOND, record)
    };
    (0..5980).map(one).collect()
}

fn names(rows: &[TimelineRow], records: &[Record]) -> Vec<(&'static str, u64, Option<u64>, Option<u32>)> {
    named(&Observed::of(rows, records))
}

fn named(observed: &Observed<'_>) -> Vec<(&'static str, u64, Option<u64>, Option<u32>)> {
    let second = |at: Nanos| at.0 / SECOND;
    let fired = fired(observed, Timing::default());
    fired.iter().map(|f| (f.alert, second(f.at), f.cleared_at.map(second), f.replica)).collect()
}

#[test]
fn a_healthy_fleet_is_quiet() {
    assert_eq!(names(&rows(|_, row| Some(row)), &records(|_, record| record)), []);
    assert_eq!(names(&[], &[]), []);
}

#[test]
fn a_dead_replica_is_down_and_explains_the_rest() {
    // The other one queues without a break meanwhile, and attempts are lost.
    let dead = |second: u64| (200..300).contains(&second);
    let rows = rows(|second, row| match row.replica {
        1 if dead(second) => None,
        1 if second >= 300 => Some(TimelineRow {
            generation_tokens: 100 * (second - 300),
            ttft_count: 0,
            ttft_sum: Nanos(0),
            ..row
        }),
        1 => Some(row),
        _ => Some(TimelineRow { waiting: if (200..400).contains(&second) { 50 } else { 0 }, ..row }),
    });
    let lost = |second, record: Record| match (second, record.replica) {
        (199, Some(1)) => Record { outcome: Outcome::Lost, ended: Nanos(200 * SECOND), ..record },
        _ => record,
    };
    assert_eq!(names(&rows, &records(lost)), [("ReplicaDown", 210, Some(300), Some(1))]);
}

#[test]
fn a_replica_taken_out_on_purpose_is_not_down() {
    let rows = rows(|second, row| (row.replica == 0 || second < 200).then_some(row));
    let (retired, at) = (vec![(1, Nanos(200 * SECOND))], Nanos(199 * SECOND));
    assert_eq!(named(&Observed { retired, ..Observed::of(&rows, &[]) }), []);
    assert_eq!(named(&Observed { retired: vec![(0, at)], ..Observed::of(&rows, &[]) })[0].0, "ReplicaDown");
}

#[test]
fn a_hung_replica_is_stuck() {
    let frozen = |second: u64| if (200..260).contains(&second) { 200 } else { second };
    let hang = |second, row: TimelineRow| match row.replica {
        1 => Some(TimelineRow {
            waiting: if frozen(second) == 200 { 9 } else { 0 },
            generation_tokens: 100 * frozen(second),
            ..row
        }),
        _ => Some(row),
    };
    // The window without a token is full at 220 + 5, and 15 s later the alert fires.
    assert_eq!(names(&rows(hang), &records(|_, r| r)), [("ReplicaStuck", 235, Some(260), Some(1))]);
}

#[test]
fn a_slow_replica_is_slow_and_explains_the_queues() {
    let bent = |running: u32, tokens: u64| {
        rows(move |second, row| {
            let slow = second.clamp(200, 400) - 200;
            let waiting = if (200..400).contains(&second) { 30 } else { 0 };
            Some(match row.replica {
                1 => TimelineRow {
                    waiting,
                    running,
                    generation_tokens: row.generation_tokens - (100 - tokens) * slow,
                    ..row
                },
                _ => TimelineRow { waiting, ..row },
            })
        })
    };
    // Below half when three of a window's four intervals are slow, at 215, and 30 s later the alert fires.
    assert_eq!(names(&bent(10, 20), &[]), [("ReplicaSlow", 245, Some(410), Some(1))]);
    let busier = names(&bent(40, 95), &[]);
    assert_eq!(busier.first().map(|fired| fired.0), Some("ReplicaSlow"), "as many tokens for more requests");
    assert!(names(&bent(10, 60), &[]).iter().all(|fired| fired.0 == "QueueSaturated"), "not half as fast");
    let larger_batch = rows(|second, row| {
        let generation_tokens = if row.replica == 1 { 130 * second } else { row.generation_tokens };
        Some(TimelineRow { running: if row.replica == 1 { 40 } else { 10 }, generation_tokens, ..row })
    });
    assert_eq!(names(&larger_batch, &[]), []);
}

#[test]
fn a_queue_with_free_memory_is_saturation_and_with_full_memory_pressure() {
    let queue = |kv_blocks_used| {
        rows(move |second, row| {
            let (waiting, used) = if (200..400).contains(&second) { (30, kv_blocks_used) } else { (0, 400) };
            Some(TimelineRow { waiting, kv_blocks_used: used, ..row })
        })
    };
    let both =
        |alert, at, cleared| [(alert, at, Some(cleared), Some(0)), (alert, at, Some(cleared), Some(1))];
    assert_eq!(names(&queue(400), &[]), both("QueueSaturated", 280, 400));
    assert_eq!(names(&queue(990), &[]), both("KvPressure", 250, 400));
}

#[test]
fn preemptions_are_pressure_only_where_memory_is_full() {
    let losing = |kv_blocks_used| {
        rows(move |second, row| {
            let preemptions = second.clamp(200, 400);
            let used = if (200..400).contains(&second) { kv_blocks_used } else { 400 };
            Some(TimelineRow { waiting: 0, preemptions, kv_blocks_used: used, ..row })
        })
    };
    assert_eq!(names(&losing(400), &[]), []);
    assert_eq!(names(&losing(990), &[]).len(), 2);
}

#[test]
fn what_only_the_client_sees_is_the_network() {
    let slow = |second, record: Record| match record.replica {
        Some(1) if (200..300).contains(&second) => {
            Record { first_token: record.first_token.map(|t| t + Nanos(SECOND / 5)), ..record }
        }
        _ => record,
    };
    let healthy = rows(|_, row| Some(row));
    let found = names(&healthy, &records(slow));
    assert!(matches!(found[..], [("NetworkSlow", 225..235, Some(305..320), Some(1))]), "{found:?}");
    let broken = (2000..3000).map(|tenth| Nanos(tenth * SECOND / 10)).collect();
    let records = records(|_, r| r);
    let found = named(&Observed { connection_failures: broken, ..Observed::of(&healthy, &records) });
    assert!(matches!(found[..], [("ConnectionsFail", 210..220, Some(320..=325), None)]), "{found:?}");
}

#[test]
fn cancellations_are_the_clients() {
    let cancel = |second, record: Record| {
        let outcome = if (200..300).contains(&second) { Outcome::Cancelled } else { record.outcome };
        Record { outcome, ..record }
    };
    let found = names(&rows(|_, row| Some(row)), &records(cancel));
    assert!(matches!(found[..], [("ClientsGiveUp", 215..225, Some(315..325), None)]), "{found:?}");
}

#[test]
fn names_and_words_are_different() {
    let names: std::collections::BTreeSet<_> = ALERTS.iter().map(|alert| alert.name).collect();
    assert_eq!(names.len(), ALERTS.len());
    for cause in Cause::ALL {
        assert!(ALERTS.iter().any(|alert| alert.cause == cause), "{cause:?}");
    }
    assert_eq!(duration(Timing::default().window()), "22s");
    assert_eq!(duration(Timing { interval: Nanos(SECOND) }.window()), "4400ms");
}

#[test]
fn an_interval_of_nothing_and_times_without_end_are_survived() {
    let far = TimelineRow { at: Nanos(1 << 55), ..TimelineRow::default() };
    assert_eq!(fired(&Observed::of(&[far], &[]), Timing { interval: Nanos(1 << 50) }), []);
    let near = TimelineRow { at: Nanos(5), ..TimelineRow::default() };
    assert_eq!(fired(&Observed::of(&[near], &[]), Timing { interval: Nanos(0) }), []);
}
