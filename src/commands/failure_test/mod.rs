//! `scaleproof failure-test`: one fault at a passing rate, and what became of the fleet.

pub mod args;
mod commands;
mod fault;
mod live;
mod sink;
mod trial;
mod watching;

use crate::args::Format;
use crate::exit::{CommandError, Outcome};
use crate::files::{self, unwritable};
use crate::input::{self, Loaded};
use crate::point::Point;
use crate::progress::Progress;
use crate::seal;
use crate::study::{exit_by_gate, pack_directory, print_out, refuse_outside, shown, use_threads};
use args::FailureTestArgs;
use rayon::prelude::*;
use scaleproof_pack::alerts::Timing;
use scaleproof_pack::failure::{Beside, FailureReport, Injected, Repeats};
use scaleproof_pack::report::Origin;
use scaleproof_pack::report_html::{FailurePage, failure_html};
use scaleproof_pack::requests_csv;
use scaleproof_pack::schedule::Load;
use scaleproof_pack::timeline::TimelineCsv;
use serde::Serialize;
use std::path::Path;
use trial::{Trial, try_once};

/// The report, for people.
pub const MARKDOWN: &str = "failure-test.md";
/// The same, for programs and for `verify-pack`.
pub const JSON: &str = "failure-test.json";

/// Runs the command.
pub fn run(args: &FailureTestArgs) -> Outcome {
    use_threads(&args.common)?;
    if args.common.resume {
        return Err(CommandError::bad_input(
            "--resume: found a failure test; expected a study; leave it out, and name an empty --out",
        ));
    }
    let loaded = input::load(&args.common.source)?;
    let shared_prefixes = loaded.shared_prefixes(&args.common.source.cache)?;
    let rps = match args.rate {
        Some(rps) => rps,
        None => passing_rate(&loaded, shared_prefixes)?,
    };
    let replicas = loaded.manifest.engine.placement.replicas;
    let point = Point { load: Load::Open { rps }, run: args.run, replicas, shared_prefixes };
    if args.live.live {
        return live::run(args, &loaded, &point);
    }
    let (disturbed, injected) = disturb(args, &loaded, &point)?;
    let claim = pack_directory(&args.common, "failure-test")?;
    let trials = simulate(args, &disturbed, &point, &injected)?;
    refuse_outside(
        args.common.strict,
        trials[0].outside.iter().map(|what| ("the run".to_owned(), what.clone())),
    )
    .inspect_err(|_| claim.discard())?;
    let repeats = repeats_of(&trials);
    let judged = Judged { trial: &trials[0], repeats: &repeats, prediction: None };
    judged.write(&disturbed, &claim.path)?;
    judged.print(args, &disturbed, &claim.path)?;
    exit_by_gate(repeats.passed == repeats.runs)
}

/// The scenario with the fault in it, and the fault in words.
fn disturb(
    args: &FailureTestArgs,
    loaded: &Loaded,
    point: &Point,
) -> Result<(Loaded, Injected), CommandError> {
    let (plan, injected) = fault::plan(args, loaded, &point.schedule(loaded)?)?;
    let mut disturbed = loaded.clone();
    disturbed.scenario.faults = Some(plan);
    Ok((disturbed, injected))
}

/// All repeats; the first is kept whole.
fn simulate(
    args: &FailureTestArgs,
    disturbed: &Loaded,
    point: &Point,
    injected: &Injected,
) -> Result<Vec<Trial>, CommandError> {
    let runs: Vec<u64> = (0..args.repeats).map(|repeat| args.run.saturating_add(repeat)).collect();
    let expected = disturbed.manifest.client.initial_scheduled_requests.saturating_mul(args.repeats);
    let progress = Progress::start("failure-test", expected);
    let timing = Timing { interval: args.live.interval_s };
    let try_run = |&run: &u64| {
        try_once(disturbed, &Point { run, ..*point }, injected, run == args.run, timing, &progress)
    };
    runs.par_iter().with_max_len(1).map(try_run).collect()
}

fn repeats_of(trials: &[Trial]) -> Repeats {
    let reports: Vec<FailureReport> = trials.iter().map(|trial| trial.report.clone()).collect();
    Repeats::of(&reports)
}

