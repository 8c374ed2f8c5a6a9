//! How true the model is: measured sets of served engines, each calibrated on some of its points and judged on others.
//!
//! No parameter is fitted to data that it is judged on; what each set was fitted on, and what is not known of its load,
//! is in its report.

mod a100;
mod do_h200;
mod h100_points;
mod kubecon;
mod layer_tables;
mod loads;
mod markdown;
mod rtxpro;

pub use markdown::markdown;

use crate::hardware::architecture::Architecture;
use crate::hardware::gpu::Gpu;
use crate::hardware::memory::MemorySettings;
use crate::hardware::{Found, Precision};
use crate::physics::{PriorError, PriorSpec};
use crate::posterior::{Measured, Posterior, PosteriorError, fit};
use crate::trial::{Metric, Observation, Served, Statistic, Trial};
use rayon::prelude::*;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::import::{OperatingPoint, Run, import};
use scaleproof_pack::time::TimeError;
use scaleproof_sim::RunError;
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;
use std::fmt;
use std::path::Path;

/// A set of measurements and what became of it.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name: the folder or file it is from.
    pub name: &'static str,
    /// What was served, on what.
    pub system: String,
    /// What the model was calibrated on.
    pub fitted_on: String,
    /// What is not known of the load or the engine, and what was taken instead.
    pub notes: Vec<String>,
    /// The profile that made the predictions.
    pub profile: Profile,
    /// All numbers, those fitted on too.
    pub comparisons: Vec<Comparison>,
    /// What the held-out numbers are to reach.
    pub goals: Vec<Goal>,
}

/// One number in both worlds.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The operating point.
    pub point: String,
    /// Which number.
    pub metric: Metric,
    /// As measured.
    pub measured: f64,
    /// As simulated.
    pub predicted: f64,
    /// Whether it was fitted on.
    pub fitted: bool,
}

impl Comparison {
    /// predicted/measured - 1.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// A median absolute error to stay within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Of which number.
    pub metric: Metric,
    /// As a share.
    pub median: f64,
    /// What a repeat of the measured run differs by, as a share, where it is known.
    pub noise: Option<f64>,
}

impl Set {
    /// Median of the absolute relative errors of a metric over held-out points; None without any.
    #[must_use]
    pub fn held_out_median(&self, metric: Metric) -> Option<f64> {
        let held = self.comparisons.iter().filter(|c| c.metric == metric && !c.fitted);
        let mut errors: Vec<f64> = held.map(|c| c.relative_error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    }
}

/// Why a set could not be judged.
#[derive(Debug)]
pub struct AccuracyError(String);

impl fmt::Display for AccuracyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AccuracyError {}

macro_rules! from_display {
    ($($error:ty),*) => {$(
        impl From<$error> for AccuracyError {
            fn from(error: $error) -> Self {
                AccuracyError(error.to_string())
            }
        }
    )*};
}
from_display!(Faults, PriorError, PosteriorError, RunError, TimeError, std::num::ParseFloatError);

/// The sets, in the order of the document.
pub const SETS: [(&str, Judge); 7] = [
    ("do-h200-llama70b-fp8/sharegpt", do_h200::sharegpt),
    ("do-h200-llama70b-fp8/multiturn-baseline", do_h200::multiturn),
    ("h100_dense_points.csv, Llama-3.1-70B FP8 TP2", h100_points::tp2),
    ("h100_dense_points.csv, Llama-3.1-70B FP8 TP4 from TP2", h100_points::tp4),
    ("kubecon-h100-llama8b", kubecon::judge),
    ("rtxpro6000-llama8b", rtxpro::judge),
    ("a100-llama70b-tp8", a100::judge),
];

/// Judges one set of the data in a folder.
pub type Judge = fn(&Path) -> Result<Set, AccuracyError>;

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

fn noise_of(metric: Metric) -> Option<f64> {
    NOISE.iter().find(|(known, _)| *known == metric).map(|(_, noise)| *noise)
}

fn goal(metric: Metric, median: f64) -> Goal {
    Goal { metric, median, noise: noise_of(metric) }
}

/// Every number of a point that this project has too, with its noise.
fn observations(point: &OperatingPoint) -> Vec<Observation> {
    let value = |metric| match metric {
        Metric::Ttft(Statistic::Mean) => point.ttft_ms.mean_ms,
        Metric::Tpot(Statistic::Mean) => point.tpot_ms.mean_ms,
        Metric::E2e(Statistic::Mean) => point.e2e_ms.mean_ms,
        Metric::Ttft(Statistic::Percentile(percent)) => point.ttft_ms.at_ms(percent),
        Metric::Tpot(Statistic::Percentile(percent)) => point.tpot_ms.at_ms(percent),
        Metric::E2e(Statistic::Percentile(percent)) => point.e2e_ms.at_ms(percent),
        Metric::OutputThroughput => point.output_throughput_tps,
    };
    let known = |&(metric, relative_sd): &(Metric, f64)| {
        Some(Observation { metric, value: value(metric).filter(|v| *v > 0.0)?, relative_sd })
    };
    NOISE.iter().filter_map(known).collect()
}

/// A set's points: which of them were fitted on, and all.
struct Points {
    fitted: Vec<Measured>,
    held_out: Vec<Measured>,
}

impl Points {
    /// Fits the prior to the points for that, and simulates all of them with what comes out.
    fn judge(&self, prior: &Profile) -> Result<(Posterior, Vec<Comparison>), AccuracyError> {
        let posterior = fit(prior, &self.fitted)?;
        let comparisons = self.compare(&posterior.profile)?;
        Ok((posterior, comparisons))
    }

