//! The frozen schedule: every request with its class, lengths, prompt and release, materialised and hashed before
//! a run. Both worlds walk it.
//!
//! Every purpose has its own random stream, so changing the lengths does not move the arrivals, and a higher rate is
//! the same schedule, compressed.

mod arrivals;
mod digest;
mod draw;
mod error;
mod export;
mod extras;
mod generate;
mod replay;
mod table;

pub use draw::Sampler;
pub use error::ScheduleError;
pub use export::{ExportError, Exported, ReplayTool, write_replay};
pub use replay::{recorded_rate_rps, trace_rate_rps};
pub use table::write_csv;

use crate::manifest::{ArrivalPattern, Manifest, REQUESTS_MAX};
use crate::prompt::{Segment, TokenStream};
use crate::time::Nanos;
use crate::trace::Trace;
use arrivals::WarmUp;
use generate::Generator;
use replay::Replay;

/// The greatest offered rate, in requests per second.
pub const RATE_MAX_RPS: f64 = 1e6;
/// The greatest number of closed-loop clients.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// A closed loop is warmed up by this many requests for each of its clients.
pub const WARMUP_REQUESTS_PER_CLIENT: u32 = 2;

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// At this time of the run.
    At(Nanos),
    /// `delay` after the end of the request `predecessor`, the turn before it, however that ended. In a closed loop
    /// a client keeps to its session: it is not free before the last turn's end.
    After {
        /// The earlier turn: its position in the warm-up, or in the measured requests with all their continuation.
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

    /// Adds the requests of `other` after these, as a continuation is added to what it continues.
    ///
    /// # Errors
    /// More segments than can be numbered; nothing is added then.
    pub fn append(&mut self, other: PlannedList) -> Result<(), ScheduleError> {
        let by = segment_number(self.segments.len())?;
        segment_number(self.segments.len() + other.segments.len())?;
        let moved = |request: Planned| Planned { segments_from: request.segments_from + by, ..request };
        self.requests.extend(other.requests.into_iter().map(moved));
        self.segments.extend(other.segments);
        Ok(())
    }
}

/// The number of a segment that `count` others lie before.
fn segment_number(count: usize) -> Result<u32, ScheduleError> {
    u32::try_from(count).map_err(|_| ScheduleError::TooManySegments { count })
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
    /// Whether prompts have common beginnings (warm). If not (cold), no two prompts share a token, whatever the
    /// manifest says about prefix groups, sessions or a trace's blocks.
    pub shared_prefixes: bool,
    /// Requests before the measured window, from streams of their own.
    pub warmup: PlannedList,
    /// The measured requests.
    pub measured: PlannedList,
    /// Where the measured window begins. Open loop: arrivals of `measured` are at or after it, those of `warmup`
    /// before. Closed loop: zero, as the window begins when the first measured request is sent.
    pub window_from: Nanos,
    /// SHA-256 over the seed, the load and every request, in hexadecimal.
    pub hash: String,
    /// Where the continuation comes from.
    source: Option<Generator>,
}

impl Schedule {
    /// Materialises the schedule of a manifest. `run` numbers repeats, each with independent streams; 0 is the
    /// manifest's own. A manifest whose arrivals come from a trace needs that `trace`, and gets no continuation;
    /// its rows are stretched to the rate in `load` ([`trace_rate_rps`] gives the one it was recorded at).
    ///
    /// In the open loop, a schedule that ends before `minimum_duration_seconds` is extended by whole chunks of its
    /// own continuation. In the closed loop its length cannot be known, and whoever runs it takes what it needs.
    ///
    /// # Errors
    /// A rate or concurrency out of bounds, more than [`REQUESTS_MAX`] requests, times beyond a century, a session
    /// longer than a prompt may be, and all that does not fit between a trace and the manifest.
    pub fn generate(
        manifest: &Manifest,
        load: Load,
        run: u64,
        trace: Option<&Trace>,
        shared_prefixes: bool,
    ) -> Result<Schedule, ScheduleError> {
        check_load(manifest, load)?;
        let client = &manifest.client;
        let warmup = WarmUp {
            until: Nanos::from_seconds(client.warmup_seconds)?,
            requests: match load {
                Load::Closed { concurrency } if client.warmup_seconds > 0.0 => {
                    (WARMUP_REQUESTS_PER_CLIENT * concurrency) as usize
                }
                _ => 0,
            },
        };
        let window_from = if matches!(load, Load::Open { .. }) { warmup.until } else { Nanos::ZERO };
        let (warmup, measured, source) = match (&client.arrivals, trace) {
            (ArrivalPattern::Trace(source), Some(trace)) => {
                let replay = Replay::new(manifest, (source, trace), load, run, shared_prefixes)?;
                (replay.warmup(warmup)?, replay.measured(window_from)?, None)
            }
            (ArrivalPattern::Trace(source), None) => {
                return Err(ScheduleError::TraceMissing { file: source.file.clone() });
            }
            _ => {
                let generator = |part| Generator::new(manifest, load, run, part, shared_prefixes);
                let warmup = generator(Part::Warmup).random(warmup)?;
                let mut generator = generator(Part::Measured).beginning_at(window_from);
                (warmup, generator.initial()?, Some(generator))
            }
        };
        let mut schedule = Schedule {
            seed: client.request_schedule_seed,
            run,
            load,
            shared_prefixes,
            warmup,
            measured,
            window_from,
            hash: String::new(),
            source,
        };
        schedule.extend_to(client.minimum_duration_seconds)?;
        schedule.hash = digest::digest(&schedule);
        Ok(schedule)
    }

