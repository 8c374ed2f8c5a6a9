//! What a router knows of its replicas.

use crate::tournament::Tournament;

/// Stands for the load of a replica that may not be chosen: above all loads.
const ABSENT: u32 = u32::MAX;

/// Where a router's loads come from, and so how stale they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSource {
    /// The router's own count of what it sent and has not seen end: never stale.
    InFlight,
    /// The engines' waiting plus running, as of the last poll.
    Polled,
}

/// What a poll of a replica's metrics says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Polled {
    /// Requests waiting in its engine.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// Share of its KV cache in use.
    pub kv_usage: f64,
}

impl Polled {
    /// Waiting plus running.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.waiting.saturating_add(self.running)
    }
}

/// The loads of all replicas as the router knows them, ordered, so that the least loaded is found without a scan.
/// The owner (simulator or live driver) keeps it; routers read it.
#[derive(Clone, Debug)]
pub struct Fleet {
    source: LoadSource,
    in_flight: Vec<u32>,
    polled: Vec<Polled>,
    /// Those that take work, in order of their numbers.
    available: Vec<u32>,
    /// Their loads, [`ABSENT`] for the others.
    least: Tournament<u32>,
    /// Their loads turned round, so that the greatest is the least: [`ABSENT`] stands for none, or for idle ones.
    greatest: Tournament<u32>,
}

impl Fleet {
    /// `replicas` idle replicas.
    #[must_use]
    pub fn new(replicas: u32, source: LoadSource) -> Fleet {
        let count = replicas as usize;
        let mut fleet = Fleet {
            source,
            in_flight: vec![0; count],
            polled: vec![Polled::default(); count],
            available: Vec::with_capacity(count),
            least: Tournament::new(count, ABSENT),
            greatest: Tournament::new(count, ABSENT),
        };
        (0..replicas).for_each(|replica| fleet.set_available(replica, true));
        fleet
    }

    /// Replicas in all, available or not.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.in_flight.len() as u32
    }

    /// The replicas that may be chosen, in order of their numbers. Routers look at no others.
    #[must_use]
    pub fn available(&self) -> &[u32] {
        &self.available
    }

    /// Takes a replica out of the routers' sight, or puts it back. What it has in flight stays counted.
    pub fn set_available(&mut self, replica: u32, takes_work: bool) {
        match (self.available.binary_search(&replica), takes_work) {
            (Ok(at), false) => {
                self.available.remove(at);
                self.least.set(replica as usize, ABSENT);
                self.greatest.set(replica as usize, ABSENT);
            }
            (Err(at), true) => {
                self.available.insert(at, replica);
                self.reorder(replica);
            }
            _ => {}
        }
    }

    /// Outstanding requests of a replica, as its source knows them.
    #[must_use]
    pub fn load(&self, replica: u32) -> u32 {
        match self.source {
            LoadSource::InFlight => self.in_flight[replica as usize],
            LoadSource::Polled => self.polled[replica as usize].outstanding(),
        }
    }

    /// Requests sent to a replica and not ended: the router's own count.
    #[must_use]
    pub fn in_flight(&self, replica: u32) -> u32 {
        self.in_flight[replica as usize]
    }

    /// What the last poll of a replica found.
    #[must_use]
    pub fn last_poll(&self, replica: u32) -> &Polled {
        &self.polled[replica as usize]
    }

    /// Whether a replica may be chosen.
    #[must_use]
    pub fn is_available(&self, replica: u32) -> bool {
        self.available.binary_search(&replica).is_ok()
    }

    /// The least and the greatest load of the available replicas.
    #[must_use]
    pub fn load_range(&self) -> Option<(u32, u32)> {
        (!self.available.is_empty()).then(|| (self.least.least(), !self.greatest.least()))
    }

    /// The least loaded available replica; of several, the first at or after `from`, going round.
    #[must_use]
    pub fn least_loaded(&self, from: u32) -> Option<u32> {
        (!self.available.is_empty()).then(|| self.least.first_from(from as usize) as u32)
    }

    /// A request was sent to `replica`.
    pub fn sent(&mut self, replica: u32) {
        let load = self.in_flight[replica as usize] + 1;
        self.set_in_flight(replica, load);
    }

    /// A request that was sent to `replica` has ended.
    pub fn ended(&mut self, replica: u32) {
        let load = self.in_flight[replica as usize].checked_sub(1).expect("ended more often than sent");
        self.set_in_flight(replica, load);
    }

    /// A poll of `replica` found this.
    pub fn polled(&mut self, replica: u32, found: Polled) {
        self.polled[replica as usize] = found;
        self.load_changed(replica, LoadSource::Polled);
    }

    fn set_in_flight(&mut self, replica: u32, load: u32) {
        self.in_flight[replica as usize] = load;
        self.load_changed(replica, LoadSource::InFlight);
    }

    fn load_changed(&mut self, replica: u32, source: LoadSource) {
        if self.source == source && self.least.get(replica as usize) != ABSENT {
            self.reorder(replica);
        }
    }

    /// Puts an available replica where its load belongs.
    fn reorder(&mut self, replica: u32) {
        let load = self.load(replica).min(ABSENT - 1);
        self.least.set(replica as usize, load);
        self.greatest.set(replica as usize, !load);
    }
}
