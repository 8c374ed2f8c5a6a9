//! One operating point: simulated, analyzed, and written as a pack.

mod judge;
mod observed;
mod tally;

use crate::exit::CommandError;
use crate::files::{self, unwritable};
use crate::input::Loaded;
use crate::pack_writer::{PackWriter, write_point};
use crate::progress::Progress;
use crate::seal;
use judge::Judge;
use scaleproof_pack::cache::CacheReport;
use scaleproof_pack::capacity::Judgement;
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::hopeless::Hopeless;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::report::{OUTSIDE_VALIDITY, Origin, Report, RunFacts, SystemFacts};
use scaleproof_pack::schedule::{Load, Schedule, ScheduleError};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::{TimelineRow, read_timeline};
use scaleproof_sim::{ReplicaTotals, RunSummary};
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

/// Where a point is run: what its report says of that.
pub struct World {
    /// Simulated or live.
    pub origin: Origin,
    /// What serves it.
    pub system: SystemFacts,
}

impl World {
    /// What is done with a point there.
    pub fn verb(&self) -> &'static str {
        if self.origin == Origin::Live { "run" } else { "simulated" }
    }
}

/// A point that has been run.
pub struct PointResult {
    /// Which.
    pub point: Point,
    /// Its directory.
    pub directory: PathBuf,
    /// Whether its pack was there before this command.
    pub resumed: bool,
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

    /// The very schedule that `report` is of, its warm-up as long as it had to be.
    pub fn schedule_of_report(&self, loaded: &Loaded, report: &Report) -> Result<Schedule, CommandError> {
        for schedule in self.schedules(loaded) {
            let schedule = schedule?;
            if report.facts.schedule_hash.as_ref() == Some(&schedule.hash) {
                return Ok(schedule);
            }
        }
        Err(CommandError::could_not_run(format!(
            "{}: found a report of another schedule; expected the point's own; simulate it again",
            self.name(loaded)
        )))
    }

    fn schedule_of(&self, loaded: &Loaded, manifest: &Manifest) -> Result<Schedule, CommandError> {
        Schedule::generate(manifest, self.load, self.run, loaded.trace.as_deref(), self.shared_prefixes)
            .map_err(|error| match error {
                // These name the trace's file.
                ScheduleError::Trace(faults) => CommandError::bad_input(faults),
                other => CommandError::bad_input(format!("{}: {other}", loaded.manifest_file())),
            })
    }

    /// What the point rests on when it is simulated.
    fn facts(&self, loaded: &Loaded, schedule: &Schedule) -> RunFacts {
        self.facts_in(&self.simulated(loaded), schedule)
    }

    /// The world in which it is simulated.
    pub fn simulated(&self, loaded: &Loaded) -> World {
        World { origin: Origin::Simulated, system: loaded.system_facts(self.replicas, self.shared_prefixes) }
    }

    /// What the point rests on in a world.
    pub fn facts_in(&self, world: &World, schedule: &Schedule) -> RunFacts {
        RunFacts { system: Some(world.system.clone()), ..RunFacts::of(world.origin, schedule) }
    }

    /// The point's pack in `directory`, if it is whole and of this very point: same schedule, profile and files. Why
    /// not, otherwise.
    pub fn resume(
        &self,
        loaded: &Loaded,
        world: &World,
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
                if report.facts == self.facts_in(world, &schedule?) {
                    return Ok(Ok(PointResult {
                        point: *self,
                        directory: directory.to_owned(),
                        resumed: true,
                        report,
                        samples,
                    }));
                }
            }
        }
        Ok(Err("it is of another scenario, profile, fleet or schedule".to_owned()))
    }

    /// Refuses a directory with the report of another rate, seed, run or system.
    pub fn refuse_another(
        &self,
        loaded: &Loaded,
        world: &World,
        directory: &Path,
    ) -> Result<(), CommandError> {
        let Some(Report { facts: found, .. }) = read_report(directory) else { return Ok(()) };
        let own = self.facts_in(world, &self.schedule(loaded)?);
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
            let mut kept = Judge::new(loaded, progress).keeping(PackWriter::create(loaded, directory)?);
            let summary = self.run(loaded, schedule, &mut kept);
            if summary.is_ok() || kept.keeper.has_failed() {
                kept.keeper.finish()?;
            }
            let (report, samples) = kept.judge.finish(loaded, self, schedule, &summary?);
            write_point(loaded, directory, (&self.name(loaded), self.replicas), &report, &samples)?;
            Ok((report, samples))
        })?;
        seal::put(directory, &[])?;
        Ok(PointResult { point: *self, directory: directory.to_owned(), resumed: false, report, samples })
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

/// Adds to a report what the prefix cache did over its window.
pub fn add_cache(
    report: &mut Report,
    schedule: &Schedule,
    samples: &[TimelineRow],
    block_size: u32,
) -> CacheReport {
    let begins = report.arrivals_s.and_then(|(first, _)| Nanos::from_seconds(first).ok());
    let begins = begins.unwrap_or(schedule.window_from);
    *report.prefix_cache.insert(CacheReport::of(schedule, samples, begins, block_size))
}

/// What of a simulated run a reader should know before believing its numbers.
fn warnings(loaded: &Loaded, schedule: &Schedule, summary: &RunSummary, cache: &CacheReport) -> Vec<String> {
    let fleet = summary.replicas.iter().fold(ReplicaTotals::default(), ReplicaTotals::and);
    let validity = &loaded.profile.validity;
    let mut warnings = validity.exceeded(&fleet.extremes);
    warnings.extend(validity.fallen_below(&fleet));
    for warning in &mut warnings {
        warning.insert_str(0, OUTSIDE_VALIDITY);
    }
    warnings.extend(warnings_of_run(schedule, summary.continued, cache));
    if schedule.window_from.seconds() > 1.5 * loaded.manifest.client.warmup_seconds {
        warnings.push(format!(
            "the warm-up was lengthened to {} s, because the expected prefix hits did not stand after the manifest's",
            schedule.window_from.seconds()
        ));
    }
    if summary.stopped {
        warnings.push(STOPPED.to_owned());
    }
    warnings
}

/// The warning of a run that was stopped.
pub const STOPPED: &str = "stopped before the schedule's end: the numbers cover the attempts that had ended";

/// What is worth knowing of any run, simulated or live.
pub fn warnings_of_run(schedule: &Schedule, continued: u64, cache: &CacheReport) -> Vec<String> {
    let mut warnings = Vec::new();
    if continued > 0 {
        warnings.push(format!(
            "{continued} requests were taken from the schedule's continuation, because a class lacked successes",
        ));
    }
    if schedule.shared_prefixes && cache.expected_hit_share == Some(0.0) {
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
    warnings
}
