//! Each kind of fault on a small fleet whose steps take 10 ms.

use super::*;
use crate::faults::{Autoscaler, Fault, FaultKind, FaultPlan, Resilience, Restart, RouterKind, ScaleTarget};
use scaleproof_pack::failure::{Moment, Sign, What};

const S: u64 = 1_000 * MS;

fn ms(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

/// A process starts within a second.
fn quick(router: RouterKind) -> Resilience {
    let base = Resilience::of(router);
    let tenth = ms(100);
    Resilience {
        restart: Restart {
            notice: tenth,
            imports: tenth,
            weights: tenth,
            compile: tenth,
            graph_capture: tenth,
            warm_up: tenth,
            ..base.restart
        },
        ..base
    }
}

fn fault(kind: FaultKind, at_ms: u64, replica: u32) -> Fault {
    Fault { kind, at: ms(at_ms), replicas: vec![replica] }
}

fn plan(faults: Vec<Fault>) -> FaultPlan {
    FaultPlan { faults, resilience: quick(RouterKind::VllmRouter), autoscaler: None }
}

/// A request of three steps every 20 ms.
fn steady(count: u64) -> Schedule {
    open((0..count).map(|i| request(i * 20, 100, 3)).collect())
}

struct Ran {
    records: Vec<Record>,
    moments: Vec<Moment>,
}

impl Ran {
    fn with(&self, outcome: Outcome) -> usize {
        self.records.iter().filter(|record| record.outcome == outcome).count()
    }

    /// When `what` happened first, in milliseconds.
    fn at(&self, what: impl Fn(What) -> bool) -> Option<u64> {
        self.moments.iter().find(|moment| what(moment.what)).map(|moment| moment.at.0 / MS)
    }
}

fn ran(replicas: u32, plan: FaultPlan, schedule: &Schedule) -> Ran {
    let config = RunConfig {
        replicas,
        router: RouterPolicy::LeastOutstanding,
        faults: Some(Box::new(plan)),
        ..config()
    };
    let mut seen = Seen::default();
    let engine = EngineConfig::default();
    let summary =
        run(&config, schedule, &|| Box::new(VllmScheduler::new(&engine).unwrap()), &mut seen).unwrap();
    seen.records.sort_by_key(|record| record.id);
    assert_eq!(seen.records.len(), schedule.measured.requests.len());
    Ran { records: seen.records, moments: summary.moments }
}

#[test]
fn a_plan_of_nothing_changes_nothing() {
    let schedule = steady(200);
    let undisturbed = RunConfig { replicas: 2, router: RouterPolicy::LeastOutstanding, ..config() };
    let expected = simulate(&undisturbed, &EngineConfig::default(), &schedule);
    assert_eq!(ran(2, plan(Vec::new()), &schedule).records, expected);
}

#[test]
fn a_crash_loses_what_is_in_the_engine_and_the_breaker_cuts_the_replica_off() {
    let ran = ran(2, plan(vec![fault(FaultKind::Crash, 1_005, 1)]), &steady(6_000));
    assert!((1..=3).contains(&ran.with(Outcome::Lost)), "{} lost", ran.with(Outcome::Lost));
    assert_eq!(ran.with(Outcome::Ok) + ran.with(Outcome::Lost), 6_000);
    let lost = ran.records.iter().find(|record| record.outcome == Outcome::Lost).unwrap();
    assert_eq!((lost.ended, lost.replica), (ms(1_005), Some(1)));
    // The dead one is the least loaded: each new request goes there, until ten in a row have failed. They wait 40 to
    // 60 ms before they are sent again.
    assert_eq!(ran.at(|what| matches!(what, What::Detected(Sign::Reset))), Some(1_005));
    let removed = ran.at(|what| matches!(what, What::Removed(Sign::Connection))).unwrap();
    assert!((1_050..1_300).contains(&removed), "{removed}");
    let retried: Vec<_> = ran.records.iter().filter(|record| record.retries > 0).collect();
    assert!((5..=10).contains(&retried.len()), "{} retried", retried.len());
    for record in &retried {
        assert_eq!(record.outcome, Outcome::Ok);
        assert!(record.ttft() > Some(ms(50)), "counted from the first sending: {record:?}");
    }
    // It serves again after 600 ms; the breaker lets requests through after 60 s.
    assert_eq!(ran.at(|what| what == What::Ready), Some(1_605));
    let back = ran.at(|what| what == What::Readmitted).unwrap();
    assert_eq!(back, removed + 60_000);
    let on_it = |from: u64, to: u64| {
        let here = |r: &&Record| r.replica == Some(1) && r.sent >= ms(from) && r.sent < ms(to);
        ran.records.iter().filter(here).count()
    };
    assert_eq!(on_it(removed + 1, back), 0, "new work for a removed replica");
    assert!(on_it(back, back + 1_000) > 10);
}

#[test]
fn a_process_whose_end_is_seen_comes_back_by_its_readiness() {
    let resilience = quick(RouterKind::Kubernetes);
    let faults = vec![fault(FaultKind::Crash, 1_005, 1)];
    let ran = ran(2, FaultPlan { faults, resilience, autoscaler: None }, &steady(1_000));
    assert_eq!(ran.at(|what| matches!(what, What::Removed(Sign::Exit))), Some(2_005));
    assert_eq!(ran.at(|what| what == What::Readmitted), Some(10_000), "the first probe");
    // Nothing is tried twice: until the end is seen, each request to the dead one fails.
    assert!(ran.with(Outcome::Error) > 10);
    assert!(ran.records.iter().all(|record| record.retries == 0));
}

#[test]
fn a_hang_is_found_by_health_checks_alone_and_goes_on_where_it_stood() {
    let mut plan = plan(vec![fault(FaultKind::Hang(Some(ms(3_000))), 1_005, 1)]);
    plan.resilience.health_check =
        crate::faults::HealthCheck { interval: ms(500), timeout: ms(200), failures: 2, successes: 2 };
    let ran = ran(2, plan, &steady(500));
    assert_eq!(ran.at(|what| matches!(what, What::Detected(Sign::HealthCheck))), Some(1_700));
    assert_eq!(ran.at(|what| matches!(what, What::Removed(Sign::HealthCheck))), Some(2_200));
    assert_eq!(ran.at(|what| what == What::Cleared), Some(4_005));
    assert_eq!(ran.at(|what| what == What::Readmitted), Some(5_000));
    assert_eq!(ran.with(Outcome::Ok), 500, "nothing is lost");
    let held = ran.records.iter().filter(|r| r.replica == Some(1) && r.e2e() > ms(1_000)).count();
    assert!(held > 1, "{held}");
}

#[test]
fn a_hang_without_end_is_ended_by_the_watchdog() {
    let mut plan = plan(vec![fault(FaultKind::Hang(None), 1_005, 1)]);
    plan.resilience.restart.watchdog = Nanos(3 * S);
    let ran = ran(2, plan, &steady(500));
    assert_eq!(ran.at(|what| what == What::Stopped), Some(4_005));
    assert_eq!(ran.at(|what| what == What::Ready), Some(4_605));
    // What the process had not taken in when it stood still is tried elsewhere.
    assert!(ran.with(Outcome::Lost) >= 1 && ran.records.iter().any(|record| record.retries > 0));
    assert_eq!(ran.with(Outcome::Lost) + ran.with(Outcome::Ok), 500);
}

#[test]
fn a_slow_replica_takes_its_factor_longer() {
    let slow = FaultKind::Slow { factor: 3.0, lasts: ms(500) };
    let ran =
        ran(1, plan(vec![fault(slow, 1_000, 0)]), &open((0..20).map(|i| request(i * 100, 9, 3)).collect()));
    // The steps that begin at 1,000 and at 1,500 come before the fault of that moment.
    let times: Vec<u64> = ran.records.iter().map(|record| record.e2e().0 / MS).collect();
    assert_eq!((times[9], times[10], times[14], times[15]), (30, 70, 90, 50));
}

#[test]
fn a_bad_link_delays_loses_and_breaks() {
    let slow = FaultKind::Link { latency: ms(7), loss: 0.0, lasts: Nanos(100 * S) };
    let late = ran(1, plan(vec![fault(slow, 0, 0)]), &open(vec![request(50, 9, 2)]));
    assert_eq!(told(&late.records), [(Outcome::Ok, Some(50 + 7 + 10 + 7), 84)]);
    let lossy = FaultKind::Link { latency: Nanos::ZERO, loss: 0.3, lasts: Nanos(100 * S) };
    let lossy = ran(2, plan(vec![fault(lossy, 0, 0)]), &steady(2_000));
    let broken = lossy.with(Outcome::Error);
    let retried = lossy.records.iter().filter(|record| record.retries > 0).count();
    assert!((20..200).contains(&broken) && (20..200).contains(&retried), "{broken} broke, {retried} retried");
    assert!(lossy.records.iter().all(|r| r.outcome == Outcome::Ok || r.output_tokens == 0));
    let cut = FaultKind::Link { latency: Nanos::ZERO, loss: 1.0, lasts: Nanos(100 * S) };
    let cut = ran(2, plan(vec![fault(cut, 1_000, 0)]), &steady(3_000));
    assert!(cut.at(|what| matches!(what, What::Removed(Sign::Connection))).is_some());
}

#[test]
fn tokens_keep_their_order_when_the_way_gets_shorter() {
    let slow = FaultKind::Link { latency: ms(500), loss: 0.0, lasts: ms(605) };
    let ran = ran(1, plan(vec![fault(slow, 0, 0)]), &open(vec![request(50, 9, 9)]));
    // Five steps end on the bad link, the last of them at 600; the others arrive no earlier than its token.
    assert_eq!(told(&ran.records), [(Outcome::Ok, Some(1_060), 1_100)]);
}

#[test]
fn a_pool_that_is_cut_serves_fewer_at_once_and_recovers() {
    let engine = EngineConfig::default();
    let requests = || open((0..40).map(|i| request(1_000 + i, 300, 30)).collect());
    let whole = ran(1, plan(Vec::new()), &requests());
    let cut = FaultKind::KvCut { share: 0.7, lasts: Nanos(60 * S) };
    let cut = ran(1, plan(vec![fault(cut, 0, 0)]), &requests());
    let last = |ran: &Ran| ran.records.iter().map(|record| record.ended).max().unwrap();
    assert!(last(&cut).0 > 2 * last(&whole).0, "{:?} and {:?} of {engine:?}", last(&cut), last(&whole));
    assert_eq!(cut.with(Outcome::Ok), 40);
}

#[test]
fn nothing_fits_until_the_cut_ends() {
    let cut = FaultKind::KvCut { share: 1.0, lasts: ms(2_000) };
    let ran = ran(1, plan(vec![fault(cut, 0, 0)]), &open(vec![request(50, 9, 2)]));
    assert_eq!(told(&ran.records), [(Outcome::Ok, Some(2_010), 2_020)]);
}

#[test]
fn clients_cancel_a_share_of_what_is_in_flight() {
    let burst = Fault { kind: FaultKind::Cancellations { share: 0.5 }, at: ms(105), replicas: vec![0] };
    let requests = open((0..100).map(|_| request(0, 9, 90)).collect());
    let ran = ran(1, plan(vec![burst]), &requests);
    let cancelled = ran.with(Outcome::Cancelled);
    assert!((30..70).contains(&cancelled), "{cancelled}");
    assert_eq!(ran.with(Outcome::Ok) + cancelled, 100);
}

#[test]
fn a_rolling_restart_loses_nothing_and_takes_one_at_a_time() {
    let rolling = Fault {
        kind: FaultKind::RollingRestart { drain: Nanos(5 * S) },
        at: ms(1_000),
        replicas: vec![0, 1, 2],
    };
    let mut plan = plan(vec![rolling]);
    plan.resilience.health_check.interval = ms(200);
    let ran = ran(3, plan, &steady(1_000));
    assert_eq!(ran.with(Outcome::Ok), 1_000);
    let mut out = 0i32;
    let mut removed = Vec::new();
    for moment in &ran.moments {
        match moment.what {
            What::Removed(_) => {
                out += 1;
                removed.extend(moment.replica);
            }
            What::Readmitted => out -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&out), "{:?}", ran.moments);
    }
    assert_eq!((removed, out), (vec![0, 1, 2], 0));
}

