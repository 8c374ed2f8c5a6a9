//! One replica's engine: the simulator's replica in a thread of its own, whose events wait for their moment.
//!
//! An event is handled as at the time it was set for, however late the thread gets to it: lateness is counted, and never
//! adds up. Time, order and scheduling are those of a simulated run (`sim::run`).

mod live;
mod pace;
mod steps;

use crate::book::Book;
use crate::clock::Clock;
use crate::config::Config;
use crate::contents::Contents;
use crate::fault::Conditions;
use crate::step_log::StepLog;
use live::{Live, Requests};
use pace::{SlowFactor, pace};
use scaleproof_pack::chance;
use scaleproof_pack::prompt::TokenStream;
use scaleproof_pack::record::Outcome;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{Emitted, EngineRequest};
use scaleproof_sim::{Replica, Server, ServerLimits};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// What the server asks of the engine.
pub enum Command {
    /// Take a request.
    Submit(Box<Submission>),
    /// Its client is gone. Nothing if it has ended.
    Abort(u64),
    /// Empty the prefix cache. False if blocks are in use, and it is not.
    ResetCache(oneshot::Sender<bool>),
    /// From now on it is under these.
    Conditions(Conditions),
    /// End, and drop everything.
    End,
}

/// A request for the engine.
pub struct Submission {
    /// Unique in this engine.
    pub id: u64,
    /// When it came to the server.
    pub arrived: Instant,
    /// The prompt, at least one token.
    pub tokens: Vec<u32>,
    /// Prompts of different salts share nothing.
    pub salt: String,
    /// Tokens after which it ends.
    pub max_tokens: u32,
    /// Smaller is more urgent.
    pub priority: i32,
    /// Told at once whether it is taken.
    pub verdict: oneshot::Sender<Verdict>,
    /// Its tokens.
    pub pieces: mpsc::UnboundedSender<Piece>,
}

/// Whether a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is. The key of its answer's tokens.
    Taken(u64),
    /// The queue is full.
    QueueFull,
}

/// Tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How many.
    pub tokens: u32,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: u32,
    /// Whether they are the last.
    pub last: bool,
}

/// What the server sees of the engine.
#[derive(Clone, Debug)]
pub struct Shared(Arc<(Mutex<Book>, Mutex<Option<String>>)>);

impl Shared {
    /// Of an engine that has counted nothing yet.
    #[must_use]
    pub fn new(max_model_len: u32) -> Shared {
        Shared(Arc::new((Mutex::new(Book::new(max_model_len)), Mutex::new(None))))
    }

    /// The counts.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the engine failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, why: String) {
        *self.0.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// What happens at a time. In their order at the same time, as in a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Reached(u64),
    Ingested(u64),
    TakenIn,
    StepEnded,
    Abort(u64),
    LookAgain,
    Deliver(u64, u32, bool),
}

/// The engine.
pub struct Engine {
    config: Config,
    replica: Replica,
    clock: Clock,
    conditions: Conditions,
    contents: Contents,
    requests: Requests,
    server: Server,
    events: BinaryHeap<Reverse<(Nanos, Event, u64)>>,
    pushed: u64,
    /// The time of the latest event handled.
    now: Nanos,
    slow_factor: SlowFactor,
    number: u32,
    step_log: Option<StepLog>,
    emitted: Vec<Emitted>,
    /// Tokens that are due: whose, how many, whether the last.
    outbox: Vec<(u64, u32, bool)>,
    shared: Shared,
}

