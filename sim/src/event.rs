//! The event queue. Events order by (time, phase, sequence); steps that end at the same time as [`StepEnd`] says.

use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use scaleproof_policy::tournament::Tournament;
use std::cmp::{Ordering, Reverse};
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
    /// A request reaches the front-end of its replica, after a while on the way.
    Reached(Slot),
    /// The front-end of its replica hands a request to the engine.
    Ingested(Slot),
    /// The front-end of a replica, one process, is done with its first request, if that is still the same process.
    TakenIn(u32, u32),
    /// From now on a token may come too late for this attempt's client.
    Watch(Slot),
    /// The oldest step in flight on this replica ends, or one later that is as far as the replica was looked ahead.
    StepEnded(u32),
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
            Event::Arrival(_) | Event::Release(_) | Event::Dispatch(_) | Event::Reached(_) => 0,
            Event::Ingested(_) | Event::TakenIn(..) | Event::Watch(_) => 1,
            Event::StepEnded(_) => STEP_PHASE,
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
/// The phase of steps' ends.
const STEP_PHASE: u8 = 2;

/// When a step ends, and what orders it among those that end at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepEnd {
    /// When.
    pub at: Nanos,
    /// When it was launched: the first launched ends first.
    pub launched: Nanos,
    /// When its replica began to work after it last was idle. Of replicas whose steps have begun and ended together since
    /// then, the last to begin comes first: a request began it, which comes before the ends of steps of that moment.
    pub began: Reverse<Nanos>,
    /// Which beginning of all that was: those of one moment keep their order.
    pub turn: u64,
}

/// Stands for no step in flight: beyond all times.
const NEVER: StepEnd =
    StepEnd { at: Nanos(u64::MAX), launched: Nanos(u64::MAX), began: Reverse(Nanos::ZERO), turn: u64::MAX };

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
#[derive(Debug)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    /// When a step ends next, by replica; [`NEVER`] where none does.
    step_ends: Tournament<StepEnd>,
    /// The last of them that was popped.
    last_end: Option<StepEnd>,
    turns: u64,
    sequence: u64,
    now: Nanos,
    pending: usize,
    sends: usize,
}

impl EventQueue {
    /// No events, for so many replicas.
    #[must_use]
    pub fn new(replicas: u32) -> EventQueue {
        EventQueue {
            heap: BinaryHeap::new(),
            step_ends: Tournament::new(replicas as usize, NEVER),
            last_end: None,
            turns: 0,
            sequence: 0,
            now: Nanos::ZERO,
            pending: 0,
            sends: 0,
        }
    }

    /// Adds an event. Panics if it lies in the past: that is a bug, time never runs backwards.
    pub fn push(&mut self, at: Nanos, event: Event) {
        assert!(at >= self.now, "{event:?} at {at:?}, before {:?}", self.now);
        debug_assert!(!matches!(event, Event::StepEnded(_)), "a replica has one next end: set_step_end");
        self.sequence += 1;
        self.pending += usize::from(!event.periodic());
        self.sends += usize::from(event.sends());
        let order = (u64::from(event.phase()) << SEQUENCE_BITS) | self.sequence;
        self.heap.push(Entry { at, order, event });
    }

    /// The number of an idle replica's start.
    pub fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// Sets when a replica's step ends next: `Event::StepEnded` comes then, and until this is set anew. Panics if it lies
    /// in the past.
    pub fn set_step_end(&mut self, replica: u32, end: Option<StepEnd>) {
        assert!(end.is_none_or(|end| end.at >= self.now), "{end:?} of {replica}, before {:?}", self.now);
        self.step_ends.set(replica as usize, end.unwrap_or(NEVER));
    }

    /// Removes the next event and moves time to it. The end of a step stays until it is set anew.
    pub fn pop(&mut self) -> Option<(Nanos, Event)> {
        let least = self.step_ends.least();
        let step_end = least.at;
        let step_key = (u128::from(step_end.0) << 64) | u128::from(u64::from(STEP_PHASE) << SEQUENCE_BITS);
        if self.heap.peek().is_none_or(|entry| step_key < entry.key()) {
            if step_end == NEVER.at {
                return None;
            }
            self.now = step_end;
            self.last_end = Some(least);
            return Some((self.now, Event::StepEnded(self.step_ends.first() as u32)));
        }
        let entry = self.heap.pop()?;
        self.now = entry.at;
        self.pending -= usize::from(!entry.event.periodic());
        self.sends -= usize::from(entry.event.sends());
        Some((entry.at, entry.event))
    }

    /// Whether a step that ends so would have ended by now, had its end been an event.
    #[must_use]
    pub fn has_ended(&self, end: &StepEnd) -> bool {
        self.last_end.is_some_and(|last| *end < last)
    }

    /// The time of the last event popped.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Whether anything but polls and samples is to come.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.pending > 0 || self.step_ends.least() < NEVER
    }

    /// Whether a request is still to be sent.
    #[must_use]
    pub fn has_sends(&self) -> bool {
        self.sends > 0
    }

    /// How many events were ever added, ends of steps not counted.
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
        let mut queue = EventQueue::new(5);
        let slot = |index| Slot { index, generation: 0 };
        queue.push(Nanos(5), Event::Sample);
        queue.push(Nanos(5), Event::GiveUp(slot(2), GiveUp::Timeout));
        queue.push(Nanos(5), Event::GiveUp(slot(1), GiveUp::Timeout));
        let end = |at, launched, turn| {
            Some(StepEnd { at: Nanos(at), launched: Nanos(launched), began: Reverse(Nanos(turn / 2)), turn })
        };
        queue.set_step_end(2, end(5, 1, 8));
        queue.set_step_end(0, end(9, 1, 6));
        queue.set_step_end(1, end(5, 2, 7));
        queue.set_step_end(3, end(5, 1, 9));
        queue.set_step_end(4, end(5, 1, 10));
        queue.push(Nanos(5), Event::Ingested(slot(3)));
        queue.push(Nanos(4), Event::Poll);
        let mut next = || {
            let (_, event) = queue.pop()?;
            if let Event::StepEnded(replica) = event {
                queue.set_step_end(replica, None);
            }
            Some(event)
        };
        let order: Vec<Event> = std::iter::from_fn(&mut next).collect();
        let expected = [
            Event::Poll,
            Event::Ingested(slot(3)),
            Event::StepEnded(4),
            Event::StepEnded(2),
            Event::StepEnded(3),
            Event::StepEnded(1),
            Event::GiveUp(slot(2), GiveUp::Timeout),
            Event::GiveUp(slot(1), GiveUp::Timeout),
            Event::Sample,
            Event::StepEnded(0),
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_slot_survives_the_engine() {
        let slot = Slot { index: 7, generation: u32::MAX };
        assert_eq!(Slot::of_engine_id(slot.engine_id()), slot);
    }
}
