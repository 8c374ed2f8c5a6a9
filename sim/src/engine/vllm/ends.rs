//! When the members of a group have their last rows.

use super::request::Slot;
use std::collections::VecDeque;

/// Members by the number of the batch of their last row, and by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends(VecDeque<(u64, Slot)>);

impl Ends {
    /// Who ends first.
    pub fn first(&self) -> Option<(u64, Slot)> {
        self.0.front().copied()
    }

    pub fn insert(&mut self, last: u64, slot: Slot) {
        let place = self.place(last, slot);
        self.0.insert(place, (last, slot));
    }

    pub fn remove(&mut self, last: u64, slot: Slot) {
        let place = self.place(last, slot);
        debug_assert_eq!(self.0.get(place), Some(&(last, slot)));
        self.0.remove(place);
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().map(|&(_, slot)| slot)
    }

    fn place(&self, last: u64, slot: Slot) -> usize {
        self.0.partition_point(|&other| other < (last, slot))
    }
}
