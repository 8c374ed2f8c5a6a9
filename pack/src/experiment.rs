//! What runs a schedule, seen from outside: the simulator, or a live engine.

use crate::record::Record;
use crate::time::Nanos;
use crate::timeline::TimelineRow;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run's own time.
    pub now: Nanos,
    /// Attempts that have ended, warm-up included.
    pub ended: u64,
    /// Attempts planned so far, warm-up included.
    pub planned: u64,
}

/// Receives what a run yields, while it runs. Every method does nothing unless overridden.
pub trait Observer {
    /// An attempt ended. Called exactly once for each, when its end is certain: nearly in order of their ends.
    fn record(&mut self, _record: &Record) {}
    /// A replica was sampled.
    fn sample(&mut self, _row: &TimelineRow) {}
    /// Called now and then.
    fn progress(&mut self, _progress: Progress) {}
    /// Asked now and then: true stops the run early, leaving what it has yielded.
    fn stop(&mut self) -> bool {
        false
    }
}
