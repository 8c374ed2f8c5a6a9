//! `scaleproof live`: a scenario's schedule against real engines.

mod args;
mod line;
pub mod metrics;
mod point;

pub use args::{EndpointArg, LiveArgs, RouterArg, TargetArgs, router};
pub use line::Line;
pub use point::judge;

use crate::args::Format;
use crate::args::ScenarioArgs;
use crate::commands::sweep::{self, Experiment};
use crate::exit::{CommandError, Outcome};
use crate::files::read_bytes;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::interrupted;
use crate::report_text;
use crate::study::{Study, exit_by_gate, print_out, shown};
use metrics::ClientMetrics;
use point::Live;
use scaleproof_pack::experiment::ExperimentError;
use scaleproof_pack::report::{Report, SystemFacts};
use scaleproof_pack::schedule::Load;
use scaleproof_pack::time::Nanos;
use scaleproof_validate::{
    GiveUp, Limits, LiveConfig, LiveEngine, Resilience, Routing, Target, TlsConfig, tls_config,
};
use serde_json::json;
use std::sync::Arc;

/// Send lag that is always allowed, in milliseconds, and as a share of the smallest TTFT cutoff.
const SEND_LAG_MS: f64 = 5.0;
const SEND_LAG_SHARE: f64 = 0.01;
/// Threads for the connections at most, unless asked for more.
const THREADS_MAX: usize = 4;

/// Runs the command.
pub fn run(args: &LiveArgs) -> Outcome {
    let common = ScenarioArgs {
        source: args.source.clone(),
        out: args.out.clone(),
        resume: args.resume,
        strict: false,
        format: args.format,
        threads: None,
    };
    let study = Study::over(&common, "live")?;
    let points = points(args, &study)?;
    let tuning = Tuning {
        ramp_s: args.ramp_s,
        threads: args.threads,
        max_send_lag_ms: args.max_send_lag_ms,
        ..Tuning::default()
    };
    let engine = engine(&args.targets, tuning, &study.loaded)?;
    let targets = args.targets.targets.len() as u32;
    let serve = |port| ClientMetrics::serve(port, &study.loaded.manifest, targets);
    let metrics = args.metrics_port.map(serve).transpose()?;
    let mut live = Live { study, targets: args.targets.clone(), engine, metrics };
    match points.as_slice() {
        [point] => alone(&mut live, point),
        _ => several(&mut live, &points),
    }
}

/// One point, whose pack is the whole pack.
fn alone(live: &mut Live, point: &Point) -> Outcome {
    let (study, world) = (&live.study, live.world(point));
    if study.resume {
        point.refuse_another(&study.loaded, &world, &study.directory)?;
    }
    let directory = study.directory.clone();
    let result = match study.resumed(point, &world, &directory)? {
        Some(result) => result,
        None => live.run(point, &directory)?,
    };
    if !result.report.facts.complete {
        return Err(interruption(&format!("{} holds the attempts until then", directory.display())));
    }
    print(&live.study, &result.report)?;
    exit_of(&[&result.report], result.report.capacity_gate_pass)
}

fn print(study: &Study, report: &Report) -> Result<(), CommandError> {
    let text = match study.format {
        Format::Json => {
            let mut printed = json!({"pack": shown(&study.directory)});
            let value = serde_json::to_value(report).map_err(CommandError::could_not_run)?;
            if let (Some(printed), Some(report)) = (printed.as_object_mut(), value.as_object()) {
                printed.extend(report.clone());
            }
            serde_json::to_string_pretty(&printed).map_err(CommandError::could_not_run)? + "\n"
        }
        Format::Text => {
            let footing = study.loaded.live_footing();
            format!("{}\n{footing}pack: {}\n", report_text::text(report), study.directory.display())
        }
    };
    print_out(&text)
}

