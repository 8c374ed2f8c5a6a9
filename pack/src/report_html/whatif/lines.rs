//! The pictures that are lines: capacity over an axis, and tails over the rate.

use super::grids::capacity_table;
use super::{WhatifPage, axes_head, by_settings, settings};
use crate::report_html::html::{figure, number, yes};
use crate::report_html::svg::{Chart, Limit, Measure, Point, Scale, Series};
use crate::whatif::{Configuration, Tail, Tested};

/// Lines of a chart: as many as differ in black and white.
const LINES_MAX: usize = 5;

/// `count` of `items`, spread evenly, the first and the last among them.
fn spread<T>(items: &[T], count: usize) -> Vec<&T> {
    if items.len() <= count {
        return items.iter().collect();
    }
    (0..count).map(|i| &items[i * (items.len() - 1) / (count - 1)]).collect()
}

/// What a caption says of lines that are not drawn.
fn left_out(count: usize, of_what: &str) -> String {
    if count <= LINES_MAX {
        return String::new();
    }
    format!(" (drawn are {LINES_MAX} of {count} {of_what}; the table has all)")
}

/// Capacity over the first axis, if its values are numbers: a line for each setting of the others.
pub(super) fn capacity_lines(input: &WhatifPage) -> String {
    let x = |c: &Configuration| c.settings.first().and_then(|text| text.parse::<f64>().ok());
    if input.configurations.len() < 2 || input.configurations.iter().any(|c| x(c).is_none()) {
        return String::new();
    }
    let mut names: Vec<String> = Vec::new();
    for configuration in input.configurations {
        let name = settings(configuration, 1);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let line = |name: &&String| {
        let of_line = input.configurations.iter().filter(|c| settings(c, 1) == **name);
        let mut points: Vec<Point> = of_line
            .filter_map(|c| {
                let capacity = c.capacity_rps()?;
                let failing = c.capacity.and_then(|bracket| bracket.failing_rps);
                Some(Point {
                    range: failing.map(|failing| (capacity, failing)),
                    ..Point::at(x(c)?, capacity)
                })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name: (*name).clone(), points, apart: false }
    };
    let (first, others) = (input.axes[0], &input.axes[1..]);
    let chart = Chart {
        title: format!("Capacity by {first}"),
        x: Measure::new(first, Scale::Tight),
        y: Measure::new("capacity, requests/s", Scale::FromZero),
        series: spread(&names, LINES_MAX).iter().map(line).collect(),
        legend: others.join(" · "),
        ..Chart::default()
    };
    let caption = format!("Capacity by {first}{}", left_out(names.len(), "settings of the other axes"));
    let reading = "Bars reach from the highest rate that passes to the lowest that fails.";
    figure(&caption, reading, &chart.svg(), &capacity_table(input))
}

/// The worst class's percentile over its cutoff, by offered rate.
pub(super) fn tails(input: &WhatifPage, name: &str, of: fn(&Tail) -> Option<f64>) -> String {
    let tested: Vec<&Configuration> = input.configurations.iter().filter(|c| !c.tested.is_empty()).collect();
    let point = |t: &Tested| Some(Point::at(t.offered_rps, t.worst(of)?));
    let series = spread(&tested, LINES_MAX).into_iter().map(|c| Series {
        name: settings(c, 0),
        points: c.tested.iter().filter_map(point).collect(),
        apart: false,
    });
    let chart = Chart {
        title: format!("{name} over its cutoff by offered rate, worst class"),
        x: Measure::new("offered rate, requests/s", Scale::Tight),
        y: Measure::new(format!("{name} / cutoff"), Scale::Ratio),
        series: series.collect(),
        legend: axes_head(input),
        limits: vec![Limit::of_all(1.0, "the cutoff")],
        ..Chart::default()
    };
    let rows: Vec<(&Configuration, &Tested)> =
        tested.iter().flat_map(|c| c.tested.iter().map(move |t| (*c, t))).collect();
    let numbers = by_settings(input, &rows, |(configuration, _)| configuration)
        .key("offered, requests/s", |(_, t)| number(t.offered_rps))
        .key(format!("{name} / cutoff"), |(_, t)| number(t.worst(of)))
        .key("passes", |(_, t)| yes(t.pass))
        .html(&format!("{name} against its cutoff"));
    let caption = format!("{name} against its cutoff{}", left_out(tested.len(), "configurations"));
    let reading = "The worst class at each simulated rate. Explains the verdicts, gates nothing.";
    figure(&caption, reading, &chart.svg(), &numbers)
}
