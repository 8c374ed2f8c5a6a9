//! One operating point: simulated, analyzed, and written as a pack.

mod tally;

use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::input::Loaded;
use crate::progress::{Progress, Share, interrupted};
use crate::seal;
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::capacity::Judgement;
use scaleproof_pack::experiment::{self, Observer};
use scaleproof_pack::hopeless::Hopeless;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::record::Record;
use scaleproof_pack::report::{OUTSIDE_VALIDITY, Origin, Report, RunFacts};
use scaleproof_pack::report_html::{PointPage, point_html};
use scaleproof_pack::requests_csv;
use scaleproof_pack::schedule::{Load, Schedule, ScheduleError};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::{FleetSeries, TimelineCsv, TimelineRow, read_timeline};
use scaleproof_sim::{ReplicaTotals, RunSummary};
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

    /// The point's pack in `directory`, if it is whole and of this very point: same schedule, profile and files. Why
    /// not, otherwise.
    pub fn resume(
        &self,
        loaded: &Loaded,
        directory: &Path,
    ) -> Result<Result<PointResult, String>, CommandError> {
        if let Some(why) = seal::broken(directory) {
            return Ok(Err(why));
        }
        let same = |(name, text): (&str, String)| {
            std::fs::read(directory.join(name)).is_ok_and(|found| found == text.as_bytes())
        };
        let timeline = std::fs::read(directory.join(files::TIMELINE)).ok();
        let samples = timeline.and_then(|bytes| read_timeline(&bytes).ok());
        let (Some(report), Some(samples)) = (read_report(directory), samples) else {
            return Ok(Err("it cannot be read".to_owned()));
        };
        if !report.facts.complete {
            return Ok(Err("it was not finished".to_owned()));
        }
        if loaded.pack_texts(self.replicas).into_iter().all(same) {
            for schedule in self.schedules(loaded) {
                if report.facts == self.facts(loaded, &schedule?) {
                    return Ok(Ok(PointResult {
                        point: *self,
                        directory: directory.to_owned(),
                        report,
                        samples,
                    }));
                }
            }
        }
        Ok(Err("it is of another scenario, profile, fleet or schedule".to_owned()))
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

    /// Runs the point's schedules until the cache was warm when the window began: a warm experiment measures only
    /// once the expected hits stand, or says that they never did.
    fn until_warm(
        &self,
        loaded: &Loaded,
        mut run: impl FnMut(&Schedule) -> Result<(Report, Vec<TimelineRow>), CommandError>,
    ) -> Result<(Report, Vec<TimelineRow>), CommandError> {
        let mut last = None;
        for schedule in self.schedules(loaded) {
            let (report, samples) = run(&schedule?)?;
            let warm = report.prefix_cache.is_none_or(|cache| cache.warm_from_the_start != Some(false));
            let done = warm || !report.facts.complete;
            last = Some((report, samples));
            if done {
                break;
            }
        }
        Ok(last.expect("there is a schedule to try"))
    }

    /// Simulates the point and writes its pack to `directory`.
    pub fn simulate(
        &self,
        loaded: &Loaded,
        directory: &Path,
        progress: &Progress,
    ) -> Result<PointResult, CommandError> {
        std::fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
        seal::remove(directory)?;
        let (report, samples) = self.until_warm(loaded, |schedule| {
            let mut recorder = Recorder::create(loaded, directory, progress)?;
            let summary = self.run(loaded, schedule, &mut recorder);
            let summary = match recorder.failure.take() {
                Some(error) => return Err(error),
                None => summary?,
            };
            recorder.finish(loaded, self, schedule, &summary, directory)
        })?;
        seal::put(directory)?;
        Ok(PointResult { point: *self, directory: directory.to_owned(), report, samples })
    }

    fn run(
        &self,
        loaded: &Loaded,
        schedule: &Schedule,
        observer: &mut dyn Observer,
    ) -> Result<RunSummary, CommandError> {
        let config = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, self.replicas);
        scaleproof_sim::run(&config, schedule, &|| loaded.engine(), observer)
            .map_err(|error| CommandError::run(&error))
    }

    /// Simulates the point for its report alone, and writes nothing. None if the user asked to stop meanwhile.
    pub fn report(&self, loaded: &Loaded, progress: &Progress) -> Result<Option<Report>, CommandError> {
        let (report, _) = self.until_warm(loaded, |schedule| {
            let mut judge = Judge::new(loaded, progress);
            let summary = self.run(loaded, schedule, &mut judge)?;
            Ok(judge.finish(loaded, self, schedule, &summary))
        })?;
        Ok(Some(report).filter(|report| report.facts.complete))
    }

    /// Simulates the point until its verdict is certain: a run in which a gate cannot pass any more ends there, which
    /// saves a search most of the time that overloaded rates take. None if the user asked to stop meanwhile.
    pub fn verdict(&self, loaded: &Loaded, progress: &Progress) -> Result<Option<Verdict>, CommandError> {
        let (mut lost, mut strain) = (None, 0.0);
        let (report, _) = self.until_warm(loaded, |schedule| {
            let mut judge = Judge::new(loaded, progress);
            judge.hopeless = Some(Hopeless::new(&loaded.manifest, schedule));
            let summary = self.run(loaded, schedule, &mut judge)?;
            judge.progress.finish((schedule.warmup.requests.len() + schedule.measured.requests.len()) as u64);
            strain = judge.hopeless.as_ref().map_or(0.0, Hopeless::strain);
            lost = judge.hopeless.as_ref().filter(|_| summary.stopped).and_then(Hopeless::gate);
            Ok(judge.finish(loaded, self, schedule, &summary))
        })?;
        if !report.facts.complete {
            let failed = |gate| Verdict {
                pass: false,
                failing_gate: Some(gate),
                strain,
                too_short: false,
                warnings: Vec::new(),
            };
            return Ok(lost.map(failed));
        }
        let judgement = Judgement::of(&report);
        Ok(Some(Verdict {
            pass: judgement.pass,
            failing_gate: judgement.failing_gates.into_iter().next(),
            strain,
            too_short: judgement.too_short,
            warnings: report.warnings,
        }))
    }
}

