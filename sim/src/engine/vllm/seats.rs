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
    /// With the numbers of their batches, rising.
    in_flight: VecDeque<(u64, Slot)>,
    /// Scratch of the batch that lands.
    landed: Vec<Slot>,
    /// Of the batch at hand.
    pub next: Vec<Slot>,
}

impl RowSlots {
    /// The batch at hand is batch `number`.
    pub fn launch(&mut self, number: u64) {
        self.in_flight.extend(self.next.drain(..).map(|slot| (number, slot)));
    }

    /// The slots of batch `number`, which ends; to be given back. Those of batches before it that nobody updated are
    /// forgotten.
    pub fn land(&mut self, number: u64) -> Vec<Slot> {
        let mut landed = std::mem::take(&mut self.landed);
        while let Some(&(batch, slot)) = self.in_flight.front().filter(|(batch, _)| *batch <= number) {
            if batch == number {
                landed.push(slot);
            }
            self.in_flight.pop_front();
        }
        landed
    }

    /// Whether no batch in flight lists anybody.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub fn give_back(&mut self, mut slots: Vec<Slot>) {
        slots.clear();
        self.landed = slots;
    }
}
