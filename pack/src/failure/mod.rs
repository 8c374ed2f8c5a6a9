//! A failure test: what one injected fault did to a fleet, from records, timeline and observed moments alone, so that a
//! simulated and a live test fill the same report. docs/failures.md says how each line is judged.

mod checks;
mod in_flight;
mod markdown;
mod moment;
mod repeats;
#[cfg(test)]
mod tests;

pub use checks::Check;
pub use moment::{Moment, Phase, Sign, What};
pub use repeats::{Beside, Repeats, Spread};

use crate::analyze::{Analyzer, Stated};
use crate::manifest::Manifest;
use crate::record::{Outcome, Record};
use crate::report::{Report, RunFacts};
use crate::time::Nanos;
use crate::timeline::{FleetSeries, TimelineRow};
use crate::trend::{Trend, queue_trend};
use in_flight::InFlight;
use serde::Serialize;

/// The fault of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Injected {
    /// Its kind, in the words of docs/failures.md.
    pub kind: String,
    /// What was done, in words.
    pub what: String,
    /// Whom it met.
    pub replicas: Vec<u32>,
    /// When, in seconds of the run.
    pub at_s: f64,
    /// Seconds that the command took which made it: the fault itself lies somewhere in them. Null where there was none.
    pub made_in_s: Option<f64>,
    /// Whether it makes a replica worse: then there is something to notice.
    pub is_failure: bool,
    /// Whether it keeps a replica from serving: then that one is to be removed.
    pub takes_replica_down: bool,
}

/// An alert that fired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// The rule.
    pub name: String,
    /// What is behind it, in the rule's words.
    pub cause: String,
    /// Of which replica; null if of the fleet.
    pub replica: Option<u32>,
    /// When it fired, in seconds of the run.
    pub at_s: f64,
    /// When its condition held no longer; null if it held to the end.
    pub cleared_s: Option<f64>,
}

/// What there is to judge.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// Classes, cutoffs and gates.
    pub manifest: &'a Manifest,
    /// What was run.
    pub facts: &'a RunFacts,
    /// What was injected.
    pub fault: Injected,
    /// All attempts, warm-up included.
    pub records: &'a [Record],
    /// The replicas over time. One that does not answer has no row.
    pub rows: &'a [TimelineRow],
    /// What else was seen, in order of time.
    pub moments: &'a [Moment],
    /// The alerts, in order of time.
    pub alarms: Vec<Alarm>,
    /// Whether somebody had to help the fleet back.
    pub repaired_by_hand: bool,
}

/// Something that was seen, with how long after the injection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Seconds of the run.
    pub at_s: f64,
    /// Seconds after the injection.
    pub after_s: f64,
    /// Of which replica.
    pub replica: Option<u32>,
    /// What, in words.
    pub what: String,
}

/// A part of the run. What was in flight at the injection belongs to the part during the fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// `before`, `during` or `after`.
    pub name: &'static str,
    /// Seconds of the run.
    pub from_s: f64,
    /// Seconds of the run.
    pub to_s: f64,
    /// The analyzer's report on it.
    pub report: Report,
}

/// What became of the attempts that were sent, or in flight, from the injection on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Attempts that were sent again at least once.
    pub retried: u64,
    /// Of those, the ones that ended well.
    pub retried_ok: u64,
    /// Refused.
    pub rejected: u64,
    /// In a replica that died.
    pub lost: u64,
    /// Answered by an error, or broken.
    pub errors: u64,
    /// Given up by impatient clients.
    pub timeouts: u64,
    /// Given up by clients on purpose.
    pub cancelled: u64,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureReport {
    /// Whether every check that applies passes.
    pub pass: bool,
    /// The checks.
    pub checks: Vec<Check>,
    /// What was injected.
    pub fault: Injected,
    /// The first sign.
    pub detected: Option<Seen>,
    /// When the router stopped to send the first of the replicas new work.
    pub removed: Option<Seen>,
    /// When it sent work to the last of them again.
    pub readmitted: Option<Seen>,
    /// All that was seen.
    pub moments: Vec<Seen>,
    /// The first and the last attempt that failed from the injection on, in seconds of the run.
    pub errors_s: Option<(f64, f64)>,
    /// Before the injection, until the steady state was back, and from then on.
    pub parts: Vec<Part>,
    /// See [`Counts`].
    pub counts: Counts,
    /// Most requests waiting at a sample from the injection on, and when, in seconds of the run.
    pub queue_peak: Option<(u64, f64)>,
    /// The same for all in flight, by the attempts.
    pub in_flight_peak: (u64, f64),
    /// The queue from the injection to the last arrival.
    pub queue: Trend,
    /// From the injection until the steady state was back, in seconds; null if it never was.
    pub recovery_s: Option<f64>,
    /// What the alerts said.
    pub alarms: Vec<Alarm>,
    /// What was run.
    pub run: RunFacts,
}

