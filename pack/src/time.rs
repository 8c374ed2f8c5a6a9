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
            Ok(Nanos(rounded(seconds * 1e9)))
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

/// The nearest whole number to one that is not negative, the upper one of two. Exact: below 2^53 the fraction is, and
/// above there is none.
fn rounded(value: f64) -> u64 {
    let whole = value as u64;
    whole + u64::from(value - whole as f64 >= 0.5)
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

/// Days from 1970-01-01 to the date `text`, written as `2026-08-29`. None if it is no date of
/// the years 1 to 9999.
#[must_use]
pub fn civil_day(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let mut number = |digits: usize| {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<i64>().ok()).flatten()
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month_index = usize::try_from(month).ok()?.checked_sub(1)?;
    let length = *lengths.get(month_index)?;
    if parts.next().is_some() || year < 1 || !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let days_to_1970 = 1969 * 365 + 1969 / 4 - 1969 / 100 + 1969 / 400;
    Some(before * 365 + leap_days - days_to_1970 + lengths[..month_index].iter().sum::<i64>() + day - 1)
}

/// The date and time of so many seconds since 1970 began in UTC, as a timestamp of RFC 3339 begins:
/// `2026-08-29T09:05:00`. Its date is the one that [`civil_day`] reads.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March: leap days stand at their ends, and 400 years have 146097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (4_107_542_399, "2100-02-28T23:59:59"),
        ] {
            assert_eq!(utc(seconds), text);
        }
        for day in [0, 58, 59, 19_677, 20_694, 47_540, 400_000] {
            let text = utc(day * 86_400);
            assert_eq!(civil_day(&text[..10]), Some(day as i64), "{text}");
        }
        assert_eq!(utc(19_677 * 86_400), "2023-11-16T00:00:00");
    }

    #[test]
    fn dates_are_days_and_no_others() {
        let days = [("1970-01-01", 0), ("2000-02-29", 11_016), ("2023-11-16", 19_677), ("1969-12-31", -1)];
        for (text, day) in days {
            assert_eq!(civil_day(text), Some(day), "{text}");
        }
        for bad in
            ["2023-02-29", "2023-13-01", "2023-00-01", "2023-1-01", "2023-01-32", "2023-01", "+023-01-01", ""]
        {
            assert_eq!(civil_day(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn rounding_is_the_standard_librarys(value in 0.0..1e19_f64, small in 0.0..3.0_f64, exponent in -20_i32..64) {
            for value in [value, small, small.exp2(), 2f64.powi(exponent), 2f64.powi(exponent).next_down(), 0.5, 2.5] {
                proptest::prop_assert_eq!(super::rounded(value), value.round() as u64);
            }
        }
    }

    #[test]
    fn a_float_becomes_time_or_is_refused() {
        assert_eq!(Nanos::from_seconds(1.5).unwrap(), Nanos(1_500_000_000));
        assert_eq!(Nanos::from_millis(0.0004).unwrap(), Nanos(400));
        for bad in [f64::NAN, f64::INFINITY, -1e-9, 1e300] {
            assert!(Nanos::from_seconds(bad).is_err(), "{bad}");
        }
    }
}
