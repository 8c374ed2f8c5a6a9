//! One operating point: simulated, analyzed, and written as a pack.

use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::input::Loaded;
use crate::progress::{Progress, Share, interrupted};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{Origin, Report, RunFacts};
use scaleproof_pack::report_html::{PointPage, point_html};
use scaleproof_pack::requests_csv;
use scaleproof_pack::schedule::{Load, Schedule, ScheduleError};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::{FleetSeries, TimelineCsv, TimelineRow, read_timeline};
use scaleproof_sim::{Extremes, RunSummary};
use std::io;
use std::path::{Path, PathBuf};

/// A warm experiment's warm-up is doubled at most this often.
const WARMUP_DOUBLINGS_MAX: u32 = 3;

/// A point to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Open or closed loop.
    pub load: Load,
    /// Repeat number.
    pub run: u64,
    /// Replicas.
    pub replicas: u32,
    /// Whether prompts share the scenario's prefixes.
    pub shared_prefixes: bool,
}

/// A point that has been simulated.
pub struct PointResult {
    /// Which.
    pub point: Point,
    /// Its directory.
    pub directory: PathBuf,
    /// The analyzer's report.
    pub report: Report,
    /// The replicas over time.
    pub samples: Vec<TimelineRow>,
}

impl Point {
    /// The name of its directory in a study.
    pub fn name(&self, loaded: &Loaded) -> String {
        let (kind, level) = match self.load {
            Load::Open { rps } => ("open", format!("{rps}")),
            Load::Closed { concurrency } => ("closed", format!("{concurrency}")),
        };
        let cache = if self.shared_prefixes { "warm" } else { "cold" };
        let seed = loaded.manifest.client.request_schedule_seed;
        let run = if self.run == 0 { String::new() } else { format!("-run{}", self.run) };
        let usual = loaded.manifest.engine.placement.replicas;
        let fleet = if self.replicas == usual { String::new() } else { format!("-x{}", self.replicas) };
        format!("{kind}-{cache}-{level}-{seed}{run}{fleet}")
    }

    /// Its schedule, with the manifest's warm-up.
    pub fn schedule(&self, loaded: &Loaded) -> Result<Schedule, CommandError> {
        self.schedule_of(loaded, &loaded.manifest)
    }

    /// The schedules to try: with the manifest's warm-up, and where prompts share prefixes with twice, four and
    /// eight times of it, for a cache that is not warm when the window begins. (A closed loop's warm-up is counted in
    /// requests, not in seconds.)
    fn schedules(&self, loaded: &Loaded) -> impl Iterator<Item = Result<Schedule, CommandError>> {
        let open = matches!(self.load, Load::Open { .. });
        let doublings = if self.shared_prefixes && open { WARMUP_DOUBLINGS_MAX } else { 0 };
        (0..=doublings).map(move |doublings| {
            let mut manifest = loaded.manifest.clone();
            manifest.client.warmup_seconds *= f64::from(1 << doublings);
            self.schedule_of(loaded, &manifest)
        })
    }

    fn schedule_of(&self, loaded: &Loaded, manifest: &Manifest) -> Result<Schedule, CommandError> {
        Schedule::generate(manifest, self.load, self.run, loaded.trace.as_deref(), self.shared_prefixes)
            .map_err(|error| match error {
                // These name the trace's file.
                ScheduleError::Trace(faults) => CommandError::bad_input(faults),
                other => CommandError::bad_input(format!("{}: {other}", loaded.manifest_file())),
            })
    }

    /// What the point rests on, for its report.
    fn facts(&self, loaded: &Loaded, schedule: &Schedule) -> RunFacts {
        RunFacts {
            system: Some(loaded.system_facts(self.replicas, self.shared_prefixes)),
            ..RunFacts::of(Origin::Simulated, schedule)
        }
    }

    /// The point's pack in `directory`, if it is whole and of this very point: same schedule, profile and files.
    pub fn resume(&self, loaded: &Loaded, directory: &Path) -> Result<Option<PointResult>, CommandError> {
        let texts = [(files::MANIFEST, &loaded.manifest_text), (files::SCENARIO, &loaded.scenario_text)];
        let same = |(name, text): &(&str, &String)| {
            std::fs::read(directory.join(name)).is_ok_and(|found| found == text.as_bytes())
        };
        let Some(report) = read_report(directory) else { return Ok(None) };
        let Ok(timeline) = std::fs::read(directory.join(files::TIMELINE)) else { return Ok(None) };
        let others = [files::REQUESTS, files::PAGE].iter().all(|name| directory.join(name).exists());
        if !others || !texts.iter().all(same) {
            return Ok(None);
        }
        for schedule in self.schedules(loaded) {
            if report.facts == self.facts(loaded, &schedule?) {
                let whole =
                    |samples| PointResult { point: *self, directory: directory.to_owned(), report, samples };
                return Ok(read_timeline(&timeline).ok().map(whole));
            }
        }
        Ok(None)
    }

