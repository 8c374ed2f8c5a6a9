//! One run with the fault, judged.

use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, Share, interrupted};
use scaleproof_pack::alerts::{Fired, Observed, Timing, fired};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::failure::{Alarm, FailureReport, Injected, Observation, What};
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Origin, Report, RunFacts};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_sim::{ReplicaTotals, RunSummary};

/// A run, and what it shows.
pub struct Trial {
    /// The verdict.
    pub report: FailureReport,
    /// The analyzer's report on the whole run.
    pub whole: Report,
    /// All attempts, in order of their ends; none where they are not kept.
    pub records: Vec<Record>,
    /// The replicas over time; none where they are not kept.
    pub rows: Vec<TimelineRow>,
    /// In what the run lies outside the profile's validity region.
    pub outside: Vec<String>,
}

/// Runs the point with the fault in its scenario, and judges it. Only a trial that is to be written is kept whole.
pub fn try_once(
    loaded: &Loaded,
    point: &Point,
    injected: &Injected,
    keep: bool,
    timing: Timing,
    progress: &Progress,
) -> Result<Trial, CommandError> {
    let schedule = point.schedule(loaded)?;
    let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas);
    let mut seen = Seen { records: Vec::new(), rows: Vec::new(), progress: Share::of(progress) };
    let summary = scaleproof_sim::run(&config, &schedule, &|| loaded.engine(), &mut seen)
        .map_err(|error| CommandError::run(&error))?;
    if summary.stopped {
        return Err(CommandError::could_not_run("interrupted: found a request to stop; nothing was written"));
    }
    seen.progress.reached(summary.attempts);
    let facts = RunFacts {
        system: Some(loaded.system_facts(point.replicas, point.shared_prefixes)),
        ..RunFacts::of(Origin::Simulated, &schedule)
    };
    let mut analyzer = Analyzer::new(&loaded.manifest);
    seen.records.iter().for_each(|record| analyzer.push(record));
    seen.rows.iter().for_each(|row| analyzer.push_sample(row));
    let report = FailureReport::of(&Observation {
        manifest: &loaded.manifest,
        facts: &facts,
        fault: injected.clone(),
        records: &seen.records,
        rows: &seen.rows,
        moments: &summary.moments,
        alarms: alarms(&observed(&seen, &summary), timing),
        repaired_by_hand: false,
    });
    let fleet = summary.replicas.iter().fold(ReplicaTotals::default(), ReplicaTotals::and);
    let whole = analyzer.finish(facts, Stated::default());
    let (records, rows) = if keep { (seen.records, seen.rows) } else { (Vec::new(), Vec::new()) };
    Ok(Trial { report, whole, records, rows, outside: loaded.profile.validity.exceeded(&fleet.extremes) })
}

/// All that a run yields.
struct Seen<'a> {
    records: Vec<Record>,
    rows: Vec<TimelineRow>,
    progress: Share<'a>,
}

impl Observer for Seen<'_> {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.rows.push(*row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        interrupted()
    }
}

fn observed<'a>(seen: &'a Seen<'_>, summary: &RunSummary) -> Observed<'a> {
    let retired = summary.moments.iter().filter_map(|moment| match (moment.what, moment.replica) {
        (What::Drained, Some(replica)) => Some((replica, moment.at)),
        _ => None,
    });
    Observed {
        rows: &seen.rows,
        records: &seen.records,
        connection_failures: summary.connection_failures.clone(),
        retired: retired.collect(),
    }
}

/// What Prometheus would have said, scraping every few seconds.
pub fn alarms(observed: &Observed<'_>, timing: Timing) -> Vec<Alarm> {
    let alarm = |fired: &Fired| Alarm {
        name: fired.alert.to_owned(),
        cause: fired.cause.word().to_owned(),
        replica: fired.replica,
        at_s: fired.at.seconds(),
        cleared_s: fired.cleared_at.map(Nanos::seconds),
    };
    fired(observed, timing).iter().map(alarm).collect()
}
