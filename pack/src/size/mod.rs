//! A system that is not bought yet: what one replica carries with its uncertainty, the fleet for a peak, and its cost.

mod words;

pub use words::{Table, fleet_table, memory_table, refused_table};

use crate::plan::{Plan, PlanError, PlanInput, plan};
use crate::report::ProfileFacts;
use crate::spread::{Interval, shown_probability, shows};
use serde::Serialize;
use std::cmp::Ordering;

/// A GPU, a tensor parallel degree and a precision, and what became of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// `h100-sxm TP4 bf16`.
    pub name: String,
    /// The GPU.
    pub gpu: String,
    /// GPUs of a replica.
    pub tp: u32,
    /// Precision of the layers' weights.
    pub precision: String,
    /// How the memory of a GPU is divided; null where the model cannot be divided so.
    pub memory: Option<Memory>,
    /// The profile to simulate; null where something forbids to.
    pub profile: Option<ProfileFacts>,
    /// What one replica carries; null where no rate was tested to the end.
    pub capacity: Option<ReplicaCapacity>,
    /// The fleet for the peak; null where no rate passes.
    pub fleet: Option<Fleet>,
    /// What the fleet costs; null without prices.
    pub cost: Option<Cost>,
    /// Why there is no fleet.
    pub reason: Option<String>,
    /// What a reader should know of its runs.
    pub warnings: Vec<String>,
}

/// How the memory of a GPU is divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Whether the longest request fits.
    pub fits: bool,
    /// What the engine takes of the GPU's memory.
    pub taken_bytes: i64,
    /// Of that, weights.
    pub weight_bytes: u64,
    /// Of that, what a step and the libraries need.
    pub working_bytes: i64,
    /// What the engine takes, and what it takes off that: the sum is the KV cache.
    pub lines: Vec<MemoryLine>,
    /// Memory for the KV cache, in bytes; negative if the rest alone does not fit.
    pub kv_bytes: i64,
    /// Bytes of keys and values of a token.
    pub kv_bytes_per_token: u64,
    /// Blocks of it.
    pub num_blocks: u64,
    /// Tokens that they hold.
    pub kv_tokens: u64,
}

/// A line of the arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryLine {
    /// What.
    pub label: String,
    /// The formula with its numbers.
    pub formula: String,
    /// Its value.
    pub bytes: i64,
}

/// What one replica carries, in requests per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplicaCapacity {
    /// With the profile's own parameters: the highest rate found to pass; 0 if none does.
    pub own_rps: f64,
    /// The lowest rate above it found to fail.
    pub failing_rps: Option<f64>,
    /// The gate that fails there.
    pub failing_gate: Option<String>,
    /// With drawn parameters, a seed each.
    pub draws_rps: Vec<f64>,
    /// Draws that were drawn again, because they were faster than the GPU can be.
    pub draws_rejected: u32,
    /// The interval of the draws; null for fewer than two.
    pub interval_rps: Option<Interval>,
    /// The capacity to plan with.
    pub assured: Assured,
}

/// A capacity that is reached with a probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Assured {
    /// The capacity.
    pub rps: f64,
    /// The probability: less than asked for if there are too few draws.
    pub probability: f64,
}

/// The capacity that another draw would reach with at least the probability `confidence`: the highest that enough draws
/// reach to show it ([`shown_probability`]); the lowest, where not even all of them do. None for no draws.
#[must_use]
pub fn assured(draws_rps: &[f64], confidence: f64) -> Option<Assured> {
    let mut sorted = draws_rps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let draws = sorted.len() as u64;
    let sure = |&reaching: &u64| shows(reaching, draws, confidence);
    let reaching = (1..=draws).find(sure).unwrap_or(draws);
    let rps = *sorted.get(sorted.len() - reaching as usize)?;
    Some(Assured { rps, probability: shown_probability(reaching, draws) })
}

