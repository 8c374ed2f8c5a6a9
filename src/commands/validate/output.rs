//! A verdict for people, for machines and as a page.

use super::prediction::Written;
use crate::exit::CommandError;
use crate::files;
use crate::study::Study;
use crate::table::{number, table};
use scaleproof_pack::report_html::{VerdictPage, verdict_html};
use scaleproof_pack::verdict::{Agreement, Compared, Finding, FleetCapacity, Verdict, shown_difference};
use serde_json::json;

/// Metrics that the text lists, the worst first.
const LISTED: usize = 15;

/// Writes verdict.json and report.html, and prints the verdict.
pub fn write(
    study: &Study,
    verdict: &Verdict,
    predicted: &Written,
    engine: &str,
) -> Result<(), CommandError> {
    let title = format!("Verdict on {}: {}", study.loaded.served(), study.loaded.profile.name);
    let page = VerdictPage {
        title: &title,
        verdict,
        predicted_at: &predicted.at,
        prediction_sha256: &predicted.sha256,
        engine,
        profile: &study.loaded.profile.label(),
        required_attainment: study.loaded.manifest.acceptance.class_slo_attainment_min,
    };
    files::write(&study.directory.join(files::PAGE), verdict_html(&page).as_bytes())?;
    let json = json!({
        "predicted_at": predicted.at,
        "prediction_sha256": predicted.sha256,
        "engine": engine,
        "verdict": verdict,
    });
    study.publish("verdict", &json, &text(verdict, predicted, engine))
}

fn text(verdict: &Verdict, predicted: &Written, engine: &str) -> String {
    let mut text = format!("{}: {}\n", verdict.outcome.word(), verdict.reasons.join("; "));
    for cause in &verdict.causes {
        text += &format!("  cause: {}: {}\n", cause.place.word(), cause.evidence);
    }
    if let Some(more) = &verdict.more {
        text += &format!("  more: {}\n", more.sentence(verdict.repeats));
    }
    for warning in &verdict.warnings {
        text += &format!("warning: {warning}\n");
    }
    let fleets: Vec<Vec<String>> = verdict.scale_out.fleets.iter().map(fleet_row).collect();
    let heads = ["replicas", "capacity predicted", "over draws", "measured", "agreement", "standing"];
    text += &format!("\n{}", table(&heads, &fleets));
    text += &format!("{}\n", verdict.scale_out.statement);
    let mut worst: Vec<&Compared> = verdict.compared.iter().collect();
    let weight = |c: &Compared| c.difference.abs() / c.tolerance;
    worst.sort_by(|a, b| {
        (b.finding == Finding::Outside)
            .cmp(&(a.finding == Finding::Outside))
            .then(weight(b).total_cmp(&weight(a)))
    });
    let rows: Vec<Vec<String>> = worst.iter().take(LISTED).map(|c| row(c)).collect();
    let headers = ["metric", "predicted", "measured", "difference", "tolerated", "finding"];
    text += &format!(
        "\nthe {} farthest from the prediction of {} metrics judged, each with {} repeats\n{}",
        rows.len(),
        worst.len(),
        verdict.repeats,
        table(&headers, &rows)
    );
    let drift = verdict.drift.map_or("not known".to_owned(), |drift| format!("{:+.1} %", 100.0 * drift));
    text + &format!(
        "\ndrift of the reference point: {drift}\nmeasured: {engine}\npredicted {}, before any measurement; SHA-256 {}\n",
        predicted.at, predicted.sha256
    )
}

fn fleet_row(fleet: &FleetCapacity) -> Vec<String> {
    let word = match fleet.agreement {
        Agreement::Same => "same",
        Agreement::Different => "different",
        Agreement::Open => "open",
        Agreement::Unmeasured => "not measured",
    };
    let rps = |rps: Option<f64>| number(rps, 2);
    let range = fleet.predicted_range_rps;
    vec![
        fleet.replicas.to_string(),
        rps(fleet.predicted_rps),
        range.map_or("-".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}")),
        rps(fleet.measured_rps),
        word.to_owned(),
        fleet.standing.words().to_owned(),
    ]
}

fn row(c: &Compared) -> Vec<String> {
    let (factor, digits) = if c.metric.is_share() { (100.0, 2) } else { (1.0, 3) };
    let unit = if c.metric.is_share() { " (%)" } else { "" };
    vec![
        c.name() + unit,
        number(Some(c.predicted * factor), digits),
        number(Some(c.measured * factor), digits),
        c.difference_text(),
        shown_difference(c.tolerance, c.metric).trim_start_matches('+').to_owned(),
        c.finding.word().to_owned(),
    ]
}
