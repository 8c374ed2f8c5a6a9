//! What has and what has not been validated, of each size of the fleet, and whether capacity grows with the fleet.

use super::capacity::{Agreement, FleetCapacity};
use super::{Compared, Finding};
use serde::Serialize;

/// What has been shown of one size of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Every metric, gate and trend is as predicted, with confidence, at every tested rate.
    Validated,
    /// Something is not, with confidence.
    Refuted,
    /// It was measured, and neither is shown.
    Undecided,
    /// There was no live fleet of this size.
    Unmeasured,
}

impl Standing {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Standing::Validated => "validated",
            Standing::Refuted => "refuted",
            Standing::Undecided => "undecided",
            Standing::Unmeasured => "not measured",
        }
    }
}

/// Capacity over the fleets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleOut {
    /// The fleets, rising.
    pub fleets: Vec<FleetCapacity>,
    /// Whether capacity per replica is predicted to be the same at every size; null for one size.
    pub predicted_linear: Option<bool>,
    /// The same as measured; null unless two sizes were.
    pub measured_linear: Option<bool>,
    /// What has and what has not been validated.
    pub statement: String,
}

impl ScaleOut {
    /// What the fleets show together, and each by all that was compared. `worthless`: no measurement is fit for any verdict.
    /// `live`: whether they were real.
    pub(super) fn of(
        mut fleets: Vec<FleetCapacity>,
        compared: &[Compared],
        worthless: bool,
        live: bool,
    ) -> ScaleOut {
        for fleet in fleets.iter_mut().filter(|fleet| fleet.standing != Standing::Unmeasured) {
            let of_it = || compared.iter().filter(|c| c.replicas == fleet.replicas);
            let any = |finding| of_it().any(|c| c.finding == finding);
            fleet.standing = if worthless {
                Standing::Undecided
            } else if any(Finding::Outside) || fleet.agreement == Agreement::Different {
                Standing::Refuted
            } else if any(Finding::Open) || fleet.agreement == Agreement::Open || of_it().next().is_none() {
                Standing::Undecided
            } else {
                Standing::Validated
            };
        }
        let linear = |of: fn(&FleetCapacity) -> Option<f64>, fleets: &[&FleetCapacity]| {
            let each: Option<Vec<f64>> =
                fleets.iter().map(|fleet| Some(of(fleet)? / f64::from(fleet.replicas))).collect();
            let each = each.filter(|each| each.len() > 1)?;
            Some(each.iter().all(|value| (value / each[0] - 1.0).abs() < 1e-6))
        };
        let all: Vec<&FleetCapacity> = fleets.iter().collect();
        let seen: Vec<&FleetCapacity> =
            fleets.iter().filter(|fleet| fleet.standing != Standing::Unmeasured).collect();
        let measured_linear = linear(|fleet| fleet.measured_rps, &seen);
        let predicted_linear = linear(|fleet| fleet.predicted_rps, &all);
        let statement = statement(&fleets, (measured_linear, predicted_linear), live);
        ScaleOut { predicted_linear, measured_linear, statement, fleets }
    }
}

/// What has and what has not been validated, of each size.
fn statement(
    fleets: &[FleetCapacity],
    (measured, predicted): (Option<bool>, Option<bool>),
    live: bool,
) -> String {
    let list = |standing| {
        let own = fleets.iter().filter(|fleet| fleet.standing == standing);
        own.map(|fleet| fleet.replicas.to_string()).collect::<Vec<_>>().join(", ")
    };
    let on = if live { "live replicas" } else { "simulated replicas" };
    let mut text = Vec::new();
    for (standing, says) in [
        (Standing::Validated, format!("Validated on {on}: fleets of ")),
        (Standing::Refuted, format!("Refuted on {on}: fleets of ")),
        (Standing::Undecided, format!("Measured on {on}, and neither validated nor refuted: fleets of ")),
    ] {
        let own = list(standing);
        if !own.is_empty() {
            text.push(format!("{says}{own}."));
        }
    }
    let missing = list(Standing::Unmeasured);
    if !missing.is_empty() {
        text.push(format!(
            "Not validated: fleets of {missing}, for which there were not as many live replicas. What is said of them is the \
             simulator's prediction alone: no router, network or client was seen at that size."
        ));
    }
    let linear = |holds: bool| if holds { "the same" } else { "not the same" };
    let seen = fleets.iter().filter(|fleet| fleet.standing != Standing::Unmeasured);
    let seen: Vec<String> = seen.map(|fleet| fleet.replicas.to_string()).collect();
    if let Some(holds) = measured {
        text.push(format!(
            "Measured capacity per replica is {} for fleets of {}, at the resolution of the tested rates.",
            linear(holds),
            seen.join(", ")
        ));
    }
    if let Some(holds) = predicted {
        let more = if missing.is_empty() { "" } else { ", those that were not measured among them" };
        text.push(format!("Predicted capacity per replica is {} at every size{more}.", linear(holds)));
    }
    if !live {
        text.push("This is a rehearsal: nothing live was measured.".to_owned());
    }
    text.join(" ")
}