    /// Refuses a directory with the report of another rate, seed, run or system.
    pub fn refuse_another(&self, loaded: &Loaded, directory: &Path) -> Result<(), CommandError> {
        let Some(Report { facts: found, .. }) = read_report(directory) else { return Ok(()) };
        let own = self.facts(loaded, &self.schedule(loaded)?);
        if found == (RunFacts { complete: found.complete, schedule_hash: found.schedule_hash.clone(), ..own })
        {
            return Ok(());
        }
        Err(CommandError::bad_input(format!(
            "{}: found another point's report; expected this point's, or none; give another --out",
            directory.join(files::REPORT).display()
        )))
    }

    /// Simulates the point and writes its pack to `directory`. A cache that was not warm when the window began has
    /// the point simulated again after a longer warm-up: a warm experiment measures only once the expected hits
    /// stand, or says that they never did.
    pub fn simulate(
        &self,
        loaded: &Loaded,
        directory: &Path,
        progress: &Progress,
    ) -> Result<PointResult, CommandError> {
        std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
        let mut result = None;
        for schedule in self.schedules(loaded) {
            let done = self.simulate_schedule(loaded, &schedule?, directory, progress)?;
            let cache = done.report.prefix_cache;
            let warm = cache.is_none_or(|cache| cache.warm_from_the_start != Some(false));
            let again = !warm && done.report.facts.complete;
            result = Some(done);
            if !again {
                break;
            }
        }
        Ok(result.expect("there is a schedule to try"))
    }

    fn simulate_schedule(
        &self,
        loaded: &Loaded,
        schedule: &Schedule,
        directory: &Path,
        progress: &Progress,
    ) -> Result<PointResult, CommandError> {
        let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, self.replicas);
        let mut recorder = Recorder::create(loaded, directory, progress)?;
        let summary = scaleproof_sim::run(&config, schedule, &|| loaded.engine(), &mut recorder);
        let summary = match (recorder.failure.take(), summary) {
            (Some(error), _) => return Err(error),
            (None, summary) => summary.map_err(CommandError::could_not_run)?,
        };
        let (report, samples) = recorder.finish(loaded, self, schedule, &summary, directory)?;
        Ok(PointResult { point: *self, directory: directory.to_owned(), report, samples })
    }

    /// Simulates the point for its report alone, and writes nothing. None if the user asked to stop meanwhile.
    pub fn report(&self, loaded: &Loaded, progress: &Progress) -> Result<Option<Report>, CommandError> {
        let schedule = self.schedule(loaded)?;
        let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, self.replicas);
        let mut judge = Judge { analyzer: Analyzer::new(&loaded.manifest), progress: Share::of(progress) };
        let summary = scaleproof_sim::run(&config, &schedule, &|| loaded.engine(), &mut judge)
            .map_err(CommandError::could_not_run)?;
        if summary.stopped {
            return Ok(None);
        }
        let mut report = judge.analyzer.finish(self.facts(loaded, &schedule), Stated::default());
        report.warnings.extend(warnings(loaded, &summary, None));
        Ok(Some(report))
    }
}

/// The report of a point's pack, if there is one that can be read.
fn read_report(directory: &Path) -> Option<Report> {
    serde_json::from_slice(&std::fs::read(directory.join(files::REPORT)).ok()?).ok()
}

/// Takes what a run yields into the analyzer alone.
struct Judge<'a> {
    analyzer: Analyzer,
    progress: Share<'a>,
}

impl Observer for Judge<'_> {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        interrupted()
    }
}

/// Takes what a run yields: into the analyzer, onto the disk, and to the progress bar.
struct Recorder<'a> {
    analyzer: Analyzer,
    requests: requests_csv::Writer<Pending>,
    requests_path: PathBuf,
    samples: Vec<TimelineRow>,
    progress: Share<'a>,
    failure: Option<CommandError>,
}

