//! A point simulated for its report and for what its engines computed in vain; nothing is written.

use super::{Judge, Point};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::progress::Progress;
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::record::Record;
use scaleproof_pack::report::Report;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::work::Work;

/// Judges a run and adds up its work.
struct Tally<'a> {
    judge: Judge<'a>,
    work: Work,
}

impl Point {
    /// The report of the point and its work. None if the user asked to stop meanwhile.
    pub fn tallied(
        &self,
        loaded: &Loaded,
        progress: &Progress,
    ) -> Result<Option<(Report, Work)>, CommandError> {
        let mut work = Work::new(&loaded.manifest);
        let (report, _) = self.until_warm(loaded, |schedule| {
            let mut tally = Tally { judge: Judge::new(loaded, progress), work: Work::new(&loaded.manifest) };
            let summary = self.run(loaded, schedule, &mut tally)?;
            work = tally.work;
            Ok(tally.judge.finish(loaded, self, schedule, &summary))
        })?;
        Ok(report.facts.complete.then_some((report, work)))
    }
}

impl Observer for Tally<'_> {
    fn record(&mut self, record: &Record) {
        self.judge.record(record);
        self.work.push(record);
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
