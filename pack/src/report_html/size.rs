//! The page of a comparison of systems that are not bought yet.

use super::bars::{Bar, bars};
use super::html::{figure, notes, page, table};
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
    let mut body = String::from("<p>Simulated: a prediction, not a measurement.</p>\n");
    let fleets = fleet_table(input.candidates);
    if !fleets.rows.is_empty() {
        body.push_str("<h2>Pictures</h2>\n<div class=\"pictures\">\n");
        body.push_str(&fleet_picture(input.candidates));
        body.push_str(&capacity_picture(input.candidates));
        body.push_str("</div>\n<h2>Fleets</h2>\n");
        body.push_str(&html(&fleets));
    }
    let refused = refused_table(input.candidates);
    if !refused.rows.is_empty() {
        body.push_str("<h2>Without a fleet</h2>\n");
        body.push_str(&html(&refused));
    }
    body.push_str("<h2>Memory of each GPU</h2>\n");
    body.push_str(&html(&memory_table(input.candidates)));
    body.push_str(&notes("Before you believe the numbers", input.remarks));
    page(input.title, input.verdict, &body)
}

fn html(of: &Table) -> String {
    table(&of.headers.iter().map(String::as_str).collect::<Vec<_>>(), &of.rows)
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
    let row = |bar: &Bar| {
        let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
        vec![bar.name.clone(), number(bar.value), number(low), number(high)]
    };
    let rows: Vec<Vec<String>> = drawn.iter().map(row).collect();
    figure(
        caption,
        &reading,
        &bars(caption, label, drawn),
        &table(&["configuration", label, "from", "to"], &rows),
    )
}
