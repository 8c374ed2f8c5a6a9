//! Routers. A policy is a tagged enum in the configuration, one `match` builds it, a trait object decides.

use crate::fleet::Fleet;
use crate::request::RouteRequest;
use rand::RngExt;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::word_of;

/// Chooses a replica for each request.
pub trait Router: Send {
    /// The replica for `request`, or None if there is none. `chance` is the router's own stream.
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32>;
}

/// The routers to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterPolicy {
    /// In turn.
    RoundRobin,
    /// Uniformly at random.
    Random,
    /// The fewest outstanding requests (waiting plus running); ties in turn.
    LeastOutstanding,
    /// Two different replicas at random, the less loaded of them; a tie goes to the first drawn.
    PowerOfTwo,
}

impl RouterPolicy {
    /// The words of the configuration.
    pub const WORDS: [(&'static str, RouterPolicy); 4] = [
        ("round_robin", RouterPolicy::RoundRobin),
        ("random", RouterPolicy::Random),
        ("least_outstanding", RouterPolicy::LeastOutstanding),
        ("power_of_two", RouterPolicy::PowerOfTwo),
    ];

    /// The word of this policy.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// Builds a router.
#[must_use]
pub fn build(policy: RouterPolicy) -> Box<dyn Router> {
    match policy {
        RouterPolicy::RoundRobin => Box::new(RoundRobin::default()),
        RouterPolicy::Random => Box::new(Random),
        RouterPolicy::LeastOutstanding => Box::new(LeastOutstanding::default()),
        RouterPolicy::PowerOfTwo => Box::new(PowerOfTwo),
    }
}

/// In turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: u32,
}

impl Router for RoundRobin {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        let available = fleet.available();
        let at = available.partition_point(|&replica| replica < self.next);
        let &chosen = available.get(at).or(available.first())?;
        self.next = chosen + 1;
        Some(chosen)
    }
}

/// Uniformly at random.
#[derive(Clone, Debug, Default)]
pub struct Random;

impl Router for Random {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        let available = fleet.available();
        (!available.is_empty()).then(|| available[chance.random_range(0..available.len() as u32) as usize])
    }
}

/// The fewest outstanding requests. Ties go to the next replica after the last choice, so that an idle fleet is
/// used evenly.
#[derive(Clone, Debug, Default)]
pub struct LeastOutstanding {
    from: u32,
}

impl Router for LeastOutstanding {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        let chosen = fleet.least_loaded(self.from)?;
        self.from = chosen + 1;
        Some(chosen)
    }
}

/// Power of two choices.
#[derive(Clone, Debug, Default)]
pub struct PowerOfTwo;

impl Router for PowerOfTwo {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        let available = fleet.available();
        let replicas = available.len() as u32;
        if replicas < 2 {
            return available.first().copied();
        }
        let first = chance.random_range(0..replicas);
        let offset = chance.random_range(1..replicas);
        let [first, second] = [first, (first + offset) % replicas].map(|i| available[i as usize]);
        Some(if fleet.load(second) < fleet.load(first) { second } else { first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{LoadSource, Polled};
    use crate::request::Alone;
    use scaleproof_pack::chance::stream;
    use scaleproof_pack::time::Nanos;

    const REQUEST: RouteRequest<'_> = RouteRequest {
        now: Nanos::ZERO,
        class: 0,
        priority: 0,
        input_tokens: 1,
        output_tokens: 1,
        content: &Alone(0),
    };

    fn choices(policy: RouterPolicy, fleet: &Fleet, count: usize) -> Vec<u32> {
        let (mut router, mut chance) = (build(policy), stream(1, 0, "router"));
        (0..count).map(|_| router.choose(&REQUEST, fleet, &mut chance).unwrap()).collect()
    }

    #[test]
    fn round_robin_goes_round_and_least_outstanding_breaks_ties_in_turn() {
        let fleet = Fleet::new(3, LoadSource::InFlight);
        assert_eq!(choices(RouterPolicy::RoundRobin, &fleet, 5), [0, 1, 2, 0, 1]);
        assert_eq!(choices(RouterPolicy::LeastOutstanding, &fleet, 5), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn least_outstanding_sees_what_its_source_sees() {
        let mut own = Fleet::new(3, LoadSource::InFlight);
        let mut polled = Fleet::new(3, LoadSource::Polled);
        for fleet in [&mut own, &mut polled] {
            fleet.sent(0);
            fleet.sent(1);
            fleet.polled(2, Polled { waiting: 4, running: 5, kv_usage: 0.5 });
        }
        assert_eq!(choices(RouterPolicy::LeastOutstanding, &own, 2), [2, 2]);
        assert_eq!(choices(RouterPolicy::LeastOutstanding, &polled, 3), [0, 1, 0]);
    }

    #[test]
    fn power_of_two_never_takes_the_most_loaded_of_all() {
        let mut fleet = Fleet::new(4, LoadSource::InFlight);
        fleet.sent(3);
        let chosen = choices(RouterPolicy::PowerOfTwo, &fleet, 400);
        assert!(chosen.iter().all(|&r| r < 3));
        assert!((0..3).all(|r| chosen.iter().filter(|&&c| c == r).count() > 80));
    }

    #[test]
    fn a_replica_that_takes_no_work_is_never_chosen_and_comes_back() {
        for (_, policy) in RouterPolicy::WORDS {
            let mut fleet = Fleet::new(3, LoadSource::InFlight);
            fleet.set_available(1, false);
            fleet.sent(1);
            assert!(choices(policy, &fleet, 50).iter().all(|&r| r != 1), "{policy:?}");
            fleet.ended(1);
            fleet.set_available(1, true);
            assert!(choices(policy, &fleet, 50).contains(&1), "{policy:?}");
        }
    }

    #[test]
    fn no_replica_no_choice() {
        let fleet = Fleet::new(0, LoadSource::InFlight);
        for (_, policy) in RouterPolicy::WORDS {
            assert_eq!(build(policy).choose(&REQUEST, &fleet, &mut stream(1, 0, "router")), None);
        }
    }
}
