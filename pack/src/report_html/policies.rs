//! The page of a comparison of policies.

use super::html::{escape, figure, notes, page, verdicts};
use super::size::words_table;
use super::svg::{Chart, Measure as Axis, Point, Scale, Series};
use crate::policies::{Difference, LoadRuns, Measure, PolicyRuns, differences_table, loads_table};

/// What the page shows.
#[derive(Clone, Copy, Debug)]
pub struct PoliciesPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The result in sentences.
    pub verdicts: &'a [String],
    /// What the numbers rest on.
    pub remarks: &'a [String],
    /// The classes, in the manifest's order.
    pub classes: &'a [&'a str],
    /// The policies' runs.
    pub policies: &'a [PolicyRuns],
    /// What differs.
    pub differences: &'a [Difference],
}

/// The page, as HTML.
#[must_use]
pub fn policies_html(input: &PoliciesPage<'_>) -> String {
    let answers: Vec<String> = input.verdicts.iter().map(|verdict| escape(verdict)).collect();
    let mut body = verdicts(&answers);
    body +=
        "<p>Simulated: a prediction, not a measurement.</p>\n<h2>Pictures</h2>\n<div class=\"pictures\">\n";
    body += &pareto(input.policies);
    body += &over_load(input.policies, 0, "all classes", Measure::GoodputRps);
    for (class, scope) in input.classes.iter().zip(1..) {
        body += &over_load(input.policies, scope, class, Measure::GoodputRps);
        body += &over_load(input.policies, scope, class, Measure::P95TtftMs);
    }
    body += "</div>\n<h2>Real differences</h2>\n";
    let real = differences_table(input.differences.iter().filter(|difference| difference.real));
    body += &if real.rows.is_empty() {
        "<p>None.</p>\n".to_owned()
    } else {
        words_table("Real differences", &real)
    };
    body += "<h2>All differences</h2>\n";
    body += &words_table("All differences", &differences_table(input.differences.iter()));
    body += "<h2>Loads</h2>\n";
    body += &words_table("Loads", &loads_table(input.policies, input.classes));
    body += &notes("Before you believe the numbers", input.remarks);
    page(input.title, &body)
}

/// Goodput against rejections, a line a policy, a point a load: better is up and to the left.
fn pareto(policies: &[PolicyRuns]) -> String {
    let point = |at: &LoadRuns| {
        let (x, y) = (at.mean(0, Measure::RejectedShare)?, at.mean(0, Measure::GoodputRps)?);
        Some(Point { tag: Some((100.0 * at.load).round() as u32), ..Point::at(100.0 * x, y) })
    };
    let caption = "Goodput against rejections";
    let chart = Chart {
        title: caption.to_owned(),
        x: Axis::new("rejected, % of attempts", Scale::FromZero),
        y: Axis::new("goodput, requests/s", Scale::FromZero),
        series: series(policies, point),
        ..Chart::default()
    };
    let reading = "Up and to the left is better. The small numbers are the load in % of the capacity.";
    figure(caption, reading, &chart.svg(), "")
}

fn over_load(policies: &[PolicyRuns], scope: usize, class: &str, measure: Measure) -> String {
    let caption = format!("{}, {class}", measure.word());
    let scale = if measure == Measure::P95TtftMs { Scale::Ratio } else { Scale::FromZero };
    let chart = Chart {
        title: caption.clone(),
        x: Axis::new("offered, % of the capacity", Scale::Tight),
        y: Axis::new(measure.word(), scale),
        series: series(policies, |at| Some(Point::at(100.0 * at.load, at.mean(scope, measure)?))),
        ..Chart::default()
    };
    figure(&caption, "Means over the runs.", &chart.svg(), "")
}

fn series(policies: &[PolicyRuns], point: impl Fn(&LoadRuns) -> Option<Point>) -> Vec<Series> {
    let of = |policy: &PolicyRuns| Series {
        name: policy.name.clone(),
        points: policy.loads.iter().filter_map(&point).collect(),
        apart: false,
    };
    policies.iter().map(of).collect()
}