/// Whether a rate passes, for a search that asks for no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether every gate passes.
    pub pass: bool,
    /// The gate that fails: the one that misses by most, or that at which the run was ended.
    pub failing_gate: Option<String>,
    /// The misses of its most strained gate over those that it forgives; the queue does not count.
    pub strain: f64,
    /// Whether it fails only because the run was too short.
    pub too_short: bool,
    /// What a reader should know of the run.
    pub warnings: Vec<String>,
}

/// The report of a point's pack, if there is one that can be read.
fn read_report(directory: &Path) -> Option<Report> {
    serde_json::from_slice(&std::fs::read(directory.join(files::REPORT)).ok()?).ok()
}

/// Takes what a run yields into the analyzer, and to the progress bar.
struct Judge<'a> {
    analyzer: Analyzer,
    samples: Vec<TimelineRow>,
    progress: Share<'a>,
    /// Ends the run once it is certain to fail, if that is all that is asked.
    hopeless: Option<Hopeless>,
}

impl<'a> Judge<'a> {
    fn new(loaded: &Loaded, progress: &'a Progress) -> Judge<'a> {
        let analyzer = Analyzer::new(&loaded.manifest);
        Judge { analyzer, samples: Vec::new(), progress: Share::of(progress), hopeless: None }
    }

    /// The report of the run, and the replicas over time.
    fn finish(
        mut self,
        loaded: &Loaded,
        point: &Point,
        schedule: &Schedule,
        summary: &RunSummary,
    ) -> (Report, Vec<TimelineRow>) {
        // A short run ends before it reports any.
        self.progress.reached(summary.attempts);
        let facts = RunFacts { complete: !summary.stopped, ..point.facts(loaded, schedule) };
        let mut report = self.analyzer.finish(facts, Stated::default());
        let begins = report.arrivals_s.and_then(|(first, _)| Nanos::from_seconds(first).ok());
        let begins = begins.unwrap_or(schedule.window_from);
        let cache = CacheReport::of(schedule, &self.samples, begins, loaded.scenario.scheduler.block_size);
        report.prefix_cache = Some(cache);
        report.warnings.extend(warnings(loaded, point, schedule, summary, &cache));
        (report, self.samples)
    }
}

impl Observer for Judge<'_> {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
        if let Some(hopeless) = &mut self.hopeless {
            hopeless.push(record);
        }
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
        self.samples.push(*row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.progress.reached(progress.ended);
    }

