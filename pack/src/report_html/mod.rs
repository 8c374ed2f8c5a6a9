//! report.html: the pictures of a point, a study, a plan, a comparison of systems and a grid. One self-contained file
//! each, without scripts and without network; a table under each picture has its numbers.

mod axis;
mod bars;
mod basis;
mod closed;
mod failure;
mod frame;
mod glossary;
mod heat;
mod html;
mod plan;
mod point;
mod policies;
mod repeats;
mod size;
mod study;
mod svg;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod whatif;

pub use closed::{ClosedPage, closed_section};
pub use failure::{FailurePage, failure_html};
pub use plan::{FleetCapacity, FleetVerdict, PlanPage, PlannedPeak, plan_html};
pub use point::{PointPage, point_html};
pub use policies::{PoliciesPage, policies_html};
pub use size::{SizePage, size_html};
pub use study::{Section, study_html};
pub use sweep::{SweepPage, sweep_section};
pub use whatif::{WhatifPage, whatif_html};
