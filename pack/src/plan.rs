//! From a capacity to replicas and GPUs, by division. Whether capacity divides like that is a hypothesis; the
//! simulation of the planned fleet tests it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A quotient this close to a whole number, relatively, is that number: 36/(6 x 0.75) must be 8 replicas however
/// the floats were rounded, and a millionth of a millionth of a replica is no reason to buy one.
const WHOLE: f64 = 1e-9;

/// What a plan starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanInput {
    /// Capacity of the measured topology, in requests per second.
    pub capacity_rps: f64,
    /// Replicas of the measured topology.
    pub replicas: u32,
    /// GPUs of a replica: TP x PP.
    pub gpus_per_replica: u32,
    /// The peak to carry, in requests per second.
    pub peak_rps: f64,
    /// Share of its capacity at which the fleet may run at the peak.
    pub target_utilization: f64,
    /// Replicas that may be lost with the rest still at the target.
    pub spare: u32,
}

/// The arithmetic of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The peak to carry.
    pub peak_rps: f64,
    /// Capacity of the measured topology.
    pub capacity_rps: f64,
    /// capacity / replicas of the measured topology.
    pub capacity_per_replica_rps: f64,
    /// Share of capacity planned for.
    pub target_utilization: f64,
    /// ceil(peak / (capacity per replica x target utilization)).
    pub required_replicas: u32,
    /// Their GPUs.
    pub required_gpus: u32,
    /// Replicas on top, against losses.
    pub spare_replicas: u32,
    /// Required and spare.
    pub planned_replicas: u32,
    /// Their GPUs.
    pub planned_gpus: u32,
    /// All planned replicas at work.
    pub full: FleetAtPeak,
    /// One of them lost; null for a fleet of one.
    pub one_lost: Option<FleetAtPeak>,
}

