//! What a replica can carry by averages alone: a guess for a search to begin from, and what no GPU can do.
//!
//! At a rate r the engine is in a steady state in which steps of T seconds carry r T new prompts and r T O decode rows
//! (O: mean output tokens), and T is what such a step costs:
//!
//! ```text
//! T = step(r T I prompt tokens, r T O rows over their mean contexts)
//! ```
//! The guess is the highest rate at which this has a solution that keeps the TPOT cutoff, the seats, the step's token
//! budget and the KV cache. It knows nothing of bursts or of long prompts beside short ones: a simulation decides.

use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::schedule::Schedule;
use scaleproof_sim::hardware::Hardware;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::step_time::BatchShape;

/// Rates between which the guess lies, in requests per second.
const RATES_RPS: (f64, f64) = (1e-4, 1e5);
/// Halvings of that range, by ratio: to within a thousandth.
const HALVINGS: u32 = 34;
/// Rounds until a step's length counts as without a solution.
const ROUNDS: u32 = 200;

/// What a schedule asks of an engine: means over its measured requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Prompt tokens.
    pub input_tokens: f64,
    /// Squares of the prompt tokens.
    pub input_squares: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Output tokens times the mean context under them.
    pub decode_context: f64,
    /// TPOT cutoff, in milliseconds.
    pub tpot_cutoff_ms: f64,
}

impl Traffic {
    /// That of a schedule of a manifest; None for a schedule without requests.
    #[must_use]
    pub fn of(manifest: &Manifest, schedule: &Schedule) -> Option<Traffic> {
        let requests = &schedule.measured.requests;
        let count = requests.len() as f64;
        let mean = |value: &dyn Fn(f64, f64) -> f64| {
            let each = requests.iter().map(|r| value(f64::from(r.input_tokens), f64::from(r.output_tokens)));
            each.sum::<f64>() / count
        };
        let cutoff = |class: u16| manifest.classes[usize::from(class)].request_tpot_cutoff_ms;
        (!requests.is_empty()).then(|| Traffic {
            input_tokens: mean(&|input, _| input),
            input_squares: mean(&|input, _| input * input),
            output_tokens: mean(&|_, output| output),
            decode_context: mean(&|input, output| output * (input + output / 2.0)),
            tpot_cutoff_ms: requests.iter().map(|r| cutoff(r.class)).sum::<f64>() / count,
        })
    }

    /// The mean step of `step_s` seconds at a rate.
    fn step(&self, rps: f64, step_s: f64) -> BatchShape {
        let arriving = rps * step_s;
        let rows = (arriving * self.output_tokens).max(1.0);
        BatchShape {
            tokens: (rows + arriving * self.input_tokens) as u64,
            rows: (rows + arriving) as u32,
            sampled: (rows + arriving) as u32,
            decode_context: (arriving * self.decode_context) as u64,
            prefill_pairs: (arriving * self.input_squares) as u64,
            ..BatchShape::default()
        }
    }

    /// Whether a replica settles at a rate within its limits and the cutoff.
    fn settles(&self, profile: &Profile, rps: f64) -> bool {
        let engine = &profile.scheduler;
        let pool = f64::from(engine.usable_blocks()) * f64::from(engine.block_size);
        let cutoff_s = self.tpot_cutoff_ms / 1e3;
        let mut step_s = 0.0;
        for _ in 0..ROUNDS {
            let shape = self.step(rps, step_s);
            let context = shape.decode_context as f64;
            let room = shape.rows <= engine.max_num_seqs
                && shape.tokens <= u64::from(engine.max_num_batched_tokens)
                && context <= pool;
            let Ok(duration) = profile.step_time.duration(&shape, engine.async_scheduling) else {
                return false;
            };
            let next_s = duration.seconds();
            if !room || next_s > cutoff_s {
                return false;
            }
            if (next_s - step_s).abs() <= 1e-4 * next_s {
                return true;
            }
            step_s = next_s;
        }
        false
    }

