//! The reference point: the same kind of small run again and again between the others. It tells a drifting machine from a
//! wrong model.

use serde::Serialize;

/// Fewest runs that tell a drift from noise.
const RUNS_MIN: usize = 3;

/// One run of the reference point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Reference {
    /// Mean E2E of its requests as predicted, in milliseconds.
    pub predicted_ms: f64,
    /// The same as measured.
    pub measured_ms: f64,
}

/// How far the machine drifted: the greatest difference between the mean levels of any two thirds of the sweep, the later
/// less the earlier, as a share. A level is measured over predicted, so that what the runs were sent does not count.
pub(super) fn drift(references: &[Reference]) -> Option<f64> {
    let levels: Vec<f64> = references.iter().map(|run| run.measured_ms / run.predicted_ms).collect();
    if levels.len() < RUNS_MIN || levels.iter().any(|level| !level.is_finite() || *level <= 0.0) {
        return None;
    }
    let third = |i: usize| {
        let part = &levels[levels.len() * i / 3..levels.len() * (i + 1) / 3];
        part.iter().sum::<f64>() / part.len() as f64
    };
    let thirds = [third(0), third(1), third(2)];
    let changes = [(0, 1), (0, 2), (1, 2)].map(|(from, to)| thirds[to] / thirds[from] - 1.0);
    changes.into_iter().max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(levels: &[f64]) -> Vec<Reference> {
        let run = |(i, level): (usize, &f64)| {
            let predicted_ms = 100.0 + i as f64;
            Reference { predicted_ms, measured_ms: predicted_ms * level }
        };
        levels.iter().enumerate().map(run).collect()
    }

    #[test]
    fn a_change_is_seen_wherever_it_is_and_a_constant_error_is_none() {
        assert!(drift(&runs(&[1.2; 6])).unwrap().abs() < 1e-12, "a wrong model does not drift");
        assert!((drift(&runs(&[1.0, 1.0, 1.05, 1.05, 1.1, 1.1])).unwrap() - 0.1).abs() < 1e-9);
        assert!((drift(&runs(&[1.0, 1.0, 1.2, 1.2, 1.0, 1.0])).unwrap() - 0.2).abs() < 1e-9, "in the middle");
        assert_eq!(drift(&runs(&[1.0, 2.0])), None);
        assert_eq!(drift(&runs(&[1.0, f64::NAN, 1.0])), None);
    }
}
