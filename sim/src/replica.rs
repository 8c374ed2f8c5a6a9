//! One replica: its scheduler, its front-end, and the steps it has in flight.

mod ahead;
mod pipeline;

use crate::engine::{Batch, BatchScheduler, Emitted, EngineLoad, EngineRequest, EngineTotals, Sample};
use crate::step_time::{BatchShape, StepTime, StepTimeError};
use pipeline::Pipeline;
use scaleproof_pack::time::Nanos;
use std::collections::VecDeque;

/// Totals of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaTotals {
    /// Steps with tokens.
    pub steps: u64,
    /// Time spent in steps, those included in which an API server had the core.
    pub busy: Nanos,
    /// Tokens computed, prompt and output, recomputation included.
    pub computed_tokens: u64,
    /// Output tokens that steps which have ended sampled.
    pub generated_tokens: u64,
    /// Rows, summed over the steps.
    pub rows: u64,
    /// Tokens of the rows with their context, summed over rows and steps.
    pub row_tokens: u64,
    /// The largest batches seen, to hold against the profile's validity region.
    pub extremes: Extremes,
}

impl ReplicaTotals {
    /// Those of both together.
    #[must_use]
    pub fn and(self, other: &ReplicaTotals) -> ReplicaTotals {
        ReplicaTotals {
            steps: self.steps + other.steps,
            busy: self.busy + other.busy,
            computed_tokens: self.computed_tokens + other.computed_tokens,
            generated_tokens: self.generated_tokens + other.generated_tokens,
            rows: self.rows + other.rows,
            row_tokens: self.row_tokens + other.row_tokens,
            extremes: self.extremes.max(other.extremes),
        }
    }
}

/// The largest batches seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// Tokens of a batch.
    pub batch_tokens: u32,
    /// Rows of a batch.
    pub rows: u32,
    /// Tokens of a row, context included.
    pub context_tokens: u32,
}

impl Extremes {
    /// The larger of both, each.
    #[must_use]
    pub fn max(self, other: Extremes) -> Extremes {
        Extremes {
            batch_tokens: self.batch_tokens.max(other.batch_tokens),
            rows: self.rows.max(other.rows),
            context_tokens: self.context_tokens.max(other.context_tokens),
        }
    }
}

impl From<&BatchShape> for Extremes {
    fn from(shape: &BatchShape) -> Extremes {
        Extremes { batch_tokens: shape.tokens as u32, rows: shape.rows, context_tokens: shape.longest_row }
    }
}

/// How much longer than its profile says a step takes that begins at a time: a factor above 0. For engines that are
/// simulated with the noise and drift of a real one.
pub type Pace = Box<dyn FnMut(Nanos) -> f64 + Send>;

/// A replica.
pub struct Replica {
    engine: Box<dyn BatchScheduler + Send>,
    /// The engine's.
    depth: usize,
    in_flight: Pipeline,
    /// Ends of further steps, behind those in flight (`ahead`).
    foreseen: Vec<Nanos>,
    samples: Vec<Sample>,
    gpu_free: Nanos,
    /// Requests at an API server that is one process, with its work on each. It works on the first.
    intake: VecDeque<(u64, Nanos)>,
    /// When that is done, if it has the core of the steps.
    core_free: Nanos,
    totals: ReplicaTotals,
    pace: Option<Pace>,
    /// What its earlier processes had counted.
    past: EngineTotals,
    /// How often its process had been started before.
    start: u32,
    /// When it last began to work, and which beginning of all replicas that was.
    began: (Nanos, u64),
    /// Whether it stands still.
    frozen: bool,
    /// A step takes so many times its time.
    slowdown: f64,
}

/// What the scheduler has just decided.
pub struct Launched<'a> {
    /// When the GPU begins and ends the step that is now in flight. None if there is nothing to compute: the engine
    /// waits.
    pub span: Option<(Nanos, Nanos)>,
    /// The decision. Requests may lose their blocks in one without rows.
    pub batch: &'a Batch,
    engine: &'a dyn BatchScheduler,
}

impl Launched<'_> {
    /// The engine after it was scheduled.
    #[must_use]
    pub fn load(&self) -> EngineLoad {
        self.engine.load()
    }
}

impl Replica {
    /// An idle replica.
    #[must_use]
    pub fn new(engine: Box<dyn BatchScheduler + Send>) -> Replica {
        Replica {
            depth: engine.depth(),
            in_flight: Pipeline::new(engine.depth()),
            engine,
            foreseen: Vec::new(),
            samples: Vec::new(),
            gpu_free: Nanos::ZERO,
            intake: VecDeque::new(),
            core_free: Nanos::ZERO,
            totals: ReplicaTotals::default(),
            pace: None,
            past: EngineTotals::default(),
            start: 0,
            began: (Nanos::ZERO, 0),
            frozen: false,
            slowdown: 1.0,
        }
    }

