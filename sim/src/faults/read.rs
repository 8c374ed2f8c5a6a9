//! Reading what may go wrong from scenario.yaml.

use super::{
    Autoscaler, Breaker, Fault, FaultKind, FaultPlan, HealthCheck, Resilience, Restart, Retries, RouterKind,
    ScaleTarget,
};
use scaleproof_pack::fields::{Fields, Item, above, from_to, mapping};
use scaleproof_pack::time::Nanos;

/// The longest time of a fault, in seconds.
const SECONDS_MAX: f64 = 1e7;
/// Faults of a scenario at most.
const FAULTS_MAX: usize = 1000;

/// The weights of a dense 70B model in BF16.
const WEIGHTS_GB: f64 = 141.0;
/// A local NVMe disk.
const BANDWIDTH_GB_PER_S: f64 = 6.0;

const fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

const fn s(seconds: u64) -> Nanos {
    ms(seconds * 1_000)
}

impl Default for Resilience {
    fn default() -> Resilience {
        Resilience::of(RouterKind::default())
    }
}

impl Resilience {
    /// The defaults of a router. docs/failures.md has their sources.
    #[must_use]
    pub fn of(router: RouterKind) -> Resilience {
        let readiness = HealthCheck { interval: s(10), timeout: s(1), failures: 3, successes: 1 };
        let once = Retries { attempts: 1, ..Retries::default() };
        let base = Resilience {
            router,
            health_check: HealthCheck { interval: s(60), timeout: s(5), failures: 3, successes: 2 },
            breaker: Some(Breaker::default()),
            exit_seen: None,
            stale_metrics: None,
            connect_timeout: s(1),
            retries: Retries::default(),
            restart: Restart::default(),
        };
        match router {
            RouterKind::VllmRouter => base,
            RouterKind::Kubernetes => Resilience {
                health_check: readiness,
                breaker: None,
                exit_seen: Some(s(1)),
                retries: once,
                ..base
            },
            RouterKind::LlmD => Resilience {
                health_check: readiness,
                breaker: None,
                exit_seen: Some(s(1)),
                stale_metrics: Some(ms(200)),
                retries: once,
                ..base
            },
        }
    }
}

impl Default for Restart {
    fn default() -> Restart {
        Restart {
            automatic: true,
            watchdog: s(300),
            notice: s(1),
            imports: s(28),
            weights: ms(23_500),
            compile: s(10),
            graph_capture: s(20),
            warm_up: s(5),
        }
    }
}

/// Reads `faults`, `resilience` and `autoscaler`; None without any of them. The fleet has `replicas` replicas.
pub(crate) fn read_plan(fields: &mut Fields<'_>, replicas: u32) -> Option<Option<FaultPlan>> {
    let (faults, resilience, autoscaler) =
        (fields.opt("faults"), fields.opt("resilience"), fields.opt("autoscaler"));
    if ![&faults, &resilience, &autoscaler].iter().any(|item| item.is_present()) {
        return Some(None);
    }
    let faults = if faults.is_present() { read_faults(&faults, replicas) } else { Some(Vec::new()) };
    let resilience = if resilience.is_present() {
        mapping(&resilience, read_resilience)
    } else {
        Some(Resilience::default())
    };
    let scaled = autoscaler.is_present();
    let autoscaler = if scaled { mapping(&autoscaler, |f| read_autoscaler(f, replicas)) } else { None };
    if scaled && autoscaler.is_none() {
        return None;
    }
    Some(Some(FaultPlan { faults: faults?, resilience: resilience?, autoscaler }))
}

fn read_faults(item: &Item<'_>, replicas: u32) -> Option<Vec<Fault>> {
    let items = item.list(0..=FAULTS_MAX)?;
    let read: Vec<Option<Fault>> =
        items.iter().map(|item| mapping(item, |fields| read_fault(fields, replicas))).collect();
    read.into_iter().collect()
}

fn seconds(item: &Item<'_>, from: f64) -> Option<Nanos> {
    Nanos::from_seconds(item.f64(from_to(from, SECONDS_MAX))?).ok()
}

/// The kinds of the file.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Crash,
    Hang,
    Slow,
    Link,
    KvCut,
    RollingRestart,
    ColdStart,
    Cancellations,
}

const KINDS: [(&str, Kind); 8] = [
    ("crash", Kind::Crash),
    ("hang", Kind::Hang),
    ("slow", Kind::Slow),
    ("link", Kind::Link),
    ("kv_cut", Kind::KvCut),
    ("rolling_restart", Kind::RollingRestart),
    ("cold_start", Kind::ColdStart),
    ("cancellations", Kind::Cancellations),
];

/// The fields of one kind or another.
const OF_KINDS: [&str; 8] =
    ["replica", "replicas", "for_seconds", "factor", "latency_ms", "loss", "share", "drain_seconds"];

