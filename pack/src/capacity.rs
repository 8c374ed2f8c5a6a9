//! The capacity of a scenario: the highest rate, of those tested, that passes every gate.
//!
//! A rate that was repeated with several seeds passes if *more than half* of its repeats do. Asking for all of
//! them would make the answer fall with every repeat that is added, since each is one more chance to miss; the
//! majority estimates the same thing whatever their number, and the counts stand beside it. A rate of which any
//! repeat has too few successes of a class is never chosen: what has not been measured has not passed.

use crate::report::{Gate, GateValue, Report};
use serde::{Deserialize, Serialize};

/// What one report says about its rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether every gate passes.
    pub pass: bool,
    /// Whether every class has enough successes.
    pub samples_adequate: bool,
    /// Whether it fails only because the run was too short ([`Report::too_short_to_judge`]).
    pub too_short: bool,
    /// Whether the run left its profile's validity region.
    pub outside_validity: bool,
    /// The failing gates, the one that misses by most first.
    pub failing_gates: Vec<String>,
}

/// Failing gates by how much of their threshold they miss; those that miss alike stay in the gates' order.
fn failing_by_shortfall(gates: &[Gate]) -> Vec<String> {
    let mut failing: Vec<&Gate> = gates.iter().filter(|gate| !gate.pass).collect();
    failing.sort_by(|a, b| shortfall(b).total_cmp(&shortfall(a)));
    failing.into_iter().map(|gate| gate.name.clone()).collect()
}

/// |observed - required| / required, at most 1: all of it. An undefined observation misses all of it; a word has no distance.
fn shortfall(gate: &Gate) -> f64 {
    let number = |value: &GateValue| match value {
        GateValue::Count(count) => Some(*count as f64),
        GateValue::Share(share) => *share,
        GateValue::Word(_) => None,
    };
    match (&gate.observed, number(&gate.observed), number(&gate.required)) {
        (GateValue::Word(_), ..) => 0.0,
        (_, Some(observed), Some(required)) if required > 0.0 => {
            ((observed - required).abs() / required).min(1.0)
        }
        _ => 1.0,
    }
}

impl Judgement {
    /// That of `report`.
    #[must_use]
    pub fn of(report: &Report) -> Judgement {
        Judgement {
            pass: report.capacity_gate_pass,
            samples_adequate: report.samples_adequate(),
            too_short: report.too_short_to_judge(),
            outside_validity: report.leaves_validity(),
            failing_gates: failing_by_shortfall(&report.gates),
        }
    }
}

/// A tested rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateVerdict {
    /// The offered rate.
    pub offered_rps: f64,
    /// Repeats tested.
    pub repeats: usize,
    /// Of those, with every gate passed.
    pub repeats_passing: usize,
    /// Whether every repeat has enough successes of every class.
    pub samples_adequate: bool,
    /// Whether the rate passes: adequate, and more than half of its repeats pass.
    pub pass: bool,
    /// Repeats that left the profile's validity region.
    pub repeats_outside_validity: usize,
    /// Gates that fail in at least one repeat with how many, most often failing first.
    pub failing_gates: Vec<(String, usize)>,
}

/// The capacity and how it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The highest passing rate; null if none passes.
    pub capacity_rps: Option<f64>,
    /// The tested rates, ascending.
    pub rates: Vec<RateVerdict>,
    /// The lowest failing rate above the capacity; null if none was tested, and then the capacity may be higher.
    pub first_failing_rps: Option<f64>,
    /// The gate that most repeats miss there.
    pub first_failing_gate: Option<String>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// Finds the capacity in `tested`: pairs of an offered rate and one repeat's judgement, in any order.
