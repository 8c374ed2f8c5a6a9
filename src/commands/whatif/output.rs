//! What `scaleproof whatif` writes and prints.

use super::Grid;
use crate::args::Format;
use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::input::Loaded;
use crate::report_text::merged;
use crate::study::{print_out, shown};
use crate::table::{counted, number, table, table_with_region};
use scaleproof_pack::grid::What;
use scaleproof_pack::report::{Origin, RunFacts};
use scaleproof_pack::report_html::{WhatifPage, whatif_html};
use scaleproof_pack::whatif::{
    Basis, Cell, Configuration, SmallestFleet, Tail, smallest_fleets, write_summary,
};
use serde_json::{Value, json};
use std::path::Path;

/// Warnings of the runs that are shown; the JSON has them all.
const WARNINGS_SHOWN: usize = 5;

/// Writes the files of the grid: its start, summary.csv, whatif.json and report.html.
pub fn write(grid: &Grid<'_>, directory: &Path) -> Result<(), CommandError> {
    let base = grid.base;
    for (name, text) in base.pack_texts(base.manifest.engine.placement.replicas) {
        files::write(&directory.join(name), text.as_bytes())?;
    }
    let path = directory.join(files::SUMMARY);
    let mut file = Pending::create(&path)?;
    let classes: Vec<&str> = base.manifest.classes.iter().map(|class| class.name.as_str()).collect();
    write_summary(&mut file, &axis_names(grid), &classes, &grid.configurations)
        .map_err(|error| unwritable(&path, &error))?;
    file.keep()?;
    let json = serde_json::to_string_pretty(&json(grid)).map_err(CommandError::could_not_run)?;
    files::write(&directory.join("whatif.json"), format!("{json}\n").as_bytes())?;
    let (names, remarks) = (axis_names(grid), remarks(grid));
    let page = whatif_html(&WhatifPage {
        title: &format!("{}: what if {}", base.served(), varied(grid)),
        verdict: &verdict(grid),
        base: &base_facts(base, base.shared_prefixes(&grid.args.common.source.cache)?),
        remarks: &remarks,
        axes: &names,
        rates: grid.rate.as_ref().map(|(axis, rates)| (axis.name.as_str(), rates.as_slice())),
        configurations: &grid.configurations,
    });
    files::write(&directory.join(files::PAGE), page.as_bytes())
}

/// Prints the grid.
pub fn print(grid: &Grid<'_>, directory: &Path, format: Format) -> Result<(), CommandError> {
    print_out(&match format {
        Format::Json => {
            let mut printed = json(grid);
            printed["pack"] = shown(directory).into();
            serde_json::to_string_pretty(&printed).map_err(CommandError::could_not_run)? + "\n"
        }
        Format::Text => {
            format!("{}\n{}pack: {}\n", text(grid), grid.base.footing(), directory.display())
        }
    })
}

fn axis_names<'a>(grid: &Grid<'a>) -> Vec<&'a str> {
    grid.axes.iter().map(|axis| axis.name.as_str()).collect()
}

/// `replicas and peak vary`.
fn varied(grid: &Grid<'_>) -> String {
    let mut names = axis_names(grid);
    names.extend(grid.rate.as_ref().map(|(axis, _)| axis.name.as_str()));
    match names.as_slice() {
        [only] => format!("{only} varies"),
        names => format!("{} vary", names.join(" and ")),
    }
}

/// What the scenario is without the grid's settings.
fn base_facts(base: &Loaded, shared_prefixes: bool) -> RunFacts {
    let replicas = base.manifest.engine.placement.replicas;
    RunFacts {
        origin: Origin::Simulated,
        seed: Some(base.manifest.client.request_schedule_seed),
        system: Some(base.system_facts(replicas, shared_prefixes)),
        ..RunFacts::of_file()
    }
}

fn simulated(grid: &Grid<'_>) -> usize {
    grid.configurations.iter().map(|configuration| configuration.tested.len()).sum()
}

fn cells<'g>(grid: &'g Grid<'_>) -> impl Iterator<Item = &'g Cell> {
    grid.configurations.iter().flat_map(|configuration| &configuration.cells)
}