    /// The highest rate at which a replica settles, in requests per second; None if it does at none.
    #[must_use]
    pub fn rate_rps(&self, profile: &Profile) -> Option<f64> {
        let (mut low, mut high) = RATES_RPS;
        if !self.settles(profile, low) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            if self.settles(profile, middle) { low = middle } else { high = middle }
        }
        Some(low)
    }
}

/// A cutoff that the hardware alone forbids for more requests than the gate forgives.
#[derive(Clone, Debug, PartialEq)]
pub struct Forbidden {
    /// The class.
    pub class: String,
    /// `TTFT` or `TPOT`.
    pub metric: &'static str,
    /// The cutoff, in milliseconds.
    pub cutoff_ms: f64,
    /// The least the median request of the class takes on an idle GPU, in milliseconds.
    pub median_least_ms: f64,
    /// What sets that bound.
    pub by: &'static str,
    /// The share of the class's requests beyond the cutoff.
    pub share: f64,
}

/// The first class that no engine on this hardware can serve within its gate: more of its requests than the gate
/// forgives are beyond a cutoff even alone, at the speed of memory and arithmetic. `whole_prompts`: every prompt must
/// be computed whole, since none shares a beginning with another; without it TTFT is not looked at.
#[must_use]
pub fn forbidden(
    hardware: &Hardware,
    manifest: &Manifest,
    schedule: &Schedule,
    whole_prompts: bool,
) -> Option<Forbidden> {
    let forgiven = 1.0 - manifest.acceptance.class_slo_attainment_min;
    let prompt = |tokens: u64| {
        let pairs = tokens.saturating_mul(tokens);
        hardware.bound_us(&BatchShape { tokens, rows: 1, prefill_pairs: pairs, ..Default::default() })
    };
    let token = |context: u64| {
        let shape = BatchShape { tokens: 1, rows: 1, decode_context: context, ..Default::default() };
        hardware.bound_us(&shape)
    };
    for (index, class) in manifest.classes.iter().enumerate() {
        let own = || schedule.measured.requests.iter().filter(|r| usize::from(r.class) == index);
        let ttfts: Vec<_> = own().map(|r| prompt(u64::from(r.input_tokens))).collect();
        let tpots: Vec<_> =
            own().filter(|r| r.output_tokens > 1).map(|r| token(u64::from(r.input_tokens))).collect();
        let count = ttfts.len();
        let looked_at = [
            ("TTFT", class.request_ttft_cutoff_ms, if whole_prompts { ttfts } else { Vec::new() }),
            ("TPOT", class.request_tpot_cutoff_ms, tpots),
        ];
        for (metric, cutoff_ms, mut bounds) in looked_at {
            let beyond = bounds.iter().filter(|(us, _)| us / 1e3 > cutoff_ms).count();
            let share = beyond as f64 / count.max(1) as f64;
            if share > forgiven + 1e-9 {
                bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (us, by) = bounds[bounds.len() / 2];
                let class = class.name.clone();
                return Some(Forbidden { class, metric, cutoff_ms, median_least_ms: us / 1e3, by, share });
            }
        }
    }
    None
}