#[must_use]
pub fn capacity(tested: &[(f64, Judgement)]) -> Capacity {
    let mut sorted: Vec<_> = tested.iter().collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rates: Vec<_> = sorted
        .chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq())
        .map(|repeats| rate_verdict(repeats[0].0, repeats.iter().map(|(_, judgement)| judgement)))
        .collect();
    let chosen = rates.iter().rposition(|rate| rate.pass);
    let (below, above) = rates.split_at(chosen.map_or(0, |i| i + 1));
    // Above the highest passing rate all fail, so the first one is the lowest.
    let first_failing = above.first();
    let mut warnings = Vec::new();
    for rate in below.iter().filter(|rate| !rate.pass) {
        warnings.push(format!(
            "{} requests/s fails although a higher rate passes: the rates in between are not resolved, use more repeats \
             or longer runs",
            rate.offered_rps
        ));
    }
    for rate in rates.iter().filter(|rate| rate.repeats_outside_validity > 0) {
        warnings.push(format!(
            "{} requests/s is outside the profile's validity region in {} of {} runs: its numbers are extrapolated",
            rate.offered_rps, rate.repeats_outside_validity, rate.repeats
        ));
    }
    for rate in above.iter().filter(|rate| !rate.samples_adequate) {
        warnings.push(format!(
            "{} requests/s has too few successes of a class to be chosen: offer more requests of that class, or a longer trace",
            rate.offered_rps
        ));
    }
    if let Some(rate) = first_failing.filter(|rate| rate.samples_adequate) {
        let mut there =
            tested.iter().filter(|(rps, judged)| rps.total_cmp(&rate.offered_rps).is_eq() && !judged.pass);
        if there.all(|(_, judged)| judged.too_short) {
            warnings.push(format!(
                "{} requests/s fails only because its run was too short for a queue trend: the capacity may be higher; \
                 offer more requests, or sample more often",
                rate.offered_rps
            ));
        }
    }
    if chosen.is_some() && first_failing.is_none() {
        warnings.push("no tested rate fails: the capacity may be higher, test higher rates".to_string());
    }
    Capacity {
        capacity_rps: chosen.map(|i| rates[i].offered_rps),
        first_failing_rps: first_failing.map(|rate| rate.offered_rps),
        first_failing_gate: first_failing
            .and_then(|rate| rate.failing_gates.first())
            .map(|(gate, _)| gate.clone()),
        rates,
        warnings,
    }
}

