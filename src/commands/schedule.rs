//! `scaleproof schedule`: the frozen schedule as CSV.

use super::simulate::point_of;
use crate::args::ScheduleArgs;
use crate::exit::{Exit, Outcome};
use crate::files::{Pending, unwritable};
use crate::input;
use crate::progress::say;
use crate::study::{print_out, shown};
use scaleproof_pack::schedule;

/// Runs the command: to `--out FILE`, or else to standard output with the hash on standard error.
pub fn run(args: &ScheduleArgs) -> Outcome {
    let loaded = input::load(&args.source)?;
    let point = point_of(&args.source, &args.point, None, &loaded)?;
    let schedule = point.schedule(&loaded)?;
    let mut csv = Vec::new();
    let Some(path) = &args.out else {
        schedule::write_csv(&schedule, &loaded.manifest, &mut csv)
            .map_err(crate::exit::CommandError::could_not_run)?;
        print_out(&String::from_utf8_lossy(&csv))?;
        say(&format!("schedule hash {}", schedule.hash));
        return Ok(Exit::Passed);
    };
    let mut file = Pending::create(path)?;
    schedule::write_csv(&schedule, &loaded.manifest, &mut file).map_err(|error| unwritable(path, &error))?;
    file.keep()?;
    let requests = schedule.measured.requests.len();
    print_out(&match args.format {
        crate::args::Format::Json => format!(
            "{}\n",
            serde_json::json!({"schedule": shown(path), "schedule_hash": schedule.hash, "measured_requests": requests})
        ),
        crate::args::Format::Text => {
            format!("{requests} measured requests in {}\nschedule hash {}\n", path.display(), schedule.hash)
        }
    })?;
    Ok(Exit::Passed)
}