/// The highest of the scenario's rates that passes every gate when nothing goes wrong.
fn passing_rate(loaded: &Loaded, shared_prefixes: bool) -> Result<f64, CommandError> {
    let mut undisturbed = loaded.clone();
    undisturbed.scenario.faults = None;
    let rates = &loaded.scenario.experiment.rates_rps;
    let progress = Progress::start("passing rate", 0);
    for &rps in rates.iter().rev() {
        let replicas = loaded.manifest.engine.placement.replicas;
        let point = Point { load: Load::Open { rps }, run: 0, replicas, shared_prefixes };
        match point.verdict(&undisturbed, &progress)? {
            Some(verdict) if verdict.pass => return Ok(rps),
            Some(_) => {}
            None => {
                return Err(CommandError::could_not_run(
                    "interrupted: found a request to stop; nothing was written",
                ));
            }
        }
    }
    Err(CommandError::bad_input(format!(
        "experiment.rates_rps: found no rate that passes without a fault among {rates:?}; expected one; a failure test \
         starts at a passing point: name it with --rate R"
    )))
}

/// What is printed and written as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pack: Option<String>,
    #[serde(flatten)]
    report: &'a FailureReport,
    repeats: &'a Repeats,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Vec<Beside>>,
}

/// What is written and printed: a trial, what spreads over its repeats, and a prediction's repeats.
struct Judged<'a> {
    trial: &'a Trial,
    repeats: &'a Repeats,
    prediction: Option<&'a Repeats>,
}

impl Judged<'_> {
    fn markdown(&self) -> String {
        let several = Some(self.repeats).filter(|repeats| repeats.runs > 1);
        self.trial.report.with_prediction(several, self.prediction)
    }

    fn json(&self, pack: Option<String>) -> Result<String, CommandError> {
        let (report, repeats) = (&self.trial.report, self.repeats);
        let prediction = self.prediction.map(|prediction| prediction.beside(report));
        json(&Printed { pack, report, repeats, prediction })
    }

    fn write(&self, loaded: &Loaded, directory: &Path) -> Result<(), CommandError> {
        let trial = self.trial;
        let write = |name: &str, text: &str| files::write(&directory.join(name), text.as_bytes());
        for (name, text) in loaded.pack_texts(loaded.manifest.engine.placement.replicas) {
            write(name, &text)?;
        }
        write(MARKDOWN, &self.markdown())?;
        write(JSON, &self.json(None)?)?;
        write(files::REPORT, &json(&trial.whole)?)?;
        let page = FailurePage { report: &trial.report, records: &trial.records, rows: &trial.rows };
        write(files::PAGE, &failure_html(&page))?;
        let path = directory.join(files::REQUESTS);
        let names = loaded.manifest.classes.iter().map(|class| class.name.as_str());
        let mut requests = requests_csv::Writer::new(files::Pending::create(&path)?, names);
        trial
            .records
            .iter()
            .try_for_each(|record| requests.row(record))
            .and_then(|()| requests.finish())
            .map_err(|error| unwritable(&path, &error))?
            .keep()?;
        let path = directory.join(files::TIMELINE);
        let mut timeline =
            TimelineCsv::new(files::Pending::create(&path)?).map_err(|error| unwritable(&path, &error))?;
        trial
            .rows
            .iter()
            .try_for_each(|row| timeline.row(row))
            .and_then(|()| timeline.finish())
            .map_err(|error| unwritable(&path, &error))?
            .keep()?;
        seal::put(directory, &[MARKDOWN, JSON])
    }

    fn print(&self, args: &FailureTestArgs, loaded: &Loaded, directory: &Path) -> Result<(), CommandError> {
        match args.common.format {
            Format::Json => print_out(&self.json(Some(shown(directory)))?),
            Format::Text => {
                let footing = match self.trial.whole.facts.origin {
                    Origin::Live => loaded.live_footing(),
                    _ => loaded.footing(),
                };
                print_out(&format!("{}\n{footing}pack: {}\n", self.markdown(), directory.display()))
            }
        }
    }
}

fn json(value: &impl Serialize) -> Result<String, CommandError> {
    Ok(serde_json::to_string_pretty(value).map_err(CommandError::could_not_run)? + "\n")
}
