//! report.html: the pictures of a point, a sweep, a plan and a grid. One self-contained file each, without scripts and
//! without network; a table under each picture has its numbers.

mod axis;
mod heat;
mod html;
mod plan;
mod point;
mod svg;
mod sweep;
#[cfg(test)]
mod tests;
mod whatif;

pub use plan::{FleetCapacity, PlanPage, plan_html};
pub use point::{PointPage, point_html};
pub use sweep::{SweepPage, sweep_html};
pub use whatif::{WhatifPage, whatif_html};

use crate::report::{Origin, Report};

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
