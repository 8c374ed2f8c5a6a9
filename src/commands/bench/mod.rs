//! `scaleproof bench`: whole runs, measured from outside. Each run is a process of its own, with what a user waits for
//! in it: reading, simulating, analyzing, writing.

mod works;

use crate::args::{BenchArgs, Format};
use crate::exit::{CommandError, Exit, Outcome};
use crate::progress::interrupted;
use crate::study::print_out;
use crate::table::{number, table};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;
use works::{WORKS, Work};

/// What one command used, and what it printed.
#[derive(Serialize, Deserialize)]
struct Used {
    cpu_s: f64,
    wall_s: f64,
    peak_mib: f64,
    printed: Value,
}

/// A work's medians.
#[derive(Serialize)]
struct Measured {
    name: &'static str,
    work: &'static str,
    /// User and system.
    cpu_s: f64,
    wall_s: f64,
    peak_mib: f64,
    requests: Option<u64>,
    requests_per_cpu_s: Option<f64>,
    /// Length of the measured window over the wall time.
    simulated_s_per_s: Option<f64>,
}

/// Runs the command.
pub fn run(args: &BenchArgs) -> Outcome {
    if !args.command.is_empty() {
        let used = measure(&args.command)?;
        print_out(&format!("{}\n", serde_json::to_string(&used).map_err(CommandError::could_not_run)?))?;
        return Ok(Exit::Passed);
    }
    let chosen = |work: &&Work| {
        (!args.quick || work.quick)
            && (args.trace.is_some() || !work.replays())
            && args.only.as_ref().is_none_or(|only| work.name.starts_with(only.as_str()))
    };
    let mut results = Vec::new();
    for work in WORKS.iter().filter(chosen) {
        results.push(median_of(work, args)?);
    }
    if results.is_empty() {
        let names: Vec<&str> = WORKS.iter().map(|work| work.name).collect();
        return Err(CommandError::bad_input(format!(
            "bench: found no work to measure; expected one of {}; those that replay need --trace, and --quick leaves \
             out the long ones",
            names.join(", ")
        )));
    }
    print_out(&match args.format {
        Format::Json => serde_json::to_string_pretty(&results).map_err(CommandError::could_not_run)? + "\n",
        Format::Text => text(&results, args.repeats),
    })?;
    Ok(Exit::Passed)
}

/// Runs one command of this program in a process of its own, the only child of this one.
fn measure(command: &[OsString]) -> Result<Used, CommandError> {
    let begun = Instant::now();
    let output = this_program()?
        .args(command)
        .stderr(Stdio::inherit())
        .output()
        .map_err(CommandError::could_not_run)?;
    let wall_s = begun.elapsed().as_secs_f64();
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(CommandError::could_not_run)?;
    let cpu_s = [used.user_time(), used.system_time()]
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .iter()
        .sum();
    // A gate that does not pass is a result too.
    let printed = serde_json::from_slice(&output.stdout).map_err(|_| {
        CommandError::could_not_run(format!("bench: {command:?} ended with {}", output.status))
    })?;
    Ok(Used { cpu_s, wall_s, peak_mib: used.max_rss() as f64 / 1024.0, printed })
}

fn this_program() -> Result<Command, CommandError> {
    std::env::current_exe().map(Command::new).map_err(CommandError::could_not_run)
}

