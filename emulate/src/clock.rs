//! The time of one engine beside the wall clock: stretched, and standing still while the engine is stalled.

use scaleproof_pack::time::Nanos;
use std::time::{Duration, Instant};

/// An engine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// When the engine's time was zero, as if it had never stood still.
    origin: Instant,
    scale: f64,
    stopped: Option<Instant>,
}

impl Clock {
    /// Begins at `now`. A second of the engine takes `scale` of the wall clock.
    #[must_use]
    pub fn start(now: Instant, scale: f64) -> Clock {
        Clock { origin: now, scale, stopped: None }
    }

    /// The engine's time at a moment.
    #[must_use]
    pub fn at(&self, moment: Instant) -> Nanos {
        let moment = self.stopped.map_or(moment, |stopped| moment.min(stopped));
        let elapsed = moment.saturating_duration_since(self.origin);
        Nanos((elapsed.as_nanos() as f64 / self.scale) as u64)
    }

    /// The moment of a time of the engine; None while it stands still.
    #[must_use]
    pub fn moment(&self, at: Nanos) -> Option<Instant> {
        if self.stopped.is_some() { None } else { self.origin.checked_add(self.wall(at)) }
    }

    /// How long a duration of the engine's takes.
    #[must_use]
    pub fn wall(&self, duration: Nanos) -> Duration {
        Duration::from_nanos((duration.0 as f64 * self.scale) as u64)
    }

    /// Lets it stand still, or go on where it stood.
    pub fn stop(&mut self, stop: bool, now: Instant) {
        match self.stopped {
            None if stop => self.stopped = Some(now),
            Some(since) if !stop => {
                self.origin += now.saturating_duration_since(since);
                self.stopped = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stretched_and_stands_still() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut clock = Clock::start(start, 0.5);
        assert_eq!(clock.at(start + second), Nanos(2_000_000_000));
        assert_eq!(clock.moment(Nanos(2_000_000_000)), Some(start + second));
        clock.stop(true, start + second);
        clock.stop(true, start + 2 * second);
        assert_eq!(clock.at(start + 9 * second), Nanos(2_000_000_000));
        assert_eq!(clock.moment(Nanos::ZERO), None);
        clock.stop(false, start + 3 * second);
        clock.stop(false, start + 4 * second);
        assert_eq!(clock.at(start + 4 * second), Nanos(4_000_000_000));
        assert_eq!(clock.at(start), Nanos::ZERO);
    }
}
