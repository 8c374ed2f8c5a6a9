//! `scaleproof size`: which GPUs, how many and what they cost, before there are any.

mod args;
mod output;
mod prices;
mod search;
mod system;

pub use args::SizeArgs;

use crate::catalogue;
use crate::draws::check_enough;
use crate::exit::{CommandError, Exit, Outcome};
use crate::input;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::study::{pack_directory, use_threads};
use output::Sizing;
use prices::Prices;
use rayon::prelude::*;
use scaleproof_calibrate::fluid::Traffic;
use scaleproof_calibrate::hardware::Precision;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_pack::schedule::Load;
use scaleproof_pack::size::{Candidate, Cost, rank};
use search::{Search, draw_part};
use system::{Configuration, System, Workload};

/// The most configurations of one call.
const CONFIGURATIONS_MAX: usize = 1000;

/// Runs the command: exit 1 if no configuration carries the peak.
pub fn run(args: &SizeArgs) -> Outcome {
    let common = args.scenario();
    check_enough(args.at_confidence, args.draws())?;
    use_threads(&common)?;
    let model = catalogue::architecture(&args.model)?;
    let gpus = gpus(args)?;
    let prices = args.price.as_deref().map(|path| Prices::read(path, &gpus)).transpose()?;
    let base = input::load(&common.source)?;
    let shared_prefixes = base.shared_prefixes(&common.source.cache)?;
    // Lengths do not depend on the rate: any will do, but a trace's own is surely one that it can be replayed at.
    let load = Load::Open { rps: base.trace_rate().unwrap_or(1.0) };
    let point = Point { load, run: 0, replicas: 1, shared_prefixes };
    let schedule = point.schedule(&base)?;
    let traffic = Traffic::of(&base.manifest, &schedule).ok_or_else(|| {
        CommandError::bad_input(format!(
            "{}: found no measured requests; expected some; check the counts or the trace's window",
            base.manifest_file()
        ))
    })?;
    let workload = Workload { args, model: &model, base: &base, schedule: &schedule, shared_prefixes };
    let mut systems = systems(&gpus, &workload)?;
    let claim = pack_directory(&common, "size")?;
    let target = args.target_utilization.unwrap_or(base.manifest.acceptance.target_utilization);
    simulate(&mut systems, &workload, traffic, target);
    let price = |candidate: &Candidate| {
        let (prices, fleet) = (prices.as_ref()?, candidate.fleet.as_ref()?);
        let each = prices.of(&candidate.gpu)?;
        let gpus = fleet.plan.planned_gpus;
        Some(Cost::new(&prices.currency, each, gpus, args.peak, traffic.output_tokens))
    };
    systems.iter_mut().for_each(|system| system.candidate.cost = price(&system.candidate));
    let profiles = systems.iter().filter_map(|system| {
        let profile = &system.loaded.as_ref()?.profile;
        Some((profile.name.clone(), profile.to_yaml(&[])))
    });
    let profiles: Vec<(String, String)> = profiles.collect();
    let mut candidates: Vec<Candidate> = systems.into_iter().map(|system| system.candidate).collect();
    rank(&mut candidates);
    let sizing = Sizing { workload: &workload, traffic, target, candidates: &candidates };
    output::write(&sizing, &profiles, &claim.path)?;
    output::print(&sizing, &claim.path)?;
    if interrupted() {
        return Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; the configurations finished until then are valid, in {}",
            claim.path.display()
        )));
    }
    Ok(Exit::from_gate(candidates.iter().any(|candidate| candidate.fleet.is_some())))
}

/// The GPUs asked for, each once.
fn gpus(args: &SizeArgs) -> Result<Vec<Gpu>, CommandError> {
    let mut gpus: Vec<Gpu> = Vec::new();
    for name in &args.gpu {
        let gpu = catalogue::gpu(name)?;
        if !gpus.iter().any(|known| known.name == gpu.name) {
            gpus.push(gpu);
        }
    }
    Ok(gpus)
}

/// Values, each once, in the order given.
fn distinct<T: Copy + PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    values.for_each(|value| {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    });
    distinct
}

/// Every configuration, before anything is simulated.
fn systems(gpus: &[Gpu], workload: &Workload<'_>) -> Result<Vec<System>, CommandError> {
    let args = workload.args;
    let tps = distinct(args.tp.iter().copied());
    let asked: Vec<Precision> = distinct(args.precision.iter().map(|word| word.precision()));
    let precisions = if asked.is_empty() { vec![workload.model.precision] } else { asked };
    let count = gpus.len() * tps.len() * precisions.len();
    if count > CONFIGURATIONS_MAX {
        return Err(CommandError::bad_input(format!(
            "--gpu, --tp, --precision: found {count} configurations; expected at most {CONFIGURATIONS_MAX}; name fewer"
        )));
    }
    let mut systems = Vec::new();
    for gpu in gpus {
        for &tp in &tps {
            for &precision in &precisions {
                systems.push(System::of(Configuration { gpu, tp, precision }, workload));
            }
        }
    }
    Ok(systems)
}

/// Sizes every system that nothing forbids, all cores at once.
fn simulate(systems: &mut [System], workload: &Workload<'_>, traffic: Traffic, target: f64) {
    let requests = workload.schedule.measured.requests.len() as u64;
    let of_draws = Search::RUNS_OF_DRAW * workload.args.draws();
    let attempts = requests * Search::RUNS_OF_OWN + requests * of_draws / draw_part(workload);
    let allowed = systems.iter().filter(|system| system.loaded.is_some()).count() as u64;
    let progress = Progress::start("size", attempts * allowed);
    let search = Search { workload, traffic, progress: &progress };
    systems.par_iter_mut().with_max_len(1).for_each(|system| search.size(system, target));
}
