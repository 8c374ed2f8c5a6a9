//! `scaleproof import`: other tools' results as a pack.

mod output;

use crate::args::{Format, ImportArgs, TypedTrend};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, read_text};
use crate::results::{self, Imported};
use crate::study::{print_out, shown};
use output::{provenance, text, write_pack};
use scaleproof_pack::analyze::{Analyzer, Stated};
use scaleproof_pack::fault::Fault;
use scaleproof_pack::import::{self, OfferedRate};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::report::{Origin, Report, RunFacts};
use scaleproof_pack::requests_csv::Row;
use scaleproof_pack::trend::Verdict;
use serde_json::json;
use std::path::Path;

/// The class of requests that name none, without a manifest.
const CLASS: &str = "imported";

/// What the requests are judged by.
struct Judge {
    file: std::path::PathBuf,
    text: String,
    manifest: Manifest,
}

/// Runs the command.
pub fn run(args: &ImportArgs) -> Outcome {
    let judge = args.manifest.as_deref().map(Judge::read).transpose()?;
    let imported = results::read(&args.files, args.from)?;
    let names: Vec<String> = imported.iter().map(|one| shown(&one.file)).collect();
    if !args.mix_e2e_ends {
        let points = names.iter().map(String::as_str).zip(imported.iter().map(|one| &one.run.point));
        import::one_end_rule(points).map_err(CommandError::bad_input)?;
    }
    let reports =
        imported.iter().map(|one| report(one, judge.as_ref(), args)).collect::<Result<Vec<_>, _>>()?;
    let name = args.files[0].file_stem().map_or_else(|| "result".into(), |name| name.to_string_lossy());
    let output = files::output_directory(args.out.as_deref(), &format!("import-{name}"), false)?;
    write_pack(&output.path, &imported, &reports, judge.as_ref(), args)?;
    print_out(&match args.format {
        Format::Json => {
            let printed = json!({"pack": shown(&output.path), "imported": provenance(&imported)});
            serde_json::to_string_pretty(&printed).map_err(CommandError::could_not_run)? + "\n"
        }
        Format::Text => text(&imported, &reports) + &format!("pack: {}\n", output.path.display()),
    })?;
    Ok(Exit::from_gate(reports.iter().flatten().all(|report| report.capacity_gate_pass)))
}

impl Judge {
    fn read(file: &Path) -> Result<Judge, CommandError> {
        let text = read_text(file)?;
        let manifest = Manifest::parse(&shown(file), &text).map_err(CommandError::bad_input)?;
        Ok(Judge { file: file.to_owned(), text, manifest })
    }
}

/// The run's report by the manifest; None without a manifest or without requests.
fn report(one: &Imported, judge: Option<&Judge>, args: &ImportArgs) -> Result<Option<Report>, CommandError> {
    let Some(judge) = judge else { return Ok(None) };
    if one.run.requests.is_empty() {
        return Ok(None);
    }
    let (manifest, point) = (&judge.manifest, &one.run.point);
    let class = class_name(Some(judge), args)?;
    let mut analyzer = Analyzer::new(manifest);
    for request in &one.run.requests {
        let name = request.class.as_deref().unwrap_or(&class);
        let index = manifest.classes.iter().position(|class| class.name == name);
        let index = index.and_then(|index| u16::try_from(index).ok());
        let Some(index) = index else { return Err(unknown_class(&one.file, name, judge)) };
        analyzer.push_row(&Row::Foreign(request.row(index)));
    }
    let facts = RunFacts {
        origin: Origin::Imported,
        offered_rps: match point.offered_rate {
            Some(OfferedRate::Rps(rps)) => Some(rps),
            _ => None,
        },
        concurrency: point.concurrency,
        ..RunFacts::of_file()
    };
    let queue_trend = args.queue_trend.map(|trend| match trend {
        TypedTrend::Flat => Verdict::Flat,
        TypedTrend::Growing => Verdict::Growing,
    });
    let mut report = analyzer.finish(facts, Stated { duration_s: point.duration_s, queue_trend });
    report.warnings.push(format!("imported from {}: {}", point.source.tool.word(), point.source.semantics));
    report.warnings.extend(one.run.notes.iter().cloned());
    Ok(Some(report))
}

/// The class of requests that name none.
fn class_name(judge: Option<&Judge>, args: &ImportArgs) -> Result<String, CommandError> {
    match (&args.class, judge) {
        (Some(class), _) => Ok(class.clone()),
        (None, None) => Ok(CLASS.to_owned()),
        (None, Some(judge)) => match judge.manifest.classes.as_slice() {
            [only] => Ok(only.name.clone()),
            classes => Err(CommandError::bad_input(Fault {
                file: shown(&judge.file),
                field: "workload".to_owned(),
                found: format!("{} classes", classes.len()),
                expected: "one, to judge requests that name none".to_owned(),
                hint: "say which with --class".to_owned(),
                ..Fault::default()
            })),
        },
    }
}

fn unknown_class(file: &Path, name: &str, judge: &Judge) -> CommandError {
    let known: Vec<&str> = judge.manifest.classes.iter().map(|class| class.name.as_str()).collect();
    CommandError::bad_input(Fault {
        file: shown(file),
        field: "class".to_owned(),
        found: format!("{name:?}"),
        expected: format!("a class of {}: {}", judge.file.display(), known.join(", ")),
        ..Fault::default()
    })
}
