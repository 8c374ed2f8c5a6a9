//! `scaleproof compare`: two packs side by side, with intervals. It judges nothing.

use crate::args::{CompareArgs, Format};
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, read_bytes, read_text};
use crate::study::{print_out, shown};
use crate::table::{counted, number, table};
use scaleproof_pack::compare::{self, Comparison, Difference, Metric, Options, Scope, Side};
use scaleproof_pack::report::{Origin, Report};
use serde_json::json;
use std::path::Path;

/// Runs the command.
pub fn run(args: &CompareArgs) -> Outcome {
    let (a, b) = (Pack::read(&args.a)?, Pack::read(&args.b)?);
    let options = Options { different_schedules: args.different_schedules, seed: args.seed };
    let found = compare::compare(&a.side, &b.side, &options).map_err(|error| {
        CommandError::bad_input(format!("{}, {}: {error}", args.a.display(), args.b.display()))
    })?;
    match args.format {
        Format::Json => {
            let pack = |pack: &Pack, path: &Path| json!({"pack": shown(path), "facts": pack.report.facts, "invalid": pack.report.is_invalid()});
            let json = json!({"a": pack(&a, &args.a), "b": pack(&b, &args.b), "comparison": found});
            print_out(&(serde_json::to_string_pretty(&json).map_err(CommandError::could_not_run)? + "\n"))?;
        }
        Format::Text => {
            let about = |name: &str, pack: &Pack, path: &Path| {
                format!("{name}  {}: {}\n", path.display(), facts_text(&pack.report))
            };
            print_out(&(about("A", &a, &args.a) + &about("B", &b, &args.b) + &text(&found)))?;
        }
    }
    Ok(Exit::Passed)
}

/// A pack with what a comparison reads of it.
struct Pack {
    report: Report,
    side: Side,
}

impl Pack {
    fn read(directory: &Path) -> Result<Pack, CommandError> {
        if !directory.is_dir() {
            return Err(CommandError::bad_input(format!(
                "{}: found no directory; expected a pack, a directory with requests.csv and slo-report.json; \
                 scaleproof simulate writes one",
                directory.display()
            )));
        }
        let path = directory.join(files::REPORT);
        let report: Report = serde_json::from_str(&read_text(&path)?).map_err(|error| {
            CommandError::bad_input(format!(
                "{}:{}:{}: found {error}; expected a report as scaleproof writes it; write it again",
                path.display(),
                error.line(),
                error.column()
            ))
        })?;
        let path = directory.join(files::REQUESTS);
        let side = Side::read(&report, read_bytes(&path)?.as_slice())
            .map_err(|error| CommandError::bad_input(format!("{}: {error}", path.display())))?;
        Ok(Pack { report, side })
    }
}

fn facts_text(report: &Report) -> String {
    let facts = &report.facts;
    let mut words = vec![match facts.origin {
        Origin::Simulated => "simulated".to_owned(),
        Origin::Live => "live".to_owned(),
        Origin::File => "from a file".to_owned(),
        Origin::Imported => "imported".to_owned(),
    }];
    words.extend(facts.offered_rps.map(|rps| format!("{rps} requests/s offered")));
    words.extend(facts.concurrency.map(|clients| counted(clients.into(), "client")));
    words.extend(facts.system.as_ref().map(|system| {
        format!("{}, {}, {}", counted(system.replicas.into(), "replica"), system.router, system.cache)
    }));
    let profile = facts.system.as_ref().and_then(|system| system.profile.as_ref());
    words.extend(profile.map(|profile| format!("profile {} ({})", profile.name, profile.label)));
    words.extend(facts.seed.map(|seed| format!("seed {seed}")));
    words.extend(
        facts.schedule_hash.as_ref().map(|hash| format!("schedule {}", hash.get(..12).unwrap_or(hash))),
    );
    if report.is_invalid() {
        let reasons = report.invalid.iter().flatten().cloned().collect::<Vec<_>>().join("; ");
        words.push(format!("INVALID, so that nothing follows from it: {reasons}"));
    }
    words.join(", ")
}

fn text(found: &Comparison) -> String {
    let intervals = found.scopes.iter().flat_map(|scope| &scope.metrics);
    let (real, all) = intervals
        .filter(|metric| metric.difference_ci95.is_some())
        .fold((0u32, 0u32), |(real, all), metric| (real + u32::from(metric.real), all + 1));
    let chance = f64::from(all) * 0.05;
    let mut text = format!(
        "{real} of {all} differences are real: their 95 % interval excludes 0 (about {chance:.0} would by chance \
         alone)\n"
    );
    for warning in &found.warnings {
        text += &format!("warning: {warning}\n");
    }
    for scope in &found.scopes {
        let name = scope.class.as_deref().unwrap_or("all classes");
        text += &format!("\n{name}\n{}", scope_table(scope));
    }
    text + &format!(
        "\nintervals: bootstrap, {} replicates of {} requests in blocks of {}, {}, seed {}\n",
        found.replicates,
        found.requests,
        found.block_requests,
        if found.paired { "the same requests of both" } else { "each pack by itself" },
        found.seed
    )
}

fn scope_table(scope: &Scope) -> String {
    let headers = ["metric", "A", "B", "difference", "B/A", "95 % of the difference", "real"];
    let mut rows: Vec<Vec<String>> =
        scope.metrics.iter().filter(|metric| metric.a.or(metric.b).is_some()).map(row).collect();
    rows.extend(scope.distributions.iter().map(|distance| {
        let quantity = distance.quantity.word();
        let mut row =
            vec![format!("{quantity} distributions (Kolmogorov-Smirnov)"), String::new(), String::new()];
        row.push(number(distance.kolmogorov_smirnov, 3));
        row
    }));
    table(&headers, &rows)
}

fn row(metric: &Difference) -> Vec<String> {
    // Shares as percentages; their differences are percentage points.
    let (factor, digits) = match metric.metric {
        Metric::Preemptions => (1.0, 0),
        metric if metric.is_share() => (100.0, 2),
        _ => (1.0, 2),
    };
    let unit = if metric.metric.is_share() { " (%)" } else { "" };
    let scaled = |value: Option<f64>| number(value.map(|value| value * factor), digits);
    let interval =
        metric.difference_ci95.map(|(low, high)| format!("{} to {}", scaled(Some(low)), scaled(Some(high))));
    vec![
        metric.metric.name() + unit,
        scaled(metric.a),
        scaled(metric.b),
        scaled(metric.difference),
        number(metric.ratio, 3),
        interval.unwrap_or_else(|| "-".to_owned()),
        if metric.real { "yes".to_owned() } else { String::new() },
    ]
}
