//! The page of a grid over a scenario.

mod grids;
mod lines;

use super::basis;
use super::html::{escape, notes, number, page, percent, verdicts, yes};
use super::sweep::{failing_gates, region};
use super::table::{NONE, Table};
use crate::report::RunFacts;
use crate::whatif::{Cell, Configuration, Tail, Tested};
use grids::{capacities, spans};
use lines::{capacity_lines, tails};

/// What the page of a grid shows.
#[derive(Clone, Copy, Debug)]
pub struct WhatifPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The result in a sentence.
    pub verdict: &'a str,
    /// What the scenario is without the grid's settings.
    pub base: &'a RunFacts,
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
    let mut body = verdicts(&[escape(input.verdict) + &escape(&extremes(input))]);
    body += &format!("<p class=\"basis\">{}</p>\n", escape(&sources(input)));
    body += "<h2>Pictures</h2>\n<div class=\"pictures\">\n";
    match input.rates {
        Some((name, rates)) => body += &spans(input, name, rates),
        None => body += &capacities(input),
    }
    if has_capacities(input) {
        body += &capacity_lines(input);
    }
    body += &tails(input, "P95 TTFT", |tail| tail.p95_ttft_over_cutoff);
    body += &tails(input, "P95 TPOT", |tail| tail.p95_tpot_over_cutoff);
    body += "</div>\n";
    if has_capacities(input) {
        body += &format!(
            "<h2>All configurations</h2>\n<p>P95s are of the worst class at the capacity.</p>\n{}",
            configuration_table(input)
        );
    }
    if let Some((name, _)) = input.rates {
        body += &format!(
            "<h2>All cells</h2>\n<p>P95s are of the worst class, where it was simulated.</p>\n{}",
            cell_table(input, name)
        );
    }
    body += &notes("Before you believe the numbers", input.remarks);
    page(input.title, &body)
}

fn has_capacities(input: &WhatifPage) -> bool {
    input.configurations.iter().any(|c| c.capacity.is_some())
}

/// Profile, seed and schedules. A cell's rate has a schedule of its own.
fn sources(input: &WhatifPage) -> String {
    let tested = input.configurations.iter().flat_map(|c| &c.tested);
    let of_run =
        |tested: &Tested| RunFacts { schedule_hash: tested.schedule_hash.clone(), ..input.base.clone() };
    let runs: Vec<RunFacts> = tested.map(of_run).collect();
    let varied = if input.axes.is_empty() { "" } else { " What is varied stands in the tables." };
    format!("{} {}{varied}", basis::source(input.base), basis::schedules(runs.iter(), "whatif.json"))
}

/// The axes of the configurations as the head of their settings.
fn axes_head(input: &WhatifPage) -> String {
    input.axes.join(" · ")
}

/// A configuration's settings in the order of the axes, from the axis `from` on.
fn settings(configuration: &Configuration, from: usize) -> String {
    match configuration.settings.get(from..) {
        Some(some) if !some.is_empty() => some.join(" · "),
        _ => "as it is".to_owned(),
    }
}

/// The least and the greatest capacity, and whose they are.
fn extremes(input: &WhatifPage) -> String {
    let known = || input.configurations.iter().filter_map(|c| Some((c.capacity_rps()?, c)));
    let least = known().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = known().max_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(least), Some(most)) = (least, most) else { return String::new() };
    if least.0.total_cmp(&most.0).is_eq() {
        return format!(" Capacity: {} requests/s.", number(least.0));
    }
    let of = |(rps, configuration): (f64, &Configuration)| {
        let named =
            input.axes.iter().zip(&configuration.settings).map(|(axis, value)| format!("{axis}={value}"));
        format!("{} requests/s ({})", number(rps), named.collect::<Vec<_>>().join(", "))
    };
    format!(" Capacities from {} to {}.", of(least), of(most))
}

/// A table with a column for each axis of a row's configuration.
fn by_settings<'a, R>(input: &WhatifPage, rows: &'a [R], of: fn(&R) -> &Configuration) -> Table<'a, R> {
    let column = |table: Table<'a, R>, (i, axis): (usize, &&str)| {
        table.key(*axis, move |row| of(row).settings.get(i).cloned().unwrap_or_default())
    };
    let first = Table::of(rows);
    let first =
        if input.axes.is_empty() { first.key("configuration", |_| "as it is".to_owned()) } else { first };
    input.axes.iter().enumerate().fold(first, column)
}

fn worst(tested: Option<&Tested>, of: fn(&Tail) -> Option<f64>) -> String {
    number(tested.and_then(|tested| tested.worst(of)))
}

fn configuration_table(input: &WhatifPage) -> String {
    let failing = |c: &Configuration| c.at(c.capacity?.failing_rps?).cloned();
    let there = |c: &Configuration| c.at(c.capacity_rps()?).cloned();
    by_settings(input, input.configurations, |c| c)
        .column("GPUs", |c| c.gpus.to_string())
        .key("capacity, requests/s", |c| number(c.capacity_rps()))
        .column("at the target utilization, requests/s", |c| {
            number(c.capacity_rps().map(|rps| rps * c.target_utilization))
        })
        .column("P95 TTFT / cutoff", |c| worst(there(c).as_ref(), |tail| tail.p95_ttft_over_cutoff))
        .column("P95 TPOT / cutoff", |c| worst(there(c).as_ref(), |tail| tail.p95_tpot_over_cutoff))
        .column("fails at, requests/s", |c| number(c.capacity.and_then(|bracket| bracket.failing_rps)))
        .text("failing gates there", |c| {
            failing(c).map_or(NONE.to_owned(), |t| failing_gates(t.failing_gates.iter().map(String::as_str)))
        })
        .column("rates simulated", |c| c.tested.len().to_string())
        .column("profile's region", |c| region(c.capacity_outside_validity()))
        .html("All configurations")
}