/// The fleet for a peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Its arithmetic, from the assured capacity of a replica.
    pub plan: Plan,
    /// GPUs for the upper and the lower end of the interval of a replica's capacity; null without one, or if it begins
    /// at 0.
    pub gpus_interval: Option<(u32, u32)>,
    /// The share of the draws with which the peak is within the capacity of all replicas but one, by division.
    pub one_lost_carried_share: f64,
    /// All replicas at the peak, simulated with the profile's own parameters.
    pub at_peak: Option<AtPeak>,
    /// One replica lost, simulated likewise; null for a fleet of one.
    pub one_lost: Option<AtPeak>,
    /// Why the fleet was not simulated.
    pub not_simulated: Option<String>,
}

/// A fleet that was simulated at the peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtPeak {
    /// Replicas.
    pub replicas: u32,
    /// Whether every gate passes.
    pub pass: bool,
    /// The gate that fails.
    pub failing_gate: Option<String>,
}

impl Fleet {
    /// The fleet for a peak, by division.
    ///
    /// # Errors
    /// Those of [`plan`].
    pub fn new(
        capacity: &ReplicaCapacity,
        gpus_per_replica: u32,
        peak_rps: f64,
        target_utilization: f64,
    ) -> Result<Fleet, PlanError> {
        let of = |capacity_rps| {
            plan(&PlanInput {
                capacity_rps,
                replicas: 1,
                gpus_per_replica,
                peak_rps,
                target_utilization,
                spare: 0,
            })
        };
        let plan = of(capacity.assured.rps)?;
        let gpus = |rps| of(rps).ok().map(|plan| plan.planned_gpus);
        let gpus_interval = capacity.interval_rps.and_then(|i| Some((gpus(i.high)?, gpus(i.low)?)));
        let left = f64::from(plan.planned_replicas - 1);
        let draws = &capacity.draws_rps;
        let carried = draws.iter().filter(|&&rps| rps * left >= peak_rps).count();
        Ok(Fleet {
            plan,
            gpus_interval,
            one_lost_carried_share: carried as f64 / draws.len().max(1) as f64,
            at_peak: None,
            one_lost: None,
            not_simulated: None,
        })
    }

    /// Whether the peak is within the assured capacity of what one lost replica leaves.
    #[must_use]
    pub fn carries_with_one_lost(&self) -> bool {
        self.plan.one_lost.is_some_and(|left| left.within_capacity)
    }
}

/// What a fleet costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// As the price file calls it.
    pub currency: String,
    /// Of the whole fleet.
    pub per_hour: f64,
    /// The same while the fleet serves its peak, by the output tokens of that hour.
    pub per_million_output_tokens: f64,
}

impl Cost {
    /// Of `gpus` GPUs that serve `peak_rps` requests per second of `output_tokens` each, on average.
    #[must_use]
    pub fn new(currency: &str, per_gpu_hour: f64, gpus: u32, peak_rps: f64, output_tokens: f64) -> Cost {
        let per_hour = per_gpu_hour * f64::from(gpus);
        let millions_per_hour = 3600.0 * peak_rps * output_tokens / 1e6;
        Cost {
            currency: currency.to_owned(),
            per_hour,
            per_million_output_tokens: per_hour / millions_per_hour,
        }
    }
}

