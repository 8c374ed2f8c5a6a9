//! What the reference point says of the machine: whether it drifts, and by how much at any time.

use super::data::{Kind, Measurement, Robust, median};
use super::lab::{REFERENCE, Reference, SweepError};

/// The pace of the machine over a sweep, as a share of its median.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drift {
    /// Time and pace; empty if nothing but noise was seen.
    pub paces: Vec<(f64, f64)>,
    /// The largest pace over the smallest, less 1, noise included.
    pub range: f64,
    /// Standard deviation of a run of the reference point about that, as a share: what one run says of the pace.
    pub scatter: f64,
}

/// A sweep in which the smoothed reference point moves by more than this is refused.
pub const RANGE_MAX: f64 = 0.30;
/// Standard deviations beyond which a move is one.
const SIGNIFICANT: f64 = 4.0;
/// The reference point's runs nearest in time that a pace is told from: one of them may be an outlier.
const NEAREST: usize = 5;

impl Drift {
    /// Of the reference point's runs.
    ///
    /// # Errors
    /// A machine that moves too much.
    pub fn of(references: &[Reference]) -> Result<Drift, SweepError> {
        let steps: Vec<f64> = references.iter().map(|r| r.step_us).collect();
        let Some(middle) = median(&steps) else { return Ok(Drift::default()) };
        let sds: Vec<f64> = references.iter().map(|r| r.relative_sd).collect();
        let sd = median(&sds).unwrap_or(0.0).max(5e-4);
        let nearest = NEAREST.min(references.len());
        let smooth: Vec<(f64, f64)> = (0..references.len())
            .map(|i| {
                let first = i.saturating_sub(nearest / 2).min(references.len() - nearest);
                let at_s = references[i].at_s;
                (at_s, along_the_line(&references[first..first + nearest], at_s) / middle)
            })
            .collect();
        let low = smooth.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        let high = smooth.iter().map(|p| p.1).fold(0.0, f64::max);
        let range = high / low - 1.0;
        if range > RANGE_MAX {
            return Err(SweepError::Unusable(format!(
                "the reference point: found steps that moved by {:.0} % during the sweep, expected at most {:.0} %; give \
                 the engine and the client a machine of their own",
                100.0 * range,
                100.0 * RANGE_MAX
            )));
        }
        let about: Vec<f64> =
            steps.iter().zip(&smooth).map(|(step, (_, pace))| (step / middle / pace - 1.0).abs()).collect();
        let scatter = 1.4826 * median(&about).unwrap_or(0.0);
        Ok(Drift { paces: if range > SIGNIFICANT * sd { smooth } else { Vec::new() }, range, scatter })
    }

    /// The pace at a time: linear between the reference point's runs.
    #[must_use]
    pub fn pace(&self, at_s: f64) -> f64 {
        let after = self.paces.partition_point(|(time, _)| *time <= at_s);
        match (after.checked_sub(1).and_then(|i| self.paces.get(i)), self.paces.get(after)) {
            (Some((t0, p0)), Some((t1, p1))) => p0 + (p1 - p0) * (at_s - t0) / (t1 - t0).max(1e-9),
            (Some((_, pace)), None) | (None, Some((_, pace))) => *pace,
            (None, None) => 1.0,
        }
    }

    /// Divides it out of the times, which are known no better than a run of the reference point is repeated.
    pub fn divide_out(&self, rows: &mut [Measurement]) {
        for row in rows {
            row.time_us /= self.pace(row.at_s);
            row.relative_sd = row.relative_sd.hypot(self.scatter);
        }
    }

    /// What all runs of the reference point say of its step: the time that is known best. None without any.
    #[must_use]
    pub fn reference(&self, references: &[Reference]) -> Option<Measurement> {
        let steps: Vec<f64> = references.iter().map(|run| run.step_us / self.pace(run.at_s)).collect();
        let (input, output) = REFERENCE;
        let step = Robust {
            mean: median(&steps)?,
            relative_sd: self.scatter / (steps.len() as f64).sqrt(),
            samples: steps.len() as u32,
            outliers: 0,
            stalls: 0.0,
        };
        Some(Measurement {
            rows: 1,
            context: f64::from(input) + f64::from(output) / 2.0,
            ..Measurement::new(Kind::Decode, references.first()?.at_s, step, false)
        })
    }
}

/// The step time at a time, in µs, on the robust line of Theil and Sen through the runs (Sen 1968, doi 10.1080/01621459.1968.10480934):
/// its slope is the median of those of all pairs. A median alone would hide a steady drift, most of all at the sweep's ends.
fn along_the_line(runs: &[Reference], at_s: f64) -> f64 {
    let mut slopes = Vec::new();
    for (i, early) in runs.iter().enumerate() {
        let later = runs[i + 1..].iter().filter(|late| late.at_s > early.at_s);
        slopes.extend(later.map(|late| (late.step_us - early.step_us) / (late.at_s - early.at_s)));
    }
    let slope = median(&slopes).unwrap_or(0.0);
    let moved: Vec<f64> = runs.iter().map(|run| run.step_us + slope * (at_s - run.at_s)).collect();
    median(&moved).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(of: impl Fn(f64) -> f64) -> Vec<Reference> {
        (0..12)
            .map(|i| Reference { at_s: f64::from(i) * 10.0, step_us: of(f64::from(i)), relative_sd: 0.002 })
            .collect()
    }

    #[test]
    fn drift_is_followed_noise_is_not_and_too_much_is_refused() {
        let drift = Drift::of(&references(|i| 1000.0 * (1.0 + 0.01 * i))).unwrap();
        assert!((drift.pace(80.0) / drift.pace(20.0) - 1.08 / 1.02).abs() < 0.01, "{drift:?}");
        let noise = Drift::of(&references(|i| 1000.0 + 2.0 * (i * 7.0 % 5.0))).unwrap();
        assert!(drift.scatter < 0.01 && noise.scatter > 5e-4, "{} {}", drift.scatter, noise.scatter);
        assert!(noise.paces.is_empty() && (noise.pace(3.0) - 1.0).abs() < 1e-12);
        let error = Drift::of(&references(|i| 1000.0 * (1.0 + 0.05 * i))).unwrap_err().to_string();
        assert!(error.contains("expected at most 30 %"), "{error}");
    }

    #[test]
    fn a_short_sweeps_drift_is_seen_whole_and_one_outlier_is_none() {
        let short = |of: fn(f64) -> f64| Drift::of(&references(of)[..6]).unwrap();
        let drift = short(|i| 1000.0 * (1.0 + 0.01 * i));
        assert!(
            (drift.range - 0.05).abs() < 1e-9 && (drift.pace(50.0) / drift.pace(0.0) - 1.05).abs() < 1e-9,
            "{drift:?}"
        );
        let outlier = short(|i| if i == 0.0 { 1500.0 } else { 1000.0 + i });
        assert!(outlier.range < 0.006, "{outlier:?}");
    }
}
