//! Admission: who is let in, who waits, who is refused. A policy is a tagged enum in the configuration, one `match`
//! builds it, a trait object decides. The owner (simulator or live driver) keeps the queue of those that wait and the
//! counts of those that were let in (`crate::gate`); a policy only reads them. docs/policies.md lists the policies with
//! their parameters, defaults and sources.

pub mod aimd;
pub mod deadline;
pub mod decode_load;
pub mod fair_share;
pub mod gradient;
pub mod in_flight_limit;
mod limit;
pub mod queue_limit;
mod room;
pub mod shed;
pub mod token_bucket;

#[cfg(test)]
mod tests;

pub use limit::Bounds;
pub use room::Room;

use crate::fleet::Fleet;
use crate::request::RouteRequest;
use aimd::Aimd;
use deadline::Deadline;
use decode_load::DecodeLoad;
use fair_share::FairShare;
use gradient::Gradient;
use in_flight_limit::InFlightLimit;
use queue_limit::QueueLimit;
use scaleproof_pack::fields::{Fields, Item, word_of};
use scaleproof_pack::manifest::Class;
use scaleproof_pack::time::Nanos;
use shed::Shed;
use token_bucket::TokenBucket;

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
    /// When it arrived at the gateway.
    pub arrived: Nanos,
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

impl Ended {
    /// Whether it is a success inside its class's cutoffs, given as TTFT and TPOT in milliseconds by class.
    fn in_time(&self, cutoffs_ms: &[(f64, f64)]) -> bool {
        let (ttft, tpot) =
            cutoffs_ms.get(usize::from(self.class)).copied().unwrap_or((f64::INFINITY, f64::INFINITY));
        self.ok && self.ttft_ms.is_some_and(|ms| ms <= ttft) && self.tpot_ms.is_none_or(|ms| ms <= tpot)
    }
}

/// The admission policies to choose from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AdmissionPolicy {
    /// Everybody is let in.
    #[default]
    None,
    /// Limits on those without a first token.
    QueueLimit(queue_limit::Settings),
    /// A limit on those inside, with a bounded queue.
    InFlightLimit(in_flight_limit::Settings),
    /// A token bucket by class.
    TokenBucket(token_bucket::Settings),
    /// Shedding by saturation.
    Shed(shed::Settings),
    /// Additive increase, multiplicative decrease.
    Aimd(aimd::Settings),
    /// A limit by the gradient of the latency.
    Gradient(gradient::Settings),
    /// Refusal by predicted TTFT.
    Deadline(deadline::Settings),
    /// Refusal by the decode load to come.
    DecodeLoad(deadline::Settings),
    /// Reservations and weighted fairness.
    FairShare(fair_share::Settings),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    QueueLimit,
    InFlightLimit,
    TokenBucket,
    Shed,
    Aimd,
    Gradient,
    Deadline,
    DecodeLoad,
    FairShare,
}

impl Kind {
    const WORDS: [(&'static str, Kind); 10] = [
        ("none", Kind::None),
        ("queue_limit", Kind::QueueLimit),
        ("in_flight_limit", Kind::InFlightLimit),
        ("token_bucket", Kind::TokenBucket),
        ("shed", Kind::Shed),
        ("aimd", Kind::Aimd),
        ("gradient", Kind::Gradient),
        ("deadline", Kind::Deadline),
        ("decode_load", Kind::DecodeLoad),
        ("fair_share", Kind::FairShare),
    ];
}

impl AdmissionPolicy {
    /// Reads an admission policy's mapping: `policy`, and beside it the policy's own parameters. Classes are those of the
    /// manifest.
    pub fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Option<AdmissionPolicy> {
        Some(match fields.req("policy").word(&Kind::WORDS)? {
            Kind::None => AdmissionPolicy::None,
            Kind::QueueLimit => AdmissionPolicy::QueueLimit(queue_limit::Settings::read(fields)?),
            Kind::InFlightLimit => AdmissionPolicy::InFlightLimit(in_flight_limit::Settings::read(fields)),
            Kind::TokenBucket => AdmissionPolicy::TokenBucket(token_bucket::Settings::read(fields, classes)?),
            Kind::Shed => AdmissionPolicy::Shed(shed::Settings::read(fields, classes)?),
            Kind::Aimd => AdmissionPolicy::Aimd(aimd::Settings::read(fields, classes)?),
            Kind::Gradient => AdmissionPolicy::Gradient(gradient::Settings::read(fields)?),
            Kind::Deadline => AdmissionPolicy::Deadline(deadline::Settings::read(fields, classes)),
            Kind::DecodeLoad => AdmissionPolicy::DecodeLoad(deadline::Settings::read(fields, classes)),
            Kind::FairShare => AdmissionPolicy::FairShare(fair_share::Settings::read(fields, classes)?),
        })
    }

