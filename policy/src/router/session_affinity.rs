//! Session affinity: a session stays where its first turn went, which is chosen by load. vllm-router keeps an exact map of
//! sessions for an hour.

use super::Router;
use super::least_outstanding::LeastOutstanding;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::time::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// Settings of [`SessionAffinity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A session is forgotten so long after its last request. vllm-router: 3600 s.
    pub ttl: Nanos,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Settings {
        let ttl_s = fields.opt("ttl_seconds").f64(above(0.0, 1e7)).unwrap_or(3600.0);
        Settings { ttl: Nanos::from_seconds(ttl_s).unwrap_or(Nanos(3_600_000_000_000)) }
    }
}

/// Session affinity.
#[derive(Clone, Debug)]
pub struct SessionAffinity {
    settings: Settings,
    /// Where each session is, and when it was last seen.
    sessions: BTreeMap<u64, (u32, Nanos)>,
    /// The same in order of time, with those that were seen again since.
    seen: VecDeque<(Nanos, u64)>,
    fallback: LeastOutstanding,
}

impl SessionAffinity {
    /// Without any session.
    #[must_use]
    pub fn new(settings: Settings) -> SessionAffinity {
        let (sessions, seen) = (BTreeMap::new(), VecDeque::new());
        SessionAffinity { settings, sessions, seen, fallback: LeastOutstanding::default() }
    }

    fn forget_before(&mut self, now: Nanos) {
        let until = Nanos(now.0.saturating_sub(self.settings.ttl.0));
        while let Some(&(at, session)) = self.seen.front().filter(|(at, _)| *at < until) {
            self.seen.pop_front();
            if self.sessions.get(&session).is_some_and(|&(_, last)| last == at) {
                self.sessions.remove(&session);
            }
        }
    }
}

impl Router for SessionAffinity {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, chance: &mut Stream) -> Option<u32> {
        self.forget_before(request.now);
        let session = request.content.session();
        let known = self.sessions.get(&session).map(|&(replica, _)| replica);
        let replica = match known.filter(|&replica| fleet.is_available(replica)) {
            Some(replica) => replica,
            None => self.fallback.choose(request, fleet, chance)?,
        };
        self.sessions.insert(session, (replica, request.now));
        self.seen.push_back((request.now, session));
        Some(replica)
    }
}
