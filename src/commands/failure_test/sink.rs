//! Takes the alerts that a Prometheus posts: what fired, and when that was heard.

use crate::exit::CommandError;
use crate::listener::{Asked, listen};
use scaleproof_pack::failure::Alarm;
use scaleproof_pack::time::Nanos;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
            let taken = taking.take(&asked.body, Instant::now(), &utc(SystemTime::now()));
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

/// The date and time to the second, as a timestamp of RFC 3339 begins.
fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March: leap days stand at their ends, and 400 years have 146097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
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

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (4_107_542_399, "2100-02-28T23:59:59"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
