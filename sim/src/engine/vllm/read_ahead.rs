//! What a step reads, read at once. In a fleet of hundreds each replica's memory has left the caches when its turn comes; a
//! step that comes upon it piece by piece waits for each piece, while reads that depend on nothing else go on together.

use super::VllmScheduler;
use super::request::Request;

/// Requests looked at: those in which something happens are few.
const REQUESTS_MAX: usize = 4;

impl VllmScheduler {
    pub(super) fn read_what_a_step_reads(&self) -> u64 {
        let own = self.scheduled ^ self.updated ^ self.arrivals ^ self.admissions ^ self.totals.prefix_hits;
        let ending = self.group.ending().map(|(_, slot)| slot);
        let landing = self.row_slots.landing().iter().copied();
        let slots = self.listed.iter().take(REQUESTS_MAX).chain(landing.take(REQUESTS_MAX)).chain(ending);
        let requests = slots.map(|slot| self.requests.get(slot).read()).fold(0, |a, b| a ^ b);
        let waiting = self.waiting.after(None).map_or(0, |slot| self.requests.get(slot).read());
        own ^ requests
            ^ waiting
            ^ self.group.read()
            ^ self.pool.read_ahead()
            ^ u64::from(self.running.last_slot())
    }
}

impl Request {
    /// A field of each of its cache lines.
    fn read(&self) -> u64 {
        let counts = u64::from(self.computed_tokens ^ self.unreported);
        self.id
            ^ counts
            ^ self.seat
            ^ self.rank
            ^ self.grouped_from
            ^ self.chain.read()
            ^ u64::from(self.holding.len())
    }
}
