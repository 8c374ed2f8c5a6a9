//! The prediction on the disk, before anything is measured.

use super::design::Design;
use super::uncertainty::Uncertainty;
use crate::clock::now_utc;
use crate::exit::CommandError;
use crate::files;
use crate::study::Study;
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::verdict::Tolerance;
use serde_json::{Value, json};

/// The file.
const PREDICTION: &str = "prediction.json";

/// A prediction that was written down.
pub struct Written {
    /// When, in UTC.
    pub at: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// Writes what was predicted, for which schedules, and the rule; on resuming, checks that it is what was written then.
pub fn write(
    study: &Study,
    design: &Design,
    (rule, uncertainty): (&Tolerance, &Uncertainty),
    engine: &str,
) -> Result<Written, CommandError> {
    let path = study.directory.join(PREDICTION);
    let content = content(study, design, (rule, uncertainty), engine);
    let old = std::fs::read(&path).ok().filter(|_| study.resume);
    if let Some(old) = old {
        let read: Value = serde_json::from_slice(&old).unwrap_or(Value::Null);
        let whole = read.get("prediction") == Some(&content);
        return match (whole, read.get("written_at").and_then(Value::as_str)) {
            (true, Some(at)) => Ok(Written { at: at.to_owned(), sha256: sha256_hex(&old) }),
            _ => Err(CommandError::bad_input(format!(
                "{}: found another prediction, engine or rule; expected the one of this scenario, profile, engine and \
                 --tolerance: it may not change once measuring has begun; give another --out",
                path.display()
            ))),
        };
    }
    let at = now_utc()? + "Z";
    let whole = json!({"written_at": at, "prediction": content});
    let text = serde_json::to_string_pretty(&whole).map_err(CommandError::could_not_run)? + "\n";
    files::write(&path, text.as_bytes())?;
    Ok(Written { at, sha256: sha256_hex(text.as_bytes()) })
}

fn content(
    study: &Study,
    design: &Design,
    (rule, uncertainty): (&Tolerance, &Uncertainty),
    engine: &str,
) -> Value {
    let loaded = &study.loaded;
    let points: Vec<Value> = study
        .results
        .iter()
        .map(|result| {
            json!({
                "point": result.point.name(loaded),
                "schedule_hash": result.report.facts.schedule_hash,
                "requests": result.report.attempted,
                "report": result.report,
            })
        })
        .collect();
    json!({
        "scaleproof": env!("CARGO_PKG_VERSION"),
        "manifest_sha256": sha256_hex(loaded.manifest_text.as_bytes()),
        "scenario_sha256": sha256_hex(loaded.scenario_text.as_bytes()),
        "profile": loaded.profile_facts(),
        "to_be_measured": engine,
        "draws": uncertainty.to_json(),
        "tolerance": rule,
        "fleets": design.fleets,
        "repeats": design.repeats,
        "points": points,
    })
}
