//! The rules over a run, as Prometheus evaluates them: at every interval, each condition must hold without a break for
//! the rule's `for` before the alert fires, and it is cleared at the first evaluation at which it does not.

use super::scrapes::{Observed, Scrapes};
use super::{
    ALERTS, CLIENTS_GIVE_UP_SHARE, CONNECTIONS_FAIL_SHARE, Cause, Condition, KV_FULL_SHARE, NETWORK_SLOW_S,
    REPLICA_SLOW_SHARE, REPLICA_SLOW_TOKENS, Timing,
};
use crate::time::Nanos;
use crate::timeline::TimelineRow;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// An alert that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// The rule's name.
    pub alert: &'static str,
    /// What is behind it.
    pub cause: Cause,
    /// When it fired: its condition had held for the rule's `for` by then.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    pub at: Nanos,
    /// When its condition held no longer; None if it held to the end.
    #[serde(rename = "cleared_at_s", serialize_with = "optional_seconds")]
    pub cleared_at: Option<Nanos>,
    /// Of which replica; None if of the fleet.
    pub replica: Option<u32>,
}

fn seconds<S: Serializer>(at: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(at.seconds())
}

#[allow(clippy::ref_option, reason = "serde hands it over so")]
fn optional_seconds<S: Serializer>(at: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(Nanos::seconds).serialize(serializer)
}

/// Every alert of a run, by the time at which it fired.
#[must_use]
pub fn fired(observed: &Observed<'_>, timing: Timing) -> Vec<Fired> {
    let scrapes = Scrapes::of(observed, timing);
    let everyone: BTreeSet<u32> =
        (0..scrapes.len()).flat_map(|scrape| scrapes.targets(scrape)).copied().collect();
    let mut found = Vec::new();
    for alert in &ALERTS {
        let subjects: Vec<Option<u32>> =
            if alert.by_replica { everyone.iter().copied().map(Some).collect() } else { vec![None] };
        for replica in subjects {
            let mut since = None;
            let mut open: Option<Fired> = None;
            for scrape in 0..scrapes.len() {
                let now = scrapes.at(scrape);
                let moment = Moment { scrapes: &scrapes, scrape, timing };
                if !moment.holds(alert.condition, replica) {
                    since = None;
                    found.extend(open.take().map(|fired| Fired { cleared_at: Some(now), ..fired }));
                    continue;
                }
                let held = now.since(*since.get_or_insert(now));
                if open.is_none() && held >= timing.hold(alert) {
                    let (alert, cause) = (alert.name, alert.cause);
                    open = Some(Fired { alert, cause, at: now, cleared_at: None, replica });
                }
            }
            found.extend(open);
        }
    }
    found.sort_by_key(|fired| (fired.at, fired.alert, fired.replica));
    found
}

/// One evaluation.
struct Moment<'a> {
    scrapes: &'a Scrapes,
    scrape: usize,
    timing: Timing,
}

