//! `failure-test --live`: the fault is made by a command, and what became of the fleet is seen from outside.

use super::args::FailureTestArgs;
use super::commands::Step;
use super::fault::USUAL_SECONDS;
use super::sink::Sink;
use super::trial::{Trial, alarms};
use super::watching::Watching;
use super::{Judged, disturb, repeats_of, simulate};
use crate::commands::live::metrics::ClientMetrics;
use crate::commands::live::{self, Tuning, exit_of};
use crate::exit::{CommandError, Outcome};
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::say;
use crate::study::pack_directory;
use scaleproof_pack::alerts::{Observed, Timing};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::experiment::Experiment;
use scaleproof_pack::failure::{FailureReport, Injected, Observation};
use scaleproof_pack::report::{Origin, RunFacts};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_validate::{LiveEngine, LiveRun, Resilience};

/// Runs the point once against the targets, and the prediction before.
pub fn run(args: &FailureTestArgs, loaded: &Loaded, point: &Point) -> Outcome {
    let (disturbed, injected) = disturb(args, loaded, point)?;
    check_fleet(args, &injected)?;
    let engine = engine(args, &disturbed)?;
    let claim = pack_directory(&args.common, "failure-test")?;
    let prediction = match args.live.predict {
        true => Some(repeats_of(&simulate(args, &disturbed, point, &injected)?)),
        false => None,
    };
    let trial = try_live(args, &disturbed, (engine, point), injected)?;
    let repeats = repeats_of(std::slice::from_ref(&trial));
    let judged = Judged { trial: &trial, repeats: &repeats, prediction: prediction.as_ref() };
    judged.write(&disturbed, &claim.path)?;
    judged.print(args, &disturbed, &claim.path)?;
    exit_of(&[&trial.whole], trial.report.pass)
}

/// Whom the fault meets must be watched.
fn check_fleet(args: &FailureTestArgs, injected: &Injected) -> Result<(), CommandError> {
    let (option, watched) = match args.live.replica_urls.len() {
        0 => ("--target", args.live.targets.len()),
        replicas => ("--replica-url", replicas),
    };
    match injected.replicas.iter().find(|&&replica| replica as usize >= watched) {
        Some(absent) => Err(CommandError::bad_input(format!(
            "{option}: found {watched}; expected more than {absent}, the replica that the fault meets; name every replica"
        ))),
        None => Ok(()),
    }
}

/// The engine, with the scenario's rules for targets that fail where the client routes.
fn engine(args: &FailureTestArgs, loaded: &Loaded) -> Result<LiveEngine, CommandError> {
    let rules = loaded.scenario.faults.as_ref().map(|plan| &plan.resilience);
    let resilience = rules.filter(|_| args.live.targets.len() > 1).map(|rules| Resilience {
        health_check: rules.health_check,
        breaker: rules.breaker,
        connect_timeout: rules.connect_timeout,
        retries: rules.retries,
    });
    live::engine(&args.live.targets(), Tuning { resilience, ..Tuning::default() }, loaded)
}

fn try_live(
    args: &FailureTestArgs,
    loaded: &Loaded,
    (mut engine, point): (LiveEngine, &Point),
    injected: Injected,
) -> Result<Trial, CommandError> {
    let schedule = point.schedule(loaded)?;
    let mut watching = watching(args, loaded, &injected)?;
    let sink = args.live.alert_port.map(Sink::start).transpose()?;
    engine.prepare().map_err(CommandError::could_not_run)?;
    if !engine.reset_prefix_cache().map_err(CommandError::could_not_run)? && point.shared_prefixes {
        say("note: the target cannot empty its prefix cache: what is in it now may give hits");
    }
    let enough = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas).enough;
    let run = engine.run_live(&schedule, enough, &mut watching);
    let now = run.as_ref().map_or(Nanos::ZERO, |run| run.status.now);
    watching.finish(now)?;
    let run = run.map_err(CommandError::could_not_run)?;
    if run.stopped {
        return Err(CommandError::could_not_run("interrupted: found a request to stop; nothing was written"));
    }
    judge(args, loaded, (point, &schedule), (watching, &run, sink.as_ref()), injected)
}

fn watching(args: &FailureTestArgs, loaded: &Loaded, injected: &Injected) -> Result<Watching, CommandError> {
    let seconds = |seconds: f64| Nanos::from_seconds(seconds).map_err(CommandError::bad_input);
    let times = (seconds(injected.at_s)?, seconds(args.lasts.unwrap_or(USUAL_SECONDS))?);
    let inject = Step::new("--inject", args.live.inject.as_deref().unwrap_or_default());
    let restore = args.live.restore.as_deref().map(|command| Step::new("--restore", command));
    let mut watching = Watching::new(Analyzer::new(&loaded.manifest), times, inject, restore);
    let serve = |port| ClientMetrics::serve(port, &loaded.manifest, args.live.targets.len() as u32);
    watching.metrics = args.live.metrics_port.map(serve).transpose()?;
    Ok(watching)
}

fn judge(
    args: &FailureTestArgs,
    loaded: &Loaded,
    (point, schedule): (&Point, &Schedule),
    (mut watching, run, sink): (Watching, &LiveRun, Option<&Sink>),
    injected: Injected,
) -> Result<Trial, CommandError> {
    let Some(at) = watching.inject.begun() else {
        return Err(CommandError::could_not_run(format!(
            "--at {:.0}: found a run that was over by then; expected the fault to begin in it; name an earlier time",
            injected.at_s
        )));
    };
    watching.rows.sort_by_key(|row| (row.at, row.replica));
    let client_routes = args.live.targets.len() > 1;
    if !client_routes && args.live.replica_urls.len() > 1 {
        // Which of them served it is known to the router alone.
        watching.records.iter_mut().for_each(|record| record.replica = None);
    }
    let fault = Injected { at_s: at.seconds(), ..injected };
    let moments = watching.moments(&fault, at, client_routes);
    let observed = Observed {
        rows: &watching.rows,
        records: &watching.records,
        connection_failures: watching.connection_failures.clone(),
        retired: Vec::new(),
    };
    let alarms = match (sink, watching.began) {
        (Some(sink), Some(began)) => sink.alarms(began),
        _ => alarms(&observed, Timing { interval: args.live.interval_s }),
    };
    let system = live::system_facts(&args.live.targets(), loaded, point.shared_prefixes);
    let facts = RunFacts { system: Some(system), ..RunFacts::of(Origin::Live, schedule) };
    let report = FailureReport::of(&Observation {
        manifest: &loaded.manifest,
        facts: &facts,
        repaired_by_hand: fault.takes_replica_down && args.live.restore.is_some(),
        fault,
        records: &watching.records,
        rows: &watching.rows,
        moments: &moments,
        alarms,
    });
    let mut whole = watching.analyzer.finish(facts, Stated::default());
    let block_size = run.block_size.unwrap_or(loaded.scenario.scheduler.block_size);
    live::judge(&mut whole, schedule, &watching.rows, run, block_size);
    Ok(Trial { report, whole, records: watching.records, rows: watching.rows, outside: Vec::new() })
}
