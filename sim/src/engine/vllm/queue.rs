//! The waiting requests in the order in which they are tried.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::request::Slot;
use crate::engine::SchedulingPolicy;

/// A place in the queue; smaller is served earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(i32, i64);

/// First come first served is a sequence that grows at both ends, priority an order by (priority, arrival): both are
/// one ordered map, so a request in the middle leaves as cheaply as the first.
#[derive(Clone, Debug)]
pub(super) struct WaitingQueue {
    policy: SchedulingPolicy,
    places: BTreeMap<Place, Slot>,
    next_back: i64,
    next_front: i64,
}

impl WaitingQueue {
    pub fn new(policy: SchedulingPolicy) -> WaitingQueue {
        WaitingQueue { policy, places: BTreeMap::new(), next_back: 0, next_front: -1 }
    }

    /// A new request.
    pub fn push(&mut self, slot: Slot, priority: i32, rank: u64) -> Place {
        let place = match self.policy {
            SchedulingPolicy::Fcfs => {
                self.next_back += 1;
                Place(0, self.next_back - 1)
            }
            SchedulingPolicy::Priority => Place(priority, rank as i64),
        };
        self.places.insert(place, slot);
        place
    }

    /// A preempted one: the first, unless priorities say otherwise.
    pub fn push_front(&mut self, slot: Slot, priority: i32, rank: u64) -> Place {
        let place = match self.policy {
            SchedulingPolicy::Fcfs => {
                self.next_front -= 1;
                Place(0, self.next_front + 1)
            }
            SchedulingPolicy::Priority => Place(priority, rank as i64),
        };
        self.places.insert(place, slot);
        place
    }

    pub fn remove(&mut self, place: Place) {
        self.places.remove(&place);
    }

    /// The first, or the first after `place`.
    pub fn after(&self, place: Option<Place>) -> Option<Slot> {
        match place {
            None => self.places.first_key_value().map(|(_, &slot)| slot),
            Some(place) => {
                let later = (Bound::Excluded(place), Bound::Unbounded);
                self.places.range(later).next().map(|(_, &slot)| slot)
            }
        }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.places.values().copied()
    }
}
