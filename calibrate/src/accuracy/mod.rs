//! How true the model is: measured sets of served engines, each calibrated on some of its points and judged on others.
//!
//! No parameter is fitted to data that it is judged on; what each set was fitted on, and what is not known of its load,
//! is in its report.

mod a100;
mod do_h200;
mod h100_points;
mod kubecon;
mod layer_tables;
mod markdown;
mod rtxpro;
mod splitwise;

pub use markdown::{document, summary};

use crate::hardware::architecture::Architecture;
use crate::hardware::gpu::Gpu;
use crate::hardware::memory::MemorySettings;
use crate::hardware::{Found, Precision};
use crate::loads;
use crate::physics::{PriorError, PriorSpec};
use crate::points::{noise_of, observations};
use crate::posterior::{Measured, Posterior, PosteriorError, fit};
use crate::trial::{Metric, Served, Trial};
use rayon::prelude::*;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::import::{OfferedRate, OperatingPoint, Run, import};
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
    /// As a share; None for what is only shown.
    pub median: Option<f64>,
    /// What a repeat of the measured run differs by, as a share, where it is known.
    pub noise: Option<f64>,
}

impl Set {
    /// Median of the absolute relative errors of a metric over held-out points; None without any.
    #[must_use]
    pub fn held_out_median(&self, metric: Metric) -> Option<f64> {
        median_error(self.comparisons.iter().filter(|c| !c.fitted), metric)
    }

    /// Whether every goal is reached.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.goals.iter().all(|goal| {
            let found = self.held_out_median(goal.metric);
            goal.median.is_none_or(|median| found.is_some_and(|found| found <= median))
        })
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

/// A set that can be judged.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Where its measurements are in the folder of the data.
    path: &'static str,
    /// Judges it on the data in a folder.
    pub judge: fn(&Path) -> Result<Set, AccuracyError>,
}

/// The sets, in the order of the document.
pub const SETS: [Entry; 8] = [
    Entry {
        name: "do-h200-llama70b-fp8/sharegpt",
        path: "measured/do-h200-llama70b-fp8/sharegpt",
        judge: do_h200::sharegpt,
    },
    Entry {
        name: "do-h200-llama70b-fp8/multiturn-baseline",
        path: "measured/do-h200-llama70b-fp8/multiturn-baseline",
        judge: do_h200::multiturn,
    },
    Entry { name: h100_points::TP2, path: "measured/h100_dense_points.csv", judge: h100_points::tp2 },
    Entry { name: h100_points::TP4, path: "measured/h100_dense_points.csv", judge: h100_points::tp4 },
    Entry { name: "kubecon-h100-llama8b", path: "measured/kubecon-h100-llama8b", judge: kubecon::judge },
    Entry { name: "rtxpro6000-llama8b", path: "measured/rtxpro6000-llama8b", judge: rtxpro::judge },
    Entry { name: "a100-llama70b-tp8", path: "measured/a100-llama70b-tp8", judge: a100::judge },
    Entry {
        name: "splitwise-sim, Llama-2-70B",
        path: "profiles/splitwise-sim/perf_model.csv",
        judge: splitwise::judge,
    },
];

/// Whether a set's measurements are in the folder.
#[must_use]
pub fn is_there(entry: &Entry, data: &Path) -> bool {
    data.join(entry.path).exists()
}

fn goal(metric: Metric, median: f64) -> Goal {
    Goal { metric, median: Some(median), noise: noise_of(metric) }
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
        let fitted = self.fitted.iter().map(|m| (m, true));
        let all: Vec<(&Measured, bool)> = fitted.chain(self.held_out.iter().map(|m| (m, false))).collect();
        Ok(compare(profile, &all)?)
    }
}

/// What a profile makes of points, beside what was measured there; `true` with those that it was fitted on.
///
/// # Errors
/// A run that cannot end, or a step below its bound.
pub fn compare(profile: &Profile, points: &[(&Measured, bool)]) -> Result<Vec<Comparison>, RunError> {
    let served: Result<Vec<Vec<Served>>, RunError> =
        points.par_iter().map(|(m, _)| m.trial.serve(profile)).collect();
    let mut comparisons = Vec::new();
    for ((m, fitted), served) in points.iter().zip(served?) {
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

/// Median of the absolute relative errors of a metric; None without any.
#[must_use]
pub fn median_error<'a>(
    comparisons: impl IntoIterator<Item = &'a Comparison>,
    metric: Metric,
) -> Option<f64> {
    let of_metric = comparisons.into_iter().filter(|c| c.metric == metric);
    let mut errors: Vec<f64> = of_metric.map(|c| c.relative_error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied()
}

fn text(path: &Path) -> Result<String, AccuracyError> {
    std::fs::read_to_string(path).map_err(|error| AccuracyError(format!("{}: {error}", path.display())))
}

/// The rate at which the prompts of an earlier, uncounted round arrive: it only fills the cache.
const EARLIER_RPS: f64 = 1.0;

/// A point's offered rate, in requests per second.
fn rate(point: &OperatingPoint) -> f64 {
    match point.offered_rate {
        Some(OfferedRate::Rps(rps)) => rps,
        _ => f64::INFINITY,
    }
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
