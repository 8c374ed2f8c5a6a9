//! A limit on the requests inside that moves: what the adaptive policies share.

use super::Room;
use scaleproof_pack::fields::{Fields, from_to};

/// Bounds of a moving limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Where it begins.
    pub initial: f64,
    /// It never falls below this, nor below 1.
    pub min: f64,
    /// It never rises above this.
    pub max: f64,
    /// The queue before it; without one, requests over the limit are refused at once.
    pub room: Room,
}

impl Bounds {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Bounds> {
        let min = fields.opt("min_limit").f64(from_to(1.0, 1e6)).unwrap_or(4.0);
        let max_item = fields.opt("max_limit");
        let max = max_item.f64(from_to(1.0, 1e6)).unwrap_or(10_000.0);
        if max < min {
            max_item.wrong("at least min_limit", "");
            return None;
        }
        let initial = fields.opt("initial_limit").f64(from_to(1.0, 1e6)).unwrap_or(64.0);
        Some(Bounds { initial: initial.clamp(min, max), min, max, room: Room::read(fields, 0) })
    }

    pub(super) fn clamped(&self, limit: f64) -> f64 {
        limit.clamp(self.min, self.max)
    }
}
