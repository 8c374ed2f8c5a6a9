//! Time as both worlds count it: whole nanoseconds since the run began.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time or a duration, in nanoseconds. 584 years fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// A float that is no time: NaN, infinite, negative, or beyond what nanoseconds in 64 bits hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeError {
    /// What was found, in seconds.
    pub seconds: f64,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} s is not a time: expected a finite number of seconds from 0 to {:.0}",
            self.seconds,
            Nanos::MAX_SECONDS
        )
    }
}

impl std::error::Error for TimeError {}

impl Nanos {
    /// The run's beginning.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest accepted time, in seconds: a century, far from overflow in sums.
    pub const MAX_SECONDS: f64 = 3.2e9;

    /// The one place where a float becomes a time. Rounds to the nearest nanosecond.
    ///
    /// # Errors
    /// NaN, infinity, a negative value, and more than [`Nanos::MAX_SECONDS`].
    pub fn from_seconds(seconds: f64) -> Result<Nanos, TimeError> {
        if seconds.is_finite() && (0.0..=Self::MAX_SECONDS).contains(&seconds) {
            Ok(Nanos((seconds * 1e9).round() as u64))
        } else {
            Err(TimeError { seconds })
        }
    }

    /// Like [`Nanos::from_seconds`], from milliseconds.
    ///
    /// # Errors
    /// As [`Nanos::from_seconds`].
    pub fn from_millis(millis: f64) -> Result<Nanos, TimeError> {
        Self::from_seconds(millis / 1e3)
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In milliseconds.
    #[must_use]
    pub fn millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time from `earlier` to this, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Panics if the result would be negative: that is a bug, time never runs backwards.
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.checked_sub(other.0).expect("time ran backwards"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_becomes_time_or_is_refused() {
        assert_eq!(Nanos::from_seconds(1.5).unwrap(), Nanos(1_500_000_000));
        assert_eq!(Nanos::from_millis(0.0004).unwrap(), Nanos(400));
        for bad in [f64::NAN, f64::INFINITY, -1e-9, 1e300] {
            assert!(Nanos::from_seconds(bad).is_err(), "{bad}");
        }
    }
}
