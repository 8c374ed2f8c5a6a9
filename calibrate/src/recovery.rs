//! How well a calibration recovers a simulated engine whose profile it cannot see: loads that it has not seen, served by
//! the engine and by the calibrated profile.

mod fresh;

pub use fresh::fresh_engines;

use crate::hardware::architecture::Architecture;
use crate::hardware::gpu::Gpu;
use crate::hardware::memory::MemorySettings;
use crate::hardware::{Found, Precision};
use crate::loads::{Builder, gamma_gaps, stretched_arrivals};
use crate::physics::{PriorSpec, prior};
use crate::simulated::{Quirks, SimulatedEngine};
use rand::RngExt;
use scaleproof_pack::chance::stream;
use scaleproof_pack::experiment::{Experiment, ExperimentError, Observer};
use scaleproof_pack::percentile::rank;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::{RATE_MAX_RPS, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_sim::FrontEndProcess;
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;

/// A load that was held out.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The load.
    pub load: String,
    /// Which number.
    pub metric: &'static str,
    /// As the hidden engine served it.
    pub measured: f64,
    /// As the calibrated profile does.
    pub predicted: f64,
    /// The goal, as a share.
    pub goal: f64,
}

impl Compared {
    /// Predicted over measured, less 1.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    /// Whether the goal is met.
    #[must_use]
    pub fn met(&self) -> bool {
        self.relative_error().abs() <= self.goal
    }
}

/// Requests of a held-out load.
const REQUESTS: usize = 800;
/// Rates offered, as shares of the hidden engine's capacity.
const RATES: [f64; 3] = [0.35, 0.65, 0.9];
/// Attainment at capacity.
const ATTAINMENT: f64 = 0.95;

/// A class of the mix: share, prompt tokens, output tokens; lengths spread by a half to either side.
type Class = (f64, u32, u32);

/// Serves held-out loads by both and compares: three rates of a mix of two classes, and the capacity. `truth` and `quirks`
/// are the hidden engine's, `spent_s` what its sweep took.
///
/// # Errors
/// A run that could not be made.
pub fn compare(
    truth: &Profile,
    quirks: Quirks,
    spent_s: f64,
    fitted: &Profile,
) -> Result<Vec<Compared>, ExperimentError> {
    let scheduler = &truth.scheduler;
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let longest = u64::from(scheduler.max_model_len).min(pool / 4) as u32;
    let mix: [Class; 2] = [
        (0.75, 420.min(longest / 4), 70.min(longest / 8)),
        (0.25, 2600.min(longest / 2), 130.min(longest / 8)),
    ];
    // The profile is that of the pace that the engine had in the middle of its sweep: what it drifts to is another engine.
    let hidden = Quirks {
        seed: quirks.seed.wrapping_add(1000),
        steps: quirks.steps + quirks.drift_per_hour * spent_s / 7200.0,
        drift_per_hour: 0.0,
        ..quirks
    };
    let mut engines = [
        SimulatedEngine::alone(truth.clone(), hidden),
        SimulatedEngine::alone(fitted.clone(), Quirks::default()),
    ];
    let cutoffs = idle(&mut engines[0], &mix)?;
    let capacities = [capacity(&mut engines[0], &mix, cutoffs)?, capacity(&mut engines[1], &mix, cutoffs)?];
    let mut rows = Vec::new();
    for share in RATES {
        let rps = share * capacities[0];
        let schedule = schedule(&mix, rps, 7)?;
        let [measured, predicted] = [serve(&mut engines[0], &schedule)?, serve(&mut engines[1], &schedule)?];
        for (metric, goal, of) in METRICS {
            let row = |measured, predicted| Compared {
                load: format!("{rps:.2} requests/s"),
                metric,
                measured,
                predicted,
                goal,
            };
            rows.extend(of(&measured).zip(of(&predicted)).map(|(m, p)| row(m, p)));
        }
    }
    rows.push(Compared {
        load: "the mix".to_owned(),
        metric: "capacity requests/s",
        measured: capacities[0],
        predicted: capacities[1],
        goal: 0.03,
    });
    Ok(rows)
}

