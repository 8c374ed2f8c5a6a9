//! Admission: who is let in, who waits, who is refused. A policy is a tagged enum in the configuration, one `match`
//! builds it, a trait object decides. The owner (simulator or live driver) keeps the queue of those that wait and the
//! counts of those that were let in; a policy only reads them.

use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::time::Nanos;

/// What becomes of a request that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes to a replica now.
    Admit,
    /// It waits at the gateway until [`Admission::release`] lets it go on; at most so long, then it is refused with
    /// [`WAITED_TOO_LONG`].
    Wait {
        /// The longest wait.
        at_most: Nanos,
    },
    /// It is refused, for this reason, in a few fixed words.
    Refuse(&'static str),
}

/// Why a request is refused that waited at the gateway for as long as it may (408 in a router).
pub const WAITED_TOO_LONG: &str = "waited too long at the gateway";

/// What a policy sees beside the request.
pub struct View<'a> {
    /// The time of the run.
    pub now: Nanos,
    /// The replicas as the router knows them.
    pub fleet: &'a Fleet,
    /// What was let in and has not ended, by the gateway's own count.
    pub inside: &'a Inside,
    /// Who waits at the gateway.
    pub waiting: &'a Waiting,
    /// What a replica would need for a given load.
    pub predictor: &'a dyn Predictor,
}

/// What was let in and has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Requests by class.
    pub by_class: Vec<u32>,
    /// Requests in all.
    pub requests: u32,
    /// Of those, without a first token.
    pub without_answer: u32,
    /// Prompt tokens of those without a first token.
    pub tokens_without_answer: u64,
    /// Context tokens of those with a first token: their prompts, and half of the answers that they ask for.
    pub context_tokens: u64,
}

/// Who waits at the gateway, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Requests in all.
    pub requests: u32,
    /// By class: how many, and when the one that waits longest arrived.
    pub by_class: Vec<(u32, Option<Nanos>)>,
}

impl Waiting {
    /// The class of the request that waits longest of those whose class passes `may`.
    #[must_use]
    pub fn oldest(&self, may: impl Fn(u16) -> bool) -> Option<u16> {
        let arrived = |(class, &(_, oldest)): (usize, &(u32, Option<Nanos>))| Some((oldest?, class as u16));
        self.by_class
            .iter()
            .enumerate()
            .filter_map(arrived)
            .filter(|&(_, class)| may(class))
            .min()
            .map(|(_, c)| c)
    }
}

/// What the engine's profile says of a replica under a load.
pub trait Predictor {
    /// From sending to the engine's queue, in milliseconds, for a prompt of so many tokens.
    fn ingest_ms(&self, input_tokens: u32) -> f64;
    /// The time that a replica needs for so many prompt tokens, in steps as large as its engine's, each with
    /// `decoding` rows beside them that read `context_tokens` in all; in milliseconds.
    fn prefill_ms(&self, prompt_tokens: f64, decoding: f64, context_tokens: f64) -> f64;
    /// A step in which so many requests decode, with so many tokens of context in all, in milliseconds.
    fn decode_step_ms(&self, decoding: f64, context_tokens: f64) -> f64;
}

/// An attempt that was let in and has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// Its class.
    pub class: u16,
    /// Whether all of its tokens arrived.
    pub ok: bool,
    /// From its arrival at the gateway to its first token, in milliseconds; None if there was none.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, in milliseconds; None for fewer than two.
    pub tpot_ms: Option<f64>,
    /// From its arrival at the gateway to its end, in milliseconds.
    pub e2e_ms: f64,
    /// Tokens it received.
    pub output_tokens: u32,
}

/// Lets requests in, lets them wait, or refuses them.
pub trait Admission: Send {
    /// A request has arrived.
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision;

    /// The class of which the request that waits longest goes on now; None as long as all wait. Asked after each end of
    /// a request that was let in, and again after each answer that is not None. A policy that never says
    /// [`Decision::Wait`] need not override it. Somebody must go on once nobody is inside, or the run stalls.
    fn release(&mut self, _view: &View<'_>) -> Option<u16> {
        None
    }

    /// A request that was let in has ended.
    fn ended(&mut self, _ended: &Ended, _view: &View<'_>) {}
}

/// The admission policies to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AdmissionPolicy {
    /// Everybody is let in.
    #[default]
    None,
}

/// Builds an admission policy; None if everybody is let in.
#[must_use]
pub fn build(policy: &AdmissionPolicy) -> Option<Box<dyn Admission>> {
    match policy {
        AdmissionPolicy::None => None,
    }
}
