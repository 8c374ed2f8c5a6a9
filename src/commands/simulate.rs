//! `scaleproof simulate`: one operating point.

use crate::args::{LoadArgs, SimulateArgs};
use crate::exit::{CommandError, Outcome};
use crate::input::Loaded;
use crate::point::{Point, PointResult};
use crate::study::{Study, exit_by_gate, shown};
use crate::table::{number, percent, table};
use scaleproof_pack::report::Report;
use scaleproof_pack::schedule::Load;
use serde::Serialize;

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Outcome {
    let study = Study::open(&args.common, "simulate")?;
    let point = point_of(args, &study.loaded)?;
    let result = study.simulate_alone(&point)?;
    study.print(&Printed { pack: shown(&study.directory), report: &result.report }, &text(&result))?;
    exit_by_gate(result.report.capacity_gate_pass)
}

/// What is printed as JSON: slo-report.json, and where it lies.
#[derive(Serialize)]
struct Printed<'a> {
    pack: String,
    #[serde(flatten)]
    report: &'a Report,
}

/// The point that the arguments ask for.
pub fn point_of(args: &SimulateArgs, loaded: &Loaded) -> Result<Point, CommandError> {
    Ok(Point {
        load: load_of(&args.load, loaded)?,
        run: args.run,
        replicas: args.replicas.unwrap_or(loaded.manifest.engine.placement.replicas),
        shared_prefixes: loaded.shared_prefixes(&args.common.cache)?,
    })
}

/// The load that the arguments ask for: by default the scenario's highest rate, or a trace's own.
pub fn load_of(args: &LoadArgs, loaded: &Loaded) -> Result<Load, CommandError> {
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

fn text(result: &PointResult) -> String {
    let report = &result.report;
    let mut text = format!("{}\n{}\n", class_table(report), totals(result));
    for gate in &report.gates {
        let value = |value| serde_json::to_string(value).unwrap_or_default();
        let verdict = if gate.pass { "pass" } else { "FAIL" };
        text += &format!(
            "gate {verdict}: {} = {} ({} {})\n",
            gate.name,
            value(&gate.observed),
            gate.relation,
            value(&gate.required)
        );
    }
    for warning in &report.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

fn class_table(report: &Report) -> String {
    let headers = [
        "class",
        "attempts",
        "ok",
        "attainment",
        "95 %",
        "of attempts",
        "P50 TTFT ms",
        "P95 TTFT ms",
        "P50 TPOT ms",
        "P95 TPOT ms",
        "P95 E2E ms",
    ];
    let row = |(name, class): (&String, &scaleproof_pack::report::ClassReport)| {
        let interval = class
            .attainment_ci95
            .map(|(low, high)| format!("{} to {}", percent(Some(low)), percent(Some(high))));
        vec![
            name.clone(),
            class.attempted_count.to_string(),
            class.successful_count.to_string(),
            percent(class.attainment),
            interval.unwrap_or_else(|| "-".to_owned()),
            percent(class.attempted_attainment),
            number(class.latency.p50_ttft_ms, 0),
            number(class.latency.p95_ttft_ms, 0),
            number(class.p50_tpot_ms, 1),
            number(class.p95_tpot_ms, 1),
            number(class.latency.p95_e2e_ms, 0),
        ]
    };
    table(&headers, &report.classes.iter().map(row).collect::<Vec<_>>())
}

fn totals(result: &PointResult) -> String {
    let (report, outcomes) = (&result.report, &result.report.outcomes);
    format!(
        "{} attempts in {:.0} s: {} ok, {} error, {} timeout, {} rejected, {} cancelled, {} lost\n\
         completed {} requests/s, goodput {} requests/s, {} output tokens/s, queue {}\n\
         prefix hits {} of prompt tokens, {} preemptions, queue peak {}, KV peak {}",
        report.attempted,
        report.duration_s,
        outcomes.ok,
        outcomes.error,
        outcomes.timeout,
        outcomes.rejected,
        outcomes.cancelled,
        outcomes.lost,
        number(report.request_throughput_rps, 2),
        number(report.observed_goodput_rps, 2),
        number(report.output_throughput_tps, 0),
        report.queue_trend.word(),
        percent(report.prefix_hit_share),
        report.preemptions.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        report.queue_peak.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        percent(report.kv_peak_share),
    )
}