type Number = fn(&Latencies) -> Option<f64>;

const METRICS: [(&str, f64, Number); 4] = [
    ("TPOT p50 ms", 0.02, |l| percentile(&l.tpot_ms, 50)),
    ("TTFT p50 ms", 0.03, |l| percentile(&l.ttft_ms, 50)),
    ("TPOT p95 ms", 0.08, |l| percentile(&l.tpot_ms, 95)),
    ("TTFT p95 ms", 0.08, |l| percentile(&l.ttft_ms, 95)),
];

fn percentile(sorted: &[f64], percent: u32) -> Option<f64> {
    sorted.get(rank(sorted.len(), percent) - 1).copied()
}

/// Both latencies of each request that ended well; sorted apart when it is over.
#[derive(Default)]
struct Latencies {
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    pairs: Vec<(f64, f64)>,
}

impl Observer for Latencies {
    fn record(&mut self, record: &Record) {
        if let (Outcome::Ok, Some(ttft), Some(tpot_ms)) = (record.outcome, record.ttft(), record.tpot_ms()) {
            self.pairs.push((ttft.millis(), tpot_ms));
        }
    }
}

fn serve(engine: &mut SimulatedEngine, schedule: &Schedule) -> Result<Latencies, ExperimentError> {
    let mut latencies = Latencies::default();
    engine.run(schedule, Enough { successes: 0, max_requests: 0 }, &mut latencies)?;
    let sorted = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = latencies.pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    (latencies.ttft_ms, latencies.tpot_ms) = (sorted(|pair| pair.0), sorted(|pair| pair.1));
    Ok(latencies)
}

fn schedule(mix: &[Class], rps: f64, draw: u64) -> Result<Schedule, ExperimentError> {
    let failed = |error: &dyn std::fmt::Display| ExperimentError(format!("a held-out load: {error}"));
    let gaps = gamma_gaps(REQUESTS, 1.0, draw).map_err(|error| failed(&error))?;
    let mut chance = stream(draw, 0, "held-out lengths");
    let mut list = Builder::default();
    for at_s in stretched_arrivals(&gaps, rps) {
        let mut left: f64 = chance.random();
        let class = mix.iter().find(|class| {
            left -= class.0;
            left < 0.0
        });
        let &(_, input, output) = class.unwrap_or(&mix[0]);
        let mut spread = |tokens: u32| (f64::from(tokens) * (0.5 + chance.random::<f64>())).max(2.0) as u32;
        list.add(Some(at_s), (spread(input), spread(output)), &[]).map_err(|error| failed(&error))?;
    }
    Ok(list.open(RATE_MAX_RPS))
}

/// Cutoffs: four times the idle engine's 95th percentile of TTFT, twice its median of TPOT.
fn idle(engine: &mut SimulatedEngine, mix: &[Class]) -> Result<(f64, f64), ExperimentError> {
    let mut list = Builder::default();
    for (_, input, output) in mix {
        let _: Result<(), _> = list.add(None, (*input, *output), &[]);
    }
    let alone = serve(engine, &list.closed(1))?;
    let ttft = alone.ttft_ms.last().copied().unwrap_or(f64::INFINITY);
    Ok((4.0 * ttft, 2.0 * percentile(&alone.tpot_ms, 50).unwrap_or(f64::INFINITY)))
}

