//! The page of a grid over a scenario.

use super::heat::{Fill, HeatCell, HeatMap};
use super::html::{escape, figure, notes, number, page, percent, table, table_with_region, yes};
use super::svg::{Chart, Point, Series};
use crate::whatif::{Basis, Cell, Configuration, Tail, Tested};
use std::fmt::Write as _;

/// Lines of a chart: as many as differ in black and white.
const LINES_MAX: usize = 5;

/// What the page of a grid shows.
#[derive(Clone, Copy, Debug)]
pub struct WhatifPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The result in a sentence.
    pub verdict: &'a str,
    /// Where the numbers come from, in a sentence.
    pub origin: &'a str,
    /// What the numbers rest on.
    pub remarks: &'a [String],
    /// The names of the axes of the configurations.
    pub axes: &'a [&'a str],
    /// `peak` or `rps`, and its values: columns of the picture. None if no rate was varied.
    pub rates: Option<(&'a str, &'a [f64])>,
    /// The configurations, in the order of the grid: the last axis runs fastest.
    pub configurations: &'a [Configuration],
}

/// The page of a grid, as HTML.
#[must_use]
pub fn whatif_html(input: &WhatifPage) -> String {
    let mut body = format!("<p>Simulated: a prediction, not a measurement. {}</p>\n", escape(input.origin));
    body.push_str("<h2>Pictures</h2>\n<div class=\"pictures\">\n");
    match input.rates {
        Some((name, rates)) => body.push_str(&verdicts(input, name, rates)),
        None => body.push_str(&capacities(input)),
    }
    if input.configurations.iter().any(|c| c.capacity.is_some()) {
        body.push_str(&capacity_lines(input));
    }
    body.push_str(&tails(input, "P95 TTFT", |tail| tail.p95_ttft_over_cutoff));
    body.push_str(&tails(input, "P95 TPOT", |tail| tail.p95_tpot_over_cutoff));
    body.push_str("</div>\n");
    body.push_str(&notes("Before you believe the numbers", input.remarks));
    if let Some((name, _)) = input.rates {
        let _ = write!(body, "<h2>All cells</h2>\n{}", cell_table(input, name));
    }
    page(input.title, input.verdict, &body)
}

/// `replicas=4, engine.max_num_seqs=32`: some axes of a configuration.
fn label(input: &WhatifPage, configuration: &Configuration, axes: std::ops::Range<usize>) -> String {
    let parts = axes.map(|i| format!("{}={}", input.axes[i], configuration.settings[i]));
    parts.collect::<Vec<_>>().join(", ")
}

fn whole_label(input: &WhatifPage, configuration: &Configuration) -> String {
    if input.axes.is_empty() {
        "as it is".to_owned()
    } else {
        label(input, configuration, 0..input.axes.len())
    }
}

fn verdicts(input: &WhatifPage, name: &str, rates: &[f64]) -> String {
    let fill = |cell: &Cell| match (cell.pass, cell.within_target) {
        (None, _) => Fill::Empty,
        (Some(false), _) => Fill::Hatched,
        (Some(true), Some(false)) => Fill::Grey(0.5),
        (Some(true), _) => Fill::Grey(0.0),
    };
    let heat = |cell: &Cell| HeatCell {
        fill: fill(cell),
        dot: cell.basis == Basis::Simulated,
        text: cell.utilization.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
    };
    let map = HeatMap {
        title: format!("Which configuration passes at which {name}"),
        column_name: format!("{name}, requests/s"),
        columns: rates.iter().map(|&rate| number(rate)).collect(),
        rows: input
            .configurations
            .iter()
            .map(|c| (whole_label(input, c), c.cells.iter().map(heat).collect()))
            .collect(),
        legend: vec![
            (Fill::Grey(0.0), false, "every gate passes, within the target utilization (if known)"),
            (Fill::Grey(0.5), false, "every gate passes, beyond the target utilization"),
            (Fill::Hatched, false, "a gate fails"),
            (Fill::Grey(0.0), true, "with a dot: simulated; without: inferred from the capacity"),
        ],
    };
    figure(
        &format!("Configurations by {name}"),
        "Well below a rate that passes and well above one that fails, a cell is inferred, not simulated.",
        &map.svg(),
        &spans(input),
    )
}

/// From which to which rate a configuration does what.
fn spans(input: &WhatifPage) -> String {
    let columns = ["passes up to", "within target up to", "fails from", "cells simulated"];
    let head: Vec<&str> = input.axes.iter().copied().chain(columns).collect();
    let row = |configuration: &Configuration| {
        let rates_where = |holds: fn(&Cell) -> bool| {
            configuration.cells.iter().filter(move |cell| holds(cell)).map(|cell| cell.offered_rps)
        };
        let passing = |cell: &Cell| cell.pass == Some(true);
        let mut row = configuration.settings.clone();
        row.extend([
            number(rates_where(passing).max_by(f64::total_cmp)),
            number(rates_where(|cell| cell.within_target == Some(true)).max_by(f64::total_cmp)),
            number(rates_where(|cell| cell.pass == Some(false)).min_by(f64::total_cmp)),
            rates_where(|cell| cell.basis == Basis::Simulated).count().to_string(),
        ]);
        row
    };
    table(&head, &input.configurations.iter().map(row).collect::<Vec<_>>())
}

