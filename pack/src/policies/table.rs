//! Policies as tables of words and as CSV.

use super::{Difference, LoadRuns, Measure, PolicyRuns};
use crate::size::Table;
use std::fmt::Write as _;

/// What a class is called that stands for all of them.
pub(super) const ALL: &str = "all";

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// A row a policy and load: means over the runs.
#[must_use]
pub fn loads_table(policies: &[PolicyRuns], classes: &[&str]) -> Table {
    let mut headers: Vec<String> = ["policy", "load", "offered rps"].map(str::to_owned).to_vec();
    let of_all = [
        Measure::GoodputRps,
        Measure::AttemptedAttainment,
        Measure::RejectedShare,
        Measure::WastedShare,
        Measure::Fairness,
    ];
    headers.extend(of_all.map(|measure| measure.word().to_owned()));
    headers.extend(classes.iter().map(|class| format!("{class} goodput rps")));
    headers.extend(classes.iter().map(|class| format!("{class} P95 TTFT ms")));
    headers.push("queue grew".to_owned());
    let row = |name: &str, at: &LoadRuns| {
        let mut row = vec![name.to_owned(), format!("{:.2}", at.load), format!("{:.2}", at.offered_rps)];
        row.extend(of_all.map(|measure| number(at.mean(0, measure), measure.digits())));
        for measure in [Measure::GoodputRps, Measure::P95TtftMs] {
            row.extend((1..=classes.len()).map(|scope| number(at.mean(scope, measure), measure.digits())));
        }
        row.push(format!("{} of {}", at.growing(), at.runs.len()));
        row
    };
    let rows = policies.iter().flat_map(|policy| policy.loads.iter().map(move |at| row(&policy.name, at)));
    Table { headers, rows: rows.collect() }
}

/// A row a difference.
#[must_use]
pub fn differences_table<'a>(differences: impl Iterator<Item = &'a Difference>) -> Table {
    let headers = [
        "policy",
        "load",
        "class",
        "measure",
        "first",
        "this",
        "difference",
        "95 % interval",
        "corrected p",
        "real",
    ];
    let row = |found: &Difference| {
        let digits = found.measure.digits();
        let interval = found.ci95.map(|(low, high)| format!("{low:+.digits$} to {high:+.digits$}"));
        let verdict = match (found.real, found.better) {
            (true, Some(true)) => "better",
            (true, Some(false)) => "worse",
            _ => "no",
        };
        vec![
            found.policy.clone(),
            format!("{:.2}", found.load),
            found.class.clone(),
            found.measure.word().to_owned(),
            format!("{:.digits$}", found.first),
            format!("{:.digits$}", found.second),
            format!("{:+.digits$}", found.difference),
            interval.unwrap_or_else(|| "-".to_owned()),
            format!("{:.4}", found.p_corrected),
            verdict.to_owned(),
        ]
    };
    Table { headers: headers.map(str::to_owned).to_vec(), rows: differences.map(row).collect() }
}

/// policies.csv: a row a policy, load, run and class, with a column a measure; empty where it is undefined.
#[must_use]
pub fn csv(policies: &[PolicyRuns], classes: &[&str]) -> String {
    let mut out =
        "policy,load,offered_rps,run,class,attempted_attainment,goodput_rps,rejected_share,wasted_share,\
                   fairness,p95_ttft_ms,p99_ttft_ms,p95_tpot_ms,queue_trend\n"
            .to_owned();
    for policy in policies {
        for at in &policy.loads {
            for (run, measures) in at.runs.iter().enumerate() {
                for scope in 0..=classes.len() {
                    let class = if scope == 0 { ALL } else { classes[scope - 1] };
                    let values = Measure::ALL.map(|measure| {
                        measures.get(scope, measure).map_or_else(String::new, |value| value.to_string())
                    });
                    let _ = writeln!(
                        out,
                        "{},{},{},{run},{class},{},{}",
                        policy.name,
                        at.load,
                        at.offered_rps,
                        values.join(","),
                        measures.queue_trend.word()
                    );
                }
            }
        }
    }
    out
}