#[test]
fn a_cold_start_serves_once_it_is_ready() {
    let ran = ran(2, plan(vec![fault(FaultKind::ColdStart, 1_000, 1)]), &steady(9_000));
    assert_eq!(ran.at(|what| what == What::Ready), Some(1_500));
    let back = ran.at(|what| what == What::Readmitted).unwrap();
    assert_eq!(back, 120_000, "two health checks");
    let first = ran.records.iter().find(|record| record.replica == Some(1)).unwrap();
    assert!(first.sent >= ms(back));
}

#[test]
fn everybody_gone_for_good_is_an_error_for_each_and_no_stall() {
    let crash = Fault { kind: FaultKind::Crash, at: ms(1_005), replicas: vec![0, 1] };
    let mut plan = plan(vec![crash]);
    plan.resilience.restart.automatic = false;
    let ran = ran(2, plan, &steady(500));
    assert!(ran.with(Outcome::Error) > 400 && ran.with(Outcome::Lost) >= 1);
    let last = ran.records.last().unwrap();
    assert_eq!((last.retries, last.reason), (4, "no replica"));
}

#[test]
fn a_budget_bounds_what_is_tried_again() {
    let crash = Fault { kind: FaultKind::Crash, at: ms(1_005), replicas: vec![0, 1] };
    let mut plan = plan(vec![crash]);
    plan.resilience.restart.automatic = false;
    plan.resilience.retries.budget = Some(0.1);
    let ran = ran(2, plan, &steady(500));
    let retries: u32 = ran.records.iter().map(|record| record.retries).sum();
    assert!((5..=60).contains(&retries), "{retries}");
}

