//! `scaleproof validate`: predicts, measures the same schedules, and says whether the prediction holds.
//!
//! The order matters: the prediction and the rule are on the disk before the first live request. Repeats are the outer
//! loop, so that a machine that drifts does not look like a rate; between them runs a reference point.

mod args;
mod arm;
mod design;
mod engine;
mod error_rates;
mod output;
mod prediction;
mod quirks;
mod trials;
mod uncertainty;

pub use args::ValidateArgs;

use crate::exit::{CommandError, Exit, Outcome};
use crate::files;
use crate::input::{self, Loaded};
use crate::point::{Point, World};
use crate::progress::{Progress, say};
use crate::study::{Study, use_threads};
use arm::Yielded;
use design::Design;
use engine::Engine;
use scaleproof_calibrate::simulated::Quirks;
use scaleproof_pack::experiment::{EngineFacts, Experiment};
use scaleproof_pack::record::{Outcome as Ended, Record};
use scaleproof_pack::report::Report;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_pack::verdict::{self, Evidence, Pair, Reference, Unmeasured};
use scaleproof_pack::workload::Enough;
use uncertainty::Uncertainty;

/// A live run that fails the client's own checks is made again so often.
const AGAIN: u32 = 2;
/// Where measured runs are kept.
const LIVE: &str = "live";

/// Runs the command.
pub fn run(args: &ValidateArgs) -> Outcome {
    use_threads(&args.common)?;
    let loaded = input::load_with_profile(&args.common.source, args.profile.as_deref())?;
    let rule = design::rule(args)?;
    let shared_prefixes = loaded.shared_prefixes(&args.common.source.cache)?;
    let design = Design::new(args, &loaded, shared_prefixes)?;
    if args.plan || args.error_rates.is_some() {
        return trials::run(args, &loaded, &design, &rule);
    }
    use_threads(&args.common)?;
    let engine = Engine::of(args, &design, &loaded)?;
    let mut study = Study::of(&args.common, "validate", loaded)?;
    let places = study.simulate("predict", &design.all_points())?;
    study.write_summary()?;
    let uncertainty = Uncertainty::of(&study, &design, args.draws)?;
    let predicted = prediction::write(&study, &design, (&rule, &uncertainty), &engine.name())?;
    let mut sweep = Sweep::new(&study, &design, &engine, &uncertainty);
    sweep.make()?;
    let mut predictor = quirks::fleet(&study.loaded, 1, Quirks::default());
    let expected = predictor.engine().map_err(CommandError::could_not_run)?;
    let unmeasured = unmeasured(&study, &places, &sweep.live, &uncertainty);
    let evidence = Evidence {
        points: &sweep.points,
        unmeasured: &unmeasured,
        references: &sweep.references,
        invalid: &sweep.invalid,
        facts: &sweep.facts,
        expected: &expected,
        live: engine.is_live(),
    };
    let mut verdict = verdict::judge(&evidence, &rule).map_err(CommandError::could_not_run)?;
    verdict.warnings.extend(uncertainty.remarks.iter().cloned());
    output::write(&study, &verdict, &predicted, &engine.name())?;
    Ok(Exit::from_gate(verdict.outcome == verdict::Outcome::Confirmed))
}

/// The predictions of fleets that nothing live stands for.
fn unmeasured(study: &Study, places: &[usize], live: &[u32], uncertainty: &Uncertainty) -> Vec<Unmeasured> {
    let results = places.iter().map(|&place| &study.results[place]);
    let mut points: Vec<Unmeasured> = Vec::new();
    for result in results.filter(|result| !live.contains(&result.point.replicas)) {
        let (replicas, offered_rps) = (result.point.replicas, offered(&result.point));
        let same =
            |p: &&mut Unmeasured| p.replicas == replicas && p.offered_rps.total_cmp(&offered_rps).is_eq();
        let report = result.report.clone();
        match points.iter_mut().find(same) {
            Some(point) => point.reports.push(report),
            None => {
                let draws = uncertainty.at(replicas, offered_rps);
                points.push(Unmeasured { replicas, offered_rps, reports: vec![report], draws });
            }
        }
    }
    points
}

