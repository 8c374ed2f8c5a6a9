//! report.html: the pictures of a point, a sweep and a plan. One self-contained file each, without scripts and
//! without network; a table under each picture has its numbers.

mod axis;
mod closed;
mod html;
mod plan;
mod point;
mod svg;
mod sweep;
#[cfg(test)]
mod tests;

pub use closed::{ClosedPage, closed_section};
pub use plan::{FleetCapacity, PlanPage, plan_html};
pub use point::{PointPage, point_html};
pub use sweep::{SweepPage, sweep_html, sweep_section};

use crate::report::{Origin, Report};

/// One experiment on the page of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What it found, in a sentence.
    pub verdict: String,
    /// HTML.
    body: String,
}

/// The page of a study of several experiments, each with its own verdict: they are different questions and are
/// never averaged.
#[must_use]
pub fn study_html(title: &str, sections: &[Section]) -> String {
    if let [only] = sections {
        return html::page(title, &only.verdict, &only.body);
    }
    let section = |section: &Section| {
        let (heading, verdict) = (html::escape(&section.heading), html::escape(&section.verdict));
        format!(
            "<section>\n<h2>{heading}</h2>\n<p class=\"verdict\">{verdict}</p>\n{}</section>\n",
            section.body
        )
    };
    let body: String = sections.iter().map(section).collect();
    html::page(title, &format!("{} experiments, each with its own answer.", sections.len()), &body)
}

/// Where the numbers come from, in a sentence: no page must leave that open.
fn origin_sentence(report: &Report) -> String {
    let source = match report.facts.origin {
        Origin::Simulated => "Simulated: a prediction, not a measurement.",
        Origin::Live => "Measured on a live engine.",
        Origin::File => "Read from a file.",
    };
    match &report.facts.schedule_hash {
        Some(hash) => format!("{source} Schedule {}.", hash.chars().take(12).collect::<String>()),
        None => source.to_string(),
    }
}
