//! `scaleproof compare-policies`: routers and admission policies on the same traffic, and which differences are real.

mod args;
mod output;

pub use args::ComparePoliciesArgs;

use super::sweep::judge;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::read_text;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::study::Study;
use rayon::prelude::*;
use scaleproof_pack::document::Document;
use scaleproof_pack::policies::{LoadRuns, PolicyRuns, RunMeasures, differences};
use scaleproof_pack::schedule::RATE_MAX_RPS;
use scaleproof_sim::scenario::PolicyFile;
use std::path::Path;

/// A policy to compare: its name, and the scenario with it.
struct Variant {
    name: String,
    loaded: Loaded,
}

/// What a run says.
struct Tallied {
    measures: RunMeasures,
    warnings: Vec<String>,
    outside: Vec<String>,
}

/// Runs the command.
pub fn run(args: &ComparePoliciesArgs) -> Outcome {
    let mut study = Study::open(&args.common, "compare-policies")?;
    let variants = variants(args, &study.loaded)?;
    if let Some(replicas) = args.replicas {
        study.loaded.check_fleet(replicas)?;
    }
    let (capacity_rps, grid) = capacity(args, &mut study)?;
    let loads = loads(args, capacity_rps)?;
    let jobs = jobs(args, &study, &variants, &loads);
    let tallied = simulate(&study, &variants, &jobs)?;
    let outside = jobs.iter().zip(&tallied).flat_map(|(job, run)| {
        let name = format!("{} at {:?}", variants[job.variant].name, job.point.load);
        run.outside.iter().map(move |what| (name.clone(), what.clone()))
    });
    study.refuse_what_is_outside(outside)?;
    let classes: Vec<String> = study.loaded.manifest.classes.iter().map(|class| class.name.clone()).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    let policies = collect(args, &variants, &loads, &tallied);
    let found = differences(&policies, &classes, study.loaded.manifest.client.request_schedule_seed);
    let warnings: Vec<String> = tallied.iter().flat_map(|run| run.warnings.clone()).collect();
    output::write(&output::Compared {
        study: &study,
        args,
        capacity_rps,
        grid: &grid,
        classes: &classes,
        policies: &policies,
        differences: &found,
        warnings: &warnings,
    })?;
    Ok(Exit::Passed)
}

/// The scenario with each file's policies in it.
fn variants(args: &ComparePoliciesArgs, base: &Loaded) -> Result<Vec<Variant>, CommandError> {
    let variants: Vec<Variant> =
        args.policies.iter().map(|path| variant(path, base)).collect::<Result<_, _>>()?;
    let again =
        |(i, variant): &(usize, &Variant)| variants[..*i].iter().any(|other| other.name == variant.name);
    if let Some((_, twice)) = variants.iter().enumerate().find(again) {
        return Err(CommandError::bad_input(format!(
            "--policies: found two files of the name {}; expected a name each, by which their rows are told apart; \
             rename one",
            twice.name
        )));
    }
    if variants.len() < 2 {
        return Err(CommandError::bad_input(
            "--policies: found one file; expected two or more, the first being what the others are compared with; add \
             one, such as scenarios/policies/none.yaml",
        ));
    }
    Ok(variants)
}

fn variant(path: &Path, base: &Loaded) -> Result<Variant, CommandError> {
    let file = path.display().to_string();
    let document = Document::parse(&file, &read_text(path)?).map_err(CommandError::bad_input)?;
    let policy = PolicyFile::of(&document, &base.manifest).map_err(CommandError::bad_input)?;
    let mut loaded = base.clone();
    policy.apply(&mut loaded.scenario);
    // Every policy gets the same attempts: a run is not continued because a class lacks successes.
    loaded.manifest.acceptance.min_successful_samples_per_class = 0;
    let name = path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into_owned());
    if name.contains([',', '"', '\n']) {
        return Err(CommandError::bad_input(format!(
            "--policies {file}: found a comma, a quote or a line break in its name; expected a name that fits into a CSV \
             file; rename it"
        )));
    }
    Ok(Variant { name, loaded })
}