impl std::fmt::Display for Forbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "class {}: {} cutoff {} ms, but alone on the GPU its median request takes at least {:.0} ms by {}; \
             {:.0} % of its requests are beyond the cutoff",
            self.class,
            self.metric,
            self.cutoff_ms,
            self.median_least_ms,
            self.by,
            100.0 * self.share
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::architecture::Architecture;
    use crate::hardware::gpu::Gpu;
    use crate::hardware::memory::MemorySettings;
    use crate::hardware::{Found, Precision};
    use crate::physics::{PriorSpec, prior};
    use scaleproof_pack::schedule::Load;
    use scaleproof_sim::engine::cudagraph::CudagraphMode;

    fn worked() -> (Manifest, Schedule) {
        let text = include_str!("../../scenarios/tp2-dp4/workload-manifest.yaml");
        let manifest = Manifest::parse("workload-manifest.yaml", text).unwrap();
        let schedule = Schedule::generate(&manifest, Load::Open { rps: 36.0 }, 0, None, false).unwrap();
        (manifest, schedule)
    }

    fn profile(gpu: &str, tp: u32) -> Profile {
        let Found::Entry(gpu) = Gpu::find(gpu).unwrap() else { panic!("an entry") };
        let Found::Entry(architecture) = Architecture::find("llama-3.1-70b").unwrap() else {
            panic!("an entry")
        };
        let memory = MemorySettings::usual(&gpu, tp, Precision::Bf16, Precision::Bf16);
        let spec = PriorSpec {
            architecture,
            gpu,
            memory,
            num_blocks: None,
            max_model_len: None,
            async_scheduling: true,
            prefix_caching: true,
            graphs: CudagraphMode::default(),
        };
        prior(&spec).unwrap().0
    }

    #[test]
    fn the_means_are_those_of_the_worked_example() {
        let (manifest, schedule) = worked();
        let traffic = Traffic::of(&manifest, &schedule).unwrap();
        assert!((traffic.input_tokens - 2406.4).abs() < 1.0, "{traffic:?}");
        assert!((traffic.output_tokens - 243.2).abs() < 0.5, "{traffic:?}");
        assert!((traffic.tpot_cutoff_ms - 42.5).abs() < 0.1, "{traffic:?}");
    }

    #[test]
    fn more_hardware_settles_at_more_and_a_tight_cutoff_at_none() {
        let (manifest, schedule) = worked();
        let traffic = Traffic::of(&manifest, &schedule).unwrap();
        let rate = |gpu, tp| traffic.rate_rps(&profile(gpu, tp)).unwrap();
        let rates = [rate("h100", 4), rate("h100", 8), rate("b200", 8)];
        assert!(rates.is_sorted_by(|a, b| 1.1 * a < *b), "{rates:?}");
        // Arithmetic alone: 2 x 70e9 operations a token.
        let most = 8.0 * 990e12 / (2.0 * 68e9 * (traffic.input_tokens + traffic.output_tokens));
        assert!(rates[1] < most && rates[1] > 0.2 * most, "{rates:?} of {most}");
        let tight = Traffic { tpot_cutoff_ms: 1.0, ..traffic };
        assert_eq!(tight.rate_rps(&profile("h100", 8)), None);
    }

    #[test]
    fn a_cutoff_below_the_bound_is_forbidden_for_a_whole_class_only() {
        let (mut manifest, schedule) = worked();
        let hardware = profile("h100", 2).step_time.hardware.unwrap();
        let found = |manifest: &Manifest, whole| forbidden(&hardware, manifest, &schedule, whole);
        assert_eq!(found(&manifest, true), None);
        // 8,192 tokens x 2 x 68.5e9 operations over two GPUs of 989e12 are some 570 ms.
        manifest.classes[1].request_ttft_cutoff_ms = 500.0;
        let prompt = found(&manifest, true).unwrap();
        assert_eq!(
            (prompt.class.as_str(), prompt.metric, prompt.by),
            ("long_context", "TTFT", "peak arithmetic")
        );
        assert!((560.0..620.0).contains(&prompt.median_least_ms), "{prompt}");
        assert_eq!(found(&manifest, false), None, "a prompt found in the cache is not computed");
        // 137 GB of weights over two GPUs of 3.35e12 bytes/s are some 20 ms.
        manifest.classes[2].request_tpot_cutoff_ms = 18.0;
        assert_eq!(found(&manifest, false).unwrap().by, "memory bandwidth");
        manifest.acceptance.class_slo_attainment_min = 0.0;
        assert_eq!(found(&manifest, true), None, "a gate that forgives all");
    }
}
