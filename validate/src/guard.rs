//! What a client that routes by itself does about targets that fail: the rules of `policy::health`, as a router has them, over
//! what the client sees. It reads no clock.

use crate::attempt::Job;
use crate::client::Client;
use crate::clock::RunClock;
use crate::driver::Message;
use crate::target::Target;
use scaleproof_pack::chance::{self, Stream};
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_policy::health::{Breaker, Health, HealthCheck, Retries};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Where a target says whether it serves.
pub(crate) const HEALTH: &str = "/health";

/// What is done about targets that fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resilience {
    /// Asks each target now and then whether it serves.
    pub health_check: HealthCheck,
    /// Leaves a target out after failures in a row.
    pub breaker: Option<Breaker>,
    /// After so long a connection that is not made has failed.
    pub connect_timeout: Nanos,
    /// What is sent again.
    pub retries: Retries,
}

/// What lies ahead.
pub(crate) enum Later {
    /// A breaker has been open for its time.
    HalfOpen(u32),
    /// A request is sent again; the record of its failed try.
    Retry(Box<Job>, Box<Record>),
}

/// The targets' health, and what lies ahead.
pub(crate) struct Guard {
    rules: Resilience,
    health: Vec<Health>,
    chance: Stream,
    tries: u64,
    retries: u64,
    later: BTreeMap<(Nanos, u64), Later>,
    known: u64,
}

impl Guard {
    /// Those of `absent` get no work before their health checks pass.
    pub(crate) fn new(rules: Resilience, targets: u32, absent: &[u32], schedule: &Schedule) -> Guard {
        let health = |target| {
            let mut health = Health::default();
            if absent.contains(&target) {
                health.doubted();
            }
            health
        };
        Guard {
            rules,
            health: (0..targets).map(health).collect(),
            chance: chance::stream(schedule.seed, schedule.run, "faults"),
            tries: 0,
            retries: 0,
            later: BTreeMap::new(),
            known: 0,
        }
    }

    /// Whether a target takes work.
    pub(crate) fn takes_work(&self, target: u32) -> bool {
        self.health[target as usize].takes_work()
    }

    pub(crate) fn checked(&mut self, target: u32, passed: bool) {
        let health = &mut self.health[target as usize];
        if passed {
            health.check_passed(&self.rules.health_check);
        } else {
            health.check_failed(&self.rules.health_check);
        }
    }

    /// A try was sent.
    pub(crate) fn tried(&mut self) {
        self.tries += 1;
    }

    /// A try found no connection, or was refused because the target is full.
    pub(crate) fn try_failed(&mut self, target: u32, now: Nanos) {
        let Some(breaker) = self.rules.breaker else { return };
        if self.health[target as usize].try_failed(&breaker) {
            self.push(now + breaker.open, Later::HalfOpen(target));
        }
    }

    /// A target began to answer.
    pub(crate) fn try_succeeded(&mut self, target: u32) {
        if let Some(breaker) = self.rules.breaker {
            self.health[target as usize].try_succeeded(&breaker);
        }
    }

    pub(crate) fn half_open(&mut self, target: u32) {
        self.health[target as usize].half_open();
    }

    /// Takes a request whose try failed, to be sent again; gives it back if it is not.
    pub(crate) fn again(
        &mut self,
        mut job: Box<Job>,
        record: Box<Record>,
        now: Nanos,
    ) -> Option<Box<Record>> {
        let tried = job.retries + 1;
        let another = self.rules.retries.has_another(tried, self.retries, self.tries);
        let wait = another.then(|| self.rules.retries.wait(tried, chance::uniform(&mut self.chance)));
        let Some(wait) = wait.flatten() else { return Some(record) };
        self.retries += 1;
        job.retries = tried;
        self.push(now + wait, Later::Retry(job, record));
        None
    }

    /// When the next of what lies ahead is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// What has become due.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Later> {
        self.next().filter(|&at| at <= now)?;
        self.later.pop_first().map(|(_, later)| later)
    }

    /// Nothing is sent again: the records of what waited for it.
    pub(crate) fn stop(&mut self) -> Vec<Record> {
        let record = |later| match later {
            Later::Retry(_, record) => Some(*record),
            Later::HalfOpen(_) => None,
        };
        std::mem::take(&mut self.later).into_values().filter_map(record).collect()
    }

    fn push(&mut self, at: Nanos, later: Later) {
        self.later.insert((at, self.known), later);
        self.known += 1;
    }
}

/// Health checks of all targets, a task each, until they are aborted.
pub(crate) fn check_targets(
    runtime: &Handle,
    client: &Client,
    targets: &[Target],
    check: HealthCheck,
    clock: RunClock,
    driver: &Sender<Message>,
) -> Vec<JoinHandle<()>> {
    let task = |(number, target): (u32, &Target)| {
        let (client, target, driver) = (client.clone(), target.clone(), driver.clone());
        runtime.spawn(async move {
            let mut at = Nanos::ZERO;
            loop {
                at += check.interval;
                tokio::time::sleep_until(clock.instant(at).into()).await;
                let asked = client.ask(&target, HEALTH, None);
                let answer = tokio::time::timeout(Duration::from_nanos(check.timeout.0), asked).await;
                let passed = matches!(answer, Ok(Ok((200..300, _))));
                if driver.send(Message::Checked(number, passed)).is_err() {
                    return;
                }
            }
        })
    };
    (0_u32..).zip(targets).map(task).collect()
}