#[test]
fn the_autoscaler_adds_under_load_and_drains_afterwards() {
    let scaler = Autoscaler {
        target: ScaleTarget::Concurrency,
        value: 4.0,
        min: 1,
        max: 4,
        interval: ms(100),
        provisioning: ms(100),
        cool_down: ms(500),
        drain: Nanos(5 * S),
    };
    let mut plan = plan(Vec::new());
    plan.autoscaler = Some(scaler);
    plan.resilience.health_check.interval = ms(100);
    let busy = (0..2_000).map(|i| request(i, 9, 3));
    let calm = (0..100).map(|i| request(5_000 + i * 200, 9, 3));
    let ran = ran(1, plan, &open(busy.chain(calm).collect()));
    let count = |what| ran.moments.iter().filter(|moment| moment.what == what).count();
    assert_eq!((count(What::Ordered), count(What::Drained)), (3, 3), "{:?}", ran.moments);
    assert_eq!(ran.with(Outcome::Ok), 2_100);
}

#[test]
fn correlated_faults_and_a_fault_of_a_replica_that_is_not_there() {
    let both = Fault { kind: FaultKind::Crash, at: ms(1_005), replicas: vec![0, 1, 7] };
    let again = fault(FaultKind::Crash, 1_300, 0);
    let mut plan = plan(vec![both, again]);
    plan.resilience.health_check.interval = ms(100);
    plan.resilience.breaker = None;
    let ran = ran(2, plan, &steady(500));
    let started = ran.moments.iter().filter(|moment| moment.what == What::Ready).count();
    assert_eq!(started, 2, "the second crash cut a start short: {:?}", ran.moments);
    assert!(ran.records.last().unwrap().outcome == Outcome::Ok);
}
