//! The pictures that are grids: verdicts by rate, and capacities.

use super::{WhatifPage, axes_head, by_settings, has_capacities, settings};
use crate::report_html::heat::{Fill, HeatCell, HeatMap};
use crate::report_html::html::{figure, number};
use crate::whatif::{Basis, Cell, Configuration};

/// A row a configuration, a column a rate.
pub(super) fn spans(input: &WhatifPage, name: &str, rates: &[f64]) -> String {
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
    let row = |c: &Configuration| (settings(c, 0), c.cells.iter().map(heat).collect());
    let map = HeatMap {
        title: format!("Which configuration passes at which {name}"),
        row_name: axes_head(input),
        column_name: format!("{name}, requests/s"),
        columns: rates.iter().map(|&rate| number(rate)).collect(),
        rows: input.configurations.iter().map(row).collect(),
        legend: legend(input),
    };
    let reading = if has_capacities(input) {
        "Per cent: utilization. Well below a rate that passes and well above one that fails, a cell is inferred from the \
         capacity, not simulated. Rows stand in the table's order."
    } else {
        "The rates are not compared with a capacity. Rows stand in the table's order."
    };
    figure(&format!("Configurations by {name}"), reading, &map.svg(), &span_table(input))
}

/// What the fills mean, as far as they can occur.
fn legend(input: &WhatifPage) -> Vec<(Fill, bool, &'static str)> {
    let mut legend = vec![(Fill::Hatched, false, "a gate fails")];
    if has_capacities(input) {
        legend.insert(0, (Fill::Grey(0.0), false, "every gate passes, within the target utilization"));
        legend.insert(1, (Fill::Grey(0.5), false, "every gate passes, beyond the target utilization"));
        legend.push((Fill::Grey(0.0), true, "dot: simulated; without: inferred"));
    } else {
        legend.insert(0, (Fill::Grey(0.0), false, "every gate passes"));
    }
    if input.configurations.iter().flat_map(|c| &c.cells).any(|cell| cell.pass.is_none()) {
        legend.push((Fill::Empty, false, "not reached before the request to stop"));
    }
    legend
}

/// From which to which rate a configuration does what.
fn span_table(input: &WhatifPage) -> String {
    fn rates_where(c: &Configuration, holds: fn(&Cell) -> bool) -> impl Iterator<Item = f64> {
        c.cells.iter().filter(move |cell| holds(cell)).map(|cell| cell.offered_rps)
    }
    let greatest = |c: &Configuration, holds| number(rates_where(c, holds).max_by(f64::total_cmp));
    let mut table = by_settings(input, input.configurations, |c| c)
        .key("passes up to, requests/s", |c| greatest(c, |cell| cell.pass == Some(true)));
    if has_capacities(input) {
        table = table.key("within target up to", |c| greatest(c, |cell| cell.within_target == Some(true)));
    }
    table
        .key("fails from", |c| number(rates_where(c, |cell| cell.pass == Some(false)).min_by(f64::total_cmp)))
        .column("cells simulated", |c| {
            rates_where(c, |cell| cell.basis == Basis::Simulated).count().to_string()
        })
        .html("From which to which rate")
}

/// Capacities in a grid: the last axis across, the others down.
pub(super) fn capacities(input: &WhatifPage) -> String {
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
        .map(|row| (row[0].settings[..others.len()].join(" · "), row.iter().map(heat).collect::<Vec<_>>()))
        .collect();
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let map = HeatMap {
        title: "Capacity of each configuration".to_owned(),
        row_name: others.join(" · "),
        column_name: (*last).to_owned(),
        columns: input.configurations[..columns].iter().map(|c| c.settings[others.len()].clone()).collect(),
        rows,
        legend: vec![
            (Fill::Grey(0.0), false, "the greatest capacity; the darker, the less"),
            (Fill::Hatched, false, "no rate passes"),
        ],
    };
    let reading = "The highest rate found to pass, in requests/s. Rows stand in the table's order.";
    figure("Capacity of each configuration, requests/s", reading, &map.svg(), &capacity_table(input))
}

/// What a picture of capacities draws; the table of all configurations has the rest.
pub(super) fn capacity_table(input: &WhatifPage) -> String {
    by_settings(input, input.configurations, |c| c)
        .key("capacity, requests/s", |c| number(c.capacity_rps()))
        .key("fails at, requests/s", |c| number(c.capacity.and_then(|bracket| bracket.failing_rps)))
        .html("Capacities")
}
