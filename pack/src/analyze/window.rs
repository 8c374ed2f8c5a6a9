//! The measured window, and what is only known once its ends are: the samples inside it, the queue trend, and
//! Little's law between samples and records.

use crate::record::Record;
use crate::report::LittlesLaw;
use crate::time::Nanos;
use crate::timeline::FleetSample;
use crate::trend::{Trend, queue_trend};

/// From the first measured scheduled arrival to the last measured end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub first_scheduled: Nanos,
    pub last_scheduled: Nanos,
    pub last_ended: Nanos,
}

impl Window {
    /// The window of one record alone.
    pub fn of(record: &Record) -> Window {
        Window {
            first_scheduled: record.scheduled,
            last_scheduled: record.scheduled,
            last_ended: record.ended.max(record.scheduled),
        }
    }

    /// The window of both.
    pub fn and(self, other: Window) -> Window {
        Window {
            first_scheduled: self.first_scheduled.min(other.first_scheduled),
            last_scheduled: self.last_scheduled.max(other.last_scheduled),
            last_ended: self.last_ended.max(other.last_ended),
        }
    }

    /// T, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last_ended.since(self.first_scheduled).seconds()
    }

    /// The samples of the window. `samples` are in order of time.
    pub fn samples<'a>(&self, samples: &'a [FleetSample]) -> &'a [FleetSample] {
        between(samples, self.first_scheduled, self.last_ended)
    }

    /// The trend of the queue while requests arrived: the drain after the last arrival would hide a growth.
    pub fn trend(&self, samples: &[FleetSample], arrivals: u64) -> Trend {
        let depths: Vec<_> = between(samples, self.first_scheduled, self.last_scheduled)
            .iter()
            .map(|sample| (sample.at, sample.waiting))
            .collect();
        queue_trend(&depths, arrivals)
    }
}

fn between(samples: &[FleetSample], from: Nanos, to: Nanos) -> &[FleetSample] {
    let begin = samples.partition_point(|s| s.at < from);
    let end = samples.partition_point(|s| s.at <= to);
    &samples[begin..end.max(begin)]
}

/// Time that attempts spent between sending and end. A failed attempt takes its place in a queue too, so all
/// outcomes count.
#[derive(Debug, Default)]
pub(super) struct Residence {
    measured: u64,
    measured_sum_ns: u128,
    /// Sent and ended of the warm-up attempts, few: only the part inside the window counts, and where it begins
    /// is not known before the end.
    warmup: Vec<(Nanos, Nanos)>,
}

impl Residence {
    pub fn push(&mut self, record: &Record) {
        if record.warmup {
            self.warmup.push((record.sent, record.ended));
        } else {
            self.measured += 1;
            self.measured_sum_ns += u128::from(record.e2e().0);
        }
    }

    /// Little's law for the window; None without samples in it, attempts or duration.
    pub fn littles_law(&self, window: &Window, samples: &[FleetSample]) -> Option<LittlesLaw> {
        let (samples, seconds) = (window.samples(samples), window.seconds());
        if samples.is_empty() || self.measured == 0 || seconds <= 0.0 {
            return None;
        }
        let sampled_sum: u128 = samples.iter().map(|s| u128::from(s.in_flight())).sum();
        let sampled_in_flight = sampled_sum as f64 / samples.len() as f64;
        let completion_rps = self.measured as f64 / seconds;
        let mean_e2e_s = self.measured_sum_ns as f64 / 1e9 / self.measured as f64;
        let warmup_ns: u128 = self
            .warmup
            .iter()
            .map(|&(sent, ended)| {
                u128::from(ended.min(window.last_ended).since(sent.max(window.first_scheduled)).0)
            })
            .sum();
        let warmup_in_flight = warmup_ns as f64 / 1e9 / seconds;
        let implied_in_flight = completion_rps * mean_e2e_s + warmup_in_flight;
        let larger = sampled_in_flight.max(implied_in_flight);
        Some(LittlesLaw {
            sampled_in_flight,
            completion_rps,
            mean_e2e_s,
            warmup_in_flight,
            implied_in_flight,
            relative_gap: (larger > 0.0).then(|| (sampled_in_flight - implied_in_flight) / larger),
        })
    }
}
