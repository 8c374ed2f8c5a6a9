//! The batch scheduler of one replica as a pure state machine, apart from time: `add`, `abort`, `schedule`,
//! `update`. The simulator's replica drives it in virtual time; `oracle` drives it call by call against recorded
//! decisions of the real engine.

pub mod block_pool;
mod config;
pub mod cudagraph;
pub mod oracle;
pub mod token_chain;
pub mod vllm;

pub use config::{EngineConfig, SchedulingPolicy, SettingFault};

use scaleproof_pack::prompt::{Segment, TokenStream};

/// A request as the engine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRequest {
    /// Unique in this engine for all time. Results name it.
    pub id: u64,
    /// The prompt: segments in order, their lengths summing to the prompt's length, at least one token.
    pub prompt: Vec<Segment>,
    /// The stream its output tokens belong to, and no other request's: output token k (from 0) is token k of it.
    pub output: TokenStream,
    /// Output tokens after which it ends by length, at least 1.
    pub max_tokens: u32,
    /// Smaller is more urgent. Only the `priority` policy looks at it; ties go to the earlier `add`.
    pub priority: i32,
}

/// What one row of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The request.
    pub id: u64,
    /// Tokens computed in this step.
    pub tokens: u32,
    /// Tokens computed before this step (cached ones included).
    pub context: u32,
    /// Whether this row's step yields a token: its chunk reaches the end of the known tokens, placeholders
    /// included.
    pub samples: bool,
    /// Whether this row still computes prompt (or recomputes after a preemption): more than the one token a
    /// decode row has, or the last chunk of a prefill.
    pub prefill: bool,
}

/// Rows that a batch does not list: each computes one token, samples one, and prefills nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeRows {
    /// How many.
    pub count: u32,
    /// The sum of their contexts.
    pub context: u64,
}

/// What one `schedule` call decided. Kept by the caller until the step has run, then given to `update`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The scheduler's number for it, if it has rows.
    pub number: u64,
    /// The rows, in the order they were scheduled.
    pub rows: Vec<Row>,
    /// Further rows, of which only the sum is told ([`BatchScheduler::list_every_row`]).
    pub grouped: DecodeRows,
    /// Newly admitted requests with their prefix hit in tokens.
    pub admitted: Vec<(u64, u32)>,
    /// Requests resumed after a preemption, with their prefix hit in tokens.
    pub resumed: Vec<(u64, u32)>,
    /// Requests that lost their blocks in this call.
    pub preempted: Vec<u64>,
}

impl Batch {
    /// Forgets everything but its allocations.
    pub fn clear(&mut self) {
        (self.number, self.grouped) = (0, DecodeRows::default());
        self.rows.clear();
        self.admitted.clear();
        self.resumed.clear();
        self.preempted.clear();
    }

    /// Whether there is nothing to compute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.grouped.count == 0
    }

    /// Rows that compute prompt.
    #[must_use]
    pub fn prefill_rows(&self) -> usize {
        self.rows.iter().filter(|row| row.prefill).count()
    }

    /// Rows that decode, those of which only the sum is told included.
    #[must_use]
    pub fn decode_rows(&self) -> usize {
        self.rows.len() - self.prefill_rows() + self.grouped.count as usize
    }

    /// Becomes the batch so many quiet steps later ([`BatchScheduler::quiet_steps`]).
    pub fn advance(&mut self, steps: u32) {
        self.number += u64::from(steps);
        self.grouped.context += u64::from(steps) * u64::from(self.grouped.count);
    }
}

/// What the model produced for one row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Nothing: the row did not sample.
    Nothing,
    /// The next token of its output stream.
    Token,
    /// A stop token.
    Stop,
}

/// Why a request finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// `max_tokens` or the model's maximum length was reached.
    Length,
    /// A stop token came.
    Stop,
}

/// What one row's update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// The request.
    pub id: u64,
    /// Tokens given to the client, since the last time that some were reported.
    pub tokens: u32,
    /// Set if it finished with them.
    pub finish: Option<Finish>,
}

/// How loaded an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineLoad {
    /// Requests waiting.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// Blocks not free (cached but unreferenced ones are free).
    pub kv_blocks_used: u32,
    /// Usable blocks in all.
    pub kv_blocks_total: u32,
}

/// Totals since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineTotals {
    /// Prompt tokens looked up in the prefix cache at first admissions.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Cached blocks evicted.
    pub evictions: u64,
    /// Preemptions.
    pub preemptions: u64,
}

impl EngineTotals {
    /// Those of both together.
    #[must_use]
    pub fn and(self, other: EngineTotals) -> EngineTotals {
        EngineTotals {
            prefix_queries: self.prefix_queries + other.prefix_queries,
            prefix_hits: self.prefix_hits + other.prefix_hits,
            evictions: self.evictions + other.evictions,
            preemptions: self.preemptions + other.preemptions,
        }
    }
}

/// A batch scheduler. Other engines implement this beside vLLM's.
pub trait BatchScheduler {
    /// Takes a request in.
    fn add(&mut self, request: EngineRequest);
    /// Drops a request wherever it is. False if it is not known (any more).
    fn abort(&mut self, id: u64) -> bool;
    /// True while `schedule` has something to do: unfinished requests, or finished ones still to be reported.
    fn has_requests(&self) -> bool;
    /// Decides the next step into `batch` (cleared first). It may have no rows.
    fn schedule(&mut self, batch: &mut Batch);
    /// Takes the step's result: one sample for each listed row of `batch`, in order. Appends to `emitted` (not cleared)
    /// one entry for each of them that gave the client tokens or finished. The grouped rows get a token each, which is
    /// reported later.
    fn update(&mut self, batch: &Batch, samples: &[Sample], emitted: &mut Vec<Emitted>);
    /// How loaded it is now.
    fn load(&self) -> EngineLoad;
    /// Totals so far.
    fn totals(&self) -> EngineTotals;
    /// Steps that may be in flight at once: 1 synchronous, 2 asynchronous.
    fn depth(&self) -> usize;
    /// Groups no rows from now on. A scheduler that never does need not override this and what follows.
    fn list_every_row(&mut self) {}
    /// Reports every token of this request when it comes, from now on.
    fn report_each_token(&mut self, _id: u64) {}
    /// Tokens that this request's client was given and that are still to be reported.
    fn unreported_tokens(&self, _id: u64) -> u32 {
        0
    }
    /// Prompt tokens of a request without output that have been computed or hit; 0 for one that is not known.
    fn prefilled_tokens(&self, _id: u64) -> u32 {
        0
    }
    /// The most tokens that a grouped row has had, its context and its own.
    fn longest_grouped_row(&self) -> u32 {
        0
    }
    /// Of how many of the next steps, from a full pipeline that lists no row, it is sure that their batches have the same
    /// grouped rows as the last one, each with one more token of context, and nothing else, unless somebody comes or goes
    /// before. A scheduler that groups no rows need not override this and the next.
    fn quiet_steps(&self) -> u32 {
        0
    }
    /// Does so many of them, each an `update` with the oldest batch in flight and a `schedule`. The caller has the
    /// batches in flight become those that are then ([`Batch::advance`]).
    fn step_quietly(&mut self, _steps: u32) {}
    /// Leaves only the other blocks to be taken from now on, for a `share` of all from 0 to 1; whoever has blocks keeps
    /// them. A scheduler without a pool need not override this.
    fn withhold_blocks(&mut self, _share: f64) {}
}
