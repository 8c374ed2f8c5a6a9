//! A point simulated for its report and for what its engines computed in vain; nothing is written.

use super::{Judge, Point};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::progress::Progress;
use scaleproof_pack::report::Report;
use scaleproof_pack::work::Work;

impl Point {
    /// The report of the point and its work. None if the user asked to stop meanwhile.
    pub fn tallied(
        &self,
        loaded: &Loaded,
        progress: &Progress,
    ) -> Result<Option<(Report, Work)>, CommandError> {
        let mut work = Work::new(&loaded.manifest);
        let (report, _) = self.until_warm(loaded, |schedule| {
            let mut kept = Judge::new(loaded, progress).keeping(Work::new(&loaded.manifest));
            let summary = self.run(loaded, schedule, &mut kept)?;
            work = kept.keeper;
            Ok(kept.judge.finish(loaded, self, schedule, &summary))
        })?;
        Ok(report.facts.complete.then_some((report, work)))
    }
}
