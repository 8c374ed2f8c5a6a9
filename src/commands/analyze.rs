//! `scaleproof analyze`: a requests.csv of any origin, judged by a manifest.

use crate::args::{AnalyzeArgs, Format, TypedTrend};
use crate::exit::{CommandError, Outcome};
use crate::files::{read_bytes, read_text};
use crate::report_text;
use crate::study::{exit_by_gate, print_out};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::report::RunFacts;
use scaleproof_pack::requests_csv::Reader;
use scaleproof_pack::trend::Verdict;

/// Runs the command.
pub fn run(args: &AnalyzeArgs) -> Outcome {
    let name = args.manifest.display().to_string();
    let manifest = Manifest::parse(&name, &read_text(&args.manifest)?).map_err(CommandError::bad_input)?;
    let bytes = read_bytes(&args.requests)?;
    let fault = |error| CommandError::bad_input(format!("{}:{error}", args.requests.display()));
    let names = manifest.classes.iter().map(|class| class.name.as_str());
    let mut analyzer = Analyzer::new(&manifest);
    for row in Reader::new(bytes.as_slice(), names).map_err(fault)? {
        analyzer.push_row(&row.map_err(fault)?);
    }
    let queue_trend = Some(match args.queue_trend {
        TypedTrend::Flat => Verdict::Flat,
        TypedTrend::Growing => Verdict::Growing,
    });
    let stated = Stated { duration_s: Some(args.duration_s), queue_trend };
    let report = analyzer.finish(RunFacts::of_file(), stated);
    print_out(&match args.format {
        Format::Json => serde_json::to_string_pretty(&report).map_err(CommandError::could_not_run)? + "\n",
        Format::Text => report_text::text(&report),
    })?;
    exit_by_gate(report.capacity_gate_pass)
}