fn cell_table(input: &WhatifPage, rate_name: &str) -> String {
    let head: Vec<&str> = input
        .axes
        .iter()
        .copied()
        .chain([
            rate_name,
            "passes",
            "basis",
            "utilization",
            "headroom/s",
            "P95 TTFT/cutoff",
            "P95 TPOT/cutoff",
        ])
        .collect();
    let rows: Vec<(Vec<String>, bool)> = input
        .configurations
        .iter()
        .flat_map(|configuration| configuration.cells.iter().map(move |cell| (configuration, cell)))
        .map(|(configuration, cell)| {
            let tested = configuration.at(cell.offered_rps);
            let worst = |of: fn(&Tail) -> Option<f64>| number(tested.and_then(|tested| tested.worst(of)));
            let mut row = configuration.settings.clone();
            row.extend([
                number(cell.offered_rps),
                cell.pass.map_or_else(|| "–".to_owned(), yes),
                cell.basis.word().to_owned(),
                percent(cell.utilization),
                number(cell.headroom_rps),
                worst(|tail| tail.p95_ttft_over_cutoff),
                worst(|tail| tail.p95_tpot_over_cutoff),
            ]);
            (row, cell.outside_validity)
        })
        .collect();
    table_with_region(&head, rows)
}

/// Capacities in a grid: the last axis across, the others down.
fn capacities(input: &WhatifPage) -> String {
    let Some((last, others)) = input.axes.split_last() else { return String::new() };
    let greatest = input.configurations.iter().filter_map(Configuration::capacity_rps).fold(0.0, f64::max);
    let heat = |configuration: &Configuration| HeatCell {
        fill: match (configuration.capacity_rps(), configuration.capacity) {
            (Some(rps), _) => Fill::Grey(1.0 - rps / greatest),
            (None, Some(_)) => Fill::Hatched,
            (None, None) => Fill::Empty,
        },
        dot: false,
        text: number(configuration.capacity_rps()),
    };
    let same_row =
        |a: &Configuration, b: &Configuration| a.settings[..others.len()] == b.settings[..others.len()];
    let rows: Vec<_> = input
        .configurations
        .chunk_by(same_row)
        .map(|row| (label(input, &row[0], 0..others.len()), row.iter().map(heat).collect::<Vec<_>>()))
        .collect();
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let map = HeatMap {
        title: "Capacity of each configuration".to_owned(),
        column_name: (*last).to_owned(),
        columns: input.configurations[..columns].iter().map(|c| c.settings[others.len()].clone()).collect(),
        rows,
        legend: vec![
            (Fill::Grey(0.0), false, "the greatest capacity; the darker, the less"),
            (Fill::Hatched, false, "no rate passes"),
        ],
    };
    let reading = "The highest rate found to pass, in requests/s.";
    figure("Capacity of each configuration", reading, &map.svg(), &capacity_table(input))
}

fn capacity_table(input: &WhatifPage) -> String {
    let columns = ["GPUs", "capacity/s", "fails at/s", "at the target utilization/s", "rates simulated"];
    let head: Vec<&str> = input.axes.iter().copied().chain(columns).collect();
    let row = |configuration: &Configuration| {
        let capacity = configuration.capacity_rps();
        let mut row = configuration.settings.clone();
        row.extend([
            configuration.gpus.to_string(),
            number(capacity),
            number(configuration.capacity.and_then(|bracket| bracket.failing_rps)),
            number(capacity.map(|rps| rps * configuration.target_utilization)),
            configuration.tested.len().to_string(),
        ]);
        (row, configuration.capacity_outside_validity())
    };
    table_with_region(&head, input.configurations.iter().map(row).collect())
}

/// `count` of `items`, spread evenly, the first and the last among them.
fn spread<T>(items: &[T], count: usize) -> Vec<&T> {
    if items.len() <= count {
        return items.iter().collect();
    }
    (0..count).map(|i| &items[i * (items.len() - 1) / (count - 1)]).collect()
}

