//! Random faults on random scenarios.

use super::{Collected, Read};
use proptest::prelude::*;
use proptest::sample::select;
use scaleproof_pack::failure::{Moment, What};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_sim::RunSummary;
use scaleproof_sim::faults::{
    Autoscaler, Fault, FaultKind, FaultPlan, HealthCheck, Resilience, Restart, RouterKind, ScaleTarget,
};

const fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

fn kind() -> BoxedStrategy<FaultKind> {
    let lasts = (1..500u64).prop_map(ms).boxed();
    let share = (0..=10u32).prop_map(|tenths| f64::from(tenths) / 10.0).boxed();
    prop_oneof![
        Just(FaultKind::Crash),
        Just(FaultKind::ColdStart),
        prop::option::of(lasts.clone()).prop_map(FaultKind::Hang),
        (1..20u32, lasts.clone())
            .prop_map(|(factor, lasts)| FaultKind::Slow { factor: f64::from(factor), lasts }),
        (0..50u64, share.clone(), lasts.clone()).prop_map(|(latency, loss, lasts)| FaultKind::Link {
            latency: ms(latency),
            loss,
            lasts
        }),
        (share.clone(), lasts.clone()).prop_map(|(share, lasts)| FaultKind::KvCut { share, lasts }),
        lasts.prop_map(|drain| FaultKind::RollingRestart { drain }),
        share.prop_map(|share| FaultKind::Cancellations { share }),
    ]
    .boxed()
}

fn autoscaler() -> BoxedStrategy<Option<Autoscaler>> {
    let target = select(vec![ScaleTarget::Queue, ScaleTarget::Kv, ScaleTarget::Concurrency]);
    let one = (target, 1..6u32, 3..6u32).prop_map(|(target, value, max)| Autoscaler {
        target,
        value: f64::from(value) / if target == ScaleTarget::Kv { 6.0 } else { 1.0 },
        min: 1,
        max,
        interval: ms(20),
        provisioning: ms(10),
        cool_down: ms(50),
        drain: ms(30),
    });
    prop::option::weighted(0.3, one).boxed()
}

/// Everything that a plan may say, with times that fit runs of a second or so.
pub fn plan() -> BoxedStrategy<FaultPlan> {
    let fault = (kind(), 0..1500u64, prop::collection::btree_set(0..4u32, 1..4));
    let faults = prop::collection::vec(fault, 0..6).prop_map(|faults| {
        let fault = |(kind, at, replicas): (FaultKind, u64, std::collections::BTreeSet<u32>)| Fault {
            kind,
            at: ms(at),
            replicas: replicas.into_iter().collect(),
        };
        faults.into_iter().map(fault).collect::<Vec<_>>()
    });
    let router = select(vec![RouterKind::VllmRouter, RouterKind::Kubernetes, RouterKind::LlmD]);
    let budget = prop::option::of((0..10u32).prop_map(|tenths| f64::from(tenths) / 10.0));
    (faults, router, any::<bool>(), budget, autoscaler())
        .prop_map(|(faults, router, automatic, budget, autoscaler)| {
            let base = Resilience::of(router);
            let health_check =
                HealthCheck { interval: ms(40), timeout: ms(10), failures: 2, ..base.health_check };
            let restart = Restart {
                automatic,
                watchdog: ms(300),
                notice: ms(5),
                imports: ms(10),
                weights: ms(20),
                compile: ms(1),
                graph_capture: ms(1),
                warm_up: ms(1),
            };
            let breaker =
                base.breaker.map(|breaker| scaleproof_sim::faults::Breaker { open: ms(100), ..breaker });
            let retries = scaleproof_sim::faults::Retries { budget, ..base.retries };
            let resilience = Resilience { health_check, breaker, restart, retries, ..base };
            FaultPlan { faults, resilience, autoscaler }
        })
        .boxed()
}

/// Each attempt by itself: nothing before its time, and an end that its words allow.
pub fn check_record(record: &Record) {
    let Record { scheduled, sent, first_token, ended, .. } = *record;
    assert!(scheduled <= sent && sent <= ended, "time ran backwards: {record:?}");
    assert!(first_token.is_none_or(|first| sent <= first && first <= ended), "{record:?}");
    assert!(record.output_tokens <= record.requested_tokens, "{record:?}");
    let whole = record.output_tokens == record.requested_tokens;
    assert!(record.outcome != Outcome::Ok || whole, "{record:?}");
    assert_eq!(record.outcome == Outcome::Ok, record.reason.is_empty(), "{record:?}");
    assert!(record.outcome != Outcome::Lost || record.replica.is_some(), "{record:?}");
    assert!(record.retries < 5, "{record:?}");
}

/// Nothing that was sent once went to a replica while it was out.
pub fn check_removed(collected: &Collected, summary: &RunSummary) {
    let of = |replica: u32| {
        let own = move |moment: &&Moment| moment.replica == Some(replica);
        summary.moments.iter().filter(own)
    };
    for record in collected.records.iter().filter(|record| record.retries == 0) {
        let Some(replica) = record.replica else { continue };
        // What changes at the very moment may be before or after the sending.
        let strictly = |moment: &&Moment| moment.at < record.sent;
        let change = |moment: &&Moment| matches!(moment.what, What::Removed(_) | What::Readmitted);
        let last = of(replica).filter(strictly).rfind(change);
        let out = last.is_some_and(|moment| matches!(moment.what, What::Removed(_)));
        let back = of(replica).any(|m| m.at == record.sent && m.what == What::Readmitted);
        assert!(!out || back, "sent to a removed replica: {record:?}");
    }
}

/// The state at the last sample of each replica that answered: nothing is held by nobody.
pub fn check_last_samples(read: &Read, collected: &Collected) {
    let Some(last) = collected.samples.iter().map(|row| row.at).max() else { return };
    let all_ended = collected.records.iter().all(|record| record.ended <= last);
    for row in collected.samples.iter().filter(|row| row.at == last && all_ended) {
        assert_eq!((row.waiting, row.running), (0, 0), "left at the end: {row:?}");
    }
    let places = read.config.faults.as_ref().and_then(|plan| plan.autoscaler).map_or(0, |s| s.max);
    let places = places.max(read.config.replicas);
    assert!(collected.samples.iter().all(|row| row.replica < places));
}