fn rate_verdict<'a>(offered_rps: f64, repeats: impl Iterator<Item = &'a Judgement> + Clone) -> RateVerdict {
    let count = repeats.clone().count();
    let repeats_passing = repeats.clone().filter(|r| r.pass).count();
    let samples_adequate = repeats.clone().all(|r| r.samples_adequate);
    let repeats_outside_validity = repeats.clone().filter(|r| r.outside_validity).count();
    let mut failing_gates: Vec<(String, usize)> = Vec::new();
    for gate in repeats.flat_map(|r| &r.failing_gates) {
        match failing_gates.iter_mut().find(|(name, _)| name == gate) {
            Some((_, times)) => *times += 1,
            None => failing_gates.push((gate.clone(), 1)),
        }
    }
    // Stable: gates that fail as often stay in the gates' order.
    failing_gates.sort_by_key(|&(_, times)| std::cmp::Reverse(times));
    RateVerdict {
        offered_rps,
        repeats: count,
        repeats_passing,
        samples_adequate,
        pass: samples_adequate && 2 * repeats_passing > count,
        repeats_outside_validity,
        failing_gates,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass() -> Judgement {
        Judgement {
            pass: true,
            samples_adequate: true,
            too_short: false,
            outside_validity: false,
            failing_gates: Vec::new(),
        }
    }

    fn fail(gates: &[&str]) -> Judgement {
        let failing_gates: Vec<_> = gates.iter().map(|g| g.to_string()).collect();
        let samples_adequate = !gates.iter().any(|g| g.starts_with("samples"));
        Judgement { pass: false, samples_adequate, failing_gates, ..pass() }
    }

    #[test]
    fn a_rate_that_only_its_run_s_length_fails_is_no_ceiling() {
        let short = Judgement { too_short: true, ..fail(&["queue_trend"]) };
        let found = capacity(&[(16.0, pass()), (20.0, short.clone())]);
        assert!(found.warnings[0].contains("20 requests/s fails only because"), "{:?}", found.warnings);
        let found = capacity(&[(16.0, pass()), (20.0, short), (20.0, fail(&["error_rate"]))]);
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    }

    #[test]
    fn the_worked_example() {
        let found = capacity(&[
            (28.0, fail(&["attainment:generation_heavy", "error_rate", "queue_trend"])),
            (16.0, pass()),
            (24.0, pass()),
            (20.0, pass()),
        ]);
        assert_eq!((found.capacity_rps, found.first_failing_rps), (Some(24.0), Some(28.0)));
        assert_eq!(found.first_failing_gate.as_deref(), Some("attainment:generation_heavy"));
        assert!(found.warnings.is_empty());
    }

    #[test]
    fn the_gate_that_misses_by_most_is_named_first() {
        let gate = |name: &str, observed, required| Gate {
            name: name.to_owned(),
            observed,
            relation: ">=".to_owned(),
            required,
            pass: false,
        };
        let share = |value| GateValue::Share(Some(value));
        let gates = [
            gate("attainment:a", share(0.94), share(0.95)),
            gate("attainment:b", share(0.19), share(0.95)),
            gate("attainment:c", GateValue::Share(None), share(0.95)),
            gate("queue_trend", GateValue::Word("growing".into()), GateValue::Word("flat".into())),
        ];
        let order = failing_by_shortfall(&gates);
        assert_eq!(order, ["attainment:c", "attainment:b", "attainment:a", "queue_trend"]);
    }

    #[test]
    fn nothing_passes_or_nothing_was_tested() {
        let found = capacity(&[(4.0, fail(&["error_rate"])), (8.0, fail(&["queue_trend"]))]);
        assert_eq!((found.capacity_rps, found.first_failing_rps), (None, Some(4.0)));
        assert_eq!(capacity(&[]).capacity_rps, None);
    }

    #[test]
    fn the_majority_of_repeats_decides() {
        let two_of_three = [(24.0, pass()), (24.0, fail(&["error_rate"])), (24.0, pass())];
        let found = capacity(&two_of_three);
        assert_eq!(found.capacity_rps, Some(24.0));
        assert_eq!(found.rates[0].failing_gates, [("error_rate".to_string(), 1)]);
        assert_eq!(capacity(&two_of_three[..2]).capacity_rps, None, "one of two is no majority");
    }

    #[test]
    fn too_few_samples_are_never_chosen() {
        let found = capacity(&[(16.0, pass()), (20.0, pass()), (20.0, pass()), (20.0, fail(&["samples:x"]))]);
        assert_eq!(found.capacity_rps, Some(16.0));
        assert!(found.warnings[0].contains("20 requests/s has too few"), "{:?}", found.warnings);
    }

    #[test]
    fn rates_outside_the_validity_region_are_named() {
        let outside = Judgement { outside_validity: true, ..pass() };
        let found =
            capacity(&[(16.0, pass()), (20.0, outside), (20.0, pass()), (24.0, fail(&["error_rate"]))]);
        assert_eq!(found.capacity_rps, Some(20.0));
        assert!(found.warnings[0].starts_with("20 requests/s is outside"), "{:?}", found.warnings);
        assert!(found.warnings[0].contains("1 of 2 runs") && found.warnings.len() == 1);
    }

    #[test]
    fn odd_grids_warn() {
        let found = capacity(&[(16.0, pass()), (20.0, fail(&["error_rate"])), (24.0, pass())]);
        assert_eq!(found.capacity_rps, Some(24.0));
        assert!(found.warnings[0].contains("20 requests/s fails although"));
        assert!(found.warnings[1].contains("no tested rate fails"));
    }
}