/// The highest rate at which enough requests are inside both cutoffs, by bisection on one schedule, compressed.
fn capacity(
    engine: &mut SimulatedEngine,
    mix: &[Class],
    cutoffs: (f64, f64),
) -> Result<f64, ExperimentError> {
    let mut passes = |rps: f64| {
        let served = serve(engine, &schedule(mix, rps, 11)?)?;
        let inside = served.pairs.iter().filter(|(ttft, tpot)| *ttft <= cutoffs.0 && *tpot <= cutoffs.1);
        Ok::<_, ExperimentError>(inside.count() as f64 >= ATTAINMENT * REQUESTS as f64)
    };
    let mut low = 1e-2;
    while low < 1e6 && passes(2.0 * low)? {
        low *= 2.0;
    }
    let mut high = 2.0 * low;
    while high / low > 1.005 {
        let middle = (low * high).sqrt();
        if passes(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// An engine to be found.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// Its name.
    pub name: String,
    /// What it does.
    pub profile: Profile,
    /// How its steps vary.
    pub quirks: Quirks,
    /// Whether it says nothing of its memory.
    pub silent: bool,
}

/// Seven engines of very different scale: the worked example's fixture, priors of large and small GPUs, with graphs and
/// without, with few blocks, one that varies by 4 % a step, and one whose API server has the core of the steps.
///
/// # Errors
/// A model or GPU that the catalogue has not, or that does not fit.
pub fn hidden_engines(fixture: &Profile) -> Result<Vec<Hidden>, String> {
    let quiet = |seed| Quirks { step_sd: 0.005, seed, ..Quirks::default() };
    let of = |name: &str, profile, quirks, silent| Hidden { name: name.to_owned(), profile, quirks, silent };
    let mut eager = catalogue("rtx-4090", "llama-3.1-8b", (1, Precision::Fp8), CudagraphMode::None)?;
    eager.scheduler.async_scheduling = false;
    let mut few = catalogue("l40s", "llama-3.1-8b", (1, Precision::Bf16), CudagraphMode::None)?;
    few.scheduler.num_blocks = 1200;
    few.scheduler.max_num_seqs = 64;
    few.scheduler.max_model_len = 8192;
    let mut shared = fixture.clone();
    shared.front_end.process = FrontEndProcess::Shared;
    (shared.front_end.request, shared.front_end.busy) = (Nanos(6_000_000), Nanos(3_000_000));
    shared.scheduler.async_scheduling = false;
    let noisy = Quirks { step_sd: 0.04, hiccups: 0.002, drift_per_hour: 0.1, seed: 6, ..Quirks::default() };
    Ok(vec![
        of("fixture", fixture.clone(), quiet(1), false),
        of(
            "h100-tp2-70b-graphs",
            catalogue("h100-sxm", "llama-3.1-70b", (2, Precision::Fp8), CudagraphMode::FullAndPiecewise)?,
            quiet(2),
            false,
        ),
        of("rtx-4090-8b-eager", eager, quiet(3), true),
        of("l40s-8b-few-blocks", few, quiet(4), true),
        of(
            "h200-32b-graphs",
            catalogue("h200", "qwen3-32b", (1, Precision::Bf16), CudagraphMode::FullAndPiecewise)?,
            quiet(5),
            false,
        ),
        of("fixture-noisy", fixture.clone(), noisy, false),
        of("fixture-shared-core", shared, quiet(7), false),
    ])
}

fn catalogue(
    gpu: &str,
    model: &str,
    (tp, precision): (u32, Precision),
    graphs: CudagraphMode,
) -> Result<Profile, String> {
    let unknown = |name: &str| format!("{name}: found none in the catalogue");
    let (Ok(Found::Entry(architecture)), Ok(Found::Entry(gpu))) = (Architecture::find(model), Gpu::find(gpu))
    else {
        return Err(unknown(model) + " or " + &unknown(gpu));
    };
    let spec = PriorSpec {
        memory: MemorySettings::usual(&gpu, tp, precision, Precision::Bf16),
        architecture,
        gpu,
        num_blocks: None,
        max_model_len: Some(32_768),
        async_scheduling: true,
        prefix_caching: true,
        graphs,
    };
    prior(&spec).map(|(profile, _)| profile).map_err(|error| format!("{model}: {error}"))
}
