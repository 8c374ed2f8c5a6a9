//! The frozen schedule: every request with its class, lengths, prompt and release, materialised and hashed before
//! a run. Both worlds walk it.

use crate::prompt::Segment;
use crate::time::Nanos;

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// At this time of the run.
    At(Nanos),
    /// `delay` after the end of the request `predecessor` (an index into the same list, lower than its own).
    After {
        /// The earlier turn.
        predecessor: u64,
        /// The pause.
        delay: Nanos,
    },
    /// As soon as a closed-loop client is free, after its `think` pause.
    WhenFree {
        /// The pause before it.
        think: Nanos,
    },
}

/// One scheduled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it is sent.
    pub release: Release,
    /// Index into the manifest's classes.
    pub class: u16,
    /// Engine priority: smaller is more urgent.
    pub priority: i32,
    /// Prompt tokens in all, at least 1.
    pub input_tokens: u32,
    /// Output tokens, at least 1.
    pub output_tokens: u32,
    /// The client cancels this long after sending.
    pub cancel_after: Option<Nanos>,
    /// First of its segments in the list's `segments`.
    pub segments_from: u32,
    /// How many segments describe the beginning of its prompt. What they leave over, up to `input_tokens`, are
    /// tokens that no other request has.
    pub segments_len: u32,
}

/// Requests in schedule order with the pool their segments lie in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedList {
    /// The requests.
    pub requests: Vec<Planned>,
    /// Parts of prompts.
    pub segments: Vec<Segment>,
}

impl PlannedList {
    /// The segments at the beginning of `request`'s prompt.
    #[must_use]
    pub fn segments_of(&self, request: &Planned) -> &[Segment] {
        let from = request.segments_from as usize;
        &self.segments[from..from + request.segments_len as usize]
    }
}

/// How the schedule is driven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Open loop: arrivals do not wait for answers. Requests per second.
    Open {
        /// Offered rate of the schedule.
        rps: f64,
    },
    /// Closed loop: this many clients, each with at most one request in flight.
    Closed {
        /// Clients.
        concurrency: u32,
    },
}

/// A frozen schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Seed of every stream it was drawn from.
    pub seed: u64,
    /// Repeat number: 0 is the manifest's own schedule.
    pub run: u64,
    /// How it is driven.
    pub load: Load,
    /// Requests before the measured window, from streams of their own.
    pub warmup: PlannedList,
    /// The measured requests.
    pub measured: PlannedList,
    /// Where the measured window begins. Open loop: arrivals of `measured` are at or after it.
    pub window_from: Nanos,
    /// SHA-256 over the seed, the load and every request, in hexadecimal.
    pub hash: String,
}
