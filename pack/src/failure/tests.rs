use super::*;
use crate::report::Origin;
use crate::testing::{manifest, ok};

const SECOND: u64 = 1_000_000_000;

/// Ten attempts a second for 400 s, each a tenth of a second long, on replicas 0 and 1 in turn.
fn records() -> Vec<Record> {
    let attempt = |i: u64| {
        let sent = Nanos(i * SECOND / 10);
        let whole = Record { id: i, replica: Some((i % 2) as u32), ..ok(0, (i % 3) as u16, 0, 0, 10) };
        Record {
            scheduled: sent,
            sent,
            first_token: Some(sent + Nanos(SECOND / 50)),
            ended: sent + Nanos(SECOND / 10),
            ..whole
        }
    };
    (0..4_000).map(attempt).collect()
}

fn rows() -> Vec<TimelineRow> {
    let row = |i: u64| TimelineRow {
        at: Nanos(i / 2 * SECOND),
        replica: (i % 2) as u32,
        running: 1,
        kv_blocks_total: 10,
        ..TimelineRow::default()
    };
    (0..800).map(row).collect()
}

fn kill() -> Injected {
    Injected {
        kind: "crash".into(),
        what: "The process of replica 1 of 2 was killed".into(),
        replicas: vec![1],
        at_s: 100.0,
        made_in_s: None,
        is_failure: true,
        takes_replica_down: true,
    }
}

fn moment(at_s: u64, what: What) -> Moment {
    Moment { at: Nanos(at_s * SECOND), replica: Some(1), what }
}

fn moments() -> Vec<Moment> {
    vec![
        moment(100, What::Injected),
        moment(100, What::Detected(Sign::Reset)),
        moment(101, What::Removed(Sign::Connection)),
        moment(160, What::Ready),
        moment(161, What::Readmitted),
    ]
}

fn alarm() -> Alarm {
    Alarm {
        name: "ReplicaDown".into(),
        cause: "replica_failure".into(),
        replica: Some(1),
        at_s: 115.0,
        cleared_s: None,
    }
}

/// A kill after 100 s that is removed a second later and back after a minute.
fn killed() -> (Vec<Record>, Vec<Moment>) {
    let mut records = records();
    for record in &mut records {
        let at_s = record.sent.seconds();
        if record.replica == Some(1) && (100.0..=161.0).contains(&at_s) {
            (record.replica, record.retries) = (Some(0), u32::from(at_s < 101.0));
        }
    }
    let lost = &mut records[999];
    (lost.outcome, lost.reason, lost.ended) = (Outcome::Lost, "the replica died", Nanos(100 * SECOND));
    (records, moments())
}

fn judge(records: &[Record], moments: &[Moment], alarms: Vec<Alarm>) -> FailureReport {
    let manifest = manifest(10);
    let rows = rows();
    FailureReport::of(&Observation {
        manifest: &manifest,
        facts: &RunFacts { offered_rps: Some(10.0), ..facts() },
        fault: kill(),
        records,
        rows: &rows,
        moments,
        alarms,
        repaired_by_hand: false,
    })
}

fn facts() -> RunFacts {
    RunFacts {
        origin: Origin::Simulated,
        schedule_hash: None,
        seed: Some(1),
        run: Some(0),
        offered_rps: None,
        concurrency: None,
        system: None,
        complete: true,
    }
}

fn failing(report: &FailureReport) -> Vec<&'static str> {
    report.checks.iter().filter(|check| check.pass == Some(false)).map(|check| check.name).collect()
}

