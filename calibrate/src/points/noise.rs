//! The numbers of a point, and how far a repeat of it would differ.

use crate::posterior::Measured;
use crate::trial::{Metric, Observation, Served, Statistic};
use scaleproof_pack::import::OperatingPoint;
use scaleproof_sim::RunError;
use scaleproof_sim::profile::Profile;

/// Adds to each measurement's standard deviation what draws of the unknown differ by: the measured run is one draw,
/// the simulated metric a mean of several.
///
/// # Errors
/// A run that cannot end with this profile, or a step below its bound.
pub fn widen_by_draws(measured: &mut Measured, prior: &Profile) -> Result<(), RunError> {
    let draws = measured.trial.schedules.len();
    if draws < 2 {
        return Ok(());
    }
    let served = measured.trial.serve(prior)?;
    for observation in &mut measured.observations {
        let logs = served.iter().filter_map(|s: &Served| s.metric(observation.metric)).map(f64::ln);
        let logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
        if logs.len() < 2 {
            continue;
        }
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        observation.relative_sd = observation.relative_sd.hypot((variance * (1.0 + 1.0 / n)).sqrt());
    }
    Ok(())
}

/// Relative standard deviations of the measurements: a repeat of the same run differs by up to 1 % in TPOT, 2 % in mean
/// TTFT, 4 % in its median and 6 % in its 99th percentile (do-h200-llama70b-fp8/setting.md).
const NOISE: [(Metric, f64); 8] = [
    (Metric::Tpot(Statistic::Mean), 0.01),
    (Metric::Tpot(Statistic::Percentile(50.0)), 0.01),
    (Metric::Tpot(Statistic::Percentile(99.0)), 0.03),
    (Metric::Ttft(Statistic::Mean), 0.02),
    (Metric::Ttft(Statistic::Percentile(50.0)), 0.04),
    (Metric::Ttft(Statistic::Percentile(99.0)), 0.06),
    (Metric::E2e(Statistic::Mean), 0.02),
    (Metric::OutputThroughput, 0.02),
];

/// How far the simulator itself is trusted, as a relative standard deviation: what a fit of its few factors leaves on
/// runs without noise of their own.
fn trust(metric: Metric) -> f64 {
    match metric {
        Metric::Tpot(Statistic::Percentile(percent)) if percent > 90.0 => 0.05,
        Metric::Ttft(Statistic::Percentile(percent)) if percent > 90.0 => 0.10,
        Metric::Ttft(_) => 0.08,
        Metric::Tpot(_) => 0.01,
        Metric::E2e(_) | Metric::OutputThroughput => 0.02,
    }
}

pub(crate) fn noise_of(metric: Metric) -> Option<f64> {
    NOISE.iter().find(|(known, _)| *known == metric).map(|(_, noise)| *noise)
}

/// Every number of a point that this project has too, with its noise and the simulator's.
#[must_use]
pub fn observations(point: &OperatingPoint) -> Vec<Observation> {
    let value = |metric| match metric {
        Metric::Ttft(Statistic::Mean) => point.ttft_ms.mean_ms,
        Metric::Tpot(Statistic::Mean) => point.tpot_ms.mean_ms,
        Metric::E2e(Statistic::Mean) => point.e2e_ms.mean_ms,
        Metric::Ttft(Statistic::Percentile(percent)) => point.ttft_ms.at_ms(percent),
        Metric::Tpot(Statistic::Percentile(percent)) => point.tpot_ms.at_ms(percent),
        Metric::E2e(Statistic::Percentile(percent)) => point.e2e_ms.at_ms(percent),
        Metric::OutputThroughput => point.output_throughput_tps,
    };
    let known = |&(metric, noise): &(Metric, f64)| {
        let relative_sd = noise.hypot(trust(metric));
        Some(Observation { metric, value: value(metric).filter(|v| *v > 0.0)?, relative_sd })
    };
    NOISE.iter().filter_map(known).collect()
}
