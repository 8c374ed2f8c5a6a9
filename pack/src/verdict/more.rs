//! What an inconclusive verdict lacks.

use super::{Compared, Finding, Tolerance};
use crate::interval::normal_quantile;
use serde::Serialize;

/// More repeats than this are not proposed: the difference lies on the edge of its tolerance.
const REPEATS_MAX: f64 = 200.0;
/// Chance that the metric is decided with what is proposed.
const POWER: f64 = 0.8;

/// What would decide it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct More {
    /// The metric that lacks most.
    pub metric: String,
    /// Repeats that would decide it with a chance of four in five; null if no reasonable number would.
    pub repeats: Option<usize>,
    /// Whether its difference is one that the profile's own uncertainty allows for.
    pub allowed_for: bool,
}

impl More {
    /// In a sentence; `now` is the number of repeats made.
    #[must_use]
    pub fn sentence(&self, now: usize) -> String {
        match self.repeats {
            Some(repeats) => format!(
                "{repeats} repeats instead of {now} (or runs longer by as much, where they do not differ more than \
                 their requests do) would decide {}, the least decided one",
                self.metric
            ),
            None => format!(
                "{} lies at the edge of its tolerance{} or is too noisy: no reasonable number of repeats decides it; \
                 widen the tolerance, or take its rate out",
                self.metric,
                if self.allowed_for {
                    ", is off by what the profile's own uncertainty allows for,"
                } else {
                    ""
                }
            ),
        }
    }
}

/// The open metric that needs the most repeats. None if none is open.
pub(super) fn more(compared: &[Compared], repeats: usize, rule: &Tolerance) -> Option<More> {
    let m = compared.len().max(1) as f64;
    let needed = |c: &Compared| {
        let distance = c.tolerance - c.difference.abs();
        let error = if distance > 0.0 { rule.get("confirmed_error") } else { rule.get("refuted_error") / m };
        let errors = normal_quantile(1.0 - error) + normal_quantile(POWER);
        // To refute it, the distance must also be beyond the profile's own uncertainty, which no repeat makes smaller.
        let allowed = if distance > 0.0 { 0.0 } else { normal_quantile(1.0 - error) * c.parameters_sd };
        let left = distance.powi(2) - allowed.powi(2);
        let needed = if left > 0.0 { (errors * c.repeat_sd).powi(2) / left } else { f64::INFINITY };
        needed.max(repeats as f64 + 1.0)
    };
    let open = compared.iter().filter(|c| c.finding == Finding::Open);
    let worst = open.map(|c| (needed(c), c)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(More {
        metric: worst.1.name(),
        repeats: (worst.0 <= REPEATS_MAX).then_some(worst.0.ceil() as usize),
        allowed_for: worst.1.is_allowed_for(rule.get("refuted_error")),
    })
}