fn median_of(work: &Work, args: &BenchArgs) -> Result<Measured, CommandError> {
    let root = tempfile::tempdir().map_err(CommandError::could_not_run)?;
    let trace = args.trace.as_deref().filter(|_| work.replays());
    let arguments = work.prepare(root.path(), trace)?;
    let mut runs = Vec::new();
    for _ in 0..args.repeats {
        if interrupted() {
            return Err(CommandError::could_not_run("bench: interrupted"));
        }
        let out = tempfile::tempdir_in(root.path()).map_err(CommandError::could_not_run)?;
        let output = this_program()?
            .args(["bench", "--"])
            .args(&arguments)
            .args(["--format".as_ref(), "json".as_ref(), "--out".as_ref(), out.path().as_os_str()])
            .stderr(Stdio::inherit())
            .output()
            .map_err(CommandError::could_not_run)?;
        runs.push(serde_json::from_slice::<Used>(&output.stdout).map_err(|_| {
            CommandError::could_not_run(format!("bench: {} could not be run, as said above", work.name))
        })?);
    }
    let of = |value: fn(&Used) -> f64| median(runs.iter().map(value).collect());
    let (cpu_s, wall_s) = (of(|run| run.cpu_s), of(|run| run.wall_s));
    let printed = &runs[0].printed;
    let count = |key: &str| printed[key].as_u64();
    let requests = count("attempted").map(|measured| measured + count("warmup_attempts").unwrap_or(0));
    Ok(Measured {
        name: work.name,
        work: work.what,
        cpu_s,
        wall_s,
        peak_mib: of(|run| run.peak_mib),
        requests,
        requests_per_cpu_s: requests.map(|requests| requests as f64 / cpu_s),
        simulated_s_per_s: printed["duration_s"].as_f64().map(|seconds| seconds / wall_s),
    })
}

/// The median; of an even number of values, the lower of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

fn text(results: &[Measured], repeats: u32) -> String {
    let headers =
        ["name", "CPU s", "wall s", "peak MiB", "requests", "requests/CPU s", "simulated s/s", "work"];
    let row = |one: &Measured| {
        let requests = one.requests.map_or_else(|| "-".to_owned(), |requests| requests.to_string());
        vec![
            one.name.to_owned(),
            number(Some(one.cpu_s), 3),
            number(Some(one.wall_s), 2),
            number(Some(one.peak_mib), 1),
            requests,
            number(one.requests_per_cpu_s, 0),
            number(one.simulated_s_per_s, 0),
            one.work.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    let remarks: String = remarks(results).iter().map(|line| format!("{line}\n")).collect();
    let runs = if repeats == 1 { "one run".to_owned() } else { format!("medians of {repeats} runs") };
    format!("{}{runs} each; user and system seconds of the whole process\n{remarks}", table(&headers, &rows))
}

/// What several works say together: whether time grows with the requests, and what the cores of a study gain.
fn remarks(results: &[Measured]) -> Vec<String> {
    let mut remarks = Vec::new();
    let short = results.iter().filter(|one| one.name.starts_with("short-"));
    let each_us: Vec<f64> = short.filter_map(|one| Some(1e6 * one.cpu_s / one.requests? as f64)).collect();
    if each_us.len() > 1 {
        let (least, most) = each_us.iter().fold((f64::MAX, 0.0), |(l, m), &us| (us.min(l), us.max(m)));
        remarks.push(format!(
            "CPU time of a request in the works short-*: {least:.2} to {most:.2} us, {:.0} % apart",
            100.0 * (most / least - 1.0)
        ));
    }
    for alone in results {
        let Some(name) = alone.name.strip_suffix("-1") else { continue };
        if let Some(together) = results.iter().find(|one| one.name == name) {
            let gain = alone.wall_s / together.wall_s;
            remarks.push(format!("speed-up of {name} by all cores: {gain:.2} in wall time"));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_held_against_each_other() {
        let one = |name, cpu_s, wall_s, requests| Measured {
            name,
            work: "",
            cpu_s,
            wall_s,
            peak_mib: 1.0,
            requests,
            requests_per_cpu_s: None,
            simulated_s_per_s: None,
        };
        let results = [
            one("short-a", 0.2, 1.0, Some(100_000)),
            one("short-b", 2.5, 1.0, Some(1_000_000)),
            one("sweep", 8.0, 4.0, None),
            one("sweep-1", 8.0, 7.6, None),
            one("plan-1", 8.0, 7.6, None),
        ];
        assert_eq!(
            remarks(&results),
            [
                "CPU time of a request in the works short-*: 2.00 to 2.50 us, 25 % apart",
                "speed-up of sweep by all cores: 1.90 in wall time"
            ]
        );
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        let found = [vec![3.0, 1.0, 2.0], vec![4.0, 1.0], vec![5.0]].map(|values| median(values) as u32);
        assert_eq!(found, [2, 1, 5]);
    }
}
