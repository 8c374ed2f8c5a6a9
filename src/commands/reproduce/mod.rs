//! `scaleproof reproduce`: a whole study in one command, simulated or live. It runs the other commands, prints each as one
//! would type it, and has `verify-pack` judge what they left.

mod args;

pub use args::ReproduceArgs;

use crate::args::{Cli, Command, SourceArgs};
use crate::commands::{failure_test, live, observability, plan, sweep, verify_pack};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, output_directory, read_text};
use crate::input::{self, Loaded};
use crate::progress::{interrupted, say};
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
    if args.live.live && args.live.inject.is_none() {
        return Err(CommandError::bad_input(
            "--inject: found none; expected a shell command that kills a replica (--failure-replica), for the failure test; \
             name one",
        ));
    }
    let source = SourceArgs { scenario: args.scenario.clone(), trace: None, cache: Vec::new(), seed: None };
    let loaded = input::load(&source)?;
    let name = input::directory_of(&args.scenario).file_name().map_or_else(
        || "reproduce-scenario".to_owned(),
        |name| format!("reproduce-{}", name.to_string_lossy()),
    );
    let claim = output_directory(args.out.as_deref(), &name, args.resume)?;
    let study = Study { args, scenario: shown(&args.scenario), folder: &claim.path };
    study.closed_loop(&loaded)?;
    let rates = if args.rps.is_empty() { &loaded.scenario.experiment.rates_rps } else { &args.rps };
    let open = words(&["--rps", &joined(rates), "--repeats", &args.repeats.to_string()]);
    study.load("open", &[open.clone(), words(&["--cache", "cold,warm"])].concat())?;
    if let Some(capacity_rps) = study.capacity_rps()? {
        study.plan(open, args.peak.unwrap_or(PEAK_FACTOR * capacity_rps))?;
        let below = rates.iter().copied().filter(|&rps| rps < capacity_rps).reduce(f64::max);
        study.failure_test(args.failure_rate.or(below).unwrap_or(capacity_rps))?;
    }
    let timing = Timing { interval: args.live.interval_s };
    observability::write(&claim.path.join("observability"), timing)?;
    study.step_without_scenario("verify-pack", &[shown(&claim.path)])
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

struct Study<'a> {
    args: &'a ReproduceArgs,
    scenario: String,
    folder: &'a Path,
}

impl Study<'_> {
    fn closed_loop(&self, loaded: &Loaded) -> Outcome {
        let replicas = loaded.manifest.engine.placement.replicas;
        let clients: Vec<u32> = match self.args.concurrency.as_slice() {
            [] => CLIENTS.iter().map(|clients| clients.saturating_mul(replicas)).collect(),
            given => given.to_vec(),
        };
        let mut closed =
            words(&["--concurrency", &joined(&clients), "--cache", "cold,warm", "--repeats", "1"]);
        if let Some(threads) = self.args.threads {
            // For the whole process: the first command sets it.
            closed.extend(words(&["--threads", &threads.to_string()]));
        }
        self.load("closed", &closed)
    }

    /// The command that loads the fleet at several points.
    fn loader(&self) -> &'static str {
        if self.args.live.live { "live" } else { "sweep" }
    }

    /// Loads the fleet as `options` say.
    fn load(&self, pack: &str, options: &[String]) -> Outcome {
        let mut all = Vec::new();
        if self.args.live.live {
            all.extend(self.args.live.targets().typed("--replica"));
        }
        all.extend_from_slice(options);
        all.extend(self.resumed(pack));
        self.until_written(self.loader(), pack, &format!("{}.json", self.loader()), &all)
    }

    /// `--resume` for a pack that was begun.
    fn resumed(&self, pack: &str) -> Option<String> {
        (self.args.resume && self.folder.join(pack).exists()).then(|| "--resume".to_owned())
    }

    fn plan(&self, open: Vec<String>, peak: f64) -> Outcome {
        let peak = words(&["--peak", &peak.to_string()]);
        if self.args.live.live {
            let from = words(&["--measured", &self.pack("open")]);
            return self.step_once("plan", files::PLAN, &[from, peak].concat());
        }
        let mut options = [open, peak].concat();
        options.extend(self.resumed("plan"));
        self.step("plan", "plan", &options)
    }

    fn failure_test(&self, rate: f64) -> Outcome {
        let live = &self.args.live;
        let replica = self.args.failure_replica.to_string();
        let mut options = words(&["--rate", &rate.to_string(), "--replica", &replica]);
        if live.live {
            options.extend(live.typed());
            options.extend(live.targets().typed("--replica-url"));
        }
        if live.interval_s != Timing::default().interval {
            options.extend(words(&["--interval-s", &live.interval_s.seconds().to_string()]));
        }
        self.step_once("failure-test", failure_test::JSON, &options)
    }

    /// Runs a command that makes its pack at once. One that was made before is taken as it is.
    fn step_once(&self, command: &str, result: &str, options: &[String]) -> Outcome {
        if self.args.resume && self.folder.join(command).join(result).exists() {
            say(&format!("note: {} is there: not made again", self.pack(command)));
            return Ok(Exit::Passed);
        }
        self.until_written(command, command, result, options)
    }

    /// Runs a command that may say at its end, with its result written, that the load generator is not to be believed. That
    /// is no end of a study: such points pass no gate, and their reports say so.
    fn until_written(&self, command: &str, pack: &str, result: &str, options: &[String]) -> Outcome {
        match self.step(command, pack, options) {
            Err(error) if self.folder.join(pack).join(result).exists() && !interrupted() => {
                error.message.lines().for_each(|line| say(&format!("note: {line}")));
                Ok(Exit::Failed)
            }
            ended => ended,
        }
    }

    fn pack(&self, name: &str) -> String {
        shown(&self.folder.join(name))
    }

    /// Runs a command on the scenario, whose pack is `pack`. That a gate fails is a result, and no end of the study.
    fn step(&self, command: &str, pack: &str, options: &[String]) -> Outcome {
        let out = words(&["--out", &self.pack(pack)]);
        self.step_without_scenario(
            command,
            &[std::slice::from_ref(&self.scenario), options, &out[..]].concat(),
        )
    }

    fn step_without_scenario(&self, command: &str, options: &[String]) -> Outcome {
        let typed: Vec<String> = options.iter().map(|word| quoted(word)).collect();
        print_out(&format!("\n$ scaleproof {command} {}\n\n", typed.join(" ")))?;
        let words = ["scaleproof".to_owned(), command.to_owned()].into_iter().chain(options.iter().cloned());
        let parsed = Cli::try_parse_from(words).map_err(CommandError::bad_input)?;
        match &parsed.command {
            Command::Sweep(args) => sweep::run(args),
            Command::Live(args) => live::run(args),
            Command::Plan(args) => plan::run(args),
            Command::FailureTest(args) => failure_test::run(args),
            Command::VerifyPack(args) => verify_pack::run(args),
            _ => Err(CommandError::could_not_run(format!("{command}: found no step of a study"))),
        }
    }

    /// The highest rate that passed in the open loop with a cold cache: the first experiment of its study.
    fn capacity_rps(&self) -> Result<Option<f64>, CommandError> {
        let path = self.folder.join("open").join(format!("{}.json", self.loader()));
        let json: Value = serde_json::from_str(&read_text(&path)?)
            .map_err(|error| CommandError::could_not_run(format!("{}: {error}", path.display())))?;
        Ok(json["capacity_rps"].as_f64())
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
