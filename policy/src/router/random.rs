//! Uniformly at random.

use super::Router;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use rand::RngExt;
use scaleproof_pack::chance::Stream;

/// Uniformly at random.
#[derive(Clone, Debug, Default)]
pub struct Random;

impl Router for Random {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        let available = fleet.available();
        (!available.is_empty()).then(|| available[chance.random_range(0..available.len() as u32) as usize])
    }
}
