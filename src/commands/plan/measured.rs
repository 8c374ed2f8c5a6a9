//! A plan of what was measured: the capacity of a live study divided. What a fleet of another size does, nothing here says.

use super::text::arithmetic_text;
use crate::args::{Format, PlanArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, read_text};
use crate::input::{self, Loaded};
use crate::study::{exit_by_gate, pack_directory, print_out, shown};
use crate::table::percent;
use scaleproof_pack::plan::{Plan, PlanInput, plan};
use serde_json::{Value, json};
use std::path::Path;

/// The result of a study of `live`.
const LIVE: &str = "live.json";

/// Divides the capacity that the study in a directory found.
pub fn run(args: &PlanArgs, study: &Path) -> Outcome {
    let common = &args.capacity.sweep.common;
    let loaded = input::load(&common.source)?;
    let capacity_rps = capacity_rps(study, &loaded)?;
    let claim = pack_directory(common, "plan")?;
    let plans: Vec<Plan> = match capacity_rps {
        Some(capacity_rps) => args
            .peak
            .iter()
            .map(|&peak| divide(args, &loaded, capacity_rps, peak))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let first = plans.first();
    let mut result = json!({
        "measured": shown(study),
        "capacity_rps": capacity_rps,
        "capacity_per_replica_rps": first.map(|plan| plan.capacity_per_replica_rps),
        "required_replicas": first.map(|plan| plan.required_replicas),
        "required_gpus": first.map(|plan| plan.required_gpus),
        "plans": plans,
    });
    files::write(&claim.path.join(files::PLAN), format!("{result:#}\n").as_bytes())?;
    print_out(&match common.format {
        Format::Json => {
            result["pack"] = json!(shown(&claim.path));
            format!("{result:#}\n")
        }
        Format::Text => {
            let footing = loaded.live_footing();
            format!("{}{footing}pack: {}\n", text(capacity_rps, &plans), claim.path.display())
        }
    })?;
    if capacity_rps.is_none() {
        return Ok(Exit::Failed);
    }
    exit_by_gate(plans.iter().all(|plan| plan.full.within_target))
}

/// The capacity that a study of this very scenario measured; None if no rate passed.
fn capacity_rps(study: &Path, loaded: &Loaded) -> Result<Option<f64>, CommandError> {
    let path = study.join(LIVE);
    let result: Value = serde_json::from_str(&read_text(&path)?).map_err(|error| {
        CommandError::bad_input(format!(
            "{}: found {error}; expected the result of `live` at several rates; name the directory of its pack",
            path.display()
        ))
    })?;
    let manifest = study.join(files::MANIFEST);
    if read_text(&manifest)? != loaded.manifest_text {
        return Err(CommandError::bad_input(format!(
            "{}: found another manifest than the scenario's; expected a study of this very scenario; name its scenario",
            manifest.display()
        )));
    }
    Ok(result["capacity_rps"].as_f64())
}

fn divide(args: &PlanArgs, loaded: &Loaded, capacity_rps: f64, peak_rps: f64) -> Result<Plan, CommandError> {
    plan(&PlanInput {
        capacity_rps,
        replicas: loaded.manifest.engine.placement.replicas,
        gpus_per_replica: loaded.gpus_per_replica(),
        peak_rps,
        target_utilization: loaded.manifest.acceptance.target_utilization,
        spare: args.spare,
    })
    .map_err(CommandError::bad_input)
}

fn text(capacity_rps: Option<f64>, plans: &[Plan]) -> String {
    let Some(capacity_rps) = capacity_rps else {
        return "no plan: no measured rate passes, measure lower ones\n".to_owned();
    };
    let mut text = format!("measured capacity: {capacity_rps} requests/s\n");
    for plan in plans {
        text += &arithmetic_text(plan);
        text += &format!("by division, at the peak: utilization {}", percent(Some(plan.full.utilization)));
        text += &match &plan.one_lost {
            Some(left) => format!(", with one replica lost {}\n", percent(Some(left.utilization))),
            None => "\n".to_owned(),
        };
    }
    text + "no fleet of another size was measured: that capacity divides like this is a hypothesis\n"
}
