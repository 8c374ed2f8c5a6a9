//! A study: several operating points in one pack.

use crate::args::{Format, ScenarioArgs};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, Pending, unwritable};
use crate::input::{self, Loaded};
use crate::point::{Point, PointResult};
use crate::progress::{Progress, interrupted};
use rayon::prelude::*;
use scaleproof_pack::schedule::{Load, WARMUP_REQUESTS_PER_CLIENT};
use scaleproof_pack::summary::{self, PointKey};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The files of a point that a study repeats at its top for the chosen one.
const POINT_FILES: [&str; 5] =
    [files::MANIFEST, files::SCENARIO, files::REQUESTS, files::REPORT, files::TIMELINE];

/// A scenario with a place to write to.
pub struct Study {
    /// The scenario.
    pub loaded: Loaded,
    /// The pack.
    pub directory: PathBuf,
    /// How to print.
    pub format: Format,
    /// Whether prompts share prefixes.
    pub shared_prefixes: bool,
    /// Whether points already in the pack are taken from there.
    resume: bool,
    /// The points so far, in the order asked for.
    pub results: Vec<PointResult>,
}

impl Study {
    /// Loads the scenario and makes the pack's directory.
    pub fn open(args: &ScenarioArgs, command: &str) -> Result<Study, CommandError> {
        use_threads(args)?;
        let loaded = input::load(args)?;
        if command != "sweep" {
            // Only a sweep makes both experiments.
            loaded.shared_prefixes(&args.cache)?;
        }
        let directory = pack_directory(args, command)?;
        let first = args.cache.iter().take(1).copied().collect::<Vec<_>>();
        let shared_prefixes = loaded.shared_prefixes(&first)?;
        let (format, resume) = (args.format, args.resume);
        Ok(Study { loaded, directory, format, shared_prefixes, resume, results: Vec::new() })
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

    /// The cache state of the points to come.
    pub fn cache_word(&self) -> &'static str {
        if self.shared_prefixes { "warm" } else { "cold" }
    }

    /// The title of its page: what its points ran on.
    pub fn title(&self) -> String {
        let replicas = self.loaded.manifest.engine.placement.replicas;
        let word = if replicas == 1 { "replica" } else { "replicas" };
        let gpus = replicas.saturating_mul(self.loaded.gpus_per_replica());
        format!("{}: {replicas} {word}, {gpus} GPUs", self.loaded.served())
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
        let done: Result<Vec<Option<PointResult>>, CommandError> =
            new.par_iter().with_max_len(1).map(obtain).collect();
        drop(progress);
        // A point that was stopped has its own pack, but its numbers are not the point's.
        self.results.extend(done?.into_iter().flatten().filter(|result| result.report.facts.complete));
        if interrupted() {
            self.write_summary()?;
            return Err(CommandError::could_not_run(format!(
                "interrupted: found a request to stop; the points finished until then are valid, under {}",
                self.directory.display()
            )));
        }
        let mut indices = Vec::new();
        for point in points {
            let index = self.position(point);
            // A point that was asked for twice is no second repeat.
            indices.extend(index.filter(|index| !indices.contains(index)));
        }
        Ok(indices)
    }

    fn obtain(&self, point: &Point, progress: &Progress) -> Result<PointResult, CommandError> {
        let directory = self.point_directory(point);
        if self.resume
            && let Some(result) = point.resume(&self.loaded, &directory)?
        {
            progress.advance(self.expected_attempts(point));
            return Ok(result);
        }
        point.simulate(&self.loaded, &directory, progress)
    }

    /// Simulates one point whose pack is the study's own directory. To resume it is to take a whole pack of this very
    /// point as it is; that of another point is not written over.
    pub fn simulate_alone(&self, point: &Point) -> Result<PointResult, CommandError> {
        if self.resume {
            if let Some(result) = point.resume(&self.loaded, &self.directory)? {
                return Ok(result);
            }
            point.refuse_another(&self.loaded, &self.directory)?;
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
        Ok(result)
    }

    fn expected_attempts(&self, point: &Point) -> u64 {
        let client = &self.loaded.manifest.client;
        let warmup = match point.load {
            Load::Open { rps } => client.warmup_seconds * rps,
            Load::Closed { concurrency } => f64::from(WARMUP_REQUESTS_PER_CLIENT) * f64::from(concurrency),
        };
        // A trace's manifest need not state how many there are.
        let rows = self.loaded.trace.as_ref().map_or(0, |trace| trace.rows.len() as u64);
        client.initial_scheduled_requests.max(rows) + warmup as u64
    }

    fn point_directory(&self, point: &Point) -> PathBuf {
        self.directory.join("points").join(point.name(&self.loaded))
    }

    fn write_summary(&self) -> Result<(), CommandError> {
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

    /// Writes the study's own files: summary.csv, and the chosen point's files at the top.
    pub fn finish(&self, chosen: usize, report_html: &str) -> Result<(), CommandError> {
        self.write_summary()?;
        let from = &self.results[chosen].directory;
        for name in POINT_FILES {
            let (source, target) = (from.join(name), self.directory.join(name));
            std::fs::copy(&source, &target).map_err(|error| unwritable(&target, &error))?;
        }
        files::write(&self.directory.join(files::PAGE), report_html.as_bytes())
    }

    /// Prints the result: one JSON object, or text with what the numbers rest on below it.
    pub fn print(&self, json: &impl Serialize, text: &str) -> Result<(), CommandError> {
        let printed = match self.format {
            Format::Json => serde_json::to_string_pretty(json).map_err(CommandError::could_not_run)? + "\n",
            Format::Text => format!("{text}\n{}pack: {}\n", self.loaded.footing(), self.directory.display()),
        };
        print_out(&printed)
    }
}

/// Uses as many threads as asked for.
pub fn use_threads(args: &ScenarioArgs) -> Result<(), CommandError> {
    let Some(threads) = args.threads else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
    pool.build_global().map_err(CommandError::could_not_run)
}

/// Makes the directory of a command's pack, named after the command and the scenario.
pub fn pack_directory(args: &ScenarioArgs, command: &str) -> Result<PathBuf, CommandError> {
    let name = args.scenario.file_name().map_or_else(|| "scenario".into(), |n| n.to_string_lossy());
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