impl Moment<'_> {
    fn holds(&self, condition: Condition, replica: Option<u32>) -> bool {
        match (condition, replica) {
            (Condition::QueueSaturated, Some(replica)) => {
                self.always_waiting(replica)
                    && self.kv_share(replica).is_some_and(|share| share <= KV_FULL_SHARE)
                    && self.fleet_is_whole()
                    && !self.scrapes.targets(self.scrape).iter().any(|&replica| self.is_slow(replica))
            }
            (Condition::KvPressure, Some(replica)) => {
                self.kv_share(replica).is_some_and(|share| share > KV_FULL_SHARE)
                    && (self.increase(replica, |row| row.preemptions) > Some(0)
                        || self.always_waiting(replica))
                    && self.fleet_is_whole()
            }
            (Condition::ReplicaDown, Some(replica)) => self.is_down(self.scrape, replica),
            (Condition::ReplicaStuck, Some(replica)) => self.is_stuck(replica),
            (Condition::ReplicaSlow, Some(replica)) => self.is_slow(replica) && self.fleet_is_whole(),
            (Condition::NetworkSlow, Some(replica)) => {
                self.time_on_the_way_s(replica).is_some_and(|seconds| seconds > NETWORK_SLOW_S)
                    && self.fleet_is_whole()
            }
            (Condition::ConnectionsFail, None) => {
                let (first, last) = self.scrapes.client(&self.window());
                let failed = last.connection_failures - first.connection_failures;
                share(failed, last.tries - first.tries) > CONNECTIONS_FAIL_SHARE && self.fleet_is_whole()
            }
            (Condition::ClientsGiveUp, None) => {
                let (first, last) = self.scrapes.client(&self.window());
                share(last.cancelled - first.cancelled, last.ended - first.ended) > CLIENTS_GIVE_UP_SHARE
                    && self.fleet_is_whole()
            }
            // A run has no series of GPU errors and KV transfers: a rule over absent series never fires.
            _ => false,
        }
    }

    fn window(&self) -> RangeInclusive<usize> {
        self.scrapes.window(self.scrape, self.timing.window())
    }

    /// A replica's rows in the window.
    fn rows(&self, replica: u32) -> impl Iterator<Item = &TimelineRow> {
        self.window().filter_map(move |scrape| self.scrapes.row(scrape, replica))
    }

    fn is_down(&self, scrape: usize, replica: u32) -> bool {
        self.scrapes.targets(scrape).contains(&replica) && self.scrapes.row(scrape, replica).is_none()
    }

    /// It has requests, and no token came out of it in the window.
    fn is_stuck(&self, replica: u32) -> bool {
        let has_work =
            self.scrapes.row(self.scrape, replica).is_some_and(|row| row.waiting > 0 || row.running > 0);
        has_work && self.increase(replica, |row| row.generation_tokens).unwrap_or(0) == 0
    }

    /// It gives a running request far fewer tokens a second than the other replicas do, and neither because it gives more in
    /// all, with a large batch, nor because its memory is full.
    fn is_slow(&self, replica: u32) -> bool {
        let of = |&replica: &u32| {
            let tokens = self.increase(replica, |row| row.generation_tokens)?;
            Some((replica, tokens as f64, self.mean_running(replica)?))
        };
        let fleet: Vec<(u32, f64, f64)> = self.scrapes.targets(self.scrape).iter().filter_map(of).collect();
        let Some(&(_, tokens, running)) = fleet.iter().find(|(number, ..)| *number == replica) else {
            return false;
        };
        let all_tokens: f64 = fleet.iter().map(|(_, tokens, _)| tokens).sum();
        let others_running = fleet.iter().map(|(.., running)| running).sum::<f64>() - running;
        running >= 1.0
            && others_running >= 1.0
            && tokens / running < REPLICA_SLOW_SHARE * (all_tokens - tokens) / others_running
            && tokens <= REPLICA_SLOW_TOKENS * all_tokens / fleet.len() as f64
            && self.kv_share(replica).is_some_and(|share| share <= KV_FULL_SHARE)
    }

    /// Every replica has been up for a while, and none is stuck: what is wrong now is not the loss of one.
    fn fleet_is_whole(&self) -> bool {
        let mut lately = self.scrapes.window(self.scrape, self.timing.whole());
        let targets = |scrape: usize| self.scrapes.targets(scrape).iter();
        lately.all(|scrape| targets(scrape).all(|&replica| !self.is_down(scrape, replica)))
            && !targets(self.scrape).any(|&replica| self.is_stuck(replica))
    }

    fn always_waiting(&self, replica: u32) -> bool {
        let mut rows = self.rows(replica).peekable();
        rows.peek().is_some() && rows.all(|row| row.waiting > 0)
    }

    /// The mean share of KV blocks in use.
    fn kv_share(&self, replica: u32) -> Option<f64> {
        self.mean(replica, |row| f64::from(row.kv_blocks_used) / f64::from(row.kv_blocks_total.max(1)))
    }

    fn mean_running(&self, replica: u32) -> Option<f64> {
        self.mean(replica, |row| f64::from(row.running))
    }

    /// Of a gauge, over the scrapes of the window.
    fn mean(&self, replica: u32, gauge: impl Fn(&TimelineRow) -> f64) -> Option<f64> {
        let mut sum = 0.0;
        let mut count = 0u32;
        for row in self.rows(replica) {
            sum += gauge(row);
            count += 1;
        }
        (count > 0).then(|| sum / f64::from(count))
    }

    /// How much a counter rose over the window; one that fell began anew. None with fewer than two scrapes.
    fn increase(&self, replica: u32, counter: impl Fn(&TimelineRow) -> u64) -> Option<u64> {
        let mut rows = self.rows(replica).map(counter);
        let mut last = rows.next()?;
        let mut rise = None;
        for value in rows {
            let step = if value < last { value } else { value - last };
            rise = Some(rise.unwrap_or(0u64).saturating_add(step));
            last = value;
        }
        rise
    }

    /// What the client saw a first token take, less what the server did, in the mean over the window.
    fn time_on_the_way_s(&self, replica: u32) -> Option<f64> {
        let count = self.increase(replica, |row| row.ttft_count).filter(|&count| count > 0)?;
        let server_s = Nanos(self.increase(replica, |row| row.ttft_sum.0)?).seconds() / count as f64;
        let (first, last) = self.scrapes.client(&self.window());
        let of =
            |totals: &super::scrapes::ClientTotals| totals.ttft.get(&replica).copied().unwrap_or_default();
        let ((count_before, sum_before), (count, sum)) = (of(first), of(last));
        let client_s = (count > count_before).then(|| (sum - sum_before) / (count - count_before) as f64)?;
        Some(client_s - server_s)
    }
}

/// 0 of nothing: a comparison with NaN is false in PromQL too.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