    /// A schedule of the given measured requests alone, for tests and studies of one's own. It has no continuation.
    #[must_use]
    pub fn of(load: Load, measured: PlannedList) -> Schedule {
        let mut schedule = Schedule {
            seed: 0,
            run: 0,
            load,
            shared_prefixes: true,
            warmup: PlannedList::default(),
            measured,
            window_from: Nanos::ZERO,
            hash: String::new(),
            source: None,
        };
        schedule.hash = digest::digest(&schedule);
        schedule
    }

    /// Further requests of the same schedule, to follow `measured`: endless chunks, each of about a tenth of the
    /// initial requests, with every class's initial count in ten chunks (sessions are whole here). Always the same,
    /// however many are taken. A trace and an empty schedule have none.
    #[must_use]
    pub fn continuation(&self) -> Continuation {
        Continuation { source: self.source.clone() }
    }

    fn extend_to(&mut self, seconds: f64) -> Result<(), ScheduleError> {
        let Load::Open { .. } = self.load else { return Ok(()) };
        let end = self.window_from + Nanos::from_seconds(seconds)?;
        while self.last_arrival().is_some_and(|last| last < end) {
            let Some(generator) = &mut self.source else {
                let spans_s = self.last_arrival().unwrap_or_default().since(self.window_from).seconds();
                return Err(ScheduleError::TraceTooShort { spans_s, minimum_s: seconds });
            };
            let Some(chunk) = generator.chunk() else { return Ok(()) };
            self.measured.append(chunk?)?;
            check_count(self.measured.requests.len() as f64)?;
        }
        Ok(())
    }

    fn last_arrival(&self) -> Option<Nanos> {
        self.measured.requests.iter().rev().find_map(|request| match request.release {
            Release::At(at) => Some(at),
            _ => None,
        })
    }
}

fn check_load(manifest: &Manifest, load: Load) -> Result<(), ScheduleError> {
    match load {
        Load::Open { rps } if rps > 0.0 && rps <= RATE_MAX_RPS => {
            let client = &manifest.client;
            check_count(client.warmup_seconds * rps)?;
            check_count(client.minimum_duration_seconds * rps)
        }
        Load::Open { rps } => Err(ScheduleError::Rate { rps }),
        Load::Closed { concurrency } if (1..=CONCURRENCY_MAX).contains(&concurrency) => Ok(()),
        Load::Closed { concurrency } => Err(ScheduleError::Concurrency { concurrency }),
    }
}

fn check_count(count: f64) -> Result<(), ScheduleError> {
    if count <= REQUESTS_MAX as f64 { Ok(()) } else { Err(ScheduleError::TooManyRequests { count }) }
}

/// Further chunks of a schedule. Their requests are numbered on from the measured ones: append them in order, or
/// count them.
#[derive(Clone, Debug)]
pub struct Continuation {
    source: Option<Generator>,
}

impl Iterator for Continuation {
    type Item = Result<PlannedList, ScheduleError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.source.as_mut()?.chunk()
    }
}

/// One of the two parts of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Warmup,
    Measured,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Part::Warmup => "warmup",
            Part::Measured => "measured",
        }
    }

    /// What the names of its random streams begin with.
    fn stream_prefix(self) -> &'static str {
        match self {
            Part::Warmup => "warmup ",
            Part::Measured => "",
        }
    }

    fn unique(self, request: u64) -> TokenStream {
        match self {
            Part::Warmup => TokenStream::unique_warmup(request),
            Part::Measured => TokenStream::unique(request),
        }
    }

    fn output(self, request: u64) -> TokenStream {
        match self {
            Part::Warmup => TokenStream::output_warmup(request),
            Part::Measured => TokenStream::output(request),
        }
    }
}

#[cfg(test)]
mod tests;