#[test]
fn a_kill_that_is_survived_passes() {
    let (records, moments) = killed();
    let report = judge(&records, &moments, vec![alarm()]);
    assert!(report.pass, "{:?}", report.checks);
    assert_eq!((report.counts.lost, report.counts.retried), (1, 5));
    let after_s = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.after_s);
    assert_eq!((after_s(&report.removed), after_s(&report.readmitted)), (Some(1.0), Some(61.0)));
    assert_eq!(report.errors_s, Some((100.0, 100.0)));
    assert_eq!(report.recovery_s, Some(61.0));
    let attempts: Vec<u64> = report.parts.iter().map(|part| part.report.attempted).collect();
    assert_eq!(attempts.iter().sum::<u64>(), 4_000, "each attempt is in one part");
    let text = report.to_markdown(Some(&Repeats::of(&[report.clone(), report.clone()])));
    assert!(text.contains("**passed.**") && text.contains("| requests lost | 1 |"), "{text}");
    assert!(!text.contains("NaN"));
}

#[test]
fn each_lack_fails_its_own_line() {
    let (records, moments) = killed();
    assert_eq!(failing(&judge(&records, &moments, Vec::new())), ["at least one alert fires"]);
    let without = |unwanted: fn(What) -> bool| -> Vec<Moment> {
        moments.iter().copied().filter(|moment| !unwanted(moment.what)).collect()
    };
    let unseen = without(|what| matches!(what, What::Detected(_)));
    assert_eq!(failing(&judge(&records, &unseen, vec![alarm()])), ["the fault is detected"]);
    let kept = without(|what| matches!(what, What::Removed(_) | What::Readmitted));
    assert_eq!(
        failing(&judge(&records, &kept, vec![alarm()])),
        ["the replica is removed from the router", "a removed replica gets no new work"]
    );
    let gone = without(|what| what == What::Readmitted);
    let mut elsewhere = records.clone();
    elsewhere.iter_mut().filter(|r| r.sent > Nanos(101 * SECOND)).for_each(|r| r.replica = Some(0));
    assert_eq!(
        failing(&judge(&elsewhere, &gone, vec![alarm()])),
        ["capacity comes back with no manual repair"]
    );
    let mut sent = records.clone();
    sent[1_205].replica = Some(1);
    assert_eq!(failing(&judge(&sent, &moments, vec![alarm()])), ["a removed replica gets no new work"]);
    let mut slow = records.clone();
    slow.iter_mut().filter(|r| r.sent > Nanos(150 * SECOND)).for_each(|r| {
        r.ended = r.sent + Nanos(9 * SECOND);
    });
    assert_eq!(failing(&judge(&slow, &moments, vec![alarm()])), ["the steady state returns"]);
}

/// Behind a router nobody knows which replica served what: that it got no work is not shown.
#[test]
fn what_only_the_router_knows_is_not_judged() {
    let (mut records, moments) = killed();
    records.iter_mut().for_each(|record| record.replica = None);
    let report = judge(&records, &moments, vec![alarm()]);
    let check =
        report.checks.iter().find(|check| check.name == "a removed replica gets no new work").unwrap();
    assert_eq!(check.pass, None, "{}", check.evidence);
    assert!(report.pass, "{:?}", failing(&report));
}

#[test]
fn nothing_to_judge_is_no_pass_and_no_panic() {
    let report = judge(&[], &[], Vec::new());
    assert!(!report.pass);
    assert!(report.to_markdown(None).contains("FAILED"));
    let spread = Repeats::of(&[]);
    assert!(spread.spreads.iter().all(|spread| spread.mean.is_none()));
}

#[test]
fn a_fault_lies_somewhere_in_the_command_that_makes_it() {
    let (records, moments) = killed();
    let mut seen = judge(&records, &moments, vec![alarm()]);
    let prediction = Repeats::of(&[seen.clone(), seen.clone()]);
    let inside = |seen: &FailureReport| {
        let rows = prediction.beside(seen);
        rows.iter().find(|row| row.name.starts_with("detected")).unwrap().inside
    };
    for (after_s, made_in_s, expected) in
        [(0.3, None, false), (0.3, Some(0.25), true), (2.0, Some(5.0), false)]
    {
        seen.detected.as_mut().unwrap().after_s = after_s;
        seen.fault.made_in_s = made_in_s;
        assert_eq!(inside(&seen), Some(expected), "{after_s} s after a command of {made_in_s:?} s");
    }
}
