//! What the front end's work runs on: no experiment with one request at a time tells, bursts of them do.

use super::loaded::{BURST_TRUST, is_burst};
use crate::posterior::{self, Measured, Posterior, PosteriorError};
use crate::trial::{Metric, Statistic, Trial};
use scaleproof_pack::time::Nanos;
use scaleproof_sim::FrontEndProcess;
use scaleproof_sim::profile::Profile;

/// By how much a front end that is one process must lower the sum of squares: as a coefficient that is two deviations from 0 would.
const CLEARLY: f64 = 4.0;
/// Steps of a bisection.
const HALVINGS: u32 = 7;

/// The profile's factors as the loaded points have them, and its front end: a latency, unless bursts take longer than that and one process
/// explains the points clearly better. With it the misfit of each process that was tried.
///
/// # Errors
/// As [`posterior::fit`].
pub fn fit(
    profile: &Profile,
    points: &[Measured],
) -> Result<(Posterior, Vec<(FrontEndProcess, f64)>), PosteriorError> {
    let observations: usize = points.iter().map(|point| point.observations.len()).sum();
    let latency = posterior::fit(profile, points)?;
    let mut misfits = vec![(FrontEndProcess::Parallel, latency.misfit)];
    if burst_error(profile, points)?.is_none_or(|error| error > -2.0 * BURST_TRUST) {
        return Ok((latency, misfits));
    }
    let mut best: Option<Posterior> = None;
    for process in [FrontEndProcess::Serial, FrontEndProcess::Shared] {
        let fitted = posterior::fit(&of_one_process(profile, process, points)?, points)?;
        misfits.push((process, fitted.misfit));
        if best.as_ref().is_none_or(|best| fitted.misfit < best.misfit) {
            best = Some(fitted);
        }
    }
    let clear = |best: &Posterior| (latency.misfit - best.misfit) * observations as f64 > CLEARLY;
    Ok((best.filter(clear).unwrap_or(latency), misfits))
}

/// The same with a front end that is one process, whose work on a request is so much of its latency that bursts take what they did in the
/// mean: found by bisection.
fn of_one_process(
    profile: &Profile,
    process: FrontEndProcess,
    points: &[Measured],
) -> Result<Profile, PosteriorError> {
    let busy = |share: f64| {
        let mut profile = profile.clone();
        profile.front_end.process = process;
        profile.front_end.busy = Nanos((profile.front_end.request.0 as f64 * share) as u64);
        profile
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let short = burst_error(&busy(middle), points)?.is_some_and(|error| error < 0.0);
        if short { low = middle } else { high = middle }
    }
    Ok(busy(high))
}

/// Logarithm of the TTFT that bursts have in the simulation over the measured, in the mean. None without bursts.
fn burst_error(profile: &Profile, points: &[Measured]) -> Result<Option<f64>, PosteriorError> {
    let mean = Metric::Ttft(Statistic::Mean);
    let mut errors = Vec::new();
    for Measured { trial, observations } in points {
        if !trial.schedules.iter().all(is_burst) {
            continue;
        }
        let served = trial.serve(profile);
        let served = served.map_err(|error| PosteriorError::Run(trial.label.clone(), error))?;
        let seen = observations.iter().find(|seen| seen.metric == mean);
        let both = seen.zip(Trial::mean(&served, mean));
        errors.extend(both.map(|(seen, simulated)| (simulated / seen.value).ln()));
    }
    Ok((!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64))
}