/// Several points, one after the other, each with its pack.
fn several(live: &mut Live, points: &[Point]) -> Outcome {
    for point in points {
        let directory = live.study.point_directory(point);
        let result = match live.study.resumed(point, &live.world(point), &directory)? {
            Some(result) => result,
            None => live.run(point, &directory)?,
        };
        // A point that was stopped has its own pack, but its numbers are not the point's.
        if result.report.facts.complete {
            live.study.results.push(result);
        }
        live.study.write_summary()?;
        if interrupted() {
            let place = live.study.directory.display();
            return Err(interruption(&format!("the points finished until then are valid, under {place}")));
        }
    }
    let experiments = experiments(&mut live.study);
    let study = &live.study;
    let exit = sweep::publish(study, "live", &experiments)?;
    let reports: Vec<&Report> = study.results.iter().map(|result| &result.report).collect();
    exit_of(&reports, exit == crate::exit::Exit::Passed)
}

/// An experiment of each cache state and way to drive the load.
fn experiments(study: &mut Study) -> Vec<Experiment> {
    let mut states: Vec<bool> = study.results.iter().map(|result| result.point.shared_prefixes).collect();
    states.dedup();
    let mut experiments = Vec::new();
    for shared_prefixes in states {
        study.shared_prefixes = shared_prefixes;
        let (open, closed): (Vec<usize>, Vec<usize>) = (0..study.results.len())
            .filter(|&i| study.results[i].point.shared_prefixes == shared_prefixes)
            .partition(|&i| matches!(study.results[i].point.load, Load::Open { .. }));
        if !open.is_empty() {
            let found = sweep::judge(study, &open);
            experiments.push(sweep::open_experiment(study, &open, found));
        }
        if !closed.is_empty() {
            experiments.push(sweep::closed_experiment(study, &closed));
        }
    }
    experiments
}

/// An invalid run proves nothing, whatever its gates say.
pub fn exit_of(reports: &[&Report], passed: bool) -> Outcome {
    let invalid: Vec<&String> = reports.iter().flat_map(|report| report.invalid.iter().flatten()).collect();
    if invalid.is_empty() {
        return exit_by_gate(passed);
    }
    let lines: Vec<String> = invalid.iter().map(|why| format!("the run is invalid: {why}")).collect();
    Err(CommandError::could_not_run(lines.join("\n")))
}

fn interruption(what_is_left: &str) -> CommandError {
    CommandError::could_not_run(format!("interrupted: found a request to stop; {what_is_left}"))
}

/// The points asked for: by default the scenario's highest rate, or a trace's own.
fn points(args: &LiveArgs, study: &Study) -> Result<Vec<Point>, CommandError> {
    let loaded = &study.loaded;
    let mut rates = args.rps.clone();
    if rates.is_empty() && args.concurrency.is_empty() {
        rates.extend(loaded.trace_rate().or(loaded.scenario.experiment.rates_rps.last().copied()));
    }
    let open = rates.into_iter().map(|rps| Load::Open { rps });
    let closed = args.concurrency.iter().map(|&concurrency| Load::Closed { concurrency });
    let loads: Vec<Load> = open.chain(closed).collect();
    let states = study.cache_states(&args.source.cache);
    let mut points: Vec<Point> = Vec::new();
    for (shared_prefixes, load) in
        states.iter().flat_map(|&state| loads.iter().map(move |&load| (state, load)))
    {
        for run in (0..args.repeats).map(|repeat| args.run.saturating_add(repeat)) {
            let point = Point { load, shared_prefixes, ..study.at_rate(1.0, run, None) };
            if !points.contains(&point) {
                points.push(point);
            }
        }
    }
    if points.is_empty() {
        return Err(CommandError::bad_input("--rps: found none; expected an offered rate; name one"));
    }
    Ok(points)
}

/// What a report says of the targets.
pub fn system_facts(targets: &TargetArgs, loaded: &Loaded, shared_prefixes: bool) -> SystemFacts {
    let replicas = loaded.manifest.engine.placement.replicas;
    let router = match targets.targets.len() {
        1 => "of the target".to_owned(),
        _ => targets.router_or(loaded.scenario.router.policy).word().to_owned(),
    };
    SystemFacts { router, profile: None, ..loaded.system_facts(replicas, shared_prefixes) }
}

/// How the load generator works, where the defaults do not do.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The clients of a closed loop begin spread over so many seconds.
    pub ramp_s: f64,
    /// Threads for the connections.
    pub threads: Option<u16>,
    /// A run whose sending is later than this is invalid.
    pub max_send_lag_ms: Option<f64>,
    /// What is done about targets that fail.
    pub resilience: Option<Resilience>,
    /// Replicas that are not there when a run begins.
    pub absent: Vec<u32>,
    /// Clients that give up together.
    pub give_up: Option<GiveUp>,
}

