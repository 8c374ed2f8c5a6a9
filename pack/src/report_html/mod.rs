//! report.html: the pictures of a point, a sweep, a plan, a comparison of systems and a grid. One self-contained file
//! each, without scripts and without network; a table under each picture has its numbers.

mod axis;
mod bars;
mod closed;
mod heat;
mod html;
mod plan;
mod point;
mod size;
mod svg;
mod sweep;
#[cfg(test)]
mod tests;
mod whatif;

pub use closed::{ClosedPage, closed_section};
pub use plan::{FleetCapacity, PlanPage, plan_html};
pub use point::{PointPage, point_html};
pub use size::{SizePage, size_html};
pub use sweep::{SweepPage, sweep_html, sweep_section};
pub use whatif::{WhatifPage, whatif_html};

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
pub fn study_html(title: &str, sections: &[Section], points: &[String]) -> String {
    let links = links(points);
    if let [only] = sections {
        return html::page(title, &only.verdict, &format!("{}{links}", only.body));
    }
    let section = |section: &Section| {
        let (heading, verdict) = (html::escape(&section.heading), html::escape(&section.verdict));
        // A section's own headings stand one level below the section's.
        let body = section.body.replace("<h2>", "<h3>").replace("</h2>", "</h3>");
        format!("<section>\n<h2>{heading}</h2>\n<p class=\"verdict\">{verdict}</p>\n{body}</section>\n")
    };
    let body: String = sections.iter().map(section).collect();
    let verdict = format!("{} experiments, each with its own answer.", sections.len());
    html::page(title, &verdict, &format!("{body}{links}"))
}

/// Links to the pages of the points, by the names of their directories.
fn links(points: &[String]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let link = |name: &String| {
        let name = html::escape(name);
        format!("<li><a href=\"points/{name}/report.html\">{name}</a></li>\n")
    };
    let items: String = points.iter().map(link).collect();
    format!(
        "<h2>Points</h2>\n<p>Each with its queue, running requests and KV use over time.</p>\n<ul>\n{items}</ul>\n"
    )
}

/// Where the numbers come from, in a sentence: no page must leave that open.
fn origin_sentence(report: &Report) -> String {
    let source = match report.facts.origin {
        Origin::Simulated => "Simulated: a prediction, not a measurement.",
        Origin::Live => "Measured on a live engine.",
        Origin::File => "Read from a file.",
        Origin::Imported => "Imported: measured by another tool, and converted.",
    };
    let facts = &report.facts;
    let mut sentence = source.to_string();
    if let Some(profile) = facts.system.as_ref().and_then(|system| system.profile.as_ref()) {
        sentence +=
            &format!(" Profile {} ({}), valid for {}.", profile.name, profile.label, profile.validity);
    }
    if let (Some(seed), Some(hash)) = (facts.seed, &facts.schedule_hash) {
        let hash: String = hash.chars().take(12).collect();
        sentence += &format!(" Seed {seed}; schedule of the first point {hash}.");
    }
    sentence
}