fn json(grid: &Grid<'_>) -> Value {
    json!({
        "seed": grid.base.manifest.client.request_schedule_seed,
        "profile": grid.base.profile_facts(),
        "axes": axis_names(grid),
        "rate_axis": grid.rate.as_ref().map(|(axis, _)| &axis.name),
        "within": grid.args.within,
        "rates_simulated": simulated(grid),
        "configurations": grid.configurations,
        "smallest_fleets": fleets(grid),
        "warnings": remarks(grid),
    })
}

fn verdict(grid: &Grid<'_>) -> String {
    let (count, simulated) = (grid.configurations.len(), simulated(grid));
    let passing = cells(grid).filter(|cell| cell.pass == Some(true)).count();
    match &grid.rate {
        Some((axis, _)) => format!(
            "{passing} of {} cells pass every gate: {count} configurations at {} values of {}, {simulated} rates \
             simulated.",
            cells(grid).count(),
            grid.rates().len(),
            axis.name
        ),
        None => format!("The capacities of {count} configurations, from {simulated} simulated rates."),
    }
}

/// What a reader should know.
fn remarks(grid: &Grid<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if grid.wants_capacity() {
        remarks.push(format!(
            "each capacity is the highest rate found to pass, to within {} % below one that fails, in one run of one \
             seed: all cells see the same requests",
            grid.args.within * 100.0
        ));
    }
    let unfinished = cells(grid).filter(|cell| cell.basis == Basis::Unfinished).count();
    let unknown = grid.configurations.iter().filter(|c| c.capacity.is_none()).count();
    if unfinished > 0 {
        remarks.push(format!("{unfinished} cells were not reached before the request to stop"));
    } else if grid.wants_capacity() && unknown > 0 {
        remarks.push(format!("{unknown} capacities were not found before the request to stop"));
    }
    for (index, configuration) in grid.configurations.iter().enumerate() {
        if let Some(rps) = configuration.unjudged_rps() {
            remarks.push(format!(
                "{}the search ended at {rps} requests/s, which so short a run cannot judge: the capacity may be \
                 higher; offer more requests",
                grid.label(index)
            ));
        }
        for rps in configuration.odd_rates() {
            remarks.push(format!(
                "{}fails at {rps} requests/s although a higher rate passes: rates in between are not resolved",
                grid.label(index)
            ));
        }
    }
    let tested = grid.configurations.iter().flat_map(|configuration| &configuration.tested);
    let of_runs = merged(tested.flat_map(|tested| &tested.warnings));
    remarks.extend(of_runs.iter().take(WARNINGS_SHOWN).map(|warning| format!("some runs: {warning}")));
    if of_runs.len() > WARNINGS_SHOWN {
        let more = of_runs.len() - WARNINGS_SHOWN;
        remarks.push(format!("{more} other warnings of runs are in whatif.json"));
    }
    remarks
}

fn text(grid: &Grid<'_>) -> String {
    let mut text = if grid.wants_capacity() { capacity_table(grid) } else { rate_table(grid) };
    if let Some((axis, _)) = &grid.rate
        && axis.what == What::Peak
    {
        text += &format!("\n{}", matrix(grid, &axis.name));
    }
    text += &fleets_text(grid);
    text += &format!("\n{}\n", verdict(grid));
    for remark in remarks(grid) {
        text += &format!("note: {remark}\n");
    }
    text
}

/// The smallest fleets, where both replicas and a rate are varied.
fn fleets(grid: &Grid<'_>) -> Vec<SmallestFleet> {
    let axis = grid.axes.iter().position(|axis| axis.what == What::Replicas);
    axis.map_or_else(Vec::new, |axis| smallest_fleets(&grid.configurations, axis))
}