/// The targets, ready to run the scenario's schedules.
pub fn engine(targets: &TargetArgs, tuning: Tuning, loaded: &Loaded) -> Result<LiveEngine, CommandError> {
    let (client, scenario) = (&loaded.manifest.client, &loaded.scenario);
    let routing = Routing {
        policy: targets.router_or(scenario.router.policy),
        poll_interval: scenario.router.poll_interval,
    };
    let served_at = addresses("--target", &targets.targets)?;
    if served_at.is_empty() {
        return Err(CommandError::bad_input(
            "--target: found none; expected an endpoint, as http://host:8000",
        ));
    }
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
    let config = LiveConfig {
        tls: tls(targets, &served_at)?,
        targets: served_at,
        token: token(targets)?,
        endpoint: targets.endpoint.into(),
        model: targets.model.clone(),
        streaming: client.streaming,
        ignore_eos: client.ignore_eos,
        sampling: client.sampling.clone(),
        timeout: scenario.timeout,
        ttft_timeout: scenario.ttft_timeout,
        ramp: Nanos::from_seconds(tuning.ramp_s).map_err(CommandError::bad_input)?,
        replicas: addresses("--replica", &targets.replicas)?,
        sample_interval: scenario.experiment.sample_interval,
        routing,
        threads: tuning.threads.map_or((cores / 2).clamp(1, THREADS_MAX), usize::from),
        vocabulary: targets.vocabulary,
        limits: Limits { send_lag_p99_ms: send_lag_limit(&tuning, loaded), ..Limits::default() },
        resilience: tuning.resilience,
        absent: tuning.absent,
        give_up: tuning.give_up,
    };
    LiveEngine::new(config, client.request_schedule_seed)
        .map_err(|ExperimentError(error)| CommandError::bad_input(error))
}

fn send_lag_limit(tuning: &Tuning, loaded: &Loaded) -> f64 {
    let cutoffs = loaded.manifest.classes.iter().map(|class| class.request_ttft_cutoff_ms);
    let smallest = cutoffs.fold(f64::INFINITY, f64::min);
    tuning.max_send_lag_ms.unwrap_or(SEND_LAG_MS.max(SEND_LAG_SHARE * smallest))
}

/// The targets. An address that is none is not shown: it may hold a password.
pub fn addresses(option: &str, texts: &[String]) -> Result<Vec<Target>, CommandError> {
    let target =
        |text: &String| Target::parse(text).map_err(|e| CommandError::bad_input(format!("{option}: {e}")));
    texts.iter().map(target).collect()
}

/// What targets that speak TLS need.
pub fn tls(args: &TargetArgs, targets: &[Target]) -> Result<Option<Arc<TlsConfig>>, CommandError> {
    let pem = args.ca.as_deref().map(read_bytes).transpose()?;
    if !targets.iter().any(|target| target.tls) && pem.is_none() {
        return Ok(None);
    }
    let config = tls_config(pem.as_deref());
    let file = args.ca.as_ref().map_or_else(|| "TLS".to_owned(), |path| path.display().to_string());
    config.map(Some).map_err(|error| CommandError::bad_input(format!("{file}: {error}")))
}

/// The bearer token. What goes wrong with it is said without it.
pub fn token(args: &TargetArgs) -> Result<Option<String>, CommandError> {
    let text = match (&args.token_file, &args.token_env) {
        (Some(path), _) => crate::files::read_text(path)?,
        (None, Some(name)) => std::env::var(name).map_err(|error| {
            let found = match error {
                std::env::VarError::NotPresent => "no such variable",
                std::env::VarError::NotUnicode(_) => "a value that is no text",
            };
            CommandError::bad_input(format!(
                "--token-env {name}: found {found}; expected an environment variable with the token; set it"
            ))
        })?,
        (None, None) => return Ok(None),
    };
    let token = text.trim();
    if token.is_empty() {
        return Err(CommandError::bad_input(
            "--token-file or --token-env: found nothing in it; expected the token; write it there",
        ));
    }
    Ok(Some(token.to_owned()))
}
