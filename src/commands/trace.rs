//! `scaleproof trace`: a part of a run for a trace viewer.

use super::simulate::point_of;
use crate::args::{Format, TraceArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{Pending, unwritable};
use crate::input;
use crate::progress::{Progress, Share, interrupted};
use crate::study::{print_out, shown};
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::time::Nanos;
use scaleproof_sim::chrome_trace::ChromeTrace;
use scaleproof_sim::run_watched;
use serde_json::json;
use std::path::PathBuf;

/// Where the trace goes without `--out`.
const USUAL_PATH: &str = "trace.json";

/// Runs the command: to `--out FILE`, by default trace.json.
pub fn run(args: &TraceArgs) -> Outcome {
    let path = path_of(args)?;
    let loaded = input::load(&args.source)?;
    let point = point_of(&args.source, &args.point, args.replicas, &loaded)?;
    let schedule = point.schedule(&loaded)?;
    let from = Nanos::from_seconds(args.from_s).map_err(CommandError::bad_input)?;
    let to = from + Nanos::from_seconds(args.for_s).map_err(CommandError::bad_input)?;
    let failed = |error: std::io::Error| unwritable(&path, &error);
    let classes = loaded.manifest.classes.iter().map(|class| class.name.clone()).collect();
    let mut trace = ChromeTrace::new(Pending::create(&path)?, classes, from, to).map_err(failed)?;
    let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas);
    let progress = Progress::start("trace", schedule.measured.requests.len() as u64);
    let mut until = Until { to, now: Nanos::ZERO, progress: Share::of(&progress) };
    let summary = run_watched(&config, &schedule, &|| loaded.engine(), &mut until, &mut trace)
        .map_err(|error| CommandError::run(&error))?;
    drop(progress);
    if interrupted() {
        return Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; {} was not written",
            path.display()
        )));
    }
    let steps = trace.steps();
    if steps == 0 {
        return Err(CommandError::bad_input(format!(
            "--from-s {} --for-s {}: found no step in this part of the run, whose last request ended at {:.3} s; \
             expected a part with steps; nothing was written",
            args.from_s,
            args.for_s,
            summary.ended.seconds()
        )));
    }
    trace.finish().map_err(failed)?.keep()?;
    print_out(&match args.format {
        Format::Json => format!(
            "{:#}\n",
            json!({
                "trace": shown(&path),
                "from_s": from.seconds(),
                "to_s": to.seconds(),
                "steps": steps,
                "schedule_hash": schedule.hash,
            })
        ),
        Format::Text => format!(
            "{}: seconds {} to {} of the run, schedule hash {}; open it in ui.perfetto.dev or chrome://tracing\n{}",
            path.display(),
            from.seconds(),
            to.seconds(),
            schedule.hash,
            loaded.footing()
        ),
    })?;
    Ok(Exit::Passed)
}

/// The file to write. One that was not named is not written over.
fn path_of(args: &TraceArgs) -> Result<PathBuf, CommandError> {
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(USUAL_PATH));
    if args.out.is_none() && path.exists() {
        return Err(CommandError::bad_input(format!(
            "{USUAL_PATH}: found a file; expected none, since a file that was not named is not written over; name it \
             or another with --out"
        )));
    }
    Ok(path)
}

/// Ends the run soon after the part that is wanted.
struct Until<'a> {
    to: Nanos,
    now: Nanos,
    progress: Share<'a>,
}

impl Observer for Until<'_> {
    fn progress(&mut self, progress: experiment::Progress) {
        self.now = progress.now;
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        self.now > self.to || interrupted()
    }
}
