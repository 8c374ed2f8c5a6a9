//! One run of a schedule on whatever serves it, into what a verdict looks at, and onto the disk.

use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::input::Loaded;
use crate::pack_writer::write_timeline;
use crate::progress::interrupted;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::experiment::{Experiment, Observer};
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Origin, Report, RunFacts, SystemFacts};
use scaleproof_pack::requests_csv::{Reader, Row, Writer};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::{TimelineRow, read_timeline};
use scaleproof_pack::verdict;
use scaleproof_pack::workload::Enough;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a measured run is called whole by, written last.
const RUN: &str = "run.json";

/// What is in that file.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    /// What served the schedule.
    engine: String,
    /// Self-checks that failed.
    invalid: Vec<String>,
    /// Median time to the response's headers.
    headers_ms: Option<f64>,
    /// SHA-256 of the other files.
    requests_sha256: String,
    report_sha256: String,
}

/// A run with what it yielded.
#[derive(Debug, Default)]
pub struct Yielded {
    /// Its attempts, warm-up included.
    pub records: Vec<Record>,
    /// The replicas over time.
    pub samples: Vec<TimelineRow>,
}

impl Observer for Yielded {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.samples.push(*row);
    }

    fn stop(&mut self) -> bool {
        interrupted()
    }
}

/// A measured run, judged.
#[derive(Debug)]
pub struct Measured {
    /// For the verdict.
    pub run: verdict::Run,
    /// Self-checks that failed.
    pub invalid: Vec<String>,
}

/// Runs a schedule and keeps what it yields. None if the user asked to stop meanwhile.
pub fn measure(
    experiment: &mut dyn Experiment,
    loaded: &Loaded,
    (schedule, enough): (&Schedule, Enough),
    facts: RunFacts,
) -> Result<Option<(Report, Yielded, Vec<String>)>, CommandError> {
    experiment.reset_prefix_cache().map_err(CommandError::could_not_run)?;
    let mut yielded = Yielded::default();
    let check = experiment.run(schedule, enough, &mut yielded).map_err(CommandError::could_not_run)?;
    if check.stopped || interrupted() {
        return Ok(None);
    }
    let mut analyzer = Analyzer::new(&loaded.manifest);
    yielded.records.iter().for_each(|record| analyzer.record(record));
    yielded.samples.iter().for_each(|row| analyzer.sample(row));
    let mut report = analyzer.finish(facts, Stated::default());
    let begins = report.arrivals_s.and_then(|(first, _)| Nanos::from_seconds(first).ok());
    let begins = begins.unwrap_or(schedule.window_from);
    let block_size = loaded.scenario.scheduler.block_size;
    report.prefix_cache = Some(CacheReport::of(schedule, &yielded.samples, begins, block_size));
    Ok(Some((report, yielded, check.invalid)))
}

/// The names of the classes in the manifest's order.
pub fn classes(loaded: &Loaded) -> Vec<&str> {
    loaded.manifest.classes.iter().map(|class| class.name.as_str()).collect()
}

/// What a measured run rests on.
pub fn facts(loaded: &Loaded, schedule: &Schedule, replicas: u32, live: bool) -> RunFacts {
    let system = SystemFacts { profile: None, ..loaded.system_facts(replicas, schedule.shared_prefixes) };
    let origin = if live { Origin::Live } else { Origin::Simulated };
    RunFacts { system: Some(system), ..RunFacts::of(origin, schedule) }
}

/// Writes a measured run to `directory`, and gives it to the verdict.
pub fn keep(
    directory: &Path,
    loaded: &Loaded,
    (report, yielded, invalid): (Report, Yielded, Vec<String>),
    engine: &str,
) -> Result<Measured, CommandError> {
    std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    let path = directory.join(files::REQUESTS);
    let fail = |error| unwritable(&path, &error);
    let mut requests = Vec::new();
    let mut writer = Writer::new(&mut requests, classes(loaded));
    yielded.records.iter().try_for_each(|record| writer.row(record)).map_err(fail)?;
    writer.finish().map_err(fail)?;
    files::write(&path, &requests)?;
    let timeline = directory.join(files::TIMELINE);
    write_timeline(Pending::create(&timeline)?, &yielded.samples)
        .map_err(|error| unwritable(&timeline, &error))?
        .keep()?;
    let json = serde_json::to_string_pretty(&report).map_err(CommandError::could_not_run)? + "\n";
    files::write(&directory.join(files::REPORT), json.as_bytes())?;
    let run = verdict::Run::new(report, &classes(loaded), &yielded.records, &yielded.samples)
        .map_err(CommandError::could_not_run)?;
    let made = Made {
        engine: engine.to_owned(),
        invalid: invalid.clone(),
        headers_ms: run.headers_ms(),
        requests_sha256: sha256_hex(&requests),
        report_sha256: sha256_hex(json.as_bytes()),
    };
    let json = serde_json::to_string_pretty(&made).map_err(CommandError::could_not_run)? + "\n";
    files::write(&directory.join(RUN), json.as_bytes())?;
    Ok(Measured { run, invalid })
}

/// A measured run that is already there whole, of this schedule and engine.
pub fn resumed(directory: &Path, loaded: &Loaded, facts: &RunFacts, engine: &str) -> Option<Measured> {
    let made: Made = serde_json::from_slice(&std::fs::read(directory.join(RUN)).ok()?).ok()?;
    let json = std::fs::read(directory.join(files::REPORT)).ok()?;
    let csv = std::fs::read(directory.join(files::REQUESTS)).ok()?;
    let whole = sha256_hex(&json) == made.report_sha256 && sha256_hex(&csv) == made.requests_sha256;
    let report: Report = serde_json::from_slice(&json).ok()?;
    if !whole || made.engine != engine || report.facts != *facts {
        return None;
    }
    let (records, samples) = (records(&csv, &classes(loaded))?, timeline(directory)?);
    let run = verdict::Run::new(report, &classes(loaded), &records, &samples).ok()?;
    Some(Measured { run: run.with_headers_ms(made.headers_ms), invalid: made.invalid })
}

fn timeline(directory: &Path) -> Option<Vec<TimelineRow>> {
    read_timeline(&std::fs::read(directory.join(files::TIMELINE)).ok()?).ok()
}

fn records(csv: &[u8], classes: &[&str]) -> Option<Vec<Record>> {
    let reader = Reader::new(csv, classes.iter().copied()).ok()?;
    let own = |row| match row {
        Ok(Row::Own { record, .. }) => Some(record),
        _ => None,
    };
    reader.map(own).collect()
}

/// The predicted side of a point that was simulated: its report, with the records and samples of its pack.
pub fn predicted(directory: &Path, loaded: &Loaded, report: &Report) -> Result<verdict::Run, CommandError> {
    let path = directory.join(files::REQUESTS);
    let csv = files::read_bytes(&path)?;
    let names = classes(loaded);
    let unreadable = || {
        CommandError::bad_input(format!(
            "{}: found no simulated pack; expected the one just written; simulate it again",
            directory.display()
        ))
    };
    let records = records(&csv, &names).ok_or_else(unreadable)?;
    let samples = timeline(directory).ok_or_else(unreadable)?;
    verdict::Run::new(report.clone(), &names, &records, &samples).map_err(CommandError::bad_input)
}
