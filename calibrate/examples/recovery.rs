//! Calibrates simulated engines from outside, each with a profile that the calibration cannot see, and prints how well
//! it predicts loads that it has not seen: the tables of docs/calibration.md.
//!
//! ```text
//! cargo run --release -p scaleproof-calibrate --example recovery -- [--budget SECONDS] [--verbose] [--blind SEED] [NAME...]
//! ```
//!
//! `--blind` takes five engines that the seed draws in the place of the six that the calibration was made with.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

use scaleproof_calibrate::recovery::{Compared, Hidden, compare, fresh_engines, hidden_engines};
use scaleproof_calibrate::simulated::SimulatedEngine;
use scaleproof_calibrate::sweep::{Calibration, Monitor, Settings, fit, report, sweep};
use scaleproof_sim::profile::Profile;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Engines that a seed draws.
const FRESH: u64 = 5;

struct Quiet;

impl Monitor for Quiet {}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut budget_s = 900.0;
    let mut names = Vec::new();
    let mut verbose = false;
    let mut blind = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--budget" => budget_s = args.next().ok_or("--budget: expected seconds")?.parse()?,
            "--verbose" => verbose = true,
            "--blind" => blind = Some(args.next().ok_or("--blind: expected a seed")?.parse()?),
            name => names.push(name.to_owned()),
        }
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let fixture = root.join("models/fixture/dense-70b-fixture-r1.yaml");
    let fixture = Profile::parse(&fixture.display().to_string(), &std::fs::read_to_string(&fixture)?)?;
    let engines = match blind {
        Some(seed) => fresh_engines(seed, FRESH)?,
        None => hidden_engines(&fixture)?,
    };
    let mut all = true;
    let mut summary = Vec::new();
    for hidden in engines.iter().filter(|hidden| names.is_empty() || names.contains(&hidden.name)) {
        println!("\n### {}\n", hidden.name);
        match recover(hidden, budget_s, verbose) {
            Ok((spent_s, rows)) => {
                all &= rows.iter().all(Compared::met);
                summary.push((hidden.name.clone(), format!("{spent_s:.0}"), worst(&rows)));
            }
            Err(error) => {
                println!("not calibrated: {error}");
                all = false;
                summary.push((
                    hidden.name.clone(),
                    "-".to_owned(),
                    (f64::INFINITY, "not calibrated".to_owned()),
                ));
            }
        }
    }
    println!("\n| engine | seconds of experiments | largest share of a goal |\n|---|---|---|");
    for (name, spent_s, worst) in summary {
        println!("| {name} | {spent_s} | {:.0} % ({}) |", 100.0 * worst.0, worst.1);
    }
    Ok(all)
}

/// Calibrates one engine and prints how it did: the seconds of experiments, and its held-out loads.
fn recover(hidden: &Hidden, budget_s: f64, verbose: bool) -> Result<(f64, Vec<Compared>), Box<dyn Error>> {
    let mut engine = SimulatedEngine::alone(hidden.profile.clone(), hidden.quirks).telling_tokens();
    if hidden.silent {
        engine = engine.hiding_its_blocks();
    }
    let mut settings =
        Settings { budget_s, name: hidden.name.clone(), num_blocks: None, max_model_len: None };
    let swept = match sweep(&mut engine, &settings, &mut Quiet) {
        // Too large a pool to be filled in the time: as it advises, from the server's log.
        Err(error) if error.to_string().contains("--num-blocks") => {
            println!("blocks given, since they cannot be measured in the time\n");
            settings.num_blocks = Some(hidden.profile.scheduler.num_blocks);
            sweep(&mut engine, &settings, &mut Quiet)?
        }
        made => made?,
    };
    let calibration = fit(&swept, &hidden.name, None)?;
    if verbose {
        println!("{}", report::markdown(&swept, &calibration));
    }
    let rows = compare(&hidden.profile, hidden.quirks, swept.spent_s, &calibration.profile)?;
    settings_text(hidden, &calibration);
    println!(
        "| load | number | hidden engine | calibrated profile | error | goal | |\n|---|---|---|---|---|---|---|"
    );
    rows.iter().for_each(|row| println!("{}", line(row)));
    Ok((swept.spent_s, rows))
}

fn line(row: &Compared) -> String {
    format!(
        "| {} | {} | {:.2} | {:.2} | {:+.2} % | {:.0} % | {} |",
        row.load,
        row.metric,
        row.measured,
        row.predicted,
        100.0 * row.relative_error(),
        100.0 * row.goal,
        if row.met() { "" } else { "missed" }
    )
}

fn worst(rows: &[Compared]) -> (f64, String) {
    let share = |row: &Compared| row.relative_error().abs() / row.goal;
    let worst = rows.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    worst.map_or((0.0, String::new()), |row| (share(row), row.metric.to_owned()))
}

fn settings_text(hidden: &Hidden, calibration: &Calibration) {
    let (truth, found) = (&hidden.profile.scheduler, &calibration.profile.scheduler);
    let graphs = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    println!("| setting | hidden | found |\n|---|---|---|");
    for (name, truth, found) in [
        ("max_num_seqs", truth.max_num_seqs.to_string(), found.max_num_seqs.to_string()),
        (
            "max_num_batched_tokens",
            truth.max_num_batched_tokens.to_string(),
            found.max_num_batched_tokens.to_string(),
        ),
        (
            "long_prefill_token_threshold",
            truth.long_prefill_token_threshold.to_string(),
            found.long_prefill_token_threshold.to_string(),
        ),
        ("num_blocks", truth.num_blocks.to_string(), found.num_blocks.to_string()),
        ("async_scheduling", truth.async_scheduling.to_string(), found.async_scheduling.to_string()),
        ("graphs", graphs(hidden.profile.step_time.graphs.is_some()), graphs(calibration.graphs)),
        (
            "front end",
            hidden.profile.front_end.process.word().to_owned(),
            calibration.profile.front_end.process.word().to_owned(),
        ),
        (
            "front end, ms a request",
            format!("{:.2}", hidden.profile.front_end.request.millis()),
            format!("{:.2}", calibration.profile.front_end.request.millis()),
        ),
        (
            "front end, ms of work",
            format!("{:.2}", hidden.profile.front_end.busy.millis()),
            format!("{:.2}", calibration.profile.front_end.busy.millis()),
        ),
        (
            "front end, us a prompt token",
            format!("{:.3}", hidden.profile.front_end.prompt_token_us),
            format!("{:.3}", calibration.profile.front_end.prompt_token_us),
        ),
    ] {
        println!("| {name} | {truth} | {found} |");
    }
    println!();
}
