//! `scaleproof accuracy`: the model against measured, served engines.

use crate::args::{AccuracyArgs, Format};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files;
use crate::progress::{Progress, say};
use crate::study::{print_out, shown};
use scaleproof_calibrate::accuracy::{SETS, Set, document, is_there, summary};
use serde_json::{Value, json};

/// Runs the command: exit 1 if a goal is missed.
pub fn run(args: &AccuracyArgs) -> Outcome {
    let progress = Progress::counting("accuracy", SETS.len() as u64, "sets");
    let mut sets = Vec::new();
    for entry in &SETS {
        if is_there(entry, &args.data) {
            let set = (entry.judge)(&args.data);
            sets.push(set.map_err(|error| CommandError::bad_input(format!("{}: {error}", entry.name)))?);
        } else {
            say(&format!("skipped: {} is not in {}", entry.name, args.data.display()));
        }
        progress.advance(1);
    }
    drop(progress);
    if sets.is_empty() {
        return Err(CommandError::bad_input(format!(
            "{}: found none of the measured sets; expected a folder with `measured/` and `profiles/`",
            args.data.display()
        )));
    }
    if let Some(path) = &args.out {
        files::write(path, document(&sets).as_bytes())?;
    }
    print_out(&match args.format {
        Format::Json => format!("{:#}\n", Value::from_iter(sets.iter().map(set_json))),
        Format::Text => {
            let written = args.out.as_ref().map(|path| format!("written: {}\n", shown(path)));
            format!("{}{}", summary(&sets), written.unwrap_or_default())
        }
    })?;
    Ok(Exit::from_gate(sets.iter().all(Set::passes)))
}

fn set_json(set: &Set) -> Value {
    let goals = set.goals.iter().map(|goal| {
        json!({
            "metric": goal.metric.to_string(),
            "goal_median": goal.median,
            "held_out_median": set.held_out_median(goal.metric),
            "noise": goal.noise,
        })
    });
    let comparisons = set.comparisons.iter().map(|c| {
        json!({
            "point": c.point,
            "metric": c.metric.to_string(),
            "measured": c.measured,
            "predicted": c.predicted,
            "relative_error": c.relative_error(),
            "fitted": c.fitted,
        })
    });
    json!({
        "set": set.name,
        "system": set.system,
        "fitted_on": set.fitted_on,
        "notes": set.notes,
        "profile": set.profile.name,
        "goals": goals.collect::<Vec<_>>(),
        "comparisons": comparisons.collect::<Vec<_>>(),
    })
}