    fn stop(&mut self) -> bool {
        interrupted() || self.hopeless.as_ref().is_some_and(|hopeless| hopeless.gate().is_some())
    }
}

/// Judges a run and writes its attempts to the disk.
struct Recorder<'a> {
    judge: Judge<'a>,
    requests: requests_csv::Writer<Pending>,
    requests_path: PathBuf,
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
            judge: Judge::new(loaded, progress),
            requests: requests_csv::Writer::new(Pending::create(&requests_path)?, names),
            requests_path,
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
        let (report, samples) = self.judge.finish(loaded, point, schedule, summary);
        for (name, text) in loaded.pack_texts(point.replicas) {
            files::write(&directory.join(name), text.as_bytes())?;
        }
        let json = serde_json::to_string_pretty(&report).map_err(CommandError::could_not_run)?;
        files::write(&directory.join(files::REPORT), format!("{json}\n").as_bytes())?;
        let timeline_path = directory.join(files::TIMELINE);
        write_timeline(Pending::create(&timeline_path)?, &samples)
            .map_err(|error| unwritable(&timeline_path, &error))?
            .keep()?;
        let mut fleet = FleetSeries::default();
        samples.iter().for_each(|row| fleet.push(row));
        let (model, name, rows) = (loaded.served(), point.name(loaded), fleet.into_samples());
        let page = PointPage { model: &model, name: &name, report: &report, samples: &rows };
        files::write(&directory.join(files::PAGE), point_html(&page).as_bytes())?;
        Ok((report, samples))
    }
}

fn write_timeline(file: Pending, rows: &[TimelineRow]) -> io::Result<Pending> {
    let mut csv = TimelineCsv::new(file)?;
    rows.iter().try_for_each(|row| csv.row(row))?;
    csv.finish()
}

/// What of a run a reader should know before believing its numbers.
fn warnings(
    loaded: &Loaded,
    point: &Point,
    schedule: &Schedule,
    summary: &RunSummary,
    cache: &CacheReport,
) -> Vec<String> {
    let fleet = summary.replicas.iter().fold(ReplicaTotals::default(), ReplicaTotals::and);
    let validity = &loaded.profile.validity;
    let mut warnings = validity.exceeded(&fleet.extremes);
    warnings.extend(validity.fallen_below(&fleet));
    for warning in &mut warnings {
        warning.insert_str(0, OUTSIDE_VALIDITY);
    }
    if summary.continued > 0 {
        warnings.push(format!(
            "{} requests were taken from the schedule's continuation, because a class lacked successes",
            summary.continued
        ));
    }
    if point.shared_prefixes && cache.expected_hit_share == Some(0.0) {
        warnings.push(
            "the cache is called warm but no prompt shares a prefix: this is the cold experiment; give \
             prefix_groups, sessions or a trace with hash ids"
                .to_owned(),
        );
    }
    if cache.warm_from_the_start == Some(false)
        && let (Some(early), Some(expected)) = (cache.early_hit_share, cache.expected_early_hit_share)
    {
        warnings.push(format!(
            "the cache was not warm when the window began: {:.1} % of prompt tokens hit in its first tenth, {:.1} % \
             expected; raise client.warmup_seconds or the KV pool",
            100.0 * early,
            100.0 * expected
        ));
    }
    if schedule.window_from.seconds() > 1.5 * loaded.manifest.client.warmup_seconds {
        warnings.push(format!(
            "the warm-up was lengthened to {} s, because the expected prefix hits did not stand after the manifest's",
            schedule.window_from.seconds()
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
        self.judge.record(record);
        let written = self.requests.row(record);
        self.keep(written);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.judge.sample(row);
    }

    fn progress(&mut self, progress: experiment::Progress) {
        self.judge.progress(progress);
    }

    fn stop(&mut self) -> bool {
        self.judge.stop() || self.failure.is_some()
    }
}
