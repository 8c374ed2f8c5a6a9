//! The gateway's queue as the policies that let requests wait bound it.

use super::{Decision, View};
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::time::Nanos;

/// How many may wait, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Requests that may wait. vllm-router: 100.
    pub max_queue: u32,
    /// The longest wait. vllm-router: 60 s.
    pub max_wait: Nanos,
}

impl Room {
    pub(super) fn read(fields: &mut Fields<'_>, usual_queue: u32) -> Room {
        let wait_s = fields.opt("max_wait_seconds").f64(above(0.0, 1e6)).unwrap_or(60.0);
        Room {
            max_queue: fields.opt("max_queue").u32(0..=1_000_000).unwrap_or(usual_queue),
            max_wait: Nanos::from_seconds(wait_s).unwrap_or(Nanos(60_000_000_000)),
        }
    }

    /// What becomes of a request that cannot be let in yet: it waits (408 if for too long), or is refused (429).
    pub(super) fn wait(&self, view: &View<'_>) -> Decision {
        if view.waiting.requests < self.max_queue {
            Decision::Wait { at_most: self.max_wait }
        } else if self.max_queue == 0 {
            Decision::Refuse("over the gateway's limit")
        } else {
            Decision::Refuse("gateway queue full")
        }
    }
}
