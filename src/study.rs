//! A study: several operating points in one pack.

mod searches;

pub use searches::Search;

use crate::args::{Cache, Format, ScenarioArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, OutputDirectory, Pending, unwritable};
use crate::input::{self, Loaded};
use crate::point::{Point, PointResult, World};
use crate::progress::{Progress, interrupted, say};
use crate::table::counted;
use rayon::prelude::*;
use scaleproof_pack::schedule::{Load, WARMUP_REQUESTS_PER_CLIENT};
use scaleproof_pack::summary::{self, PointKey};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The files of a point that a study repeats at its top for the chosen one.
const POINT_FILES: [&str; 6] =
    [files::MANIFEST, files::SCENARIO, files::PROFILE, files::REQUESTS, files::REPORT, files::TIMELINE];

/// A scenario with a place to write to.
pub struct Study {
    /// The scenario.
    pub loaded: Loaded,
    /// The pack.
    pub directory: PathBuf,
    /// Keeps others from writing there.
    claim: OutputDirectory,
    /// How to print.
    pub format: Format,
    /// Whether prompts share prefixes.
    pub shared_prefixes: bool,
    /// Whether points already in the pack are taken from there.
    pub resume: bool,
    /// Whether a point outside the profile's validity region is refused.
    strict: bool,
    /// Whether its points are measured, and not simulated.
    live: bool,
    /// The points so far, in the order asked for.
    pub results: Vec<PointResult>,
}

impl Study {
    /// Loads the scenario and makes the pack's directory.
    pub fn open(args: &ScenarioArgs, command: &str) -> Result<Study, CommandError> {
        use_threads(args)?;
        Study::over(args, command)
    }

    /// The same without threads of its own.
    pub fn over(args: &ScenarioArgs, command: &str) -> Result<Study, CommandError> {
        let loaded = input::load(&args.source)?;
        Study::of(args, command, loaded)
    }

    /// The same of a scenario that is loaded already.
    pub fn of(args: &ScenarioArgs, command: &str, loaded: Loaded) -> Result<Study, CommandError> {
        let live = command == "live";
        if command != "sweep" && !live {
            loaded.shared_prefixes(&args.source.cache)?;
        }
        let claim = pack_directory(args, command)?;
        let first = args.source.cache.iter().take(1).copied().collect::<Vec<_>>();
        let shared_prefixes = loaded.shared_prefixes(&first)?;
        let (format, resume, strict) = (args.format, args.resume, args.strict);
        let directory = claim.path.clone();
        let results = Vec::new();
        Ok(Study { loaded, directory, claim, format, shared_prefixes, resume, strict, live, results })
    }

    /// The point at an offered rate, on the manifest's own fleet unless `replicas` says otherwise.
    pub fn at_rate(&self, rps: f64, run: u64, replicas: Option<u32>) -> Point {
        Point {
            load: Load::Open { rps },
            run,
            replicas: replicas.unwrap_or(self.loaded.manifest.engine.placement.replicas),
            shared_prefixes: self.shared_prefixes,
        }
    }