/// That the user asked to stop before anything was written that could be gone on with.
fn stopped() -> CommandError {
    CommandError::could_not_run("interrupted: found a request to stop; the prediction was not finished")
}

fn offered(point: &Point) -> f64 {
    match point.load {
        Load::Open { rps } => rps,
        Load::Closed { concurrency } => f64::from(concurrency),
    }
}

/// The live half.
struct Sweep<'a> {
    study: &'a Study,
    design: &'a Design,
    engine: &'a Engine,
    uncertainty: &'a Uncertainty,
    points: Vec<verdict::Point>,
    references: Vec<Reference>,
    invalid: Vec<String>,
    facts: EngineFacts,
    /// Fleets that were measured.
    live: Vec<u32>,
    /// Runs of the reference point so far.
    reference_runs: u64,
}

impl<'a> Sweep<'a> {
    fn new(
        study: &'a Study,
        design: &'a Design,
        engine: &'a Engine,
        uncertainty: &'a Uncertainty,
    ) -> Sweep<'a> {
        Sweep {
            study,
            design,
            engine,
            uncertainty,
            points: Vec::new(),
            references: Vec::new(),
            invalid: Vec::new(),
            facts: EngineFacts::default(),
            live: Vec::new(),
            reference_runs: 0,
        }
    }

    fn loaded(&self) -> &'a Loaded {
        &self.study.loaded
    }

    /// Fleet after fleet, each with all of its repeats.
    fn make(&mut self) -> Result<(), CommandError> {
        let (study, design) = (self.study, self.design);
        let live = |point: &Point| self.engine.serves(point.replicas);
        let points = design.all_points().into_iter().filter(live);
        let progress = Progress::start("measure", points.map(|point| study.expected_attempts(&point)).sum());
        for &replicas in &design.fleets {
            let Some(mut experiment) = self.engine.fleet(replicas, self.loaded(), self.reference_runs)?
            else {
                say(&format!("note: {replicas} replicas are not live: predicted only"));
                continue;
            };
            self.facts = experiment.engine().map_err(CommandError::could_not_run)?;
            for run in 0..design.repeats {
                self.reference(experiment.as_mut(), replicas)?;
                for point in design.points(replicas, run) {
                    self.point(experiment.as_mut(), &point)?;
                    progress.advance(study.expected_attempts(&point));
                }
            }
            self.reference(experiment.as_mut(), replicas)?;
            self.live.push(replicas);
        }
        Ok(())
    }

    fn point(&mut self, experiment: &mut dyn Experiment, point: &Point) -> Result<(), CommandError> {
        let loaded = self.loaded();
        let place = self.study.position(point).expect("it was predicted");
        let result = &self.study.results[place];
        let name = point.name(loaded);
        let run = self.measured(experiment, point, &result.report)?;
        let invalid = run.report.invalid.iter().flatten();
        self.invalid.extend(invalid.map(|what| format!("{name}: {what}")));
        let predicted = arm::read(&result.directory, loaded, &result.report)?;
        let pair = Pair { predicted, measured: run };
        let (replicas, offered_rps) = (point.replicas, offered(point));
        let same =
            |p: &&mut verdict::Point| p.replicas == replicas && p.offered_rps.total_cmp(&offered_rps).is_eq();
        match self.points.iter_mut().find(same) {
            Some(point) => point.pairs.push(pair),
            None => {
                let draws = self.uncertainty.at(replicas, offered_rps);
                self.points.push(verdict::Point { replicas, offered_rps, pairs: vec![pair], draws });
            }
        }
        Ok(())
    }

    /// The run of a point's predicted schedule under `live/`, taken from there if it can be.
    fn measured(
        &self,
        experiment: &mut dyn Experiment,
        point: &Point,
        predicted: &Report,
    ) -> Result<verdict::Run, CommandError> {
        let loaded = self.loaded();
        let directory = self.study.directory.join(LIVE).join(point.name(loaded));
        let world = arm::world(loaded, point.replicas, point.shared_prefixes, self.engine.is_live());
        if let Some(found) = self.study.resumed(point, &world, &directory)? {
            return arm::read(&directory, loaded, &found.report);
        }
        let schedule = point.schedule_of_report(loaded, predicted)?;
        let enough = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas).enough;
        let mut made = self.believable(experiment, point, (&schedule, enough), &world)?;
        if self.facts.replicas < point.replicas {
            // A router stands before them: whom it chose is not known.
            made.1.records.iter_mut().for_each(|record| record.replica = None);
        }
        arm::keep(&directory, loaded, point, &made)?;
        arm::read(&directory, loaded, &made.0)
    }

    /// Runs a schedule, and again if the client's own checks failed: what disturbed them may have passed. The last run is
    /// taken, whatever it shows.
    fn believable(
        &self,
        experiment: &mut dyn Experiment,
        point: &Point,
        what: (&Schedule, Enough),
        world: &World,
    ) -> Result<(Report, Yielded), CommandError> {
        let mut again = AGAIN;
        loop {
            let made = arm::measure(experiment, self.loaded(), what, world)?;
            let made = made.ok_or_else(|| self.interrupted())?;
            let invalid = made.0.invalid.as_deref().unwrap_or_default();
            if invalid.is_empty() || again == 0 {
                return Ok(made);
            }
            say(&format!("note: {} is made again: {}", point.name(self.loaded()), invalid.join("; ")));
            again -= 1;
        }
    }

    /// One run of the reference point, if the workload allows for one.
    fn reference(&mut self, experiment: &mut dyn Experiment, replicas: u32) -> Result<(), CommandError> {
        let loaded = self.loaded();
        let number = self.reference_runs;
        self.reference_runs += 1;
        let Some(schedule) = design::reference(loaded, replicas, number)? else { return Ok(()) };
        let path = self.study.directory.join(LIVE).join(format!("reference-{number}.json"));
        let kept = std::fs::read(&path).ok().filter(|_| self.study.resume);
        if let Some((hash, found)) =
            kept.and_then(|json| serde_json::from_slice::<(String, Reference)>(&json).ok())
            && hash == schedule.hash
        {
            self.references.push(found);
            return Ok(());
        }
        let mut predictor = quirks::fleet(loaded, replicas, Quirks::default());
        let world = arm::world(loaded, replicas, false, self.engine.is_live());
        let what = (&schedule, design::REFERENCE_ENOUGH);
        let predicted = arm::measure(&mut predictor, loaded, what, &world)?;
        let measured = arm::measure(experiment, loaded, what, &world)?;
        let (Some((_, predicted)), Some((_, measured))) = (predicted, measured) else {
            return Err(self.interrupted());
        };
        let (predicted_ms, measured_ms) = (mean_e2e_ms(&predicted.records), mean_e2e_ms(&measured.records));
        let found = Reference { predicted_ms, measured_ms };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| files::unwritable(folder, &error))?;
        }
        let json = serde_json::to_string(&(&schedule.hash, found)).map_err(CommandError::could_not_run)?;
        files::write(&path, format!("{json}\n").as_bytes())?;
        self.references.push(found);
        Ok(())
    }

    fn interrupted(&self) -> CommandError {
        let directory = self.study.directory.display();
        CommandError::could_not_run(format!(
            "interrupted: found a request to stop; the runs made until then are valid, under {directory}; go on with \
             --out {directory} --resume"
        ))
    }
}

/// Of the requests that succeeded; NaN for none, which makes no reference.
fn mean_e2e_ms(records: &[Record]) -> f64 {
    let ok = records.iter().filter(|record| record.outcome == Ended::Ok);
    let times: Vec<f64> = ok.map(|record| record.e2e().millis()).collect();
    times.iter().sum::<f64>() / times.len() as f64
}