/// What some replicas have left at the peak, by division.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetAtPeak {
    /// How many.
    pub replicas: u32,
    /// Their capacity.
    pub capacity_rps: f64,
    /// peak / capacity.
    pub utilization: f64,
    /// capacity - peak: negative when they cannot carry it.
    pub headroom_rps: f64,
    /// Whether the peak is within their capacity.
    pub within_capacity: bool,
    /// Whether the peak is within the target's share of it.
    pub within_target: bool,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlanError {
    /// No capacity to divide: no tested rate passed its gates.
    NoCapacity {
        /// What was given.
        capacity_rps: f64,
    },
    /// Not a peak.
    Peak {
        /// What was given.
        peak_rps: f64,
    },
    /// Not a share of capacity.
    Utilization {
        /// What was given.
        target_utilization: f64,
    },
    /// A topology without replicas or GPUs.
    NoReplicas,
    /// More replicas or GPUs than 32 bits count.
    TooMany {
        /// Replicas that the division asks for, spare ones not counted.
        replicas: f64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoCapacity { capacity_rps } => write!(
                f,
                "a capacity of {capacity_rps} requests/s cannot be planned with: expected a rate above 0 that passed \
                 every gate; test lower rates"
            ),
            PlanError::Peak { peak_rps } => {
                write!(f, "a peak of {peak_rps} requests/s: expected a finite rate above 0")
            }
            PlanError::Utilization { target_utilization } => write!(
                f,
                "acceptance.target_utilization: found {target_utilization}, expected a share above 0 and at most 1"
            ),
            PlanError::NoReplicas => {
                write!(f, "a measured topology without replicas or GPUs: expected at least one")
            }
            PlanError::TooMany { replicas } => write!(
                f,
                "{replicas:.3e} replicas would be needed, which with their GPUs is more than 4294967295: check the \
                 peak's unit, which is requests per second"
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// Works out a plan.
///
/// # Errors
/// A capacity, peak or utilization that is none, and fleets beyond 32 bits.
pub fn plan(input: &PlanInput) -> Result<Plan, PlanError> {
    let PlanInput { capacity_rps, peak_rps, target_utilization, .. } = *input;
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    if !is_rate(capacity_rps) {
        return Err(PlanError::NoCapacity { capacity_rps });
    }
    if !is_rate(peak_rps) {
        return Err(PlanError::Peak { peak_rps });
    }
    if !(target_utilization > 0.0 && target_utilization <= 1.0) {
        return Err(PlanError::Utilization { target_utilization });
    }
    if input.replicas == 0 || input.gpus_per_replica == 0 {
        return Err(PlanError::NoReplicas);
    }
    let capacity_per_replica_rps = capacity_rps / f64::from(input.replicas);
    let quotient = ceil_but_for_noise(peak_rps / (capacity_per_replica_rps * target_utilization));
    let too_many = PlanError::TooMany { replicas: quotient };
    if quotient.is_nan() || quotient > f64::from(u32::MAX) {
        return Err(too_many);
    }
    let required_replicas = quotient as u32;
    let planned_replicas = required_replicas.checked_add(input.spare).ok_or(too_many)?;
    let planned_gpus = planned_replicas.checked_mul(input.gpus_per_replica).ok_or(too_many)?;
    let at_peak = |replicas| at_peak(replicas, capacity_per_replica_rps, peak_rps, target_utilization);
    Ok(Plan {
        peak_rps,
        capacity_rps,
        capacity_per_replica_rps,
        target_utilization,
        required_replicas,
        // Cannot overflow: no more than the planned ones.
        required_gpus: required_replicas * input.gpus_per_replica,
        spare_replicas: input.spare,
        planned_replicas,
        planned_gpus,
        full: at_peak(planned_replicas),
        one_lost: (planned_replicas > 1).then(|| at_peak(planned_replicas - 1)),
    })
}

/// The fewest replicas that pass, sought around `from`: in growing steps down from what passes or up from what fails,
/// then by halves. That a larger fleet passes where a smaller one does is taken for granted. None if twice `from`
/// does not pass.
///
/// # Errors
/// Those of `passes`.
pub fn fewest_passing<E>(
    from: u32,
    mut passes: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    // Every number up to `failing` fails, as far as is known; `passing` passes.
    let (mut failing, mut step) = (0, 1);
    let mut passing = from.max(1);
    if passes(passing)? {
        while failing == 0 && passing > 1 {
            let next = passing.saturating_sub(step).max(1);
            if passes(next)? {
                passing = next
            } else {
                failing = next
            }
            step *= 2;
        }
    } else {
        let most = passing.saturating_mul(2);
        failing = passing;
        loop {
            passing = failing.saturating_add(step).min(most);
            if passing == failing {
                return Ok(None);
            }
            if passes(passing)? {
                break;
            }
            failing = passing;
            step *= 2;
        }
    }
    while passing - failing > 1 {
        let middle = failing + (passing - failing) / 2;
        if passes(middle)? { passing = middle } else { failing = middle }
    }
    Ok(Some(passing))
}

/// The ceiling, at least 1, forgiving what rounding added.
fn ceil_but_for_noise(quotient: f64) -> f64 {
    let nearest = quotient.round();
    let ceiling = if (quotient - nearest).abs() <= WHOLE * quotient { nearest } else { quotient.ceil() };
    ceiling.max(1.0)
}

fn at_peak(replicas: u32, per_replica_rps: f64, peak_rps: f64, target_utilization: f64) -> FleetAtPeak {
    let capacity_rps = per_replica_rps * f64::from(replicas);
    let utilization = peak_rps / capacity_rps;
    FleetAtPeak {
        replicas,
        capacity_rps,
        utilization,
        headroom_rps: capacity_rps - peak_rps,
        within_capacity: utilization <= 1.0 + WHOLE,
        within_target: utilization <= target_utilization * (1.0 + WHOLE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: PlanInput = PlanInput {
        capacity_rps: 24.0,
        replicas: 4,
        gpus_per_replica: 2,
        peak_rps: 36.0,
        target_utilization: 0.75,
        spare: 0,
    };

    #[test]
    fn the_worked_example() {
        let plan = plan(&EXAMPLE).unwrap();
        assert_eq!((plan.required_replicas, plan.required_gpus), (8, 16));
        assert!(plan.full.within_target && (plan.full.headroom_rps - 12.0).abs() < 1e-9);
        let lost = plan.one_lost.unwrap();
        assert!(lost.replicas == 7 && lost.within_capacity && !lost.within_target);
    }

    #[test]
    fn spare_replicas_keep_the_target_when_they_are_lost() {
        let plan = plan(&PlanInput { spare: 1, ..EXAMPLE }).unwrap();
        assert_eq!((plan.required_replicas, plan.planned_replicas, plan.planned_gpus), (8, 9, 18));
        assert!(plan.one_lost.unwrap().within_target);
    }

    #[test]
    fn what_cannot_be_planned_says_why() {
        for (input, words) in [
            (PlanInput { capacity_rps: 0.0, ..EXAMPLE }, "test lower rates"),
            (PlanInput { capacity_rps: f64::NAN, ..EXAMPLE }, "NaN"),
            (PlanInput { peak_rps: -1.0, ..EXAMPLE }, "peak of -1"),
            (PlanInput { peak_rps: f64::INFINITY, ..EXAMPLE }, "finite"),
            (PlanInput { target_utilization: 1.1, ..EXAMPLE }, "at most 1"),
            (PlanInput { replicas: 0, ..EXAMPLE }, "without replicas"),
            (PlanInput { peak_rps: 1e300, ..EXAMPLE }, "check the peak's unit"),
            (PlanInput { peak_rps: 1e10, ..EXAMPLE }, "check the peak's unit"),
            (PlanInput { spare: u32::MAX, ..EXAMPLE }, "check the peak's unit"),
            (PlanInput { capacity_rps: 1e-320, peak_rps: 1e300, ..EXAMPLE }, "check the peak's unit"),
        ] {
            let message = plan(&input).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn the_search_for_the_fewest_begins_beside_the_plan() {
        let mut asked = Vec::new();
        let mut search = |from, fewest| {
            asked.clear();
            let found = fewest_passing(from, |replicas| {
                asked.push(replicas);
                Ok::<bool, ()>(replicas >= fewest)
            });
            (found.unwrap(), asked.clone())
        };
        assert_eq!(search(8, 7), (Some(7), vec![8, 7, 5, 6]));
        assert_eq!(search(8, 8), (Some(8), vec![8, 7]));
        assert_eq!(search(8, 9), (Some(9), vec![8, 9]));
        assert_eq!(search(1, 1), (Some(1), vec![1]));
        assert_eq!(search(8, 17), (None, vec![8, 9, 11, 15, 16]));
        assert_eq!(search(u32::MAX, u32::MAX).0, Some(u32::MAX));
    }

    proptest! {
        #[test]
        fn the_fewest_are_found(from in 1u32..300, fewest in 1u32..700) {
            let found = fewest_passing(from, |replicas| Ok::<bool, ()>(replicas >= fewest)).unwrap();
            prop_assert_eq!(found, (fewest <= 2 * from).then_some(fewest));
        }

        /// Whole answers stay whole: n replicas' worth of peak needs n replicas, a little more needs one more.
        #[test]
        fn rounding_buys_no_replica(n in 1u32..2000, capacity in 0.01f64..500.0, util in 0.05f64..=1.0) {
            let input = PlanInput { capacity_rps: capacity, replicas: 3, target_utilization: util, ..EXAMPLE };
            let peak_rps = f64::from(n) * (capacity / 3.0) * util;
            prop_assert_eq!(plan(&PlanInput { peak_rps, ..input }).unwrap().required_replicas, n);
            let more = plan(&PlanInput { peak_rps: peak_rps * 1.000_001, ..input }).unwrap();
            prop_assert_eq!(more.required_replicas, n + 1);
            prop_assert!(more.full.within_target);
        }
    }
}