    /// The repeats among some results, rising.
    pub fn runs(&self, indices: &[usize]) -> Vec<u64> {
        let mut runs: Vec<u64> = indices.iter().map(|&i| self.results[i].point.run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// The names of the points' directories.
    pub fn point_names(&self) -> Vec<String> {
        self.results.iter().map(|result| result.point.name(&self.loaded)).collect()
    }

    /// Whether prompts share prefixes, of each experiment to make: those asked for, or else the scenario's.
    pub fn cache_states(&self, asked: &[Cache]) -> Vec<bool> {
        let mut states: Vec<bool> = Vec::new();
        for warm in asked.iter().map(|cache| *cache == Cache::Warm) {
            if !states.contains(&warm) {
                states.push(warm);
            }
        }
        if states.is_empty() { vec![self.shared_prefixes] } else { states }
    }

    /// The cache state of the points to come.
    pub fn cache_word(&self) -> &'static str {
        if self.shared_prefixes { "warm" } else { "cold" }
    }

    /// The title of its page: what its points ran on.
    pub fn title(&self) -> String {
        let replicas = self.loaded.manifest.engine.placement.replicas;
        let gpus = replicas.saturating_mul(self.loaded.gpus_per_replica());
        format!("{}: {}, {gpus} GPUs", self.loaded.served(), counted(replicas.into(), "replica"))
    }

    /// Where the result of a point stands, if it has been simulated.
    pub fn position(&self, point: &Point) -> Option<usize> {
        self.results.iter().position(|result| result.point == *point)
    }

    /// Simulates points, all cores at once, each with its own pack under `points/`. Their results are appended
    /// in the order asked for, whatever the number of threads. What was simulated before is not done again. Returns the
    /// place of each among the results, once.
    pub fn simulate(&mut self, label: &str, points: &[Point]) -> Result<Vec<usize>, CommandError> {
        let mut new: Vec<Point> = Vec::new();
        for point in points {
            self.loaded.check_fleet(point.replicas)?;
            if self.position(point).is_none() && !new.contains(point) {
                new.push(*point);
            }
        }
        let expected = new.iter().map(|point| self.expected_attempts(point)).sum();
        let progress = Progress::start(label, expected);
        let obtain = |point: &Point| {
            if interrupted() { Ok(None) } else { self.obtain(point, &progress).map(Some) }
        };
        // The longest first, each to the next core that is free: none is left alone with a long one at the end.
        let mut order: Vec<usize> = (0..new.len()).collect();
        order.sort_by(|&a, &b| self.cost(&new[b]).total_cmp(&self.cost(&new[a])));
        let done: Result<Vec<(usize, Option<PointResult>)>, CommandError> =
            order.into_iter().par_bridge().map(|place| Ok((place, obtain(&new[place])?))).collect();
        drop(progress);
        let mut done = done?;
        done.sort_by_key(|&(place, _)| place);
        let done = done.into_iter().filter_map(|(_, result)| result);
        // A point that was stopped has its own pack, but its numbers are not the point's.
        self.results.extend(done.filter(|result| result.report.facts.complete));
        self.refuse_interrupted()?;
        let mut indices = Vec::new();
        for point in points {
            let index = self.position(point);
            // A point that was asked for twice is no second repeat.
            indices.extend(index.filter(|index| !indices.contains(index)));
        }
        self.refuse_outside(indices.iter().map(|&index| &self.results[index]))?;
        Ok(indices)
    }

    /// The end of a command that was asked to stop among its points.
    fn refuse_interrupted(&self) -> Result<(), CommandError> {
        if !interrupted() {
            return Ok(());
        }
        self.write_summary()?;
        Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; the points finished until then are valid, under {}",
            self.directory.display()
        )))
    }

    /// About how long the simulation of a point takes beside others: it grows with the attempts, and with the steps, of
    /// which there are the more the fewer requests share one.
    fn cost(&self, point: &Point) -> f64 {
        let level = match point.load {
            Load::Open { rps } => rps,
            Load::Closed { concurrency } => f64::from(concurrency),
        };
        self.expected_attempts(point) as f64 * (1.0 + f64::from(point.replicas) / level)
    }

    /// With --strict, refuses results outside the profile's validity region, and leaves none of the packs that this
    /// command wrote of them.
    fn refuse_outside<'r>(&self, results: impl Iterator<Item = &'r PointResult>) -> Result<(), CommandError> {
        let outside: Vec<&PointResult> = results.filter(|result| result.report.leaves_validity()).collect();
        let named = outside.iter().flat_map(|result| {
            let name = result.point.name(&self.loaded);
            result.report.outside_validity().map(move |what| (name.clone(), what.to_owned()))
        });
        self.refuse_what_is_outside(named).inspect_err(|_| {
            for result in outside.iter().filter(|result| !result.resumed) {
                // Without --resume it is gone with the whole pack.
                let _ = std::fs::remove_dir_all(&result.directory);
            }
        })
    }

    /// The same for what has no pack of its own. A study that was not resumed leaves nothing.
    pub fn refuse_what_is_outside(
        &self,
        outside: impl Iterator<Item = (String, String)>,
    ) -> Result<(), CommandError> {
        refuse_outside(self.strict, outside).inspect_err(|_| {
            if !self.resume {
                self.claim.discard();
            }
        })
    }

    fn obtain(&self, point: &Point, progress: &Progress) -> Result<PointResult, CommandError> {
        let directory = self.point_directory(point);
        if let Some(result) = self.resumed(point, &point.simulated(&self.loaded), &directory)? {
            progress.advance(self.expected_attempts(point));
            return Ok(result);
        }
        point.simulate(&self.loaded, &directory, progress)
    }

    /// A point's pack that is already there, if it can be taken as it is. Says why if not.
    pub fn resumed(
        &self,
        point: &Point,
        world: &World,
        directory: &Path,
    ) -> Result<Option<PointResult>, CommandError> {
        if !self.resume || files::entries(directory).is_empty() {
            return Ok(None);
        }
        match point.resume(&self.loaded, world, directory)? {
            Ok(result) => Ok(Some(result)),
            Err(why) => {
                say(&format!("note: {}: {why}; this point is {} again", directory.display(), world.verb()));
                Ok(None)
            }
        }
    }

    /// Simulates one point whose pack is the study's own directory. To resume it is to take a whole pack of this very
    /// point as it is; that of another point is not written over.
    pub fn simulate_alone(&self, point: &Point) -> Result<PointResult, CommandError> {
        let world = point.simulated(&self.loaded);
        if self.resume {
            point.refuse_another(&self.loaded, &world, &self.directory)?;
        }
        if let Some(result) = self.resumed(point, &world, &self.directory)? {
            return Ok(result);
        }
        let progress = Progress::start("simulate", self.expected_attempts(point));
        let result = point.simulate(&self.loaded, &self.directory, &progress)?;
        drop(progress);
        if !result.report.facts.complete {
            return Err(CommandError::could_not_run(format!(
                "interrupted: found a request to stop; {} holds the attempts that had ended",
                self.directory.display()
            )));
        }
        self.refuse_outside(std::iter::once(&result))?;
        Ok(result)
    }

    /// About how many attempts the simulation of a point has.
    pub fn expected_attempts(&self, point: &Point) -> u64 {
        let client = &self.loaded.manifest.client;
        let warmup = match point.load {
            Load::Open { rps } => client.warmup_seconds * rps,
            Load::Closed { concurrency } => f64::from(WARMUP_REQUESTS_PER_CLIENT) * f64::from(concurrency),
        };
        // A trace's manifest need not state how many there are.
        let rows = self.loaded.trace.as_ref().map_or(0, |trace| trace.rows.len() as u64);
        client.initial_scheduled_requests.max(rows) + warmup as u64
    }

    /// The directory of a point's pack.
    pub fn point_directory(&self, point: &Point) -> PathBuf {
        self.directory.join("points").join(point.name(&self.loaded))
    }

    /// Writes summary.csv over the points so far.
    pub fn write_summary(&self) -> Result<(), CommandError> {
        let key = |result: &PointResult| PointKey {
            name: result.point.name(&self.loaded),
            replicas: result.point.replicas,
            cache: if result.point.shared_prefixes { "warm" } else { "cold" },
        };
        let rows: Vec<_> = self.results.iter().map(|result| (key(result), &result.report)).collect();
        let path = self.directory.join(files::SUMMARY);
        let mut file = Pending::create(&path)?;
        summary::write(&mut file, &rows).map_err(|error| unwritable(&path, &error))?;
        file.keep()
    }

    /// Says which points lie in the pack that are none of this study's: a study that was resumed with other rates.
    fn mention_strangers(&self) {
        let names = self.point_names();
        let found = files::entries(&self.directory.join("points"));
        let found = found.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let strangers: Vec<String> = found.filter(|name| !names.contains(name)).collect();
        if !strangers.is_empty() {
            say(&format!(
                "note: {} has points that were not asked for and are not in {}: {}",
                self.directory.join("points").display(),
                files::SUMMARY,
                strangers.join(", ")
            ));
        }
    }

    /// Writes the study's own files: summary.csv, and the chosen point's files at the top.
    pub fn finish(&self, chosen: usize, report_html: &str) -> Result<(), CommandError> {
        self.write_summary()?;
        self.mention_strangers();
        let from = &self.results[chosen].directory;
        for name in POINT_FILES {
            files::copy(&from.join(name), &self.directory.join(name))?;
        }
        files::write(&self.directory.join(files::PAGE), report_html.as_bytes())
    }

    /// Writes the result to `NAME.json` in the pack, and prints it with the place of the pack in front.
    pub fn publish(&self, name: &str, result: &Value, text: &str) -> Result<(), CommandError> {
        let mut result = result.clone();
        result["profile"] = json!(self.loaded.profile_facts());
        let json = serde_json::to_string_pretty(&result).map_err(CommandError::could_not_run)?;
        files::write(&self.directory.join(format!("{name}.json")), format!("{json}\n").as_bytes())?;
        let mut printed = json!({"pack": shown(&self.directory)});
        if let (Value::Object(printed), Value::Object(result)) = (&mut printed, &result) {
            printed.extend(result.clone());
        }
        self.print(&printed, text)
    }

    /// Prints the result: one JSON object, or text with what the numbers rest on below it.
    pub fn print(&self, json: &impl Serialize, text: &str) -> Result<(), CommandError> {
        let printed = match self.format {
            Format::Json => serde_json::to_string_pretty(json).map_err(CommandError::could_not_run)? + "\n",
            Format::Text => {
                let footing = if self.live { self.loaded.live_footing() } else { self.loaded.footing() };
                format!("{text}\n{footing}pack: {}\n", self.directory.display())
            }
        };
        print_out(&printed)
    }
}