/// A line for neighbouring rates with the same answer.
fn fleets_text(grid: &Grid<'_>) -> String {
    let others: Vec<&str> =
        grid.axes.iter().filter(|axis| axis.what != What::Replicas).map(|axis| axis.name.as_str()).collect();
    let name = grid.rate.as_ref().map_or("", |(axis, _)| &axis.name);
    let fleets = fleets(grid);
    let same = |a: &SmallestFleet, b: &SmallestFleet| {
        (&a.settings, a.replicas, a.replicas_within_target)
            == (&b.settings, b.replicas, b.replicas_within_target)
    };
    let line = |rates: &[SmallestFleet]| {
        let (first, last) = (&rates[0], &rates[rates.len() - 1]);
        let settings: String =
            others.iter().zip(&first.settings).map(|(name, value)| format!("{name}={value}, ")).collect();
        let to = if rates.len() == 1 { String::new() } else { format!(" to {}", last.offered_rps) };
        let target = match (first.replicas, first.replicas_within_target) {
            (Some(passing), Some(within)) if within > passing => {
                format!(" (+{} for the target utilization)", within - passing)
            }
            (Some(_), None) if grid.wants_capacity() => {
                " (none of the grid is within the target utilization)".to_owned()
            }
            _ => String::new(),
        };
        let fleet = first
            .replicas
            .map_or_else(|| "none of the grid".to_owned(), |replicas| counted(replicas.into(), "replica"));
        format!("smallest fleet for {settings}a {name} of {}{to}: {fleet}{target}\n", first.offered_rps)
    };
    let lines: String = fleets.chunk_by(same).map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn capacity_table(grid: &Grid<'_>) -> String {
    let mut headers = axis_names(grid);
    headers.extend([
        "GPUs",
        "capacity rps",
        "fails at rps",
        "at target rps",
        "P95 TTFT/cutoff",
        "P95 TPOT/cutoff",
        "rates",
    ]);
    let row = |configuration: &Configuration| {
        let capacity = configuration.capacity_rps();
        let there = capacity.and_then(|rps| configuration.at(rps));
        let worst = |of: fn(&Tail) -> Option<f64>| number(there.and_then(|tested| tested.worst(of)), 2);
        let mut row = configuration.settings.clone();
        row.extend([
            configuration.gpus.to_string(),
            number(capacity, 2),
            number(configuration.capacity.and_then(|bracket| bracket.failing_rps), 2),
            number(capacity.map(|rps| rps * configuration.target_utilization), 2),
            worst(|tail| tail.p95_ttft_over_cutoff),
            worst(|tail| tail.p95_tpot_over_cutoff),
            configuration.tested.len().to_string(),
        ]);
        (row, configuration.capacity_outside_validity().then_some("OUTSIDE"))
    };
    table_with_region(&headers, grid.configurations.iter().map(row).collect())
        + "the P95 columns are of the worst class at the capacity; rates counts those simulated\n"
}

fn rate_table(grid: &Grid<'_>) -> String {
    let mut headers = axis_names(grid);
    headers.extend(["rps", "gates", "goodput rps", "P95 TTFT/cutoff", "P95 TPOT/cutoff", "failing"]);
    let mut rows = Vec::new();
    for configuration in &grid.configurations {
        for tested in &configuration.tested {
            let mut row = configuration.settings.clone();
            row.extend([
                number(Some(tested.offered_rps), 2),
                if tested.pass { "pass" } else { "fail" }.to_owned(),
                number(tested.observed_goodput_rps, 2),
                number(tested.worst(|tail| tail.p95_ttft_over_cutoff), 2),
                number(tested.worst(|tail| tail.p95_tpot_over_cutoff), 2),
                tested.failing_gates.join(", "),
            ]);
            rows.push((row, tested.outside_validity.then_some("OUTSIDE")));
        }
    }
    table_with_region(&headers, rows)
}

/// A character a cell.
fn matrix(grid: &Grid<'_>, name: &str) -> String {
    let rates = grid.rates();
    let glyph = |cell: &Cell| match (cell.basis, cell.pass, cell.within_target) {
        (Basis::Simulated, Some(true), Some(true)) => 'T',
        (Basis::Inferred, Some(true), Some(true)) => 't',
        (Basis::Simulated, Some(true), _) => 'P',
        (Basis::Inferred, Some(true), _) => 'p',
        (Basis::Simulated, ..) => 'F',
        (Basis::Inferred, ..) => '.',
        (Basis::Unfinished, ..) => '?',
    };
    let row = |(index, configuration): (usize, &Configuration)| {
        vec![grid.label(index).trim().to_owned(), configuration.cells.iter().map(glyph).collect::<String>()]
    };
    let span = match (rates.first(), rates.last()) {
        (Some(first), Some(last)) => format!("{name} {first} to {last}, {} values", rates.len()),
        _ => String::new(),
    };
    let rows: Vec<Vec<String>> = grid.configurations.iter().enumerate().map(row).collect();
    table(&["configuration", &span], &rows)
        + "t within the target utilization, p passes, . fails: inferred from the capacity; T, P, F: simulated\n"
}
