//! A point simulated for everything that its run yields; nothing is written.

use super::{Judge, Point};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::progress::Progress;
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::record::Record;
use scaleproof_pack::report::Report;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::timeline::TimelineRow;

/// What a run yields.
pub struct Observed {
    /// The analyzer's report.
    pub report: Report,
    /// Every attempt, warm-up included.
    pub records: Vec<Record>,
    /// The replicas over time.
    pub samples: Vec<TimelineRow>,
}

struct Keeper<'a> {
    judge: Judge<'a>,
    records: Vec<Record>,
}

impl Point {
    /// Simulates one of the point's schedules. None if the user asked to stop meanwhile.
    pub fn observed(
        &self,
        loaded: &Loaded,
        schedule: &Schedule,
        progress: &Progress,
    ) -> Result<Option<Observed>, CommandError> {
        let mut keeper = Keeper { judge: Judge::new(loaded, progress), records: Vec::new() };
        let summary = self.run(loaded, schedule, &mut keeper)?;
        let (report, samples) = keeper.judge.finish(loaded, self, schedule, &summary);
        Ok(report.facts.complete.then_some(Observed { report, records: keeper.records, samples }))
    }
}

impl Observer for Keeper<'_> {
    fn record(&mut self, record: &Record) {
        self.judge.record(record);
        self.records.push(record.clone());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.judge.sample(row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.judge.progress(progress);
    }

    fn stop(&mut self) -> bool {
        self.judge.stop()
    }
}
