//! One point against the targets: judged while it runs, written as it comes.

use super::line::Line;
use super::metrics::ClientMetrics;
use super::{TargetArgs, system_facts};
use crate::exit::CommandError;
use crate::files::unwritable;
use crate::pack_writer::{PackWriter, write_point};
use crate::point::{Point, PointResult, STOPPED, World, add_cache, warnings_of_run};
use crate::progress::interrupted;
use crate::seal;
use crate::study::Study;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::{Experiment, Observer};
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Origin, Report, RunFacts};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_validate::{LiveEngine, LiveObserver, LiveRun, News, Status};
use std::path::Path;

/// Rows reach the disk this often.
const FLUSH_EVERY: Nanos = Nanos(1_000_000_000);

/// A study against live targets.
pub struct Live {
    /// The scenario and its pack.
    pub study: Study,
    /// What the reports say of the targets.
    pub targets: TargetArgs,
    /// The targets.
    pub engine: LiveEngine,
    /// The client's own metrics, where they are served.
    pub metrics: Option<ClientMetrics>,
}

impl Live {
    /// Where a point runs.
    pub fn world(&self, point: &Point) -> World {
        let system = system_facts(&self.targets, &self.study.loaded, point.shared_prefixes);
        World { origin: Origin::Live, system }
    }

    /// Runs a point and writes its pack to `directory`.
    pub fn run(&mut self, point: &Point, directory: &Path) -> Result<PointResult, CommandError> {
        self.engine.prepare().map_err(CommandError::could_not_run)?;
        std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
        seal::remove(directory)?;
        let loaded = &self.study.loaded;
        let schedule = point.schedule(loaded)?;
        let enough = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas).enough;
        self.engine.reset_prefix_cache().map_err(CommandError::could_not_run)?;
        self.engine.prime(&schedule).map_err(CommandError::could_not_run)?;
        let name = point.name(loaded);
        let mut recorder = Recorder {
            analyzer: Analyzer::new(&loaded.manifest),
            samples: Vec::new(),
            writer: PackWriter::in_place(loaded, directory, point.replicas)?,
            line: Line::new(&name),
            flushed_at: Nanos::ZERO,
            metrics: self.metrics.clone(),
        };
        let run = self.engine.run_live(&schedule, enough, &mut recorder);
        recorder.line.end();
        recorder.writer.finish()?;
        let run = run.map_err(CommandError::could_not_run)?;
        let facts = RunFacts { complete: !run.stopped, ..point.facts_in(&self.world(point), &schedule) };
        let mut report = recorder.analyzer.finish(facts, Stated::default());
        let block_size = run.block_size.unwrap_or(loaded.scenario.scheduler.block_size);
        judge(&mut report, &schedule, &recorder.samples, &run, block_size);
        write_point(loaded, directory, (&name, point.replicas), &report, &recorder.samples)?;
        seal::put(directory, &[])?;
        let (point, directory) = (*point, directory.to_owned());
        Ok(PointResult { point, directory, resumed: false, report, samples: recorder.samples })
    }
}

/// Adds to the analyzer's report what the run says of itself.
pub fn judge(
    report: &mut Report,
    schedule: &Schedule,
    samples: &[TimelineRow],
    run: &LiveRun,
    block_size: u32,
) {
    let cache = add_cache(report, schedule, samples, block_size);
    report.warnings.extend(warnings_of_run(schedule, run.status.continued, &cache));
    report.warnings.extend(run.gaps.iter().cloned());
    if run.stopped {
        report.warnings.push(STOPPED.to_owned());
    }
    report.take_checks(run.checks.clone());
    let invalid = report.invalid.iter().flatten().map(|why| format!("the run is invalid: {why}"));
    report.warnings.extend(invalid.collect::<Vec<_>>());
}

/// Judges and writes attempts as they end.
struct Recorder {
    analyzer: Analyzer,
    samples: Vec<TimelineRow>,
    writer: PackWriter,
    line: Line,
    flushed_at: Nanos,
    metrics: Option<ClientMetrics>,
}

impl Observer for Recorder {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
        self.writer.row(record);
        self.line.record(record);
        self.metrics.iter().for_each(|metrics| metrics.record(record));
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
        self.samples.push(*row);
    }

    fn stop(&mut self) -> bool {
        interrupted() || self.writer.has_failed()
    }
}

impl LiveObserver for Recorder {
    fn status(&mut self, status: &Status) {
        if status.now >= self.flushed_at + FLUSH_EVERY {
            self.flushed_at = status.now;
            self.writer.flush();
        }
        self.line.show(status, &self.analyzer);
    }

    fn news(&mut self, news: &News) {
        self.metrics.iter().for_each(|metrics| metrics.news(news));
    }
}
