//! Power of two choices.

use super::Router;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use rand::RngExt;
use scaleproof_pack::chance::Stream;

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
