//! Takes the alerts that a Prometheus posts: what fired, and when that was heard.

use crate::clock::now_utc;
use crate::exit::CommandError;
use crate::listener::{Asked, listen};
use scaleproof_pack::failure::Alarm;
use scaleproof_pack::time::{Nanos, utc};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Where Prometheus posts them.
const PATH: &str = "/api/v2/alerts";
/// Characters of a time up to its seconds.
const TO_THE_SECOND: usize = 19;

/// Alerts heard of, in the order in which they fired.
#[derive(Clone, Default)]
pub struct Sink {
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    fired: Vec<(Instant, Posted)>,
    /// By labels: the place in `fired`, of what has not been resolved.
    open: BTreeMap<BTreeMap<String, String>, usize>,
    cleared: BTreeMap<usize, Instant>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    labels: BTreeMap<String, String>,
    /// In UTC. For one that goes on it lies in the future.
    #[serde(default)]
    ends_at: String,
}

impl Sink {
    /// Listens.
    pub fn start(port: u16) -> Result<Sink, CommandError> {
        let sink = Sink::default();
        let taking = sink.clone();
        listen("--alert-port", port, move |asked: &Asked| {
            if asked.method != "POST" || asked.path != PATH {
                return None;
            }
            let now = now_utc().unwrap_or_else(|_| utc(0));
            let taken = taking.take(&asked.body, Instant::now(), &now);
            Some(match taken {
                Ok(()) => ("200 OK", String::new()),
                Err(error) => ("400 Bad Request", format!("{error}\n")),
            })
        })?;
        Ok(sink)
    }

    /// At a moment, which in UTC is `utc`.
    fn take(&self, body: &[u8], now: Instant, utc: &str) -> Result<(), serde_json::Error> {
        let posted: Vec<Posted> = serde_json::from_slice(body)?;
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        posted.into_iter().for_each(|alert| heard.take(alert, now, utc));
        Ok(())
    }

    /// All that was heard, in the time of a run that began at `began`.
    pub fn alarms(&self, began: Instant) -> Vec<Alarm> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |at: Instant| Nanos(at.saturating_duration_since(began).as_nanos() as u64).seconds();
        let alarm = |(place, (at, alert)): (usize, &(Instant, Posted))| Alarm {
            name: alert.labels.get("alertname").cloned().unwrap_or_default(),
            cause: alert.labels.get("cause").cloned().unwrap_or_default(),
            replica: alert.labels.get("replica").and_then(|replica| replica.parse().ok()),
            at_s: seconds(*at),
            cleared_s: heard.cleared.get(&place).map(|at| seconds(*at)),
        };
        heard.fired.iter().enumerate().map(alarm).collect()
    }
}

impl Heard {
    fn take(&mut self, alert: Posted, now: Instant, utc: &str) {
        let is_over = alert.ends_at.get(..TO_THE_SECOND).is_some_and(|end| end <= utc);
        match (self.open.get(&alert.labels).copied(), is_over) {
            (Some(place), true) => {
                self.open.remove(&alert.labels);
                self.cleared.insert(place, now);
            }
            (None, false) => {
                self.open.insert(alert.labels.clone(), self.fired.len());
                self.fired.push((now, alert));
            }
            // It goes on, or is said to be over again: that is repeated for some minutes.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_alert_fires_once_until_it_is_over() {
        let (sink, began) = (Sink::default(), Instant::now());
        let post = |replica: u32, end: &str, at_s: u64| {
            let body = format!(
                r#"[{{"labels": {{"alertname": "ReplicaDown", "cause": "replica_failure", "replica": "{replica}"}},
                    "startsAt": "2026-01-02T00:00:00.5Z", "endsAt": "2026-01-02T{end}"}}]"#
            );
            let utc = format!("2026-01-02T00:{:02}:{:02}", at_s / 60, at_s % 60);
            sink.take(body.as_bytes(), began + Duration::from_secs(at_s), &utc).unwrap();
        };
        post(3, "00:00:01Z", 5);
        post(1, "00:04:00.123Z", 10);
        post(2, "00:04:05Z", 15);
        post(1, "00:05:00.1Z", 70);
        post(1, "00:01:30Z", 90);
        post(1, "00:01:30Z", 150);
        post(1, "00:09:00Z", 200);
        let of = |alarm: &Alarm| (alarm.replica, alarm.at_s, alarm.cleared_s);
        let alarms: Vec<_> = sink.alarms(began).iter().map(of).collect();
        assert_eq!(alarms, [(Some(1), 10.0, Some(90.0)), (Some(2), 15.0, None), (Some(1), 200.0, None)]);
        assert!(sink.take(b"{", began, "").is_err());
    }
}
