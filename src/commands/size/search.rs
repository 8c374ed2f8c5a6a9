//! The runs of a configuration: what one replica carries, with the profile's own parameters and with drawn ones, and
//! the fleet that follows, at the peak.

use super::system::{System, Workload};
use crate::draws::{Draw, draw};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::{Point, Verdict};
use crate::progress::{Progress, interrupted};
use rayon::prelude::*;
use scaleproof_calibrate::fluid::Traffic;
use scaleproof_pack::refine::{aim, search_near};
use scaleproof_pack::schedule::Load;
use scaleproof_pack::size::{AtPeak, Fleet, ReplicaCapacity, assured};
use scaleproof_pack::spread::interval;
use scaleproof_sim::profile::Profile;
use std::cell::RefCell;

/// The share of the rate by averages at which a search begins: bursts and long prompts leave less.
const GUESS_SHARE: f64 = 0.8;
/// By which share that may be off.
const GUESS_APART: f64 = 0.25;
/// A draw's runs have no smaller part of the requests than this: what the parameters do to a capacity is far more than
/// what chance does.
const DRAW_PART_MAX: u64 = 4;
/// A class keeps this many successes in them.
const DRAW_SUCCESSES: u64 = 500;
/// A fleet's run at the peak may have this many times the manifest's requests.
const PEAK_REQUESTS_MAX: f64 = 10.0;

/// Why a configuration has no answer.
pub enum Stop {
    Interrupted,
    Failed(CommandError),
}

impl From<CommandError> for Stop {
    fn from(error: CommandError) -> Stop {
        Stop::Failed(error)
    }
}

/// Where a search ended.
struct Found {
    passing_rps: f64,
    failing: Option<(f64, Option<String>)>,
    too_short: bool,
    warnings: Vec<String>,
}

/// The runs of one configuration.
pub struct Search<'a> {
    pub workload: &'a Workload<'a>,
    pub traffic: Traffic,
    pub progress: &'a Progress,
}