/// Refuses what lies outside the profile's validity region, if the user asked for that: there a profile guesses. Takes what
/// is outside and in what, and names each. It is the input that does not fit, so this is no verdict on the fleet.
pub fn refuse_outside(
    strict: bool,
    outside: impl Iterator<Item = (String, String)>,
) -> Result<(), CommandError> {
    let line = |(which, what): (String, String)| {
        format!(
            "--strict: found {which} outside the profile's validity region: {what}; expected every run inside it; \
             calibrate the profile there, offer less, or leave out --strict"
        )
    };
    let lines: Vec<String> = outside.map(line).collect();
    if strict && !lines.is_empty() { Err(CommandError::bad_input(lines.join("\n"))) } else { Ok(()) }
}

/// Uses as many threads as asked for.
pub fn use_threads(args: &ScenarioArgs) -> Result<(), CommandError> {
    let Some(threads) = args.threads else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
    pool.build_global().map_err(CommandError::could_not_run)
}

/// Makes the directory of a command's pack, named after the command and the scenario.
pub fn pack_directory(args: &ScenarioArgs, command: &str) -> Result<OutputDirectory, CommandError> {
    let directory = input::directory_of(&args.source.scenario);
    let name = directory.file_name().map_or_else(|| "scenario".into(), |n| n.to_string_lossy());
    files::output_directory(args.out.as_deref(), &format!("{command}-{name}"), args.resume)
}

/// Writes to standard output. A reader that went away is no error, a full disk is.
pub fn print_out(text: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CommandError::could_not_run(format!(
            "standard output: found {error}; expected to write the result there; free space"
        ))),
        _ => Ok(()),
    }
}

/// The exit of a command that judged: by its gate.
pub fn exit_by_gate(passed: bool) -> Outcome {
    Ok(Exit::from_gate(passed))
}

/// The path as printed in JSON.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
