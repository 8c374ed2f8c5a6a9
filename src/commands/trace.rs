//! `scaleproof trace`: a part of a run for a trace viewer.

use super::simulate::point_of;
use crate::args::TraceArgs;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{Pending, unwritable};
use crate::input;
use crate::progress::{Progress, Share, interrupted};
use crate::study::print_out;
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::time::Nanos;
use scaleproof_sim::chrome_trace::ChromeTrace;
use scaleproof_sim::run_watched;
use std::path::PathBuf;

/// Runs the command: to `--out FILE`, by default trace.json.
pub fn run(args: &TraceArgs) -> Outcome {
    let loaded = input::load(&args.point.common)?;
    let point = point_of(&args.point, &loaded)?;
    let schedule = point.schedule(&loaded)?;
    let from = Nanos::from_seconds(args.from_s).map_err(CommandError::bad_input)?;
    let to = from + Nanos::from_seconds(args.for_s).map_err(CommandError::bad_input)?;
    let path = args.point.common.out.clone().unwrap_or_else(|| PathBuf::from("trace.json"));
    let failed = |error: std::io::Error| unwritable(&path, &error);
    let mut trace = ChromeTrace::new(Pending::create(&path)?, from, to).map_err(failed)?;
    let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas);
    let progress = Progress::start("trace", schedule.measured.requests.len() as u64);
    let mut until = Until { to, now: Nanos::ZERO, progress: Share::of(&progress) };
    run_watched(&config, &schedule, &|| loaded.engine(), &mut until, &mut trace)
        .map_err(CommandError::could_not_run)?;
    drop(progress);
    if interrupted() {
        return Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; {} was not written",
            path.display()
        )));
    }
    trace.finish().map_err(failed)?.keep()?;
    print_out(&format!(
        "{}: seconds {} to {} of the run, schedule hash {}; open it in ui.perfetto.dev or chrome://tracing\n{}",
        path.display(),
        from.seconds(),
        to.seconds(),
        schedule.hash,
        loaded.footing()
    ))?;
    Ok(Exit::Passed)
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
