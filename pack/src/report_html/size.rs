//! The page of a comparison of systems that are not bought yet.

use super::bars::{Bar, bars};
use super::html::{escape, figure, notes, page, verdicts};
use super::table;
use crate::size::{Candidate, Table, fleet_table, memory_table, refused_table};

/// What the page of a comparison shows.
#[derive(Clone, Copy, Debug)]
pub struct SizePage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The result in a sentence.
    pub verdict: &'a str,
    /// What the numbers rest on.
    pub remarks: &'a [String],
    /// The candidates, the best first.
    pub candidates: &'a [Candidate],
}

/// The page of a comparison, as HTML.
#[must_use]
pub fn size_html(input: &SizePage) -> String {
    let mut body = verdicts(&[escape(input.verdict)]);
    body += "<p>Simulated: a prediction, not a measurement.</p>\n";
    let fleets = fleet_table(input.candidates);
    if !fleets.rows.is_empty() {
        body.push_str("<h2>Pictures</h2>\n<div class=\"pictures\">\n");
        body.push_str(&fleet_picture(input.candidates));
        body.push_str(&capacity_picture(input.candidates));
        body.push_str("</div>\n<h2>Fleets</h2>\n");
        body.push_str(&words_table("Fleets", &fleets));
    }
    let refused = refused_table(input.candidates);
    if !refused.rows.is_empty() {
        body.push_str("<h2>Without a fleet</h2>\n");
        body.push_str(&words_table("Without a fleet", &refused));
    }
    body.push_str("<h2>Memory of each GPU</h2>\n");
    body.push_str(&words_table("Memory of each GPU", &memory_table(input.candidates)));
    body.push_str(&notes("Before you believe the numbers", input.remarks));
    page(input.title, &body)
}

/// Longer cells are sentences, and may take several lines.
const SENTENCE: usize = 30;

pub(super) fn words_table(label: &str, of: &Table) -> String {
    let columns = of.headers.iter().enumerate();
    let empty = table::Table::of(&of.rows);
    let filled = columns.fold(empty, |table, (i, head)| {
        let cell = |row: &Vec<String>| row.get(i).cloned().unwrap_or_default();
        let sentences = of.rows.iter().any(|row| row.get(i).is_some_and(|cell| cell.len() > SENTENCE));
        match (i, sentences) {
            (0, _) => table.key(head.as_str(), cell),
            (_, true) => table.text(head.as_str(), cell),
            (_, false) => table.column(head.as_str(), cell),
        }
    });
    filled.html(label)
}

/// What the fleets cost, or how many GPUs they have.
fn fleet_picture(candidates: &[Candidate]) -> String {
    let currency = candidates.iter().find_map(|c| c.cost.as_ref()).map(|cost| cost.currency.clone());
    let bar = |candidate: &Candidate| {
        let fleet = candidate.fleet.as_ref()?;
        let gpus = f64::from(fleet.plan.planned_gpus);
        let each = candidate.cost.as_ref().map_or(1.0, |cost| cost.per_hour / gpus);
        let range = fleet.gpus_interval.map(|(low, high)| (f64::from(low) * each, f64::from(high) * each));
        Some(Bar { name: candidate.name.clone(), value: gpus * each, range })
    };
    let (caption, label) = match currency {
        Some(currency) => ("Cost of the fleet".to_owned(), format!("{currency} per hour")),
        None => ("GPUs of the fleet".to_owned(), "GPUs".to_owned()),
    };
    let drawn: Vec<Bar> = candidates.iter().filter_map(bar).collect();
    picture(&caption, &label, "The bar is the fleet planned at the confidence asked for.", &drawn)
}

fn capacity_picture(candidates: &[Candidate]) -> String {
    let bar = |candidate: &Candidate| {
        let capacity = candidate.capacity.as_ref().filter(|_| candidate.fleet.is_some())?;
        let range = capacity.interval_rps.map(|interval| (interval.low, interval.high));
        Some(Bar { name: candidate.name.clone(), value: capacity.own_rps, range })
    };
    let drawn: Vec<Bar> = candidates.iter().filter_map(bar).collect();
    let reading = "The bar is what a replica carries with the profile's own parameters.";
    picture("Capacity of a replica", "requests/s", reading, &drawn)
}

fn picture(caption: &str, label: &str, bar: &str, drawn: &[Bar]) -> String {
    let reading = format!("{bar} The black line is the interval over the draws.");
    let number = |value: f64| format!("{value:.2}");
    let range = |bar: &Bar| bar.range.unwrap_or((bar.value, bar.value));
    let table = table::Table::of(drawn)
        .key("configuration", |bar| bar.name.clone())
        .key(label, |bar| number(bar.value))
        .column("from", |bar| number(range(bar).0))
        .column("to", |bar| number(range(bar).1));
    figure(caption, &reading, &bars(caption, label, drawn), &table.html(caption))
}
