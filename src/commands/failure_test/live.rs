//! `failure-test --live`: the fault is made by a command, and what became of the fleet is seen from outside.

use super::args::{FailureTestArgs, FaultArg};
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
use scaleproof_validate::{GiveUp, LiveEngine, LiveRun, Resilience};

/// Runs the point once against the targets, and the prediction before.
pub fn run(args: &FailureTestArgs, loaded: &Loaded, point: &Point) -> Outcome {
    let (disturbed, injected) = disturb(args, loaded, point)?;
    check_commands(args)?;
    check_fleet(args, &injected)?;
    let engine = engine(args, &disturbed, &injected)?;
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

/// A fault is made by a command, or by the clients here.
fn check_commands(args: &FailureTestArgs) -> Result<(), CommandError> {
    let (by_clients, live) = (args.fault == FaultArg::Cancellations, &args.live);
    match (by_clients, &live.inject, &live.restore) {
        (false, None, _) => Err(CommandError::bad_input(
            "--inject: found none; expected a shell command that makes the fault; name one",
        )),
        (true, Some(_), _) | (true, _, Some(_)) => Err(CommandError::bad_input(
            "--fault cancellations: found a command; expected none, since the clients here give up; leave out --inject \
             and --restore",
        )),
        _ => Ok(()),
    }
}

/// Whom the fault meets must be watched.
fn check_fleet(args: &FailureTestArgs, injected: &Injected) -> Result<(), CommandError> {
    let (option, watched) = match args.live.replica_urls.len() {
        0 => ("--target", args.live.targets.len()),
        replicas => ("--replica-url", replicas),
    };
    if args.fault == FaultArg::Cancellations {
        // Behind a router nobody here knows who serves what: they give up wherever their requests are.
        let all = args.replica.is_empty() || client_routes(args);
        return if all {
            Ok(())
        } else {
            Err(CommandError::bad_input(
                "--replica: found one target, with the replicas behind it; expected none of them to be named; which of \
                 them serves a request is known to its router alone",
            ))
        };
    }
    match injected.replicas.iter().find(|&&replica| replica as usize >= watched) {
        Some(absent) => Err(CommandError::bad_input(format!(
            "{option}: found {watched}; expected more than {absent}, the replica that the fault meets; name every replica"
        ))),
        None => Ok(()),
    }
}

/// Whether the client chooses among the replicas.
fn client_routes(args: &FailureTestArgs) -> bool {
    args.live.targets.len() > 1
}

/// The engine, with the scenario's rules for targets that fail where the client routes.
fn engine(args: &FailureTestArgs, loaded: &Loaded, injected: &Injected) -> Result<LiveEngine, CommandError> {
    let rules = loaded.scenario.faults.as_ref().map(|plan| &plan.resilience);
    let resilience = rules.filter(|_| client_routes(args)).map(|rules| Resilience {
        health_check: rules.health_check,
        breaker: rules.breaker,
        connect_timeout: rules.connect_timeout,
        retries: rules.retries,
    });
    let absent = if args.fault == FaultArg::ColdStart { injected.replicas.clone() } else { Vec::new() };
    let give_up = (args.fault == FaultArg::Cancellations).then(|| give_up(args, injected)).transpose()?;
    let tuning = Tuning { resilience, absent, give_up, ..Tuning::default() };
    let engine = live::engine(&args.live.targets(), tuning, loaded)?;
    if args.fault == FaultArg::ColdStart
        && let Some(there) = injected.replicas.iter().find(|&&replica| engine.answers(replica))
    {
        return Err(CommandError::bad_input(format!(
            "--fault cold-start: found an answer of replica {there}; expected that nobody is there before --inject; stop it \
             first"
        )));
    }
    Ok(engine)
}

/// The clients that give up, at the targets that the fault meets.
fn give_up(args: &FailureTestArgs, injected: &Injected) -> Result<GiveUp, CommandError> {
    let at = Nanos::from_seconds(injected.at_s).map_err(CommandError::bad_input)?;
    let targets = if client_routes(args) { injected.replicas.clone() } else { vec![0] };
    Ok(GiveUp { at, share: args.share, targets })
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
    let inject = args.live.inject.as_deref().map(|command| Step::new("--inject", command));
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
    let Some(at) = watching.begun(run.status.now) else {
        return Err(CommandError::could_not_run(format!(
            "--at {:.0}: found a run that was over by then; expected the fault to begin in it; name an earlier time",
            injected.at_s
        )));
    };
    watching.rows.sort_by_key(|row| (row.at, row.replica));
    let client_routes = client_routes(args);
    if !client_routes && args.live.replica_urls.len() > 1 {
        // Which of them served it is known to the router alone.
        watching.records.iter_mut().for_each(|record| record.replica = None);
    }
    let made_in_s = watching.inject.as_ref().and_then(Step::took).map(|took| took.as_secs_f64());
    let fault = Injected { at_s: at.seconds(), made_in_s, ..injected };
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
