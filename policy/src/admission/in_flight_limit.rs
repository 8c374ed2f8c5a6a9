//! At most so many requests inside at once; the others wait in a bounded queue, first come, first served. vllm-router's
//! `max_concurrent_requests`: 429 when its queue is full, 408 after the longest wait.

use super::{Admission, Decision, Room, View};
use crate::request::RouteRequest;
use scaleproof_pack::fields::Fields;

/// Settings of [`InFlightLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests inside. vllm-router: 32,768.
    pub max_in_flight: u32,
    /// The queue.
    pub room: Room,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Settings {
        let max_in_flight = fields.opt("max_in_flight").u32(1..=u32::MAX).unwrap_or(32_768);
        Settings { max_in_flight, room: Room::read(fields, 100) }
    }
}

/// An in-flight limit with a bounded queue.
#[derive(Clone, Debug)]
pub struct InFlightLimit(pub Settings);

impl Admission for InFlightLimit {
    fn arrive(&mut self, _: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        if view.inside.requests < self.0.max_in_flight { Decision::Admit } else { self.0.room.wait(view) }
    }

    fn release(&mut self, view: &View<'_>) -> Option<u16> {
        if view.inside.requests < self.0.max_in_flight { view.waiting.oldest(|_| true) } else { None }
    }
}
