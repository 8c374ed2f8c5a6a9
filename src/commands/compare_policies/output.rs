//! What `compare-policies` writes and prints.

use super::ComparePoliciesArgs;
use crate::commands::sweep::{chosen, judge};
use crate::exit::CommandError;
use crate::files;
use crate::report_text::merged;
use crate::study::Study;
use crate::table::{counted, table};
use scaleproof_pack::policies::{Difference, Measure, PolicyRuns, csv, differences_table, loads_table};
use scaleproof_pack::report_html::{PoliciesPage, policies_html};
use serde_json::json;

/// A comparison that was made.
pub struct Compared<'a> {
    pub study: &'a Study,
    pub args: &'a ComparePoliciesArgs,
    pub capacity_rps: f64,
    /// The points that the capacity rests on.
    pub grid: &'a [usize],
    pub classes: &'a [&'a str],
    pub policies: &'a [PolicyRuns],
    pub differences: &'a [Difference],
    pub warnings: &'a [String],
}

/// Writes the files, and prints the result.
pub fn write(compared: &Compared<'_>) -> Result<(), CommandError> {
    let study = compared.study;
    let (verdicts, remarks) = (verdicts(compared), remarks(compared));
    let page = policies_html(&PoliciesPage {
        title: &study.title(),
        verdicts: &verdicts,
        remarks: &remarks,
        classes: compared.classes,
        policies: compared.policies,
        differences: compared.differences,
    });
    if compared.grid.is_empty() {
        files::write(&study.directory.join(files::PAGE), page.as_bytes())?;
    } else {
        study.finish(chosen(study, compared.grid, &judge(study, compared.grid)), &page)?;
    }
    let runs = csv(compared.policies, compared.classes);
    files::write(&study.directory.join("policies.csv"), runs.as_bytes())?;
    study.publish("compare-policies", &result(compared), &text(compared, &verdicts, &remarks))
}

fn result(compared: &Compared<'_>) -> serde_json::Value {
    let means = |policy: &PolicyRuns| {
        let at = |load: &scaleproof_pack::policies::LoadRuns| {
            let scope = |(scope, class): (usize, &str)| {
                let measures =
                    Measure::ALL.iter().map(|&measure| (measure.word(), load.mean(scope, measure)));
                let values: serde_json::Map<String, serde_json::Value> =
                    measures.map(|(word, value)| (word.to_owned(), json!(value))).collect();
                (class.to_owned(), json!(values))
            };
            let classes = std::iter::once("all").chain(compared.classes.iter().copied()).enumerate();
            let classes: serde_json::Map<String, serde_json::Value> = classes.map(scope).collect();
            json!({"load": load.load, "offered_rps": load.offered_rps, "runs": load.runs.len(),
                   "queue_growing": load.growing(), "classes": classes})
        };
        json!({"name": policy.name, "loads": policy.loads.iter().map(at).collect::<Vec<_>>()})
    };
    json!({
        "capacity_rps": compared.capacity_rps,
        "seeds": if compared.args.independent_seeds { "independent" } else { "paired" },
        "policies": compared.policies.iter().map(means).collect::<Vec<_>>(),
        "comparisons": compared.differences.len(),
        "real": compared.differences.iter().filter(|difference| difference.real).count(),
        "differences": compared.differences,
    })
}

/// A sentence a policy.
fn verdicts(compared: &Compared<'_>) -> Vec<String> {
    let Some((first, others)) = compared.policies.split_first() else { return Vec::new() };
    let of = |policy: &PolicyRuns| {
        let own = compared.differences.iter().filter(|difference| difference.policy == policy.name);
        let (mut better, mut worse, mut all) = (0, 0, 0);
        for difference in own {
            all += 1;
            better += u64::from(difference.real && difference.better == Some(true));
            worse += u64::from(difference.real && difference.better == Some(false));
        }
        format!(
            "{} against {}: {better} of {} really better, {worse} really worse",
            policy.name,
            first.name,
            counted(all, "comparison")
        )
    };
    others.iter().map(of).collect()
}

/// What the numbers rest on.
fn remarks(compared: &Compared<'_>) -> Vec<String> {
    let seeds = if compared.args.independent_seeds {
        "each policy has seeds of its own"
    } else {
        "run k of every policy has the same schedule and the same random numbers"
    };
    let mut remarks = vec![
        format!(
            "loads are multiples of {} requests/s, {}",
            compared.capacity_rps,
            if compared.grid.is_empty() { "as given" } else { "the highest rate of the scenario that passes every gate" }
        ),
        format!("{} a policy and load; {seeds}", counted(compared.args.repeats, "run")),
        format!(
            "a difference is real if its p-value, by a symmetric bootstrap-t over the runs and corrected by Holm for all \
             {}, is at most 0.05; the intervals stand for themselves",
            counted(compared.differences.len() as u64, "comparison")
        ),
        "rates are over the window, drain included; latencies are of successes alone, so a policy that refuses can look \
         fast: read them beside the attempted attainment"
            .to_owned(),
    ];
    if compared.study.loaded.trace.is_some() {
        remarks.push(
            "a trace's rows are the same in every run: the intervals cover the chance of warm-up and policies alone, not \
             that of other traffic"
                .to_owned(),
        );
    }
    remarks
        .extend(merged(compared.warnings.iter()).into_iter().map(|warning| format!("some runs: {warning}")));
    remarks
}

fn text(compared: &Compared<'_>, verdicts: &[String], remarks: &[String]) -> String {
    let plain = |of: &scaleproof_pack::size::Table| {
        let headers: Vec<&str> = of.headers.iter().map(String::as_str).collect();
        table(&headers, &of.rows)
    };
    let loads = plain(&loads_table(compared.policies, compared.classes));
    let real = differences_table(compared.differences.iter().filter(|difference| difference.real));
    let real = if real.rows.is_empty() { "no difference is real\n".to_owned() } else { plain(&real) };
    let lines = |lines: &[String], before: &str| {
        lines.iter().map(|line| format!("{before}{line}\n")).collect::<String>()
    };
    format!("{loads}\n{real}\n{}\n{}", lines(verdicts, ""), lines(remarks, "note: "))
}
