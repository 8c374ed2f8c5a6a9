//! The steps in flight.

use crate::engine::Batch;
use scaleproof_pack::time::Nanos;

/// A step in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub batch: Batch,
    pub launched: Nanos,
    pub ends: Nanos,
}

/// Places for the steps of an engine, used in turn: a batch stays in its place, which the next step but a few takes over.
#[derive(Debug)]
pub(super) struct Pipeline {
    places: Vec<InFlight>,
    first: usize,
    len: usize,
}

impl Pipeline {
    /// An empty one for `depth` steps, at least one.
    pub fn new(depth: usize) -> Pipeline {
        let empty = || InFlight { batch: Batch::default(), launched: Nanos::ZERO, ends: Nanos::ZERO };
        Pipeline { places: (0..depth.max(1)).map(|_| empty()).collect(), first: 0, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn is_full(&self) -> bool {
        self.len == self.places.len()
    }

    /// The oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.places[self.first..].iter().chain(&self.places[..self.first]).take(self.len)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        let (late, early) = self.places.split_at_mut(self.first);
        early.iter_mut().chain(late).take(self.len)
    }

    pub fn get(&self, index: usize) -> Option<&InFlight> {
        if index < self.len { self.places.get(self.place(index)) } else { None }
    }

    pub fn back(&self) -> Option<&InFlight> {
        self.get(self.len.checked_sub(1)?)
    }

    /// The place behind the last step, with what an earlier one has left there. None if it is full.
    pub fn vacant(&mut self) -> Option<&mut InFlight> {
        if self.is_full() {
            return None;
        }
        let place = self.place(self.len);
        self.places.get_mut(place)
    }

    /// What is in that place.
    pub fn vacant_batch(&self) -> &Batch {
        &self.places[self.place(self.len % self.places.len())].batch
    }

    /// The step in the vacant place is in flight, the newest.
    pub fn launch(&mut self) -> &InFlight {
        debug_assert!(!self.is_full(), "there was a place");
        let place = self.place(self.len);
        self.len += 1;
        &self.places[place]
    }

    /// The oldest is not in flight any more.
    pub fn land(&mut self) -> Option<&InFlight> {
        self.len = self.len.checked_sub(1)?;
        let landed = self.first;
        self.first = self.place(1);
        self.places.get(landed)
    }

    fn place(&self, index: usize) -> usize {
        let place = self.first + index;
        if place < self.places.len() { place } else { place - self.places.len() }
    }
}
