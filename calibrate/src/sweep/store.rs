//! A sweep as a file, so that it can be fitted again.

use super::data::{from_csv, to_csv};
use super::loaded::FIRST_OF_BURST;
use super::structure::Found;
use super::{Loaded, Reference, Swept};
use crate::loads::Builder;
use crate::posterior::Measured;
use crate::trial::{Metric, Observation, Statistic, Trial};
use scaleproof_pack::schedule::{CONCURRENCY_MAX, Load, RATE_MAX_RPS, Release};
use scaleproof_sim::engine::EngineConfig;
use serde_json::{Value, json};

const FORMAT: &str = "scaleproof sweep 2";
/// The longest request of a stored point, in tokens: sums of a few of them stay inside 32 bits.
const TOKENS_MAX: u64 = 1 << 28;

const METRICS: [(&str, Metric); 3] = [
    ("ttft_mean_ms", Metric::Ttft(Statistic::Mean)),
    ("tpot_mean_ms", Metric::Tpot(Statistic::Mean)),
    ("ttft_first_ms", FIRST_OF_BURST),
];

impl Swept {
    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let reference = |r: &Reference| json!([r.at_s, r.step_us, r.relative_sd]);
        json!({
            "format": FORMAT,
            "version": self.found.version,
            "model": self.found.model,
            "notes": self.found.notes,
            "scheduler": self.found.scheduler,
            "longest": self.longest,
            "spent_s": self.spent_s,
            "stopped": self.stopped,
            "references": self.references.iter().map(reference).collect::<Vec<_>>(),
            "loaded": self.loaded.iter().map(loaded_json).collect::<Vec<_>>(),
            "measurements": to_csv(&self.rows),
        })
    }

    /// Reads it.
    ///
    /// # Errors
    /// The first thing that is not as [`Swept::to_json`] writes it.
    pub fn from_json(file: &str, text: &str) -> Result<Swept, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            format!(
                "{file}: found no JSON ({error}); expected a sweep as `calibrate` writes it; restore the file"
            )
        })?;
        let fault = |field: &str| {
            format!(
                "{file}: {field}: found {}; expected it as `calibrate` writes it; restore the file",
                value[field]
            )
        };
        if value["format"] != FORMAT {
            return Err(fault("format"));
        }
        let scheduler: EngineConfig =
            serde_json::from_value(value["scheduler"].clone()).map_err(|_| fault("scheduler"))?;
        if let Some(wrong) = scheduler.check().first() {
            let (field, found, expected) = (wrong.field, &wrong.found, &wrong.expected);
            return Err(format!(
                "{file}: scheduler.{field}: found {found}; expected {expected}; restore the file"
            ));
        }
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let list = |field: &str| value[field].as_array().ok_or_else(|| fault(field));
        let notes = list("notes")?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let references: Option<Vec<Reference>> = list("references")?.iter().map(reference).collect();
        let loaded: Option<Vec<Loaded>> = list("loaded")?.iter().map(loaded).collect();
        let longest = value["longest"].as_u64().filter(|tokens| *tokens <= TOKENS_MAX);
        Ok(Swept {
            found: Found { scheduler, version: text("version"), model: text("model"), notes },
            rows: from_csv(&format!("{file}: measurements"), &text("measurements").unwrap_or_default())?,
            references: references.ok_or_else(|| fault("references"))?,
            loaded: loaded.ok_or_else(|| fault("loaded"))?,
            longest: longest.ok_or_else(|| fault("longest"))? as u32,
            spent_s: positive(&value["spent_s"]).ok_or_else(|| fault("spent_s"))?,
            stopped: value["stopped"].as_bool().ok_or_else(|| fault("stopped"))?,
        })
    }
}

fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| value.is_finite() && *value >= 0.0 && *value < 1e15)
}

fn reference(value: &Value) -> Option<Reference> {
    let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(positive).collect();
    match numbers?[..] {
        [at_s, step_us, relative_sd] if step_us > 0.0 => Some(Reference { at_s, step_us, relative_sd }),
        _ => None,
    }
}

fn loaded_json(Loaded { at_s, measured }: &Loaded) -> Value {
    let schedule = measured.trial.schedules.first();
    let clients = schedule.and_then(|schedule| match schedule.load {
        Load::Closed { concurrency } => Some(concurrency),
        Load::Open { .. } => None,
    });
    let requests = schedule.into_iter().flat_map(|schedule| &schedule.measured.requests).map(|request| {
        let at_ns = match request.release {
            Release::At(at) => Some(at.0),
            _ => None,
        };
        json!([at_ns, request.input_tokens, request.output_tokens])
    });
    let observations = measured.observations.iter().filter_map(|observation| {
        let (word, _) = METRICS.iter().find(|(_, metric)| *metric == observation.metric)?;
        Some(json!([word, observation.value, observation.relative_sd]))
    });
    json!({
        "at_s": at_s,
        "label": measured.trial.label,
        "clients": clients,
        "requests": requests.collect::<Vec<_>>(),
        "observations": observations.collect::<Vec<_>>(),
    })
}

fn loaded(value: &Value) -> Option<Loaded> {
    let mut list = Builder::default();
    for request in value["requests"].as_array()? {
        let [at_ns, input, output] = &request.as_array()?[..] else { return None };
        let at_s = at_ns.as_u64().map(|ns| ns as f64 / 1e9);
        let tokens = |value: &Value| value.as_u64().filter(|tokens| *tokens <= TOKENS_MAX);
        list.add(at_s, (tokens(input)? as u32, tokens(output)? as u32), &[]).ok()?;
    }
    let count = list.len();
    let schedule = match value["clients"].as_u64() {
        Some(clients) if (1..=u64::from(CONCURRENCY_MAX)).contains(&clients) => list.closed(clients as u32),
        Some(_) => return None,
        None => list.open(RATE_MAX_RPS),
    };
    let observation = |value: &Value| {
        let [word, number, sd] = &value.as_array()?[..] else { return None };
        let metric = METRICS.iter().find(|(known, _)| Some(*known) == word.as_str())?.1;
        let (value, relative_sd) = (positive(number)?, positive(sd)?);
        (value > 0.0 && relative_sd > 0.0).then_some(Observation { metric, value, relative_sd })
    };
    let observations: Option<Vec<Observation>> =
        value["observations"].as_array()?.iter().map(observation).collect();
    let label = value["label"].as_str()?.to_owned();
    let trial = Trial { label, schedules: vec![schedule], counted: 0..count, seats: None, pace: 1.0 };
    Some(Loaded {
        at_s: positive(&value["at_s"])?,
        measured: Measured { trial, observations: observations? },
    })
}
