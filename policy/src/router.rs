//! Routers. A policy is a tagged enum in the configuration, one `match` builds it, a trait object decides. docs/policies.md
//! lists them with their parameters, defaults and sources.

pub mod cache_aware;
pub mod consistent_hash;
mod least_connections;
mod least_outstanding;
mod power_of_two;
mod prefix_index;
mod prefix_tree;
mod random;
mod round_robin;
pub mod session_affinity;
pub mod weighted;

use crate::fleet::{Fleet, LoadSource};
use crate::request::RouteRequest;
use cache_aware::CacheAware;
use consistent_hash::ConsistentHash;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::{Fields, word_of};
use scaleproof_pack::prompt::Segment;
use scaleproof_pack::time::Nanos;
use session_affinity::SessionAffinity;
use weighted::Weighted;

pub use least_connections::LeastConnections;
pub use least_outstanding::LeastOutstanding;
pub use power_of_two::PowerOfTwo;
pub use random::Random;
pub use round_robin::RoundRobin;

/// Chooses a replica for each request.
pub trait Router: Send {
    /// The replica for `request`, or None if there is none. `chance` is the router's own stream.
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32>;
}

/// The routers to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RouterPolicy {
    /// In turn.
    RoundRobin,
    /// Uniformly at random.
    Random,
    /// The fewest outstanding requests (waiting plus running); ties in turn.
    LeastOutstanding,
    /// The same, ties as nginx breaks them.
    LeastConnections,
    /// Two different replicas at random, the less loaded of them; a tie goes to the first drawn.
    PowerOfTwo,
    /// Consistent hashing on the session.
    ConsistentHash(consistent_hash::Settings),
    /// A session stays where its first turn went.
    SessionAffinity(session_affinity::Settings),
    /// vllm-router's approximate prefix tree.
    CacheAware(cache_aware::Settings),
    /// llm-d's weighted scorers.
    Weighted(weighted::Settings),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    RoundRobin,
    Random,
    LeastOutstanding,
    LeastConnections,
    PowerOfTwo,
    ConsistentHash,
    SessionAffinity,
    CacheAware,
    Weighted,
}

impl Kind {
    const WORDS: [(&'static str, Kind); 9] = [
        ("round_robin", Kind::RoundRobin),
        ("random", Kind::Random),
        ("least_outstanding", Kind::LeastOutstanding),
        ("least_connections", Kind::LeastConnections),
        ("power_of_two", Kind::PowerOfTwo),
        ("consistent_hash", Kind::ConsistentHash),
        ("session_affinity", Kind::SessionAffinity),
        ("cache_aware", Kind::CacheAware),
        ("weighted", Kind::Weighted),
    ];
}

impl RouterPolicy {
    /// Reads a router's mapping: `policy`, and beside it the policy's own parameters, all with defaults.
    pub fn read(fields: &mut Fields<'_>) -> Option<RouterPolicy> {
        Some(match fields.req("policy").word(&Kind::WORDS)? {
            Kind::RoundRobin => RouterPolicy::RoundRobin,
            Kind::Random => RouterPolicy::Random,
            Kind::LeastOutstanding => RouterPolicy::LeastOutstanding,
            Kind::LeastConnections => RouterPolicy::LeastConnections,
            Kind::PowerOfTwo => RouterPolicy::PowerOfTwo,
            Kind::ConsistentHash => RouterPolicy::ConsistentHash(consistent_hash::Settings::read(fields)),
            Kind::SessionAffinity => RouterPolicy::SessionAffinity(session_affinity::Settings::read(fields)),
            Kind::CacheAware => RouterPolicy::CacheAware(cache_aware::Settings::read(fields)),
            Kind::Weighted => RouterPolicy::Weighted(weighted::Settings::read(fields)),
        })
    }

    /// The word of this policy.
    #[must_use]
    pub fn word(self) -> &'static str {
        let kind = match self {
            RouterPolicy::RoundRobin => Kind::RoundRobin,
            RouterPolicy::Random => Kind::Random,
            RouterPolicy::LeastOutstanding => Kind::LeastOutstanding,
            RouterPolicy::LeastConnections => Kind::LeastConnections,
            RouterPolicy::PowerOfTwo => Kind::PowerOfTwo,
            RouterPolicy::ConsistentHash(_) => Kind::ConsistentHash,
            RouterPolicy::SessionAffinity(_) => Kind::SessionAffinity,
            RouterPolicy::CacheAware(_) => Kind::CacheAware,
            RouterPolicy::Weighted(_) => Kind::Weighted,
        };
        word_of(&Kind::WORDS, &kind)
    }

    /// How often it polls the replicas unless it is told otherwise; None if it goes by its own counts.
    #[must_use]
    pub fn usual_poll_interval(self) -> Option<Nanos> {
        matches!(self, RouterPolicy::Weighted(_)).then_some(Nanos(50_000_000))
    }

    /// Which loads its fleet orders the replicas by, if they are polled or not.
    #[must_use]
    pub fn load_source(self, polled: bool) -> LoadSource {
        let own = matches!(self, RouterPolicy::CacheAware(_));
        if polled && !own { LoadSource::Polled } else { LoadSource::InFlight }
    }
}

/// Builds a router.
#[must_use]
pub fn build(policy: RouterPolicy) -> Box<dyn Router> {
    match policy {
        RouterPolicy::RoundRobin => Box::new(RoundRobin::default()),
        RouterPolicy::Random => Box::new(Random),
        RouterPolicy::LeastOutstanding => Box::new(LeastOutstanding::default()),
        RouterPolicy::LeastConnections => Box::new(LeastConnections::default()),
        RouterPolicy::PowerOfTwo => Box::new(PowerOfTwo),
        RouterPolicy::ConsistentHash(settings) => Box::new(ConsistentHash::new(settings)),
        RouterPolicy::SessionAffinity(settings) => Box::new(SessionAffinity::new(settings)),
        RouterPolicy::CacheAware(settings) => Box::new(CacheAware::new(settings)),
        RouterPolicy::Weighted(settings) => Box::new(Weighted::new(settings)),
    }
}

/// Two numbers in one, well mixed (the finaliser of splitmix64).
fn mixed(a: u64, b: u64) -> u64 {
    let mut z = (a.rotate_left(25) ^ b).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The prompt with runs that continue one another made one: equal tokens are then cut alike.
fn joined(prompt: &[Segment]) -> Vec<Segment> {
    let mut runs: Vec<Segment> = Vec::with_capacity(prompt.len());
    for segment in prompt {
        match runs.last_mut() {
            Some(last) if last.stream == segment.stream && last.start + last.len == segment.start => {
                last.len += segment.len;
            }
            _ => runs.push(*segment),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
