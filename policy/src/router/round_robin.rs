//! In turn.

use super::Router;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;

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
