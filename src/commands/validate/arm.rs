//! One run of a schedule on whatever serves it, into what a verdict looks at, and onto the disk.

use crate::exit::CommandError;
use crate::files::{self, read_bytes, unwritable};
use crate::input::Loaded;
use crate::pack_writer::{PackWriter, write_point};
use crate::point::{Point, World, add_cache};
use crate::progress::interrupted;
use crate::seal;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::{Experiment, Observer};
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Origin, Report, RunFacts, SystemFacts};
use scaleproof_pack::requests_csv::{Reader, Row};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::timeline::{TimelineRow, read_timeline};
use scaleproof_pack::verdict;
use scaleproof_pack::workload::Enough;
use std::path::Path;

/// What a run yields.
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

/// Where measured runs run: no profile is known of what serves them.
pub fn world(loaded: &Loaded, replicas: u32, shared_prefixes: bool, live: bool) -> World {
    let system = SystemFacts { profile: None, ..loaded.system_facts(replicas, shared_prefixes) };
    World { origin: if live { Origin::Live } else { Origin::Simulated }, system }
}

/// The names of the classes in the manifest's order.
pub fn classes(loaded: &Loaded) -> Vec<&str> {
    loaded.manifest.classes.iter().map(|class| class.name.as_str()).collect()
}

/// Runs a schedule and analyzes what it yields. None if the user asked to stop meanwhile.
pub fn measure(
    experiment: &mut dyn Experiment,
    loaded: &Loaded,
    (schedule, enough): (&Schedule, Enough),
    world: &World,
) -> Result<Option<(Report, Yielded)>, CommandError> {
    experiment.reset_prefix_cache().map_err(CommandError::could_not_run)?;
    experiment.prime(schedule).map_err(CommandError::could_not_run)?;
    let mut yielded = Yielded::default();
    let check = experiment.run(schedule, enough, &mut yielded).map_err(CommandError::could_not_run)?;
    if check.stopped || interrupted() {
        return Ok(None);
    }
    let mut analyzer = Analyzer::new(&loaded.manifest);
    yielded.records.iter().for_each(|record| analyzer.record(record));
    yielded.samples.iter().for_each(|row| analyzer.sample(row));
    let facts = RunFacts { system: Some(world.system.clone()), ..RunFacts::of(world.origin, schedule) };
    let mut report = analyzer.finish(facts, Stated::default());
    add_cache(&mut report, schedule, &yielded.samples, loaded.scenario.scheduler.block_size);
    report.invalid = (world.origin == Origin::Live).then_some(check.invalid);
    Ok(Some((report, yielded)))
}

/// Writes a measured run as a pack.
pub fn keep(
    directory: &Path,
    loaded: &Loaded,
    point: &Point,
    (report, yielded): &(Report, Yielded),
) -> Result<(), CommandError> {
    std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    seal::remove(directory)?;
    let mut writer = PackWriter::create(loaded, directory)?;
    yielded.records.iter().for_each(|record| writer.row(record));
    writer.finish()?;
    let name = point.name(loaded);
    write_point(loaded, directory, (&name, point.replicas), report, &yielded.samples)?;
    seal::put(directory, &[])
}

/// A run as the verdict looks at it, from its pack.
pub fn read(directory: &Path, loaded: &Loaded, report: &Report) -> Result<verdict::Run, CommandError> {
    let (requests, timeline) = (directory.join(files::REQUESTS), directory.join(files::TIMELINE));
    let names = classes(loaded);
    let fail = |path: &Path, error: &dyn std::fmt::Display| {
        CommandError::bad_input(format!("{}: {error}", path.display()))
    };
    let csv = read_bytes(&requests)?;
    let reader = Reader::new(csv.as_slice(), names.iter().copied()).map_err(|e| fail(&requests, &e))?;
    let mut records = Vec::new();
    for row in reader {
        if let Row::Own { record, .. } = row.map_err(|e| fail(&requests, &e))? {
            records.push(record);
        }
    }
    let samples = read_timeline(&read_bytes(&timeline)?).map_err(|e| fail(&timeline, &e))?;
    verdict::Run::new(report.clone(), &names, &records, &samples).map_err(|e| fail(&requests, &e))
}
