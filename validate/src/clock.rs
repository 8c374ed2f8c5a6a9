//! The run's clock: nanoseconds since it began, from the system's steady clock.

use scaleproof_pack::time::Nanos;
use std::time::{Duration, Instant};

/// Reads the time of one run.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    began: Instant,
}

impl RunClock {
    /// The run begins now.
    #[must_use]
    pub fn start() -> RunClock {
        RunClock { began: Instant::now() }
    }

    /// When the run began.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Time since the run began.
    #[must_use]
    pub fn now(&self) -> Nanos {
        // 584 years fit.
        Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When it is `at` by this clock. What lies beyond the system's range is as far as a century.
    #[must_use]
    pub fn instant(&self, at: Nanos) -> Instant {
        self.began
            .checked_add(Duration::from_nanos(at.0))
            .unwrap_or_else(|| self.began + Duration::from_secs(3_200_000_000))
    }
}
