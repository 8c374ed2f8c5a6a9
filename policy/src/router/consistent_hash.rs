//! Consistent hashing on the session: a ring with many points a replica, so that a replica that leaves moves only its
//! own sessions. vllm-router's `consistent_hash` has 160 points a worker, keys by session (or user, or the body), and
//! sends to the first healthy worker if the target is not.

use super::{Router, mixed};
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::Fields;

/// Settings of [`ConsistentHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Points of a replica on the ring. vllm-router: 160.
    pub virtual_nodes: u32,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Settings {
        Settings { virtual_nodes: fields.opt("virtual_nodes").u32(1..=10_000).unwrap_or(160) }
    }
}

/// Consistent hashing on the session.
#[derive(Clone, Debug)]
pub struct ConsistentHash {
    settings: Settings,
    /// Points of the ring, by their place, with their replica. Made at the first choice.
    ring: Vec<(u64, u32)>,
    replicas: u32,
}

impl ConsistentHash {
    /// A ring that is made when the fleet is seen.
    #[must_use]
    pub fn new(settings: Settings) -> ConsistentHash {
        ConsistentHash { settings, ring: Vec::new(), replicas: 0 }
    }

    fn build(&mut self, replicas: u32) {
        let points = 0..self.settings.virtual_nodes;
        let of =
            |replica: u32| points.clone().map(move |point| (mixed(replica.into(), point.into()), replica));
        self.ring = (0..replicas).flat_map(of).collect();
        self.ring.sort_unstable();
        self.replicas = replicas;
    }
}

impl Router for ConsistentHash {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        if self.replicas != fleet.replicas() {
            self.build(fleet.replicas());
        }
        let &first = fleet.available().first()?;
        let key = mixed(request.content.session(), 0);
        let at = self.ring.partition_point(|&(place, _)| place < key);
        let &(_, target) = self.ring.get(at).or(self.ring.first())?;
        Some(if fleet.is_available(target) { target } else { first })
    }
}
