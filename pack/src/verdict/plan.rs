//! How many repeats a verdict needs, before any is made.

use super::measure::Point;
use super::{Compared, REPEATS_MIN, Tolerance, compare_all};
use crate::interval::{normal_quantile, t_quantile};
use serde::Serialize;

/// More repeats than this are not recommended.
const REPEATS_MAX: usize = 50;
/// The chance to be inconclusive that a recommended sample size allows, all metrics together.
const INCONCLUSIVE: f64 = 0.2;

/// What a sweep could tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Repeats with which a true model is confirmed, and one that is twice its tolerance off refuted, each with a chance of
    /// four in five; null if more than 50 would be needed.
    pub repeats: Option<usize>,
    /// The metrics, the most demanding first.
    pub rows: Vec<PlanRow>,
}

/// What one metric asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanRow {
    /// Its name with class and point.
    pub name: String,
    /// Standard deviation of one repeat's difference, in the tolerance's unit.
    pub repeat_sd: f64,
    /// How far it may be off.
    pub tolerance: f64,
    /// Repeats that it needs; null beyond 50.
    pub repeats: Option<usize>,
    /// The smallest true difference that the recommended repeats refute with a chance of four in five.
    pub refutable: f64,
}

/// Plans from pilots: pairs of a prediction and a rehearsal of the measurement with the noise that is expected of the engine.
///
/// # Errors
/// Runs of different schedules.
pub fn plan(pilots: &[Point], rule: &Tolerance) -> Result<Plan, String> {
    let points: Vec<&Point> = pilots.iter().collect();
    let (compared, _) = compare_all(&points, rule)?;
    let all = compared.len();
    let mut rows: Vec<(Option<usize>, &Compared)> =
        compared.iter().map(|c| (repeats_for(c, all, points.len(), rule), c)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.0.unwrap_or(usize::MAX)));
    let repeats = rows.iter().map(|row| row.0).collect::<Option<Vec<usize>>>();
    let repeats = repeats.map(|all| all.into_iter().max().unwrap_or(REPEATS_MIN).max(REPEATS_MIN));
    let row = |&(needed, c): &(Option<usize>, &Compared)| {
        let error = c.repeat_sd / (repeats.unwrap_or(REPEATS_MAX) as f64).sqrt();
        let outside = normal_quantile(1.0 - rule.get("refuted_error") / all.max(1) as f64);
        PlanRow {
            name: c.name(),
            repeat_sd: c.repeat_sd,
            tolerance: c.tolerance,
            repeats: needed,
            refutable: c.tolerance
                + outside * error.hypot(c.parameters_sd)
                + normal_quantile(1.0 - INCONCLUSIVE) * error,
        }
    };
    Ok(Plan { repeats, rows: rows.iter().map(row).collect() })
}

/// The fewest repeats with which this metric of a true model is shown inside its tolerance, so surely that all metrics
/// together are with a chance of four in five; and with which one that is off by twice the tolerance is shown outside.
fn repeats_for(compared: &Compared, all: usize, points: usize, rule: &Tolerance) -> Option<usize> {
    let shared = all.max(1) as f64;
    (REPEATS_MIN..=REPEATS_MAX).find(|&repeats| {
        let error = compared.repeat_sd / (repeats as f64).sqrt();
        // The spread between runs is pooled over the points.
        let freedom = (points.max(1) * (repeats - 1)) as f64;
        let inside = t_quantile(1.0 - rule.get("confirmed_error"), freedom);
        let confirm = inside + normal_quantile(1.0 - INCONCLUSIVE / (2.0 * shared));
        let outside = t_quantile(1.0 - rule.get("refuted_error") / shared, freedom);
        let refute =
            outside * error.hypot(compared.parameters_sd) + normal_quantile(1.0 - INCONCLUSIVE) * error;
        let typical = is_headline(compared);
        error * confirm <= compared.tolerance && (!typical || refute <= compared.tolerance)
    })
}

/// The metric by which a wrong step time is seen first: not every metric need be able to refute.
fn is_headline(compared: &Compared) -> bool {
    use crate::compare::{Level, Metric, Quantity};
    compared.metric == Metric::Percentile(Quantity::Tpot, Level::P50)
}
