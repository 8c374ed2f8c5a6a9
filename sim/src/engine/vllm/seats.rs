//! Running requests in the order of their admission.

use super::request::Slot;
use std::collections::VecDeque;

/// Requests by their seats, rising.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Vec<(u64, Slot)>);

impl Seats {
    /// Takes in a request where its seat belongs.
    pub fn insert(&mut self, seat: u64, slot: Slot) {
        match self.0.last() {
            Some(&(last, _)) if last > seat => self.0.insert(self.place(seat), (seat, slot)),
            _ => self.0.push((seat, slot)),
        }
    }

    pub fn remove(&mut self, seat: u64) {
        self.0.remove(self.place(seat));
    }

    /// How many sit before `seat`.
    pub fn place(&self, seat: u64) -> usize {
        self.0.partition_point(|&(other, _)| other < seat)
    }

    pub fn at(&self, place: usize) -> Slot {
        self.0[place].1
    }

    /// The last one's slot; 0 if there is none.
    pub fn last_slot(&self) -> Slot {
        self.0.last().map_or(0, |&(_, slot)| slot)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().map(|&(_, slot)| slot)
    }

    /// Keeps those for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(Slot) -> bool) {
        self.0.retain(|&(_, slot)| keep(slot));
    }
}

/// The requests behind the listed rows of the batches in flight: an update need not look them up.
#[derive(Clone, Debug, Default)]
pub(super) struct RowSlots {
    in_flight: VecDeque<(u64, Vec<Slot>)>,
    spare: Vec<Vec<Slot>>,
    /// Of the batch at hand.
    pub next: Vec<Slot>,
}

impl RowSlots {
    /// The batch at hand is batch `number`.
    pub fn launch(&mut self, number: u64) {
        let empty = self.spare.pop().unwrap_or_default();
        self.in_flight.push_back((number, std::mem::replace(&mut self.next, empty)));
    }

    /// The slots of the batch that ends next.
    pub fn landing(&self) -> &[Slot] {
        self.in_flight.front().map_or(&[], |(_, slots)| slots)
    }

    /// The slots of batch `number`, which ends; to be given back. Those of batches before it that nobody updated are
    /// forgotten.
    pub fn land(&mut self, number: u64) -> Vec<Slot> {
        while let Some((landed, slots)) = self.in_flight.pop_front() {
            if landed == number {
                return slots;
            }
            self.give_back(slots);
        }
        Vec::new()
    }

    /// The batches in flight, of which none lists anybody, become those so many steps later.
    pub fn advance(&mut self, steps: u32) {
        for (number, slots) in &mut self.in_flight {
            debug_assert!(slots.is_empty(), "somebody is listed");
            *number += u64::from(steps);
        }
    }

    pub fn give_back(&mut self, mut slots: Vec<Slot>) {
        slots.clear();
        self.spare.push(slots);
    }
}