    /// The word of this policy.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let kind = match self {
            AdmissionPolicy::None => Kind::None,
            AdmissionPolicy::QueueLimit(_) => Kind::QueueLimit,
            AdmissionPolicy::InFlightLimit(_) => Kind::InFlightLimit,
            AdmissionPolicy::TokenBucket(_) => Kind::TokenBucket,
            AdmissionPolicy::Shed(_) => Kind::Shed,
            AdmissionPolicy::Aimd(_) => Kind::Aimd,
            AdmissionPolicy::Gradient(_) => Kind::Gradient,
            AdmissionPolicy::Deadline(_) => Kind::Deadline,
            AdmissionPolicy::DecodeLoad(_) => Kind::DecodeLoad,
            AdmissionPolicy::FairShare(_) => Kind::FairShare,
        };
        word_of(&Kind::WORDS, &kind)
    }

    /// How often it needs the replicas polled; None if it goes by the gateway's counts.
    #[must_use]
    pub fn usual_poll_interval(&self) -> Option<Nanos> {
        matches!(self, AdmissionPolicy::Shed(_)).then_some(Nanos(50_000_000))
    }
}

/// Builds an admission policy; None if everybody is let in.
#[must_use]
pub fn build(policy: &AdmissionPolicy) -> Option<Box<dyn Admission>> {
    Some(match policy.clone() {
        AdmissionPolicy::None => return None,
        AdmissionPolicy::QueueLimit(settings) => Box::new(QueueLimit(settings)),
        AdmissionPolicy::InFlightLimit(settings) => Box::new(InFlightLimit(settings)),
        AdmissionPolicy::TokenBucket(settings) => Box::new(TokenBucket::new(settings)),
        AdmissionPolicy::Shed(settings) => Box::new(Shed(settings)),
        AdmissionPolicy::Aimd(settings) => Box::new(Aimd::new(settings)),
        AdmissionPolicy::Gradient(settings) => Box::new(Gradient::new(settings)),
        AdmissionPolicy::Deadline(settings) => Box::new(Deadline(settings)),
        AdmissionPolicy::DecodeLoad(settings) => Box::new(DecodeLoad::new(settings)),
        AdmissionPolicy::FairShare(settings) => Box::new(FairShare(settings)),
    })
}

/// A mapping from class names to what `read` reads, by class; None where a class is not named.
fn by_class<T: Clone>(
    item: &Item<'_>,
    classes: &[Class],
    read: impl Fn(&Item<'_>) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let mut found = vec![None; classes.len()];
    let mut whole = true;
    for (name, item) in item.fields()?.all() {
        match classes.iter().position(|class| class.name == name) {
            Some(class) => found[class] = read(&item),
            None => {
                let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
                item.fault(
                    "a class that the manifest does not have",
                    &format!("one of: {}", names.join(", ")),
                    "",
                );
                whole = false;
            }
        }
    }
    whole.then_some(found)
}

/// TTFT and TPOT cutoffs by class, in milliseconds.
fn cutoffs(classes: &[Class]) -> Vec<(f64, f64)> {
    classes.iter().map(|class| (class.request_ttft_cutoff_ms, class.request_tpot_cutoff_ms)).collect()
}