impl FailureReport {
    /// Judges an observation.
    #[must_use]
    pub fn of(observation: &Observation<'_>) -> FailureReport {
        let at = seconds(observation.fault.at_s);
        let in_flight = InFlight::of(observation.records);
        let arrivals = || observation.records.iter().filter(|r| !r.warmup).map(|r| r.scheduled);
        let begin = arrivals().min().unwrap_or(Nanos::ZERO).min(at);
        let end = arrivals().max().unwrap_or(at).max(at);
        let settled_from = settled_from(observation.moments, at);
        let acceptance = &observation.manifest.acceptance;
        let recovered = in_flight.back_to_normal(
            observation.records,
            (begin, at),
            (settled_from, end),
            acceptance.error_rate_max,
        );
        let split = recovered.unwrap_or(Nanos(u64::MAX));
        let mut parts = vec![
            part(observation, "before", (begin, at), |record| record.ended < at),
            part(observation, "during", (at, split.min(end)), |record| {
                record.ended >= at && record.scheduled < split
            }),
        ];
        parts.extend(recovered.map(|from| {
            part(observation, "after", (from, end), |record| record.ended >= at && record.scheduled >= from)
        }));
        let mut fleet = FleetSeries::default();
        observation.rows.iter().for_each(|row| fleet.push(row));
        let samples: Vec<_> =
            fleet.into_samples().into_iter().filter(|s| s.at >= at && s.at <= end).collect();
        let depths: Vec<_> = samples.iter().map(|s| (s.at, s.waiting)).collect();
        let arrived = arrivals().filter(|&arrival| arrival >= at).count() as u64;
        let peak = samples.iter().rev().max_by_key(|s| s.waiting);
        let mut report = FailureReport {
            pass: false,
            checks: Vec::new(),
            detected: first(observation, at, |what| matches!(what, What::Detected(_))),
            removed: first(observation, at, |what| matches!(what, What::Removed(_))),
            readmitted: last(observation, at, |what| what == What::Readmitted),
            moments: moments(observation, at),
            errors_s: errors(observation.records, at),
            parts,
            counts: counts(observation.records, at),
            queue_peak: peak.map(|sample| (sample.waiting, sample.at.seconds())),
            in_flight_peak: in_flight.peak(at, end),
            queue: queue_trend(&depths, arrived),
            recovery_s: recovered.map(|recovered| recovered.since(at).seconds()),
            alarms: observation.alarms.clone(),
            run: observation.facts.clone(),
            fault: observation.fault.clone(),
        };
        report.checks = checks::checks(&report, observation);
        report.pass = report.checks.iter().all(|check| check.pass != Some(false));
        report
    }

    /// A part by its name; None for `after` if the steady state never came back.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

fn seconds(seconds: f64) -> Nanos {
    Nanos::from_seconds(seconds).unwrap_or(Nanos::ZERO)
}

fn seen(moment: &Moment, at: Nanos) -> Seen {
    Seen {
        at_s: moment.at.seconds(),
        after_s: moment.at.seconds() - at.seconds(),
        replica: moment.replica,
        what: moment.what.words(),
    }
}

fn moments(observation: &Observation<'_>, at: Nanos) -> Vec<Seen> {
    observation.moments.iter().map(|moment| seen(moment, at)).collect()
}

/// Whether a moment belongs to the fault.
fn concerns(observation: &Observation<'_>, moment: &Moment, at: Nanos) -> bool {
    moment.at >= at && moment.replica.is_none_or(|replica| observation.fault.replicas.contains(&replica))
}

fn first(observation: &Observation<'_>, at: Nanos, is: impl Fn(What) -> bool) -> Option<Seen> {
    let mut own = observation.moments.iter().filter(|moment| concerns(observation, moment, at));
    own.find(|moment| is(moment.what)).map(|moment| seen(moment, at))
}

fn last(observation: &Observation<'_>, at: Nanos, is: impl Fn(What) -> bool) -> Option<Seen> {
    let own = observation.moments.iter().filter(|moment| concerns(observation, moment, at));
    own.rev().find(|moment| is(moment.what)).map(|moment| seen(moment, at))
}

/// From when on the fleet can be as it was: the last change of it after the injection that the fault caused.
fn settled_from(moments: &[Moment], at: Nanos) -> Nanos {
    let ends = |what| matches!(what, What::Cleared | What::Readmitted | What::Injected);
    moments.iter().filter(|moment| ends(moment.what)).map(|moment| moment.at).fold(at, Nanos::max)
}

fn part(
    observation: &Observation<'_>,
    name: &'static str,
    (from, to): (Nanos, Nanos),
    belongs: impl Fn(&Record) -> bool,
) -> Part {
    let mut analyzer = Analyzer::new(observation.manifest);
    let own = observation.records.iter().filter(|record| !record.warmup && belongs(record));
    own.for_each(|record| analyzer.push(record));
    let rows = observation.rows.iter().filter(|row| row.at >= from && row.at < to);
    rows.for_each(|row| analyzer.push_sample(row));
    let mut report = analyzer.finish(observation.facts.clone(), Stated::default());
    // A part has a part of the samples: what is said of a run is not said of a part.
    report.warnings.clear();
    Part { name, from_s: from.seconds(), to_s: to.seconds(), report }
}

/// What a fault may cause, beside what clients do on purpose.
fn failed(record: &Record) -> bool {
    !matches!(record.outcome, Outcome::Ok | Outcome::Cancelled)
}

fn errors(records: &[Record], at: Nanos) -> Option<(f64, f64)> {
    let ends = || records.iter().filter(|r| failed(r) && r.ended >= at).map(|r| r.ended);
    Some((ends().min()?.seconds(), ends().max()?.seconds()))
}

fn counts(records: &[Record], at: Nanos) -> Counts {
    let mut counts = Counts::default();
    for record in records.iter().filter(|record| record.ended >= at) {
        if record.retries > 0 {
            counts.retried += 1;
            counts.retried_ok += u64::from(record.outcome == Outcome::Ok);
        }
        match record.outcome {
            Outcome::Ok => {}
            Outcome::Error => counts.errors += 1,
            Outcome::Timeout => counts.timeouts += 1,
            Outcome::Rejected => counts.rejected += 1,
            Outcome::Cancelled => counts.cancelled += 1,
            Outcome::Lost => counts.lost += 1,
        }
    }
    counts
}
