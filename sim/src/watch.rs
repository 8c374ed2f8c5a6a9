//! Looking at a run step by step.

use crate::attempt::{Attempt, Attempts};
use crate::engine::{Batch, EngineLoad};
use crate::event::Slot;
use scaleproof_pack::record::Record;
use scaleproof_pack::time::Nanos;

/// Sees every step when it is put in flight, and every attempt when it ends. Every method does nothing unless
/// overridden.
pub trait Watcher {
    /// A step was scheduled.
    fn step(&mut self, _step: &Step<'_>) {}
    /// From now on the front end has the core of a replica: its steps in flight end later by so long than they were said to.
    fn held_up(&mut self, _replica: u32, _now: Nanos, _by: Nanos) {}
    /// An attempt ended.
    fn ended(&mut self, _record: &Record) {}
}

/// A step that was put in flight.
pub struct Step<'a> {
    /// Where.
    pub replica: u32,
    /// When the GPU begins with it.
    pub begins: Nanos,
    /// When its tokens are there, if nothing holds it up.
    pub ends: Nanos,
    /// What it computes.
    pub batch: &'a Batch,
    /// The engine after it was scheduled.
    pub load: EngineLoad,
    pub(crate) attempts: &'a Attempts,
}

impl Step<'_> {
    /// The attempt behind an engine's id; None if it has ended (a row that was in flight when its client gave up).
    #[must_use]
    pub fn attempt(&self, id: u64) -> Option<&Attempt> {
        self.attempts.get(Slot::of_engine_id(id))
    }
}