impl Search<'_> {
    /// Searches that one configuration asks for, and runs of each, about.
    pub const RUNS_OF_OWN: u64 = 6;
    /// See [`Search::RUNS_OF_OWN`].
    pub const RUNS_OF_DRAW: u64 = 4;

    /// Fills in what one replica carries and the fleet.
    pub fn size(&self, system: &mut System, target_utilization: f64) {
        let Some(loaded) = &system.loaded else { return };
        let candidate = &mut system.candidate;
        let sized = self.capacity(loaded, &mut candidate.warnings).and_then(|capacity| {
            let gpus = loaded.gpus_per_replica();
            let fleet = Fleet::new(&capacity, gpus, self.workload.args.peak, target_utilization);
            candidate.reason = match &fleet {
                Err(_) if capacity.assured.rps <= 0.0 => Some(nothing_passes(&capacity)),
                Err(error) => Some(error.to_string()),
                Ok(_) => None,
            };
            candidate.capacity = Some(capacity);
            let Ok(mut fleet) = fleet else { return Ok(()) };
            self.at_peak(loaded, &mut fleet, &mut candidate.warnings)?;
            candidate.fleet = Some(fleet);
            Ok(())
        });
        match sized {
            Ok(()) => {}
            Err(Stop::Interrupted) => {
                candidate.capacity = None;
                candidate.reason = Some("not finished before the request to stop".to_owned());
            }
            Err(Stop::Failed(error)) => candidate.reason = Some(error.to_string()),
        }
    }

    fn capacity(&self, loaded: &Loaded, warnings: &mut Vec<String>) -> Result<ReplicaCapacity, Stop> {
        let args = self.workload.args;
        let fluid = |profile: &Profile| self.traffic.rate_rps(profile);
        let own_fluid = fluid(&loaded.profile);
        // Where the averages alone keep no cutoff, the search begins at a low rate.
        let guess = GUESS_SHARE * own_fluid.unwrap_or(1.0);
        let own = self.search(loaded, 0, guess, GUESS_APART)?;
        let ratio =
            if own.passing_rps > 0.0 { own.passing_rps / own_fluid.unwrap_or(1.0) } else { GUESS_SHARE };
        let fewer = loaded.with_fewer_requests(draw_part(self.workload));
        let mut draws = draw(&fewer, args.draws())?;
        let of_draw = |draw: &mut Draw| -> Result<Found, Stop> {
            let run = draw.run;
            let search = |drawn: &Loaded| {
                let guess = ratio * fluid(&drawn.profile).or(own_fluid).unwrap_or(1.0);
                match self.search(drawn, run, guess, args.within) {
                    Ok(found) => Ok(Some(found)),
                    Err(Stop::Interrupted) => Ok(None),
                    Err(Stop::Failed(error)) => Err(error),
                }
            };
            draw.with(&fewer, search)?.ok_or(Stop::Interrupted)
        };
        let found: Vec<Result<Found, Stop>> = draws.par_iter_mut().with_max_len(1).map(of_draw).collect();
        // The first error by number, not by time.
        let found: Vec<Found> = found.into_iter().collect::<Result<_, _>>()?;
        for found in std::iter::once(&own).chain(&found) {
            warnings.extend(found.warnings.iter().cloned());
            if found.too_short {
                warnings.push(
                    "a search ended at a rate that so short a run cannot judge: the capacity may be higher; offer more \
                     requests"
                        .to_owned(),
                );
            }
        }
        let draws_rps: Vec<f64> = found.iter().map(|found| found.passing_rps).collect();
        let mut sorted = draws_rps.clone();
        sorted.sort_by(f64::total_cmp);
        let (failing_rps, failing_gate) = own.failing.map_or((None, None), |(rps, gate)| (Some(rps), gate));
        Ok(ReplicaCapacity {
            own_rps: own.passing_rps,
            failing_rps,
            failing_gate,
            assured: assured(&draws_rps, args.at_confidence).expect("there is at least one draw"),
            draws_rps,
            draws_rejected: draws.iter().map(|draw| draw.rejected).sum(),
            interval_rps: interval(&sorted),
        })
    }

    /// The highest rate that passes on one replica, in repeat `run` of the schedule.
    fn search(&self, loaded: &Loaded, run: u64, guess: f64, apart: f64) -> Result<Found, Stop> {
        let within = self.workload.args.within;
        let mut tested: Vec<(f64, Verdict)> = Vec::new();
        let strains = RefCell::new(Vec::new());
        let choose = |wanted, low, high| aim(&strains.borrow(), within, wanted, low, high);
        let bracket = search_near(guess, apart, within, choose, |rps| {
            let verdict = self.verdict(loaded, Load::Open { rps }, run, 1)?;
            let pass = verdict.pass;
            strains.borrow_mut().push((rps, verdict.strain));
            tested.push((rps, verdict));
            Ok::<bool, Stop>(pass)
        })?;
        let at = |rps: f64| tested.iter().find(|(tested, _)| tested.total_cmp(&rps).is_eq()).map(|(_, v)| v);
        let failing = bracket.failing_rps.and_then(|rps| Some((rps, at(rps)?)));
        Ok(Found {
            passing_rps: bracket.passing_rps,
            too_short: failing.is_some_and(|(_, verdict)| verdict.too_short),
            failing: failing.map(|(rps, verdict)| (rps, verdict.failing_gate.clone())),
            warnings: at(bracket.passing_rps).map(|verdict| verdict.warnings.clone()).unwrap_or_default(),
        })
    }

    fn verdict(&self, loaded: &Loaded, load: Load, run: u64, replicas: u32) -> Result<Verdict, Stop> {
        if interrupted() {
            return Err(Stop::Interrupted);
        }
        let shared_prefixes = self.workload.shared_prefixes;
        let point = Point { load, run, replicas, shared_prefixes };
        point.verdict(loaded, self.progress)?.ok_or(Stop::Interrupted)
    }

    /// Simulates the fleet at the peak, whole and with one replica lost.
    fn at_peak(&self, loaded: &Loaded, fleet: &mut Fleet, warnings: &mut Vec<String>) -> Result<(), Stop> {
        let client = &loaded.manifest.client;
        let peak = self.workload.args.peak;
        let requests = peak * client.minimum_duration_seconds;
        let usual = self.workload.schedule.measured.requests.len() as f64;
        if requests > PEAK_REQUESTS_MAX * usual {
            fleet.not_simulated = Some(format!(
                "{requests:.0} requests in the least duration are more than {PEAK_REQUESTS_MAX} times the manifest's"
            ));
            return Ok(());
        }
        let replicas = fleet.plan.planned_replicas;
        if let Err(error) = loaded.check_fleet(replicas) {
            fleet.not_simulated = Some(error.to_string());
            return Ok(());
        }
        let judge = |replicas: u32| -> Result<AtPeak, Stop> {
            let Verdict { pass, failing_gate, .. } =
                self.verdict(loaded, Load::Open { rps: peak }, 0, replicas)?;
            Ok(AtPeak { replicas, pass, failing_gate })
        };
        let fleets: Vec<u32> = [replicas, replicas - 1].into_iter().filter(|&n| n > 0).collect();
        let judged: Vec<Result<AtPeak, Stop>> = fleets.into_par_iter().with_max_len(1).map(judge).collect();
        match judged.into_iter().collect::<Result<Vec<AtPeak>, Stop>>() {
            Ok(judged) => {
                let mut judged = judged.into_iter();
                (fleet.at_peak, fleet.one_lost) = (judged.next(), judged.next());
            }
            Err(Stop::Failed(error)) => fleet.not_simulated = Some(error.to_string()),
            Err(Stop::Interrupted) => return Err(Stop::Interrupted),
        }
        if let Some(AtPeak { pass: false, failing_gate, .. }) = &fleet.at_peak {
            let gate = failing_gate.as_deref().unwrap_or("a gate");
            warnings.push(format!(
                "{replicas} replicas fail {gate} at the peak when simulated: division is too kind here"
            ));
        }
        Ok(())
    }
}

/// Which part of the requests the runs of draws have.
pub fn draw_part(workload: &Workload<'_>) -> u64 {
    let successes = workload.base.manifest.acceptance.min_successful_samples_per_class;
    (successes / DRAW_SUCCESSES).clamp(1, DRAW_PART_MAX)
}

fn nothing_passes(capacity: &ReplicaCapacity) -> String {
    let gate = capacity.failing_gate.as_deref().unwrap_or("a gate");
    let passing = capacity.draws_rps.iter().filter(|&&rps| rps > 0.0).count();
    let draws = capacity.draws_rps.len();
    match capacity.failing_rps {
        Some(rps) if capacity.own_rps <= 0.0 => {
            format!(
                "no rate passes: {gate} fails down to {rps:.2} requests/s on one replica ({passing} of {draws} draws carry some)"
            )
        }
        _ => format!("not at this confidence: {passing} of {draws} draws carry any rate"),
    }
}
