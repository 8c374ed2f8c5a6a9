//! What a policy may know of a request.

use scaleproof_pack::prompt::Segment;
use scaleproof_pack::time::Nanos;
use std::fmt;

/// A request that asks to be let in, or for a replica.
#[derive(Clone, Copy)]
pub struct RouteRequest<'a> {
    /// The time of the run.
    pub now: Nanos,
    /// Its class.
    pub class: u16,
    /// Engine priority: smaller is more urgent.
    pub priority: i32,
    /// Its prompt, in tokens.
    pub input_tokens: u32,
    /// The most tokens that it asks for.
    pub output_tokens: u32,
    /// What takes a search to tell.
    pub content: &'a dyn Content,
}

/// What of a request takes a search to tell: asked for only by the policies that need it.
pub trait Content {
    /// A number that all turns of its session have, and no other request.
    fn session(&self) -> u64;
    /// The whole prompt.
    fn prompt(&self) -> Vec<Segment>;
}

/// The content of a request that belongs to no session and whose prompt is not known.
#[derive(Clone, Copy, Debug)]
pub struct Alone(pub u64);

impl Content for Alone {
    fn session(&self) -> u64 {
        self.0
    }

    fn prompt(&self) -> Vec<Segment> {
        Vec::new()
    }
}

impl fmt::Debug for RouteRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteRequest")
            .field("now", &self.now)
            .field("class", &self.class)
            .field("input_tokens", &self.input_tokens)
            .finish_non_exhaustive()
    }
}
