//! The one fault of a test, from the arguments.

use super::args::{FailureTestArgs, FaultArg};
use crate::exit::CommandError;
use crate::input::Loaded;
use scaleproof_pack::failure::Injected;
use scaleproof_pack::schedule::{Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_sim::faults::{Fault, FaultKind, FaultPlan};

/// Where in the arrivals a fault begins that is not told when.
const USUAL_SHARE: f64 = 0.2;
/// How long one lasts that is not told how long, in seconds.
pub const USUAL_SECONDS: f64 = 120.0;
/// What a rolling restart leaves each replica to drain, in seconds.
const DRAIN_SECONDS: f64 = 30.0;

/// The scenario's own rules of detection and repair with this one fault, and the fault in words.
pub fn plan(
    args: &FailureTestArgs,
    loaded: &Loaded,
    schedule: &Schedule,
) -> Result<(FaultPlan, Injected), CommandError> {
    let at = begins(args, schedule)?;
    let replicas = replicas(args, loaded)?;
    let kind = kind(args)?;
    let base = loaded.scenario.faults.clone().unwrap_or_default();
    let injected = Injected {
        kind: kind.word().to_owned(),
        what: words(&kind, &replicas, loaded.manifest.engine.placement.replicas),
        replicas: replicas.clone(),
        at_s: at.seconds(),
        made_in_s: None,
        is_failure: kind.is_failure(),
        takes_replica_down: kind.takes_replica_down(),
    };
    Ok((FaultPlan { faults: vec![Fault { kind, at, replicas }], ..base }, injected))
}

fn begins(args: &FailureTestArgs, schedule: &Schedule) -> Result<Nanos, CommandError> {
    let last = schedule.measured.requests.iter().filter_map(|planned| match planned.release {
        Release::At(at) => Some(at),
        _ => None,
    });
    let last = last.max().unwrap_or(schedule.window_from);
    let arrivals = last.since(schedule.window_from);
    let Some(at) = args.at else {
        let into = Nanos::from_seconds(arrivals.seconds() * USUAL_SHARE).map_err(CommandError::bad_input)?;
        return Ok(schedule.window_from + into);
    };
    let at = Nanos::from_seconds(at).map_err(CommandError::bad_input)?;
    if at <= schedule.window_from || at >= last {
        return Err(CommandError::bad_input(format!(
            "--at {}: found a time outside the measured arrivals; expected one between {:.0} and {:.0} s; there must be \
             a part before the fault and one after it",
            at.seconds(),
            schedule.window_from.seconds(),
            last.seconds()
        )));
    }
    Ok(at)
}

fn replicas(args: &FailureTestArgs, loaded: &Loaded) -> Result<Vec<u32>, CommandError> {
    let count = loaded.manifest.engine.placement.replicas;
    let all = matches!(args.fault, FaultArg::Cancellations | FaultArg::RollingRestart);
    let mut replicas = match args.replica.as_slice() {
        [] if all => (0..count).collect(),
        [] => vec![0],
        given => given.to_vec(),
    };
    replicas.sort_unstable();
    replicas.dedup();
    if let Some(&absent) = replicas.iter().find(|&&replica| replica >= count) {
        return Err(CommandError::bad_input(format!(
            "--replica {absent}: found a replica that the fleet does not have; expected one from 0 to {}",
            count - 1
        )));
    }
    Ok(replicas)
}

fn kind(args: &FailureTestArgs) -> Result<FaultKind, CommandError> {
    let time = |seconds: f64| Nanos::from_seconds(seconds).map_err(CommandError::bad_input);
    let lasts = time(args.lasts.unwrap_or(USUAL_SECONDS))?;
    if args.factor < 1.0 {
        return Err(CommandError::bad_input(format!("--factor {}: expected 1 or more", args.factor)));
    }
    Ok(match args.fault {
        FaultArg::Kill => FaultKind::Crash,
        FaultArg::Hang => FaultKind::Hang(args.lasts.map(time).transpose()?),
        FaultArg::Slow => FaultKind::Slow { factor: args.factor, lasts },
        FaultArg::Link => FaultKind::Link { latency: time(args.latency_ms / 1e3)?, loss: args.loss, lasts },
        FaultArg::KvCut => FaultKind::KvCut { share: args.share, lasts },
        FaultArg::Cancellations => FaultKind::Cancellations { share: args.share },
        FaultArg::ColdStart => FaultKind::ColdStart,
        FaultArg::RollingRestart => FaultKind::RollingRestart { drain: time(DRAIN_SECONDS)? },
    })
}

fn words(kind: &FaultKind, replicas: &[u32], count: u32) -> String {
    let numbers: Vec<String> = replicas.iter().map(u32::to_string).collect();
    let s = if numbers.len() == 1 { "" } else { "s" };
    let whom = format!("replica{s} {} of {count}", numbers.join(", "));
    match kind {
        FaultKind::Crash => format!("The process of {whom} was killed"),
        FaultKind::Hang(None) => format!("{whom} hung until its watchdog").replacen('r', "R", 1),
        FaultKind::Hang(Some(lasts)) => {
            format!("{whom} hung for {} s", lasts.seconds()).replacen('r', "R", 1)
        }
        FaultKind::Slow { factor, lasts } => {
            format!("Steps of {whom} took {factor} times as long for {} s", lasts.seconds())
        }
        FaultKind::Link { latency, loss, lasts } => format!(
            "The way to {whom} took {} ms longer and lost {:.1} % of the connections for {} s",
            latency.millis(),
            loss * 100.0,
            lasts.seconds()
        ),
        FaultKind::KvCut { share, lasts } => {
            format!("{:.0} % of the KV blocks of {whom} were gone for {} s", share * 100.0, lasts.seconds())
        }
        FaultKind::RollingRestart { .. } => format!("A rolling restart of {whom} began"),
        FaultKind::ColdStart => format!("A cold start of {whom} was ordered"),
        FaultKind::Cancellations { share } => {
            format!("Clients cancelled {:.0} % of what {whom} had in flight", share * 100.0)
        }
    }
}
