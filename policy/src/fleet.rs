//! What a router knows of its replicas.

use std::collections::BTreeSet;

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
    /// The same, by load.
    by_load: BTreeSet<(u32, u32)>,
}

impl Fleet {
    /// `replicas` idle replicas.
    #[must_use]
    pub fn new(replicas: u32, source: LoadSource) -> Fleet {
        let by_load = (0..replicas).map(|r| (0, r)).collect();
        Fleet {
            source,
            in_flight: vec![0; replicas as usize],
            polled: vec![Polled::default(); replicas as usize],
            available: (0..replicas).collect(),
            by_load,
        }
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
        let key = (self.load(replica), replica);
        match (self.available.binary_search(&replica), takes_work) {
            (Ok(at), false) => {
                self.available.remove(at);
                self.by_load.remove(&key);
            }
            (Err(at), true) => {
                self.available.insert(at, replica);
                self.by_load.insert(key);
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
        Some((self.by_load.first()?.0, self.by_load.last()?.0))
    }

    /// The least loaded available replica; of several, the first at or after `from`, going round.
    #[must_use]
    pub fn least_loaded(&self, from: u32) -> Option<u32> {
        let &(load, first) = self.by_load.first()?;
        let next = self.by_load.range((load, from)..=(load, u32::MAX)).next();
        Some(next.map_or(first, |&(_, replica)| replica))
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
        let old = std::mem::replace(&mut self.polled[replica as usize], found);
        if self.source == LoadSource::Polled {
            self.reorder(replica, old.outstanding(), found.outstanding());
        }
    }

    fn set_in_flight(&mut self, replica: u32, load: u32) {
        let old = std::mem::replace(&mut self.in_flight[replica as usize], load);
        if self.source == LoadSource::InFlight {
            self.reorder(replica, old, load);
        }
    }

    fn reorder(&mut self, replica: u32, old: u32, new: u32) {
        if old != new && self.by_load.remove(&(old, replica)) {
            self.by_load.insert((new, replica));
        }
    }
}