impl<'a> Recorder<'a> {
    fn create(
        loaded: &Loaded,
        directory: &Path,
        progress: &'a Progress,
    ) -> Result<Recorder<'a>, CommandError> {
        let requests_path = directory.join(files::REQUESTS);
        let names = loaded.manifest.classes.iter().map(|class| class.name.as_str());
        Ok(Recorder {
            analyzer: Analyzer::new(&loaded.manifest),
            requests: requests_csv::Writer::new(Pending::create(&requests_path)?, names),
            requests_path,
            samples: Vec::new(),
            progress: Share::of(progress),
            failure: None,
        })
    }

    fn keep(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && self.failure.is_none()
        {
            self.failure = Some(unwritable(&self.requests_path, &error));
        }
    }

    /// Writes the rest of the pack.
    fn finish(
        self,
        loaded: &Loaded,
        point: &Point,
        schedule: &Schedule,
        summary: &RunSummary,
        directory: &Path,
    ) -> Result<(Report, Vec<TimelineRow>), CommandError> {
        let path = self.requests_path;
        self.requests.finish().map_err(|error| unwritable(&path, &error))?.keep()?;
        let facts = RunFacts { complete: !summary.stopped, ..point.facts(loaded, schedule) };
        let mut report = self.analyzer.finish(facts, Stated::default());
        let begins = report.arrivals_s.and_then(|(first, _)| Nanos::from_seconds(first).ok());
        let begins = begins.unwrap_or(schedule.window_from);
        let cache = CacheReport::of(schedule, &self.samples, begins, loaded.scenario.scheduler.block_size);
        report.prefix_cache = Some(cache);
        report.warnings.extend(warnings(loaded, summary, Some(&cache)));
        if schedule.window_from.seconds() > 1.5 * loaded.manifest.client.warmup_seconds {
            report.warnings.push(format!(
                "the warm-up was lengthened to {} s, because the expected prefix hits did not stand after the manifest's",
                schedule.window_from.seconds()
            ));
        }
        files::write(&directory.join(files::MANIFEST), loaded.manifest_text.as_bytes())?;
        files::write(&directory.join(files::SCENARIO), loaded.scenario_text.as_bytes())?;
        let json = serde_json::to_string_pretty(&report).map_err(CommandError::could_not_run)?;
        files::write(&directory.join(files::REPORT), format!("{json}\n").as_bytes())?;
        let timeline_path = directory.join(files::TIMELINE);
        write_timeline(Pending::create(&timeline_path)?, &self.samples)
            .map_err(|error| unwritable(&timeline_path, &error))?
            .keep()?;
        let mut fleet = FleetSeries::default();
        self.samples.iter().for_each(|row| fleet.push(row));
        let (model, name, samples) = (loaded.served(), point.name(loaded), fleet.into_samples());
        let page = PointPage { model: &model, name: &name, report: &report, samples: &samples };
        files::write(&directory.join(files::PAGE), point_html(&page).as_bytes())?;
        Ok((report, self.samples))
    }
}

fn write_timeline(file: Pending, rows: &[TimelineRow]) -> io::Result<Pending> {
    let mut csv = TimelineCsv::new(file)?;
    rows.iter().try_for_each(|row| csv.row(row))?;
    csv.finish()
}

/// What of a run a reader should know before believing its numbers.
fn warnings(loaded: &Loaded, summary: &RunSummary, cache: Option<&CacheReport>) -> Vec<String> {
    let seen = summary.replicas.iter().fold(Extremes::default(), |seen, replica| seen.max(replica.extremes));
    let mut warnings = loaded.profile.validity.exceeded(&seen);
    for warning in &mut warnings {
        warning.insert_str(0, "outside the profile's validity region: ");
    }
    if summary.continued > 0 {
        warnings.push(format!(
            "{} requests were taken from the schedule's continuation, because a class lacked successes",
            summary.continued
        ));
    }
    if let Some(cache) = cache.filter(|cache| cache.warm_from_the_start == Some(false))
        && let (Some(early), Some(expected)) = (cache.early_hit_share, cache.expected_early_hit_share)
    {
        warnings.push(format!(
            "the cache was not warm when the window began: {:.1} % of prompt tokens hit in its first tenth, {:.1} % \
             expected; raise client.warmup_seconds or the KV pool",
            100.0 * early,
            100.0 * expected
        ));
    }
    if summary.stopped {
        warnings
            .push("stopped before the schedule's end: the numbers cover the attempts that had ended".into());
    }
    warnings
}

impl Observer for Recorder<'_> {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
        let written = self.requests.row(record);
        self.keep(written);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
        self.samples.push(*row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        interrupted() || self.failure.is_some()
    }
}
