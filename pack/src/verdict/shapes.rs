//! Whole distributions side by side.

use super::measure::{Pair, Point, Run};
use crate::compare::{self, Quantity};
use crate::percentile::rank;
use serde::Serialize;

/// The quantiles of a plot, in per cent.
const QUANTILES: [u32; 15] = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 98, 99];

/// A latency's distribution on both sides, all repeats together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Replicas.
    pub replicas: u32,
    /// The schedules' rate.
    pub offered_rps: f64,
    /// The class.
    pub class: String,
    /// Which latency.
    pub quantity: Quantity,
    /// The greatest difference of the two cumulative shares; null if a side is empty.
    pub kolmogorov_smirnov: Option<f64>,
    /// Quantiles: per cent, predicted and measured milliseconds.
    pub quantiles: Vec<(u32, f64, f64)>,
}

/// Every class's TTFT, TPOT and E2E at each point.
pub(super) fn shapes(points: &[&Point]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for point in points {
        for (class, name) in point.classes().into_iter().enumerate() {
            for quantity in Quantity::ALL {
                let pooled = |of: fn(&Pair) -> &Run| {
                    let all = point.pairs.iter().flat_map(|pair| of(pair).latencies(quantity, class + 1));
                    let mut all: Vec<f64> = all.collect();
                    all.sort_unstable_by(f64::total_cmp);
                    all
                };
                let (a, b) = (pooled(|pair| &pair.predicted), pooled(|pair| &pair.measured));
                let at = |sorted: &[f64], percent| {
                    rank(sorted.len(), percent).checked_sub(1).and_then(|i| sorted.get(i).copied())
                };
                let quantile = |percent| Some((percent, at(&a, percent)?, at(&b, percent)?));
                shapes.push(Shape {
                    replicas: point.replicas,
                    offered_rps: point.offered_rps,
                    class: name.clone(),
                    quantity,
                    kolmogorov_smirnov: compare::distance(quantity, &a, &b).kolmogorov_smirnov,
                    quantiles: QUANTILES.into_iter().filter_map(quantile).collect(),
                });
            }
        }
    }
    shapes
}