impl Engine {
    /// An idle engine whose time begins now. `number` and `life` tell its noise from that of other replicas and of the
    /// same one before it was started again.
    ///
    /// # Errors
    /// The engine settings' faults.
    pub fn new(
        config: &Config,
        number: u32,
        life: u64,
        shared: Shared,
        step_log: Option<StepLog>,
    ) -> Result<Engine, crate::EmulateError> {
        let scheduler = VllmScheduler::new(&config.engine).map_err(crate::EmulateError::Engine)?;
        let engine = &config.engine;
        let slow_factor = SlowFactor::default();
        let chance = chance::stream(config.seed, life, &format!("emulate noise {number}"));
        Ok(Engine {
            replica: Replica::new(Box::new(scheduler)).paced(pace(config.noise, chance, slow_factor.clone())),
            slow_factor,
            number,
            step_log,
            clock: Clock::start(Instant::now(), config.time_scale),
            conditions: Conditions::default(),
            contents: Contents::new(engine.num_blocks, engine.block_size),
            requests: Requests::default(),
            server: Server::default(),
            events: BinaryHeap::new(),
            pushed: 0,
            now: Nanos::ZERO,
            emitted: Vec::new(),
            outbox: Vec::new(),
            shared,
            config: config.clone(),
        })
    }

    /// Runs until it is told to end, or everybody is gone who could.
    pub fn run(mut self, commands: &Receiver<Command>) {
        self.note_load();
        while let Ok(command) = self.wait(commands) {
            let mut next = command;
            while let Some(command) = next {
                if matches!(command, Command::End) {
                    return;
                }
                self.obey(command);
                next = match commands.try_recv() {
                    Ok(command) => Some(command),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                };
            }
            if let Err(error) = self.advance() {
                self.fail(&error);
            }
        }
    }

    /// Waits for a command, or for the moment of the next event.
    fn wait(&self, commands: &Receiver<Command>) -> Result<Option<Command>, RecvTimeoutError> {
        let due = self.events.peek().and_then(|Reverse((at, ..))| self.clock.moment(*at));
        let Some(due) = due else {
            return commands.recv().map(Some).map_err(|_| RecvTimeoutError::Disconnected);
        };
        match commands.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            received => received.map(Some),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(*submission),
            Command::Abort(id) => {
                let at = self.clock.at(Instant::now());
                self.push(at, Event::Abort(id));
            }
            Command::ResetCache(answer) => {
                let idle = self.replica.engine().load().kv_blocks_used == 0;
                if idle {
                    self.contents.forget();
                }
                let _ = answer.send(idle);
            }
            Command::Conditions(conditions) => {
                self.conditions = conditions;
                self.slow_factor.set(conditions.slow_factor);
                self.replica.withhold_blocks(conditions.kv_cut_share);
                self.clock.stop(conditions.stalled.is_some(), Instant::now());
                // Who waited for blocks may have them now.
                self.push(self.clock.at(Instant::now()), Event::LookAgain);
            }
            Command::End => {}
        }
    }

    /// Events of before what was handled already are handled next.
    fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at.max(self.now), event, self.pushed)));
    }

    /// The server's part: a request is taken or refused.
    fn submit(&mut self, submission: Submission) {
        if self.shared.failure().is_some() {
            return;
        }
        let limits = &self.config.limits;
        let (input, output) = (submission.tokens.len() as u32, submission.max_tokens);
        if let Some((Outcome::Rejected, _)) = limits.refusal(&self.server, input, output) {
            let by_requests = ServerLimits { max_queued_tokens: None, ..*limits };
            let of_requests = by_requests.refusal(&self.server, input, output).is_some();
            let mut book = self.shared.book();
            let count = if of_requests { &mut book.rejected.0 } else { &mut book.rejected.1 };
            *count += 1;
            let _ = submission.verdict.send(Verdict::QueueFull);
            return;
        }
        let (prompt, end) = self.contents.prompt(&submission.salt, &submission.tokens);
        let _ = submission.verdict.send(Verdict::Taken(end.key()));
        let arrived = self.clock.at(submission.arrived).max(self.now);
        self.server.unfinished += 1;
        self.server.tokens_without_answer += u64::from(input);
        let engine_request = EngineRequest {
            id: submission.id,
            prompt,
            output: TokenStream::output(submission.id),
            max_tokens: output,
            priority: submission.priority,
        };
        let live = Live::new(engine_request, end, input, arrived, submission.pieces);
        self.requests.insert(submission.id, live);
        self.push(arrived, Event::Reached(submission.id));
    }
}