fn cell_table(input: &WhatifPage, rate_name: &str) -> String {
    let cells: Vec<(&Configuration, &Cell)> =
        input.configurations.iter().flat_map(|c| c.cells.iter().map(move |cell| (c, cell))).collect();
    let tested =
        |(configuration, cell): &(&Configuration, &Cell)| configuration.at(cell.offered_rps).cloned();
    by_settings(input, &cells, |(configuration, _)| configuration)
        .key(format!("{rate_name}, requests/s"), |(_, cell)| number(cell.offered_rps))
        .key("passes", |(_, cell)| cell.pass.map_or_else(|| NONE.to_owned(), yes))
        .column("basis", |(_, cell)| cell.basis.word().to_owned())
        .column("utilization", |(_, cell)| percent(cell.utilization))
        .column("headroom, requests/s", |(_, cell)| number(cell.headroom_rps))
        .column("P95 TTFT / cutoff", |row| worst(tested(row).as_ref(), |tail| tail.p95_ttft_over_cutoff))
        .column("P95 TPOT / cutoff", |row| worst(tested(row).as_ref(), |tail| tail.p95_tpot_over_cutoff))
        .text("failing gates", |row| {
            tested(row).map_or(NONE.to_owned(), |t| failing_gates(t.failing_gates.iter().map(String::as_str)))
        })
        .column("profile's region", |(_, cell)| region(cell.outside_validity))
        .html("All cells")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::tests::configuration;

    fn page_of(axes: &[&str], rates: Option<(&str, &[f64])>, configurations: &[Configuration]) -> String {
        let (remarks, base) = (["a <remark>".to_owned()], RunFacts { seed: Some(7), ..RunFacts::of_file() });
        let input = WhatifPage {
            title: "t",
            verdict: "v",
            base: &base,
            remarks: &remarks,
            axes,
            rates,
            configurations,
        };
        whatif_html(&input)
    }

    fn filled(settings: &[&str], rates: &[f64]) -> Configuration {
        let mut filled = configuration(&[(24.0, true), (25.0, false)]);
        filled.settings = settings.iter().map(|s| (*s).to_owned()).collect();
        filled.fill(rates);
        filled
    }

    #[test]
    fn a_cell_shows_its_verdict_and_what_it_rests_on() {
        let rates = [16.0, 24.0, 40.0];
        let mut four = filled(&["4"], &rates);
        four.tested[1].failing_gates = vec!["queue_<trend>".to_owned()];
        let html = page_of(&["replicas"], Some(("peak", &rates)), &[four, filled(&["<5>"], &rates)]);
        assert_eq!(html.matches("<td>inferred</td>").count(), 4);
        assert_eq!(html.matches("<td>simulated</td>").count(), 2);
        assert!(
            html.contains("url(#stripes)") && html.contains("&lt;5&gt;") && html.contains("a &lt;remark&gt;")
        );
        assert!(html.contains("<td class=\"text\">queue_&lt;trend&gt;</td>"));
        assert!(!html.contains("<5>") && !html.contains("NaN") && !html.contains("inf\""));
    }

    #[test]
    fn capacities_stand_in_a_grid_or_on_a_line() {
        let all: Vec<Configuration> = (4..=12).map(|n| filled(&[&n.to_string()], &[])).collect();
        let html = page_of(&["replicas"], None, &all);
        assert!(html.contains("Capacity by replicas") && html.contains(">replicas</text>"));
        assert!(
            html.contains("drawn are 5 of 9") && html.matches("<td>25</td>").count() == 9 * 4,
            "the tables have them all"
        );
        let nothing = Configuration { capacity: None, tested: Vec::new(), ..filled(&["4"], &[]) };
        assert!(!page_of(&["replicas"], None, &[nothing]).contains("NaN"));
        let alone = Configuration { settings: Vec::new(), ..filled(&[], &[24.0]) };
        assert!(page_of(&[], Some(("peak", &[24.0])), &[alone]).contains("as it is"));
    }

    #[test]
    fn rows_of_two_axes_can_be_told_apart() {
        let rates = [20.0];
        let all = [filled(&["0.2", "4"], &rates), filled(&["0.2", "5"], &rates)];
        let html = page_of(&["mix.long_context", "replicas"], Some(("peak", &rates)), &all);
        for label in ["mix.long_context · replicas", ">0.2 · 4<", ">0.2 · 5<"] {
            assert!(html.contains(label), "{label}");
        }
        let long = |n: usize| format!("{}{n}", "x".repeat(60));
        let all = [filled(&[&long(1)], &rates), filled(&[&long(2)], &rates)];
        let html = page_of(&["profile"], Some(("peak", &rates)), &all);
        assert!(html.contains(">row 1<") && html.contains(">row 2<"), "too long to be told apart: numbered");
    }

    #[test]
    fn the_page_says_what_it_rests_on() {
        let mut one = filled(&["4"], &[]);
        one.tested[0].schedule_hash = Some("0123456789abcdef".to_owned());
        let html = page_of(&["replicas"], None, &[one]);
        assert!(html.contains("Seed 7; schedule 0123456789ab."), "{html}");
    }
}