fn read_fault(fields: &mut Fields<'_>, replicas: u32) -> Option<Fault> {
    let kind = fields.req("kind").word(&KINDS);
    let at = seconds(&fields.req("at_seconds"), 0.0);
    let Some(kind) = kind else {
        // Which of them belong to it cannot be told.
        OF_KINDS.iter().for_each(|name| drop(fields.opt(name)));
        return None;
    };
    let whole = matches!(kind, Kind::Cancellations | Kind::RollingRestart);
    let replicas = read_replicas(fields, whole, replicas);
    let kind = read_kind(fields, kind);
    Some(Fault { kind: kind?, at: at?, replicas: replicas? })
}

/// `replica: 1` or `replicas: [0, 1]`; neither is every replica, where that is meant.
fn read_replicas(fields: &mut Fields<'_>, whole_fleet: bool, replicas: u32) -> Option<Vec<u32>> {
    let (one, several) = (fields.opt("replica"), fields.opt("replicas"));
    let last = replicas.saturating_sub(1);
    if several.is_present() {
        one.refuse("since replicas are given");
        let items = several.list(1..=100_000)?;
        let read: Vec<Option<u32>> = items.iter().map(|item| item.u32(0..=last)).collect();
        let mut read = read.into_iter().collect::<Option<Vec<u32>>>()?;
        let count = read.len();
        read.sort_unstable();
        read.dedup();
        if read.len() < count {
            several.wrong("each replica once", "");
        }
        return Some(read);
    }
    if one.is_present() {
        return Some(vec![one.u32(0..=last)?]);
    }
    if whole_fleet {
        return Some((0..replicas).collect());
    }
    fields.req("replica").u32(0..=last).map(|one| vec![one])
}

fn read_kind(fields: &mut Fields<'_>, kind: Kind) -> Option<FaultKind> {
    Some(match kind {
        Kind::Crash => FaultKind::Crash,
        Kind::ColdStart => FaultKind::ColdStart,
        Kind::Hang => {
            let lasts = fields.opt("for_seconds");
            FaultKind::Hang(if lasts.is_present() { Some(seconds(&lasts, 0.001)?) } else { None })
        }
        Kind::Slow => {
            let factor = fields.req("factor").f64(from_to(1.0, 1e6));
            let lasts = seconds(&fields.req("for_seconds"), 0.001);
            FaultKind::Slow { factor: factor?, lasts: lasts? }
        }
        Kind::Link => {
            let latency = fields.opt("latency_ms").f64(from_to(0.0, 60_000.0)).unwrap_or(0.0);
            let loss = fields.opt("loss").f64(from_to(0.0, 1.0)).unwrap_or(0.0);
            let lasts = seconds(&fields.req("for_seconds"), 0.001);
            FaultKind::Link { latency: Nanos::from_seconds(latency / 1e3).ok()?, loss, lasts: lasts? }
        }
        Kind::KvCut => {
            let share = fields.req("share").f64(from_to(0.0, 1.0));
            let lasts = seconds(&fields.req("for_seconds"), 0.001);
            FaultKind::KvCut { share: share?, lasts: lasts? }
        }
        Kind::RollingRestart => {
            let drain = fields.opt("drain_seconds");
            FaultKind::RollingRestart {
                drain: if drain.is_present() { seconds(&drain, 0.0)? } else { s(30) },
            }
        }
        Kind::Cancellations => {
            FaultKind::Cancellations { share: fields.req("share").f64(from_to(0.0, 1.0))? }
        }
    })
}

/// Reads `resilience` over the defaults of its router.
fn read_resilience(fields: &mut Fields<'_>) -> Option<Resilience> {
    let router = fields.opt("router").word(&RouterKind::WORDS).unwrap_or_default();
    let base = Resilience::of(router);
    let health = over(&fields.opt("health_check"), base.health_check, read_health);
    let breaker = fields.opt("circuit_breaker");
    let breaker = match breaker.is_present() {
        true => mapping(&breaker, |fields| read_breaker(fields, base.breaker.unwrap_or_default())).map(Some),
        false => Some(base.breaker),
    };
    let exit_seen = time(&fields.opt("exit_seen_seconds"), base.exit_seen, 0.0);
    let stale_metrics = time(&fields.opt("stale_metrics_seconds"), base.stale_metrics, 0.001);
    let connect_timeout = time(&fields.opt("connect_timeout_seconds"), Some(base.connect_timeout), 0.001);
    let retries = over(&fields.opt("retries"), base.retries, read_retries);
    let restart = over(&fields.opt("restart"), base.restart, read_restart);
    Some(Resilience {
        router,
        health_check: health?,
        breaker: breaker?,
        exit_seen,
        stale_metrics,
        connect_timeout: connect_timeout?,
        retries: retries?,
        restart: restart?,
    })
}

/// Reads a mapping over `base`, which holds where there is none.
fn over<T>(item: &Item<'_>, base: T, read: impl FnOnce(&mut Fields<'_>, T) -> Option<T>) -> Option<T> {
    if item.is_present() { mapping(item, |fields| read(fields, base)) } else { Some(base) }
}

fn time(item: &Item<'_>, base: Option<Nanos>, from: f64) -> Option<Nanos> {
    if item.is_present() { seconds(item, from) } else { base }
}