/// Capacity over the first axis, if its values are numbers: a line for each setting of the others.
fn capacity_lines(input: &WhatifPage) -> String {
    let x = |c: &Configuration| c.settings.first().and_then(|text| text.parse::<f64>().ok());
    if input.configurations.len() < 2 || input.configurations.iter().any(|c| x(c).is_none()) {
        return String::new();
    }
    let mut names: Vec<String> = Vec::new();
    for configuration in input.configurations {
        let name = label(input, configuration, 1..input.axes.len());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let line = |name: &&String| {
        let of_line = input.configurations.iter().filter(|c| label(input, c, 1..input.axes.len()) == **name);
        let mut points: Vec<Point> = of_line
            .filter_map(|c| {
                let capacity = c.capacity_rps()?;
                let failing = c.capacity.and_then(|bracket| bracket.failing_rps);
                Some(Point { x: x(c)?, y: capacity, range: failing.map(|failing| (capacity, failing)) })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name: (*name).clone(), points }
    };
    let chart = Chart {
        title: format!("Capacity by {}", input.axes[0]),
        x_label: "",
        y_label: "capacity, requests/s",
        series: spread(&names, LINES_MAX).iter().map(line).collect(),
        limits: Vec::new(),
        mark: None,
        x_from_zero: false,
        y_from_zero: true,
        y_ratio: false,
    };
    let reading = format!(
        "Bars reach from the highest rate that passes to the lowest that fails.{}",
        left_out(names.len(), "settings of the other axes")
    );
    figure(&format!("Capacity by {}", input.axes[0]), &reading, &chart.svg(), &capacity_table(input))
}

fn left_out(count: usize, of_what: &str) -> String {
    if count <= LINES_MAX { String::new() } else { format!(" Drawn are {LINES_MAX} of {count} {of_what}.") }
}

/// The worst class's percentile over its cutoff, by offered rate.
fn tails(input: &WhatifPage, name: &str, of: fn(&Tail) -> Option<f64>) -> String {
    let tested: Vec<&Configuration> = input.configurations.iter().filter(|c| !c.tested.is_empty()).collect();
    let shown = spread(&tested, LINES_MAX);
    let point = |t: &Tested| Some(Point { x: t.offered_rps, y: t.worst(of)?, range: None });
    let series: Vec<Series> = shown
        .iter()
        .map(|c| Series { name: whole_label(input, c), points: c.tested.iter().filter_map(point).collect() })
        .collect();
    let rows: Vec<Vec<String>> = shown
        .iter()
        .flat_map(|c| c.tested.iter().map(move |t| (c, t)))
        .map(|(c, t)| vec![whole_label(input, c), number(t.offered_rps), number(t.worst(of)), yes(t.pass)])
        .collect();
    let chart = Chart {
        title: format!("{name} over its cutoff by offered rate, worst class"),
        x_label: "offered rate, requests/s",
        y_label: "P95 / cutoff",
        series,
        limits: vec![(1.0, "the cutoff".to_owned())],
        mark: None,
        x_from_zero: false,
        y_from_zero: true,
        y_ratio: true,
    };
    let reading = format!(
        "The worst class at each simulated rate. Explains the verdicts, gates nothing.{}",
        left_out(tested.len(), "configurations")
    );
    let head = ["configuration", "offered/s", "P95/cutoff", "passes"];
    figure(&format!("{name} against its cutoff"), &reading, &chart.svg(), &table(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::tests::configuration;

    fn page_of(axes: &[&str], rates: Option<(&str, &[f64])>, configurations: &[Configuration]) -> String {
        let remarks = ["a <remark>".to_owned()];
        let (title, verdict, origin) = ("t", "v", "Profile p.");
        whatif_html(&WhatifPage { title, verdict, origin, remarks: &remarks, axes, rates, configurations })
    }

    fn filled(setting: &str, rates: &[f64]) -> Configuration {
        let mut filled = configuration(&[(24.0, true), (25.0, false)]);
        filled.settings = vec![setting.to_owned()];
        filled.fill(rates);
        filled
    }

    #[test]
    fn a_cell_shows_its_verdict_and_what_it_rests_on() {
        let rates = [16.0, 24.0, 40.0];
        let html =
            page_of(&["replicas"], Some(("peak", &rates)), &[filled("4", &rates), filled("<5>", &rates)]);
        assert_eq!(html.matches("<td>inferred</td>").count(), 4);
        assert_eq!(html.matches("<td>simulated</td>").count(), 2);
        assert!(
            html.contains("url(#stripes)") && html.contains("&lt;5&gt;") && html.contains("a &lt;remark&gt;")
        );
        assert!(!html.contains("<5>") && !html.contains("NaN") && !html.contains("inf\""));
    }

    #[test]
    fn capacities_stand_in_a_grid_or_on_a_line() {
        let all: Vec<Configuration> = (4..=12).map(|n| filled(&n.to_string(), &[])).collect();
        let html = page_of(&["replicas"], None, &all);
        assert!(html.contains("Capacity by replicas") && html.contains("Drawn are 5 of 9 configurations."));
        let nothing = Configuration { capacity: None, tested: Vec::new(), ..filled("4", &[]) };
        assert!(!page_of(&["replicas"], None, &[nothing]).contains("NaN"));
        let alone = Configuration { settings: Vec::new(), ..filled("4", &[24.0]) };
        assert!(page_of(&[], Some(("peak", &[24.0])), &[alone]).contains("as it is"));
    }
}
