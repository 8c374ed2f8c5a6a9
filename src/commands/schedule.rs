//! `scaleproof schedule`: the frozen schedule as CSV, or as another load generator replays it.

use super::simulate::load_of;
use crate::args::{Format, Replay, ScheduleArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{Pending, unwritable};
use crate::input;
use crate::point::Point;
use crate::progress::say;
use crate::study::{print_out, shown};
use scaleproof_pack::schedule::{self, ExportError, Exported, ReplayTool, Schedule};
use std::path::Path;

/// Runs the command: to `--out FILE`, or else to standard output with the hash on standard error.
pub fn run(args: &ScheduleArgs) -> Outcome {
    let loaded = input::load(&args.common)?;
    let point = Point {
        load: load_of(&args.load, &loaded)?,
        run: args.run,
        replicas: loaded.manifest.engine.placement.replicas,
        shared_prefixes: loaded.shared_prefixes(&args.common.cache)?,
    };
    let schedule = point.schedule(&loaded)?;
    if let Some(tool) = args.replay {
        return replay(args, &schedule, tool_of(tool));
    }
    let mut csv = Vec::new();
    let Some(path) = &args.common.out else {
        schedule::write_csv(&schedule, &loaded.manifest, &mut csv).map_err(CommandError::could_not_run)?;
        print_out(&String::from_utf8_lossy(&csv))?;
        say(&format!("schedule hash {}", schedule.hash));
        return Ok(Exit::Passed);
    };
    let mut file = Pending::create(path)?;
    schedule::write_csv(&schedule, &loaded.manifest, &mut file).map_err(|error| unwritable(path, &error))?;
    file.keep()?;
    let requests = schedule.measured.requests.len();
    print_out(&match args.common.format {
        Format::Json => format!(
            "{}\n",
            serde_json::json!({"schedule": shown(path), "schedule_hash": schedule.hash, "measured_requests": requests})
        ),
        Format::Text => {
            format!("{requests} measured requests in {}\nschedule hash {}\n", path.display(), schedule.hash)
        }
    })?;
    Ok(Exit::Passed)
}

fn tool_of(replay: Replay) -> ReplayTool {
    match replay {
        Replay::Aiperf => ReplayTool::Aiperf,
        Replay::VllmBench => ReplayTool::VllmBench,
        Replay::Guidellm => ReplayTool::Guidellm,
    }
}

/// Writes the schedule for another tool, and says how to run it.
fn replay(args: &ScheduleArgs, schedule: &Schedule, tool: ReplayTool) -> Outcome {
    let block_tokens = args.block_tokens.unwrap_or_else(|| tool.block_tokens());
    let Some(path) = &args.common.out else {
        let mut rows = Vec::new();
        let written = schedule::write_replay(schedule, tool, block_tokens, &mut rows);
        let exported = written.map_err(|error| refused(args, None, &error))?;
        print_out(&String::from_utf8_lossy(&rows))?;
        say(replay_text(schedule, tool, "FILE", &exported).trim_end());
        return Ok(Exit::Passed);
    };
    let mut file = Pending::create(path)?;
    let written = schedule::write_replay(schedule, tool, block_tokens, &mut file);
    let exported = written.map_err(|error| refused(args, Some(path), &error))?;
    file.keep()?;
    let name = shown(path);
    print_out(&match args.common.format {
        Format::Json => format!(
            "{}\n",
            serde_json::json!({
                "schedule": name,
                "schedule_hash": schedule.hash,
                "requests": exported.requests,
                "warmup_requests": exported.warmup_requests,
                "block_tokens": exported.block_tokens,
                "unshared_tokens": exported.unshared_tokens,
                "command": tool.command(&name, &exported),
            })
        ),
        Format::Text => {
            format!(
                "{} requests in {name}\n{}",
                exported.requests,
                replay_text(schedule, tool, &name, &exported)
            )
        }
    })?;
    Ok(Exit::Passed)
}

fn refused(args: &ScheduleArgs, path: Option<&Path>, error: &ExportError) -> CommandError {
    match (error, path) {
        (ExportError::Io(error), Some(path)) => unwritable(path, error),
        (ExportError::Io(error), None) => CommandError::could_not_run(error),
        _ => CommandError::bad_input(format!("{}: {error}", args.common.scenario.display())),
    }
}

/// How to run the tool, and what the file cannot say.
fn replay_text(schedule: &Schedule, tool: ReplayTool, name: &str, exported: &Exported) -> String {
    let mut text = format!("schedule hash {}\nrun with: {}\n", schedule.hash, tool.command(name, exported));
    if exported.warmup_requests > 0 {
        text += &format!(
            "the first {} requests, before {} s, are the warm-up: leave them out of the result\n",
            exported.warmup_requests,
            schedule.window_from.seconds()
        );
    }
    if exported.unshared_tokens > 0 {
        text += &format!(
            "{} prompt tokens of shared beginnings do not fill a block of {}, and are not shared in the file; a smaller \
             --block-tokens shares more\n",
            exported.unshared_tokens, exported.block_tokens
        );
    }
    if exported.plainer_requests > 0 {
        text += &format!(
            "{} requests have a cancellation or a priority, which the file cannot say\n",
            exported.plainer_requests
        );
    }
    text
}
