//! Llama-3.1-70B FP8 on H100 by TP, input, output and closed-loop concurrency (InferenceMAX's runs).

use super::loads::{Builder, Lengths, uniform_lengths};
use super::{AccuracyError, Points, Set, goal, text, usual_prior};
use crate::hardware::Precision;
use crate::physics::prior;
use crate::posterior::{Measured, fit};
use crate::trial::{Metric, Observation, Statistic, Trial};
use scaleproof_sim::profile::Profile;
use std::path::Path;

/// The set of two GPUs.
pub const TP2: &str = "h100_dense_points.csv, Llama-3.1-70B FP8 TP2";
/// The set of four, from two.
pub const TP4: &str = "h100_dense_points.csv, Llama-3.1-70B FP8 TP4 from TP2";

/// What the client sends in a run: this many requests for each that is in flight.
const REQUESTS_PER_CLIENT: usize = 10;
/// Lengths are uniform between this share of the nominal ones and those.
const LENGTH_SHARE: f64 = 0.8;
/// Draws of the lengths that are averaged.
const DRAWS: u64 = 3;
/// Share of the memory that the engine takes unless told.
const MEMORY_SHARE: f64 = 0.9;
/// The shape and the concurrencies that are fitted on.
const FITTED_SHAPE: Lengths = (1024, 1024);
const FITTED_CONCURRENCIES: [u32; 3] = [4, 16, 64];

const TTFT: Metric = Metric::Ttft(Statistic::Mean);
const TPOT: Metric = Metric::Tpot(Statistic::Mean);

/// TP2: three concurrencies of one shape calibrate, everything else of TP2 is predicted.
pub fn tp2(data: &Path) -> Result<Set, AccuracyError> {
    let points = points(data, 2)?;
    let (posterior, comparisons) = points.judge(&engine_prior(2)?)?;
    Ok(Set {
        name: TP2,
        system: "Llama-3.1-70B FP8 on two H100, TP2, vLLM".to_owned(),
        fitted_on: format!(
            "concurrency 4, 16 and 64 of {} input and {} output tokens",
            FITTED_SHAPE.0, FITTED_SHAPE.1
        ),
        notes: notes(),
        profile: posterior.profile,
        comparisons,
        goals: vec![goal(TPOT, 0.03), goal(TTFT, 0.10)],
    })
}

/// TP4 by the factors of TP2.
pub fn tp4(data: &Path) -> Result<Set, AccuracyError> {
    let fitted = points(data, 2)?.fitted;
    let correction = fit(&engine_prior(2)?, &fitted)?.correction;
    let profile = engine_prior(4)?.corrected(&correction)?;
    let Points { fitted, held_out } = points(data, 4)?;
    let points = Points { fitted: Vec::new(), held_out: fitted.into_iter().chain(held_out).collect() };
    let comparisons = points.compare(&profile)?;
    Ok(Set {
        name: TP4,
        system: "Llama-3.1-70B FP8 on four H100, TP4, vLLM".to_owned(),
        fitted_on: "the TP2 set's three points: its factors on TP4's prior".to_owned(),
        notes: notes(),
        profile,
        comparisons,
        goals: vec![goal(TPOT, 0.08), goal(TTFT, 0.15)],
    })
}

fn notes() -> Vec<String> {
    vec![format!(
        "Closed loop; {REQUESTS_PER_CLIENT} requests a client, lengths uniform from {LENGTH_SHARE} of the nominal \
             ones; {DRAWS} draws averaged. Not stated: mean or median (mean is taken), the share of the memory \
             ({MEMORY_SHARE} is taken), the version of vLLM."
    )]
}

fn engine_prior(tp: u32) -> Result<Profile, AccuracyError> {
    let mut spec = usual_prior("llama-3.1-70b", "h100", tp, (Precision::Fp8, Precision::Bf16))?;
    spec.prefix_caching = false;
    spec.memory.gpu_memory_utilization = MEMORY_SHARE;
    spec.memory.max_num_seqs = 256;
    spec.max_model_len = Some(10_240);
    Ok(prior(&spec)?.0)
}

/// The points of a TP degree, in the file's order.
fn points(data: &Path, tp: u32) -> Result<Points, AccuracyError> {
    let path = data.join("measured/h100_dense_points.csv");
    let (mut fitted, mut held_out) = (Vec::new(), Vec::new());
    for line in text(&path)?.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [model, _, _, _, precision, degree, _, input, output, concurrency, _, ttft, tpot] = fields[..]
        else {
            return Err(AccuracyError(format!("{}: found {line:?}, expected 13 fields", path.display())));
        };
        if !model.ends_with("Llama-3.1-70B") || precision != "fp8" || degree != tp.to_string() {
            continue;
        }
        let number = |field: &str| field.parse::<u32>().map_err(|e| AccuracyError(format!("{line:?}: {e}")));
        let lengths = (number(input)?, number(output)?);
        let concurrency = number(concurrency)?;
        let observations = vec![
            Observation { metric: TTFT, value: ttft.parse()?, relative_sd: 0.06 },
            Observation { metric: TPOT, value: tpot.parse()?, relative_sd: 0.014 },
        ];
        let is_fitted = lengths == FITTED_SHAPE && FITTED_CONCURRENCIES.contains(&concurrency);
        let list = if is_fitted { &mut fitted } else { &mut held_out };
        list.push(Measured { trial: trial(lengths, concurrency)?, observations });
    }
    Ok(Points { fitted, held_out })
}

fn trial((input, output): Lengths, concurrency: u32) -> Result<Trial, AccuracyError> {
    let count = REQUESTS_PER_CLIENT * concurrency as usize;
    let schedule = |draw| {
        let mut list = Builder::default();
        for lengths in uniform_lengths(count, (input, output), LENGTH_SHARE, draw) {
            list.add(None, lengths, &[])?;
        }
        Ok::<_, AccuracyError>(list.closed(concurrency))
    };
    Ok(Trial {
        label: format!("{input} in, {output} out, {concurrency} in flight"),
        schedules: (0..DRAWS).map(schedule).collect::<Result<_, _>>()?,
        counted: 0..count as u64,
        seats: Some(concurrency),
        pace: 1.0,
    })
}