    /// The same replica at a pace of its own.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Replica {
        Replica { pace: Some(pace), ..self }
    }

    /// The next process in its place: idle, with an empty cache, and with the totals of both.
    #[must_use]
    pub fn succeeded_by(&self, next: Replica) -> Replica {
        Replica { start: self.start + 1, totals: self.totals(), past: self.engine_totals(), ..next }
    }

    /// What its engine has counted, its earlier processes included.
    #[must_use]
    pub fn engine_totals(&self) -> EngineTotals {
        self.past.and(self.engine.totals())
    }

    /// How often its process had been started before.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Whether it stands still: it launches nothing.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Lets it stand still, or go on.
    pub fn set_frozen(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Each step launched from now on takes `factor`, at least 1, times as long.
    pub fn set_slowdown(&mut self, factor: f64) {
        self.slowdown = factor;
    }

    /// See [`BatchScheduler::withhold_blocks`].
    pub fn withhold_blocks(&mut self, share: f64) {
        self.engine.withhold_blocks(share);
    }

    /// The scheduler, to look at.
    #[must_use]
    pub fn engine(&self) -> &dyn BatchScheduler {
        self.engine.as_ref()
    }

    /// Totals so far.
    #[must_use]
    pub fn totals(&self) -> ReplicaTotals {
        let mut totals = self.totals;
        let longest = &mut totals.extremes.context_tokens;
        *longest = self.engine.longest_grouped_row().max(*longest);
        totals
    }

    /// Output tokens of the totals: a glance, where the totals ask each request that decodes.
    #[must_use]
    pub fn generated_tokens(&self) -> u64 {
        self.totals.generated_tokens
    }

    /// Whether no step is in flight. Only then does an arrival start one: otherwise the engine's loop is blocked
    /// until the oldest step has ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// A request reaches an API server that is one process, and is so much work. Whether it need not wait for others: then
    /// [`Replica::begin_intake`] is due.
    pub fn await_intake(&mut self, id: u64, work: Nanos) -> bool {
        self.intake.push_back((id, work));
        self.intake.len() == 1
    }

    /// The API server begins to work on the first that waits. When it is done, and by how much the steps in flight then end later, if
    /// it has their core (`shared`). None if nobody waits. What was foreseen must have been forgotten.
    pub fn begin_intake(&mut self, now: Nanos, shared: bool) -> Option<(Nanos, Nanos)> {
        let &(_, work) = self.intake.front()?;
        let mut held_up = Nanos::ZERO;
        if shared {
            debug_assert!(self.foreseen.is_empty(), "their ends would be wrong");
            // For a step that is launched meanwhile.
            self.core_free = now + work;
            for step in self.in_flight.iter_mut().filter(|step| !self.frozen && step.ends > now) {
                step.ends += work;
                held_up = work;
            }
            self.gpu_free += held_up;
            self.totals.busy += held_up;
        }
        Some((now + work, held_up))
    }

    /// The API server is done with the first.
    pub fn end_intake(&mut self) -> Option<u64> {
        self.intake.pop_front().map(|(id, _)| id)
    }

    /// Puts a request into the engine's input queue.
    pub fn add(&mut self, request: EngineRequest) {
        self.engine.add(request);
    }

    /// Shows every row of every batch from now on.
    pub fn list_every_row(&mut self) {
        self.engine.list_every_row();
    }

    /// Reports every token of a request when it comes, from now on.
    pub fn report_each_token(&mut self, id: u64) {
        self.engine.report_each_token(id);
    }

    /// Prompt tokens of a request without output that have been computed or hit.
    #[must_use]
    pub fn prefilled_tokens(&self, id: u64) -> u32 {
        self.engine.prefilled_tokens(id)
    }

    /// Drops a request, whatever state it is in. Returns the tokens that its client was given and that were not reported
    /// yet.
    pub fn abort(&mut self, id: u64) -> u32 {
        let tokens = self.engine.unreported_tokens(id);
        self.engine.abort(id);
        tokens
    }

    /// Schedules the next step if the pipeline has room and there is work. The caller repeats until there is no step
    /// to put in flight.
    ///
    /// # Errors
    /// If the step-time model gives something that is no time, or less than the GPU needs.
    pub fn launch(
        &mut self,
        now: Nanos,
        step_time: &StepTime,
    ) -> Result<Option<Launched<'_>>, StepTimeError> {
        if self.frozen || !self.engine.has_requests() {
            return Ok(None);
        }
        let Some(step) = self.in_flight.vacant() else { return Ok(None) };
        self.engine.schedule(&mut step.batch);
        if step.batch.is_empty() {
            let (batch, engine) = (self.in_flight.vacant_batch(), self.engine.as_ref());
            return Ok(Some(Launched { span: None, batch, engine }));
        }
        let shape = BatchShape::of(&step.batch);
        let begins = now.max(self.gpu_free).max(self.core_free);
        let mut duration = step_time.duration(&shape, self.depth > 1)?;
        if let Some(pace) = &mut self.pace {
            duration = Nanos::from_seconds(duration.seconds() * pace(begins))?;
        }
        if self.slowdown > 1.0 {
            duration = Nanos::from_seconds(duration.seconds() * self.slowdown)?;
        }
        let ends = begins + duration;
        (step.launched, step.ends) = (now, ends);
        self.gpu_free = ends;
        self.totals.steps += 1;
        self.totals.busy += duration;
        self.totals.computed_tokens += shape.tokens;
        self.totals.rows += u64::from(shape.rows);
        self.totals.row_tokens += shape.decode_context + shape.prefill_context + shape.tokens;
        self.totals.extremes = self.totals.extremes.max((&shape).into());
        let batch = &self.in_flight.launch().batch;
        Ok(Some(Launched { span: Some((begins, ends)), batch, engine: self.engine.as_ref() }))
    }

    /// Ends the oldest step: its tokens go to `emitted`.
    pub fn complete(&mut self, emitted: &mut Vec<Emitted>) {
        let batch = &self.in_flight.land().expect("a step ended that was not in flight").batch;
        self.samples.clear();
        self.samples
            .extend(batch.rows.iter().map(|row| if row.samples { Sample::Token } else { Sample::Nothing }));
        let listed = batch.rows.iter().filter(|row| row.samples).count();
        self.totals.generated_tokens += listed as u64 + u64::from(batch.grouped.count);
        self.engine.update(batch, &self.samples, emitted);
    }
}
