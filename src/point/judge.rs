//! The observers of a simulated point: its judge, and who keeps more of the run beside it.

use super::{Point, add_cache, warnings};
use crate::input::Loaded;
use crate::pack_writer::PackWriter;
use crate::progress::{Progress, Share, interrupted};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::hopeless::Hopeless;
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Report, RunFacts};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::work::Work;
use scaleproof_sim::RunSummary;

/// Takes what a run yields into the analyzer, and to the progress bar.
pub(super) struct Judge<'a> {
    analyzer: Analyzer,
    samples: Vec<TimelineRow>,
    pub progress: Share<'a>,
    /// Ends the run once it is certain to fail, if that is all that is asked.
    pub hopeless: Option<Hopeless>,
}

impl<'a> Judge<'a> {
    pub fn new(loaded: &Loaded, progress: &'a Progress) -> Judge<'a> {
        let analyzer = Analyzer::new(&loaded.manifest);
        Judge { analyzer, samples: Vec::new(), progress: Share::of(progress), hopeless: None }
    }

    /// The same with somebody who keeps more of the run than the analyzer does.
    pub fn keeping<K>(self, keeper: K) -> Keeping<'a, K> {
        Keeping { judge: self, keeper }
    }

    /// The report of the run, and the replicas over time.
    pub fn finish(
        mut self,
        loaded: &Loaded,
        point: &Point,
        schedule: &Schedule,
        summary: &RunSummary,
    ) -> (Report, Vec<TimelineRow>) {
        // A short run ends before it reports any.
        self.progress.reached(summary.attempts);
        let facts = RunFacts { complete: !summary.stopped, ..point.facts(loaded, schedule) };
        let mut report = self.analyzer.finish(facts, Stated::default());
        let block_size = loaded.scenario.scheduler.block_size;
        let cache = add_cache(&mut report, schedule, &self.samples, block_size);
        report.warnings.extend(warnings(loaded, schedule, summary, &cache));
        (report, self.samples)
    }
}

impl Observer for Judge<'_> {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
        if let Some(hopeless) = &mut self.hopeless {
            hopeless.push(record);
        }
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
        self.samples.push(*row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        interrupted() || self.hopeless.as_ref().is_some_and(|hopeless| hopeless.gate().is_some())
    }
}

/// Judges a run and keeps something of its attempts.
pub(super) struct Keeping<'a, K> {
    pub judge: Judge<'a>,
    pub keeper: K,
}

/// Keeps something of every attempt.
pub(super) trait Keep {
    /// One has ended.
    fn keep(&mut self, record: &Record);
    /// Whether it cannot go on, which ends the run.
    fn has_failed(&self) -> bool {
        false
    }
}

impl Keep for Vec<Record> {
    fn keep(&mut self, record: &Record) {
        self.push(record.clone());
    }
}

impl Keep for Work {
    fn keep(&mut self, record: &Record) {
        self.push(record);
    }
}

impl Keep for PackWriter {
    fn keep(&mut self, record: &Record) {
        self.row(record);
    }

    fn has_failed(&self) -> bool {
        PackWriter::has_failed(self)
    }
}

impl<K: Keep> Observer for Keeping<'_, K> {
    fn record(&mut self, record: &Record) {
        self.judge.record(record);
        self.keeper.keep(record);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.judge.sample(row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.judge.progress(progress);
    }

    fn stop(&mut self) -> bool {
        self.judge.stop() || self.keeper.has_failed()
    }
}