fn count(item: &Item<'_>, base: u32) -> Option<u32> {
    if item.is_present() { item.u32(1..=10_000) } else { Some(base) }
}

fn number(item: &Item<'_>, base: f64, from: f64, to: f64) -> Option<f64> {
    if item.is_present() { item.f64(from_to(from, to)) } else { Some(base) }
}

fn read_health(fields: &mut Fields<'_>, base: HealthCheck) -> Option<HealthCheck> {
    let interval = time(&fields.opt("interval_seconds"), Some(base.interval), 0.01);
    let timeout = time(&fields.opt("timeout_seconds"), Some(base.timeout), 0.001);
    let failures = count(&fields.opt("failures"), base.failures);
    let successes = count(&fields.opt("successes"), base.successes);
    Some(HealthCheck { interval: interval?, timeout: timeout?, failures: failures?, successes: successes? })
}

fn read_breaker(fields: &mut Fields<'_>, base: Breaker) -> Option<Breaker> {
    let failures = count(&fields.opt("failures"), base.failures);
    let open = time(&fields.opt("open_seconds"), Some(base.open), 0.001);
    let successes = count(&fields.opt("successes"), base.successes);
    Some(Breaker { failures: failures?, open: open?, successes: successes? })
}

fn read_retries(fields: &mut Fields<'_>, base: Retries) -> Option<Retries> {
    let attempts = fields.opt("attempts");
    let attempts = if attempts.is_present() { attempts.u32(1..=1000) } else { Some(base.attempts) };
    let first = time(&fields.opt("first_backoff_seconds"), Some(base.first_backoff), 0.0);
    let factor = number(&fields.opt("factor"), base.factor, 1.0, 100.0);
    let cap = time(&fields.opt("cap_seconds"), Some(base.cap), 0.0);
    let jitter = number(&fields.opt("jitter"), base.jitter, 0.0, 1.0);
    let budget = fields.opt("budget").f64(from_to(0.0, 1000.0)).or(base.budget);
    Some(Retries {
        attempts: attempts?,
        first_backoff: first?,
        factor: factor?,
        cap: cap?,
        jitter: jitter?,
        budget,
    })
}

fn read_restart(fields: &mut Fields<'_>, base: Restart) -> Option<Restart> {
    let automatic = fields.opt("automatic").bool().unwrap_or(base.automatic);
    let watchdog = time(&fields.opt("watchdog_seconds"), Some(base.watchdog), 0.001);
    let notice = time(&fields.opt("notice_seconds"), Some(base.notice), 0.0);
    let imports = time(&fields.opt("imports_seconds"), Some(base.imports), 0.0);
    let weights = read_weights(fields, base.weights);
    let compile = time(&fields.opt("compile_seconds"), Some(base.compile), 0.0);
    let graph_capture = time(&fields.opt("graph_capture_seconds"), Some(base.graph_capture), 0.0);
    let warm_up = time(&fields.opt("warm_up_seconds"), Some(base.warm_up), 0.0);
    Some(Restart {
        automatic,
        watchdog: watchdog?,
        notice: notice?,
        imports: imports?,
        weights: weights?,
        compile: compile?,
        graph_capture: graph_capture?,
        warm_up: warm_up?,
    })
}

/// Bytes over bandwidth, if either is given.
fn read_weights(fields: &mut Fields<'_>, base: Nanos) -> Option<Nanos> {
    let (bytes, bandwidth) = (fields.opt("weights_gb"), fields.opt("bandwidth_gb_per_second"));
    let given = bytes.is_present() || bandwidth.is_present();
    let bytes_gb = number(&bytes, WEIGHTS_GB, 0.0, 1e6)?;
    let gb_per_s = number(&bandwidth, BANDWIDTH_GB_PER_S, 0.01, 1e6)?;
    if given { Nanos::from_seconds(bytes_gb / gb_per_s).ok() } else { Some(base) }
}

fn read_autoscaler(fields: &mut Fields<'_>, replicas: u32) -> Option<Autoscaler> {
    let target = fields.req("target").word(&ScaleTarget::WORDS);
    let value = fields.req("value").f64(above(0.0, 1e9));
    let min = fields.opt("min_replicas");
    let min = if min.is_present() { min.u32(1..=replicas.max(1)) } else { Some(replicas.max(1)) };
    let max = fields.req("max_replicas").u32(replicas.max(1)..=100_000);
    let interval = time(&fields.opt("interval_seconds"), Some(s(15)), 0.1);
    let provisioning = time(&fields.opt("provisioning_seconds"), Some(s(60)), 0.0);
    let cool_down = time(&fields.opt("cool_down_seconds"), Some(s(300)), 0.0);
    let drain = time(&fields.opt("drain_seconds"), Some(s(30)), 0.0);
    Some(Autoscaler {
        target: target?,
        value: value?,
        min: min?,
        max: max?,
        interval: interval?,
        provisioning: provisioning?,
        cool_down: cool_down?,
        drain: drain?,
    })
}
