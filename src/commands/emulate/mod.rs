//! `scaleproof emulate`: a scenario's fleet in real time, behind HTTP.

mod args;

use crate::exit::{CommandError, Exit, Outcome};
use crate::input::{Loaded, Sources};
use crate::study::print_out;
pub use args::EmulateArgs;
use scaleproof_emulate::{Config, EmulateError, Emulator, Summary};
use std::fmt::Write as _;
use std::time::Duration;

/// Runs the command until it is interrupted.
pub fn run(args: &EmulateArgs) -> Outcome {
    let loaded = Sources::at(&args.scenario, args.profile.as_deref())?.build(&[])?;
    let config = config_of(args, loaded)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        CommandError::could_not_run(format!("threads: found {error}; expected to make some"))
    })?;
    runtime.block_on(serve(config))
}

fn config_of(args: &EmulateArgs, mut loaded: Loaded) -> Result<Config, CommandError> {
    if let Some(blocks) = args.num_blocks {
        loaded.scenario.scheduler.num_blocks = blocks;
    }
    let faults = loaded.scenario.scheduler.check();
    if !faults.is_empty() {
        return Err(CommandError::bad_input(EmulateError::Engine(faults)));
    }
    let replicas = args.replicas.unwrap_or(loaded.manifest.engine.placement.replicas);
    loaded.check_fleet(replicas)?;
    let run = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, replicas);
    Ok(Config {
        model: args.served_model_name.clone().unwrap_or(loaded.manifest.model.id),
        engine: loaded.scenario.scheduler,
        step_time: run.step_time,
        front_end: run.front_end,
        limits: run.limits,
        replicas,
        host: args.host,
        port: args.port,
        admin_port: args.admin_port,
        time_scale: args.time_scale,
        noise: args.noise,
        seed: args.seed,
        steps: args.steps.clone(),
    })
}

async fn serve(config: Config) -> Outcome {
    let model = config.model.clone();
    let emulator = Emulator::start(config).await.map_err(|error| match error {
        EmulateError::Bind { .. } | EmulateError::Start(_) => CommandError::could_not_run(error),
        EmulateError::Setting { name, found, expected } => CommandError::bad_input(format!(
            "--{}: found {found}; expected {expected}",
            name.replace('_', "-")
        )),
        _ => CommandError::bad_input(error),
    })?;
    let mut text = format!("emulating {model}; stop with Ctrl-C\n");
    for (replica, address) in emulator.addresses().await.iter().enumerate() {
        let _ = writeln!(text, "replica {replica}: http://{address}");
    }
    let _ = writeln!(text, "faults: http://{}", emulator.admin_address());
    print_out(&text)?;
    interrupted().await.map_err(|error| {
        CommandError::could_not_run(format!("signals: found {error}; expected to be told of Ctrl-C"))
    })?;
    let summary = emulator.shutdown().await;
    print_out(&summary_text(&summary))?;
    match summary.step_log_failure {
        Some(error) => Err(CommandError::could_not_run(format!(
            "--steps: found {error}; expected to write every step; the rows until then are whole"
        ))),
        None => Ok(Exit::Passed),
    }
}

/// Waits for Ctrl-C, or for a polite kill.
async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn summary_text(summary: &Summary) -> String {
    let mut text = "\nreplica  completed  aborted  rejected     tokens      steps  preemptions\n".to_owned();
    for (replica, of) in summary.replicas.iter().enumerate() {
        let _ = writeln!(
            text,
            "{replica:7}  {:9}  {:7}  {:8}  {:9}  {:9}  {:11}",
            of.completed, of.aborted, of.rejected, of.tokens, of.steps, of.preemptions
        );
    }
    let millis = |lag: Option<Duration>| {
        lag.map_or("-".to_owned(), |lag| format!("{:.2} ms", 1e3 * lag.as_secs_f64()))
    };
    let (half, most) = (summary.step_lag(0.5), summary.step_lag(0.99));
    let max = (summary.steps() > 0).then(|| summary.step_lag_max());
    let _ = writeln!(text, "step lag: p50 {}, p99 {}, max {}", millis(half), millis(most), millis(max));
    text
}
