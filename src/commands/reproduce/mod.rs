//! `scaleproof reproduce`: a whole study in one command. It runs the other commands, prints each as one would type it, and
//! has `verify-pack` judge what they left.

mod args;

pub use args::ReproduceArgs;

use crate::args::{Cli, Command, SourceArgs};
use crate::commands::{failure_test, observability, plan, sweep, verify_pack};
use crate::exit::{CommandError, Outcome};
use crate::files::{output_directory, read_text};
use crate::input;
use crate::study::{print_out, shown};
use clap::Parser;
use scaleproof_pack::alerts::Timing;
use serde_json::Value;
use std::path::Path;

/// Clients of each replica in the closed loop.
const CLIENTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The peak over the capacity, unless one is given.
const PEAK_FACTOR: f64 = 1.5;

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Outcome {
    let source = SourceArgs { scenario: args.scenario.clone(), trace: None, cache: Vec::new(), seed: None };
    let loaded = input::load(&source)?;
    let name = input::directory_of(&args.scenario).file_name().map_or_else(
        || "reproduce-scenario".to_owned(),
        |name| format!("reproduce-{}", name.to_string_lossy()),
    );
    let claim = output_directory(args.out.as_deref(), &name, false)?;
    let study = Study { scenario: shown(&args.scenario), folder: &claim.path };
    let replicas = loaded.manifest.engine.placement.replicas;
    let clients: Vec<u32> = match args.concurrency.as_slice() {
        [] => CLIENTS.iter().map(|clients| clients.saturating_mul(replicas)).collect(),
        given => given.to_vec(),
    };
    let mut closed = vec!["--concurrency".to_owned(), joined(&clients)];
    closed.extend(["--cache", "cold,warm", "--repeats", "1"].map(str::to_owned));
    if let Some(threads) = args.threads {
        // For the whole process: the first command sets it.
        closed.extend(["--threads".to_owned(), threads.to_string()]);
    }
    study.step("sweep", "closed", &closed)?;
    let rates = if args.rps.is_empty() { &loaded.scenario.experiment.rates_rps } else { &args.rps };
    let open = ["--rps".to_owned(), joined(rates), "--repeats".to_owned(), args.repeats.to_string()];
    study.step("sweep", "open", &[&open[..], &["--cache".to_owned(), "cold,warm".to_owned()]].concat())?;
    if let Some(capacity_rps) = study.capacity_rps()? {
        let peak = args.peak.unwrap_or(PEAK_FACTOR * capacity_rps);
        study.step("plan", "plan", &[&open[..], &["--peak".to_owned(), peak.to_string()]].concat())?;
        let below = rates.iter().copied().filter(|&rps| rps < capacity_rps).reduce(f64::max);
        let rate = args.failure_rate.or(below).unwrap_or(capacity_rps);
        study.step("failure-test", "failure-test", &["--rate".to_owned(), rate.to_string()])?;
    }
    observability::write(&claim.path.join("observability"), Timing::default())?;
    study.step_without_scenario("verify-pack", &[shown(&claim.path)])
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

struct Study<'a> {
    scenario: String,
    folder: &'a Path,
}

impl Study<'_> {
    /// Runs a command on the scenario, whose pack is `pack`. That a gate fails is a result, and no end of the study.
    fn step(&self, command: &str, pack: &str, options: &[String]) -> Outcome {
        let out = ["--out".to_owned(), shown(&self.folder.join(pack))];
        self.step_without_scenario(
            command,
            &[std::slice::from_ref(&self.scenario), options, &out[..]].concat(),
        )
    }

    fn step_without_scenario(&self, command: &str, options: &[String]) -> Outcome {
        print_out(&format!("\n$ scaleproof {command} {}\n\n", options.join(" ")))?;
        let words = ["scaleproof".to_owned(), command.to_owned()].into_iter().chain(options.iter().cloned());
        let parsed = Cli::try_parse_from(words).map_err(CommandError::bad_input)?;
        match &parsed.command {
            Command::Sweep(args) => sweep::run(args),
            Command::Plan(args) => plan::run(args),
            Command::FailureTest(args) => failure_test::run(args),
            Command::VerifyPack(args) => verify_pack::run(args),
            _ => Err(CommandError::could_not_run(format!("{command}: found no step of a study"))),
        }
    }

    /// The highest rate that passed in the open loop with a cold cache: the first experiment of its sweep.
    fn capacity_rps(&self) -> Result<Option<f64>, CommandError> {
        let path = self.folder.join("open").join("sweep.json");
        let json: Value = serde_json::from_str(&read_text(&path)?)
            .map_err(|error| CommandError::could_not_run(format!("{}: {error}", path.display())))?;
        Ok(json["capacity_rps"].as_f64())
    }
}