/// Sorts candidates: the cheapest fleet first, without prices the one with the fewest GPUs; those without a fleet last,
/// in the order asked for.
pub fn rank(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| match (&a.fleet, &b.fleet) {
        (Some(x), Some(y)) => {
            let cost = |c: &Candidate| c.cost.as_ref().map_or(0.0, |cost| cost.per_hour);
            let fleet = |f: &Fleet| (f.plan.planned_gpus, f.plan.planned_replicas);
            cost(a).total_cmp(&cost(b)).then_with(|| fleet(x).cmp(&fleet(y)))
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values that binary fractions hold exactly")]
pub(crate) mod tests {
    use super::*;

    fn capacity(draws_rps: &[f64], confidence: f64) -> ReplicaCapacity {
        ReplicaCapacity {
            own_rps: draws_rps[0],
            failing_rps: None,
            failing_gate: Some("attainment:chat".into()),
            draws_rps: draws_rps.to_vec(),
            draws_rejected: 0,
            interval_rps: None,
            assured: assured(draws_rps, confidence).unwrap(),
        }
    }

    /// A candidate whose replica has these draws, for a peak of 36 at three quarters.
    pub(crate) fn candidate(gpu: &str, tp: u32, draws_rps: &[f64], price: Option<f64>) -> Candidate {
        let capacity = capacity(draws_rps, 0.9);
        let fleet = Fleet::new(&capacity, tp, 36.0, 0.75).ok();
        let cost = fleet.as_ref().zip(price);
        Candidate {
            name: format!("{gpu} TP{tp} bf16"),
            gpu: gpu.into(),
            tp,
            precision: "bf16".into(),
            memory: None,
            profile: None,
            cost: cost.map(|(fleet, price)| Cost::new("USD", price, fleet.plan.planned_gpus, 36.0, 250.0)),
            reason: fleet.is_none().then(|| "no rate <passes>".to_owned()),
            fleet,
            capacity: Some(capacity),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_assured_capacity_is_the_draw_that_enough_others_reach() {
        let draws: Vec<f64> = (1..=19).rev().map(f64::from).collect();
        for (confidence, rps, probability) in
            [(0.9, 2.0, 0.9), (0.5, 10.0, 0.5), (0.95, 1.0, 0.95), (0.99, 1.0, 0.95)]
        {
            assert_eq!(assured(&draws, confidence), Some(Assured { rps, probability }), "{confidence}");
        }
        assert_eq!(assured(&draws[..9], 0.9), Some(Assured { rps: 11.0, probability: 0.9 }));
        assert_eq!(assured(&[3.0], 0.01), Some(Assured { rps: 3.0, probability: 0.5 }));
        assert_eq!(assured(&[], 0.9), None);
    }

    #[test]
    fn a_fleet_by_hand() {
        // 6 a replica at three quarters: 8 replicas for 36; 7 of them still carry 42.
        let draws = [6.0, 6.0, 6.0, 6.0, 6.0, 5.0, 7.0, 8.0, 9.0];
        let fleet = Fleet::new(&capacity(&draws, 0.5), 2, 36.0, 0.75).unwrap();
        assert_eq!((fleet.plan.planned_replicas, fleet.plan.planned_gpus), (8, 16));
        assert!(fleet.carries_with_one_lost());
        assert!((fleet.one_lost_carried_share - 8.0 / 9.0).abs() < 1e-12, "5 x 7 is less than 36");
        let alone = Fleet::new(&capacity(&[100.0, 90.0], 0.9), 8, 36.0, 0.75).unwrap();
        assert!(!alone.carries_with_one_lost() && alone.one_lost_carried_share == 0.0);
        assert!(Fleet::new(&capacity(&[0.0, 90.0], 0.9), 8, 36.0, 0.75).is_err());
    }

    #[test]
    fn a_cost_by_hand() {
        // 16 GPUs at 2.5 are 40 an hour; 36 x 250 x 3600 are 32.4 million tokens.
        let cost = Cost::new("USD", 2.5, 16, 36.0, 250.0);
        assert_eq!(cost.per_hour, 40.0);
        assert!((cost.per_million_output_tokens - 40.0 / 32.4).abs() < 1e-12);
    }

    #[test]
    fn the_cheapest_comes_first_and_what_has_no_fleet_last() {
        let names = |price: [Option<f64>; 3]| {
            let mut all = [
                candidate("none", 2, &[0.0, 0.0], price[0]),
                candidate("small", 2, &[6.0, 6.0], price[1]),
                candidate("large", 8, &[40.0, 40.0], price[2]),
            ];
            rank(&mut all);
            all.map(|candidate| candidate.gpu)
        };
        // 8 replicas of 2 GPUs against 2 of 8: as many GPUs, fewer replicas.
        assert_eq!(names([None; 3]), ["large", "small", "none"]);
        assert_eq!(names([Some(1.0), Some(2.0), Some(3.0)]), ["small", "large", "none"]);
    }
}
