//! The event queue. Events order by (time, phase, sequence).

use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An attempt in flight: its place, and a generation that tells it from earlier users of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Place in the table of attempts.
    pub index: u32,
    /// How often the place had been used before.
    pub generation: u32,
}

impl Slot {
    /// The id under which engines know it: unique for all time.
    #[must_use]
    pub fn engine_id(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    /// The slot of an engine's id.
    #[must_use]
    pub fn of_engine_id(id: u64) -> Slot {
        Slot { index: id as u32, generation: (id >> 32) as u32 }
    }
}

/// Why a client gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Its time limit for the whole answer passed.
    Timeout,
    /// Its time limit for the first token passed.
    FirstTokenTimeout,
    /// On purpose.
    Cancel,
    /// Not the client but the gateway: it waited there for as long as it may.
    GatewayTimeout,
}

/// What happens to the replicas themselves, in a run with faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetEvent {
    /// A fault begins: its place in the plan.
    Begins(u32),
    /// A fault ends by itself.
    Ends(u32),
    /// A round of health checks.
    CheckAll,
    /// A health check of a replica was not answered in time.
    CheckTimedOut(u32),
    /// Metrics of a replica are too old, if its process is still this one.
    Stale(u32, u32),
    /// The end of a replica's process is known to who routes.
    ExitSeen(u32),
    /// A circuit breaker lets requests through again.
    HalfOpen(u32),
    /// The router hears that a try has failed.
    TryFailed(Slot),
    /// A request is sent again.
    Retry(Slot),
    /// A replica that is to go has nothing in flight any more, or its time to get there is over.
    Drained(u32, u32),
    /// A replica can serve, if its process is still this one.
    Ready(u32, u32),
    /// A process that hangs is ended, if it is still this one.
    Watchdog(u32, u32),
    /// The autoscaler looks.
    Scale,
}

/// All that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next request with a fixed time is sent.
    Arrival(RequestRef),
    /// A request that waited for another one's end, or for a free client, is sent.
    Release(RequestRef),
    /// The gateway sends an attempt that waited there to a replica.
    Dispatch(Slot),
    /// The front-end of its replica hands a request to the engine.
    Ingested(Slot),
    /// From now on a token may come too late for this attempt's client.
    Watch(Slot),
    /// The oldest step in flight on a replica ends.
    StepEnded {
        /// Which.
        replica: u32,
        /// How often it had been started before: a step of an earlier process never ends.
        start: u32,
    },
    /// A client's patience ends.
    GiveUp(Slot, GiveUp),
    /// The fleet itself changes, or somebody looks after it.
    Fleet(FleetEvent),
    /// The router polls the loads.
    Poll,
    /// The timeline is sampled.
    Sample,
}

impl Event {
    /// The order of events at the same nanosecond.
    ///
    /// 0, 1: what reaches an engine at the very end of a step is in its input queue when it schedules next.
    /// 2: a step's tokens reach a client whose patience ends at that same moment (3).
    /// 4: a fault meets what was there at its moment.
    /// 5, 6: polls and samples see the state after everything else of that moment.
    fn phase(self) -> u8 {
        match self {
            Event::Arrival(_) | Event::Release(_) | Event::Dispatch(_) => 0,
            Event::Ingested(_) | Event::Watch(_) => 1,
            Event::StepEnded { .. } => 2,
            Event::GiveUp(..) => 3,
            Event::Fleet(_) => 4,
            Event::Poll => 5,
            Event::Sample => 6,
        }
    }

    /// Whether it repeats by itself, and so is no sign of progress.
    fn periodic(self) -> bool {
        matches!(self, Event::Poll | Event::Sample | Event::Fleet(FleetEvent::CheckAll | FleetEvent::Scale))
    }

    /// Whether it sends a request.
    fn sends(self) -> bool {
        matches!(self, Event::Arrival(_) | Event::Release(_))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Nanos,
    /// The phase above the sequence.
    order: u64,
    event: Event,
}

/// Bits of an order below its phase.
const SEQUENCE_BITS: u32 = 60;

impl Entry {
    fn key(&self) -> u128 {
        (u128::from(self.at.0) << 64) | u128::from(self.order)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the standard heap gives the greatest first.
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events to come.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    sequence: u64,
    now: Nanos,
    pending: usize,
    sends: usize,
}

impl EventQueue {
    /// Adds an event. Panics if it lies in the past: that is a bug, time never runs backwards.
    pub fn push(&mut self, at: Nanos, event: Event) {
        assert!(at >= self.now, "{event:?} at {at:?}, before {:?}", self.now);
        self.sequence += 1;
        self.pending += usize::from(!event.periodic());
        self.sends += usize::from(event.sends());
        let order = (u64::from(event.phase()) << SEQUENCE_BITS) | self.sequence;
        self.heap.push(Entry { at, order, event });
    }

    /// Removes the next event and moves time to it.
    pub fn pop(&mut self) -> Option<(Nanos, Event)> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        self.pending -= usize::from(!entry.event.periodic());
        self.sends -= usize::from(entry.event.sends());
        Some((entry.at, entry.event))
    }

    /// The time of the last event popped.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Whether anything but polls and samples is to come.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// Whether a request is still to be sent.
    #[must_use]
    pub fn has_sends(&self) -> bool {
        self.sends > 0
    }

    /// How many events were ever added.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_order_by_time_then_phase_then_sequence() {
        let mut queue = EventQueue::default();
        let slot = |index| Slot { index, generation: 0 };
        let step = |replica| Event::StepEnded { replica, start: 0 };
        queue.push(Nanos(5), Event::Sample);
        queue.push(Nanos(5), Event::GiveUp(slot(1), GiveUp::Timeout));
        queue.push(Nanos(5), step(2));
        queue.push(Nanos(5), step(1));
        queue.push(Nanos(5), Event::Ingested(slot(3)));
        queue.push(Nanos(4), Event::Poll);
        let order: Vec<Event> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        let expected = [
            Event::Poll,
            Event::Ingested(slot(3)),
            step(2),
            step(1),
            Event::GiveUp(slot(1), GiveUp::Timeout),
            Event::Sample,
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_slot_survives_the_engine() {
        let slot = Slot { index: 7, generation: u32::MAX };
        assert_eq!(Slot::of_engine_id(slot.engine_id()), slot);
    }
}