    fn compare(&self, profile: &Profile) -> Result<Vec<Comparison>, AccuracyError> {
        let all: Vec<(&Measured, bool)> =
            self.fitted.iter().map(|m| (m, true)).chain(self.held_out.iter().map(|m| (m, false))).collect();
        let served: Result<Vec<Vec<Served>>, RunError> =
            all.par_iter().map(|(m, _)| m.trial.serve(profile)).collect();
        let mut comparisons = Vec::new();
        for ((m, fitted), served) in all.iter().zip(served?) {
            for observation in &m.observations {
                let Some(predicted) = Trial::mean(&served, observation.metric) else { continue };
                comparisons.push(Comparison {
                    point: m.trial.label.clone(),
                    metric: observation.metric,
                    measured: observation.value,
                    predicted,
                    fitted: *fitted,
                });
            }
        }
        Ok(comparisons)
    }
}

fn text(path: &Path) -> Result<String, AccuracyError> {
    std::fs::read_to_string(path).map_err(|error| AccuracyError(format!("{}: {error}", path.display())))
}

/// The only run of a result file.
fn run_of(path: &Path) -> Result<Run, AccuracyError> {
    let name = path.display().to_string();
    let mut runs = import(&name, text(path)?.as_bytes(), None)?;
    if runs.len() != 1 {
        return Err(AccuracyError(format!("{name}: found {} runs; expected one", runs.len())));
    }
    Ok(runs.remove(0))
}

/// The files of a folder that end so, by name.
fn files(folder: &Path, end: &str) -> Result<Vec<std::path::PathBuf>, AccuracyError> {
    let failed = |error: std::io::Error| AccuracyError(format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(end) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A prior of the catalogue's model on the catalogue's GPU, with vLLM's usual settings.
fn usual_prior(
    model: &str,
    gpu: &str,
    tp: u32,
    (precision, kv_precision): (Precision, Precision),
) -> Result<PriorSpec, AccuracyError> {
    let missing = |name: &str| AccuracyError(format!("{name}: not in the catalogue"));
    let Found::Entry(architecture) = Architecture::find(model)? else { return Err(missing(model)) };
    let Found::Entry(gpu_entry) = Gpu::find(gpu)? else { return Err(missing(gpu)) };
    let memory = MemorySettings::usual(&gpu_entry, tp, precision, kv_precision);
    Ok(PriorSpec {
        architecture,
        gpu: gpu_entry,
        memory,
        num_blocks: None,
        max_model_len: None,
        async_scheduling: true,
        prefix_caching: true,
        graphs: CudagraphMode::FullAndPiecewise,
    })
}

/// Blocks for so many tokens, and the one that the engine keeps.
fn blocks(tokens: u32, block_size: u32) -> u32 {
    tokens / block_size + 1
}
