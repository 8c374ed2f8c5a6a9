//! A look ahead: steps in which nothing happens but one more token for everybody are priced together, and done when the
//! first step after them ends, or when somebody comes or looks before.

use super::Replica;
use crate::event::StepEnd;
use crate::step_time::{BatchShape, StepTime};
use scaleproof_pack::time::Nanos;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// So many steps at once: what an arrival finds not yet done was priced in vain.
const STEPS_MAX: u32 = 32;

impl Replica {
    /// It was idle, and begins to work: the `turn`th beginning of all replicas.
    pub(crate) fn begin(&mut self, now: Nanos, turn: u64) {
        self.began = (now, turn);
    }

    /// When the first step ends that has not been foreseen; None if none is in flight.
    #[must_use]
    pub fn next_end(&self) -> Option<StepEnd> {
        self.end_at(self.foreseen.len())
    }

    /// When the step at `place` ends: those in flight first, then those foreseen.
    pub(crate) fn end_at(&self, place: usize) -> Option<StepEnd> {
        let (began, turn) = (Reverse(self.began.0), self.began.1);
        let end = |launched, at| StepEnd { at, launched, began, turn };
        if let Some(step) = self.in_flight.get(place) {
            return Some(end(step.launched, step.ends));
        }
        let at = *self.foreseen.get(place - self.in_flight.len())?;
        // A step foreseen is launched as the oldest of those in flight then ends.
        let launched = self.time_at(place - self.in_flight.len())?;
        Some(end(launched, at))
    }

    /// The time of the same.
    fn time_at(&self, place: usize) -> Option<Nanos> {
        match self.in_flight.get(place) {
            Some(step) => Some(step.ends),
            None => self.foreseen.get(place - self.in_flight.len()).copied(),
        }
    }

    /// The oldest steps in flight, so many, end no earlier than `now`: they were kept from ending.
    pub(crate) fn end_no_earlier(&mut self, steps: u32, now: Nanos) {
        for step in self.in_flight.iter_mut().take(steps as usize) {
            step.ends = step.ends.max(now);
        }
    }

    /// Looks ahead, from a full pipeline of steps that list no row. A step that has no price is left to who launches it.
    pub(crate) fn look_ahead(&mut self, step_time: &StepTime) {
        debug_assert!(self.foreseen.is_empty(), "what was foreseen has been done");
        let Some(last) = self.in_flight.back().filter(|_| self.in_flight.is_full()) else { return };
        let mut rows = last.batch.grouped;
        let quiet = |batch: &crate::engine::Batch| batch.rows.is_empty() && batch.grouped.count == rows.count;
        if self.pace.is_some() || !self.in_flight.iter().all(|step| quiet(&step.batch)) {
            return;
        }
        let mut ends = self.gpu_free;
        for _ in 0..self.engine.quiet_steps().min(STEPS_MAX) {
            rows.context += u64::from(rows.count);
            let Ok(duration) = step_time.duration(&BatchShape::from(rows), self.depth > 1) else { return };
            ends += duration;
            if ends.seconds() > Nanos::MAX_SECONDS {
                return;
            }
            self.foreseen.push(ends);
        }
    }

    /// Whether steps were foreseen that have not been done.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.foreseen.is_empty()
    }

    /// Does the steps foreseen that have ended before `now`, and with `and_now` those that end at it.
    pub(crate) fn catch_up(&mut self, now: Nanos, and_now: bool) {
        let over = |end: Nanos| end < now || (and_now && end == now);
        let ends = (0..self.foreseen.len()).map_while(|place| self.time_at(place));
        let steps = ends.take_while(|&end| over(end)).count();
        self.do_foreseen(steps);
    }

    /// Does all steps foreseen: the one after them ends.
    pub(crate) fn catch_up_whole(&mut self) {
        self.do_foreseen(self.foreseen.len());
    }

    /// What was foreseen and not done is not sure any more.
    pub(crate) fn forget_foreseen(&mut self) {
        self.foreseen.clear();
    }

    /// Does the first `steps` of those foreseen. Each is the end of the oldest step in flight and the launch of one more.
    fn do_foreseen(&mut self, steps: usize) {
        let Some(last) = steps.checked_sub(1) else { return };
        let rows = self.in_flight.back().expect("it looked ahead from a full pipeline").batch.grouped;
        let gpu_free = self.foreseen[last];
        self.engine.step_quietly(steps as u32);
        let (steps_done, count) = (steps as u64, u64::from(rows.count));
        let tokens = steps_done * count;
        self.totals.steps += steps_done;
        self.totals.busy += gpu_free - self.gpu_free;
        self.totals.computed_tokens += tokens;
        self.totals.generated_tokens += tokens;
        self.totals.rows += tokens;
        // As a launch counts them: the contexts, and twice the tokens.
        self.totals.row_tokens +=
            steps_done * (rows.context + 2 * count) + count * (steps_done * (steps_done + 1) / 2);
        self.gpu_free = gpu_free;
        let ends: SmallVec<[StepEnd; 2]> =
            (steps..steps + self.in_flight.len()).map_while(|place| self.end_at(place)).collect();
        for (step, end) in self.in_flight.iter_mut().zip(&ends) {
            (step.launched, step.ends) = (end.launched, end.at);
            step.batch.advance(steps as u32);
        }
        self.foreseen.drain(..steps);
    }
}

#[cfg(test)]
mod tests;