/// The capacity, and the points that say so.
fn capacity(args: &ComparePoliciesArgs, study: &mut Study) -> Result<(f64, Vec<usize>), CommandError> {
    if let Some(rps) = args.capacity_rps {
        return Ok((rps, Vec::new()));
    }
    let experiment = study.loaded.scenario.experiment.clone();
    let pairs =
        experiment.rates_rps.iter().flat_map(|&rps| (0..experiment.repeats).map(move |run| (rps, run)));
    let points: Vec<Point> = pairs.map(|(rps, run)| study.at_rate(rps, run, args.replicas)).collect();
    let grid = study.simulate("capacity", &points)?;
    match judge(study, &grid).capacity_rps {
        Some(rps) => Ok((rps, grid)),
        None => Err(CommandError::bad_input(
            "the capacity: found no rate of the scenario that passes every gate; expected one, to which the loads are \
             multiples; add lower rates to experiment.rates_rps, or give --capacity-rps",
        )),
    }
}

/// The loads, rising, each with its offered rate.
fn loads(args: &ComparePoliciesArgs, capacity_rps: f64) -> Result<Vec<(f64, f64)>, CommandError> {
    let mut loads = args.loads.clone();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    if let Some(load) = loads.iter().find(|load| **load * capacity_rps > RATE_MAX_RPS) {
        return Err(CommandError::bad_input(format!(
            "--loads: found {load} times {capacity_rps} requests/s; expected at most {RATE_MAX_RPS} requests/s; offer less"
        )));
    }
    Ok(loads.into_iter().map(|load| (load, load * capacity_rps)).collect())
}

/// A run to make.
struct Job {
    variant: usize,
    point: Point,
}

fn jobs(args: &ComparePoliciesArgs, study: &Study, variants: &[Variant], loads: &[(f64, f64)]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for variant in 0..variants.len() {
        let first_run = if args.independent_seeds { variant as u64 * args.repeats } else { 0 };
        for &(_, rps) in loads {
            let points = (0..args.repeats).map(|run| study.at_rate(rps, first_run + run, args.replicas));
            jobs.extend(points.map(|point| Job { variant, point }));
        }
    }
    jobs
}

/// Makes the runs, all cores at once; their results stand in the order of the jobs.
fn simulate(study: &Study, variants: &[Variant], jobs: &[Job]) -> Result<Vec<Tallied>, CommandError> {
    let expected = jobs.iter().map(|job| study.expected_attempts(&job.point)).sum();
    let progress = Progress::start("comparing policies", expected);
    let classes: Vec<&str> = study.loaded.manifest.classes.iter().map(|class| class.name.as_str()).collect();
    let one = |job: &Job| -> Result<Option<Tallied>, CommandError> {
        if interrupted() {
            return Ok(None);
        }
        let Some((report, work)) = job.point.tallied(&variants[job.variant].loaded, &progress)? else {
            return Ok(None);
        };
        Ok(Some(Tallied {
            measures: RunMeasures::of(&report, &work, &classes),
            outside: report.outside_validity().map(str::to_owned).collect(),
            warnings: report.warnings,
        }))
    };
    let done: Vec<Result<Option<Tallied>, CommandError>> = jobs.par_iter().with_max_len(1).map(one).collect();
    drop(progress);
    let done: Option<Vec<Tallied>> = done.into_iter().collect::<Result<Option<Vec<_>>, _>>()?;
    done.ok_or_else(|| {
        CommandError::could_not_run(
            "interrupted: found a request to stop among the runs; a comparison of fewer would not be the one asked for",
        )
    })
}

/// The runs by policy and load.
fn collect(
    args: &ComparePoliciesArgs,
    variants: &[Variant],
    loads: &[(f64, f64)],
    tallied: &[Tallied],
) -> Vec<PolicyRuns> {
    let mut runs = tallied.chunks(args.repeats as usize);
    let of = |variant: &Variant| PolicyRuns {
        name: variant.name.clone(),
        loads: loads
            .iter()
            .zip(runs.by_ref())
            .map(|(&(load, offered_rps), runs)| LoadRuns {
                offered_rps,
                load,
                runs: runs.iter().map(|run| run.measures.clone()).collect(),
            })
            .collect(),
    };
    variants.iter().map(of).collect()
}
