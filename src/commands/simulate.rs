//! `scaleproof simulate`: one operating point.

use crate::args::{LoadArgs, PointArgs, SimulateArgs, SourceArgs};
use crate::exit::{CommandError, Outcome};
use crate::input::Loaded;
use crate::point::Point;
use crate::report_text;
use crate::study::{Study, exit_by_gate, shown};
use scaleproof_pack::report::Report;
use scaleproof_pack::schedule::Load;
use serde::Serialize;

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Outcome {
    let study = Study::open(&args.common, "simulate")?;
    let point = point_of(&args.common.source, &args.point, args.replicas, &study.loaded)?;
    let result = study.simulate_alone(&point)?;
    study.print(
        &Printed { pack: shown(&study.directory), report: &result.report },
        &report_text::text(&result.report),
    )?;
    exit_by_gate(result.report.capacity_gate_pass)
}

/// What is printed as JSON: slo-report.json, and where it lies.
#[derive(Serialize)]
struct Printed<'a> {
    pack: String,
    #[serde(flatten)]
    report: &'a Report,
}

/// The point that the arguments ask for; on the manifest's own fleet unless `replicas` says otherwise.
pub fn point_of(
    source: &SourceArgs,
    point: &PointArgs,
    replicas: Option<u32>,
    loaded: &Loaded,
) -> Result<Point, CommandError> {
    let replicas = replicas.unwrap_or(loaded.manifest.engine.placement.replicas);
    loaded.check_fleet(replicas)?;
    Ok(Point {
        load: load_of(&point.load, loaded)?,
        run: point.run,
        replicas,
        shared_prefixes: loaded.shared_prefixes(&source.cache)?,
    })
}

/// The load that the arguments ask for: by default the scenario's highest rate, or a trace's own.
fn load_of(args: &LoadArgs, loaded: &Loaded) -> Result<Load, CommandError> {
    if let Some(concurrency) = args.concurrency {
        return Ok(Load::Closed { concurrency });
    }
    let rates = &loaded.scenario.experiment.rates_rps;
    args.rps
        .or(loaded.trace_rate())
        .or(rates.last().copied())
        .map(|rps| Load::Open { rps })
        .ok_or_else(|| CommandError::bad_input("--rps: found none; expected an offered rate; name one"))
}
