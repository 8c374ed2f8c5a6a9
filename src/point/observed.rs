//! A point simulated for everything that its run yields; nothing is written.

use super::{Judge, Point};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::progress::Progress;
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

impl Point {
    /// Simulates one of the point's schedules. None if the user asked to stop meanwhile.
    pub fn observed(
        &self,
        loaded: &Loaded,
        schedule: &Schedule,
        progress: &Progress,
    ) -> Result<Option<Observed>, CommandError> {
        let mut kept = Judge::new(loaded, progress).keeping(Vec::new());
        let summary = self.run(loaded, schedule, &mut kept)?;
        let (report, samples) = kept.judge.finish(loaded, self, schedule, &summary);
        Ok(report.facts.complete.then_some(Observed { report, records: kept.keeper, samples }))
    }
}
