//! The gateway's gate: an admission policy with the queue and the counts that it reads. The owner tells it what happens
//! and does what it says, in virtual time or live.

use crate::admission::{Admission, Decision, Ended, Inside, Predictor, View, Waiting};
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::time::Nanos;
use std::collections::VecDeque;

/// What the gate counts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Its class.
    pub class: u16,
    /// Its prompt, in tokens.
    pub input_tokens: u32,
    /// The most tokens that it asks for.
    pub output_tokens: u32,
}

impl Size {
    /// Context tokens while it decodes: its prompt, and half of the answer.
    fn context_tokens(self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens / 2)
    }
}

impl From<&RouteRequest<'_>> for Size {
    fn from(request: &RouteRequest<'_>) -> Size {
        let &RouteRequest { class, input_tokens, output_tokens, .. } = request;
        Size { class, input_tokens, output_tokens }
    }
}

/// What surrounds the gate.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The time of the run.
    pub now: Nanos,
    /// The replicas as the router knows them.
    pub fleet: &'a Fleet,
    /// What a replica would need for a given load.
    pub predictor: &'a dyn Predictor,
}

struct Queued<T> {
    ticket: T,
    arrived: Nanos,
    size: Size,
}

/// A gate; `T` is what its owner knows a request by.
pub struct Gate<T> {
    policy: Box<dyn Admission>,
    inside: Inside,
    waiting: Waiting,
    /// Those that wait, by class, in order of arrival.
    queues: Vec<VecDeque<Queued<T>>>,
}

impl<T: Copy + PartialEq> Gate<T> {
    /// A gate before an idle fleet.
    #[must_use]
    pub fn new(policy: Box<dyn Admission>) -> Gate<T> {
        Gate { policy, inside: Inside::default(), waiting: Waiting::default(), queues: Vec::new() }
    }

    /// A request arrives. If it is let in or waits, the gate has counted it.
    pub fn arrive(&mut self, ticket: T, request: &RouteRequest<'_>, around: Surroundings<'_>) -> Decision {
        let size = Size::from(request);
        self.know(size.class);
        let view = view(&self.inside, &self.waiting, around);
        let decision = self.policy.arrive(request, &view);
        match decision {
            Decision::Admit => self.enter(size),
            Decision::Wait { .. } => {
                let queue = &mut self.queues[usize::from(size.class)];
                queue.push_back(Queued { ticket, arrived: around.now, size });
                self.recount(size.class);
            }
            Decision::Refuse(_) => {}
        }
        decision
    }

    /// The request that goes on now, if one does. To be asked after an end until it says None.
    pub fn release(&mut self, around: Surroundings<'_>) -> Option<T> {
        if self.waiting.requests == 0 {
            return None;
        }
        let class = self.policy.release(&view(&self.inside, &self.waiting, around))?;
        let next = self.queues.get_mut(usize::from(class))?.pop_front()?;
        self.recount(class);
        self.enter(next.size);
        Some(next.ticket)
    }

    /// A request that waits does so no longer: its client left, or it was refused.
    pub fn left(&mut self, ticket: T, class: u16) {
        let queue = &mut self.queues[usize::from(class)];
        queue.retain(|queued| queued.ticket != ticket);
        self.recount(class);
    }

    /// A request that was let in has its first token.
    pub fn first_token(&mut self, size: Size) {
        self.inside.without_answer -= 1;
        self.inside.tokens_without_answer -= u64::from(size.input_tokens);
        self.inside.context_tokens += size.context_tokens();
    }

    /// A request that was let in has ended, `answered` if it had its first token.
    pub fn ended(&mut self, size: Size, answered: bool, ended: &Ended, around: Surroundings<'_>) {
        self.inside.requests -= 1;
        self.inside.by_class[usize::from(size.class)] -= 1;
        if answered {
            self.inside.context_tokens -= size.context_tokens();
        } else {
            self.inside.without_answer -= 1;
            self.inside.tokens_without_answer -= u64::from(size.input_tokens);
        }
        self.policy.ended(ended, &view(&self.inside, &self.waiting, around));
    }

    fn enter(&mut self, size: Size) {
        self.inside.requests += 1;
        self.inside.by_class[usize::from(size.class)] += 1;
        self.inside.without_answer += 1;
        self.inside.tokens_without_answer += u64::from(size.input_tokens);
    }

    /// Makes room for a class.
    fn know(&mut self, class: u16) {
        let count = usize::from(class) + 1;
        if self.queues.len() < count {
            self.queues.resize_with(count, VecDeque::new);
            self.waiting.by_class.resize(count, (0, None));
            self.inside.by_class.resize(count, 0);
        }
    }

    fn recount(&mut self, class: u16) {
        let queue = &self.queues[usize::from(class)];
        let now = (queue.len() as u32, queue.front().map(|queued| queued.arrived));
        let before = std::mem::replace(&mut self.waiting.by_class[usize::from(class)], now);
        self.waiting.requests = self.waiting.requests - before.0 + now.0;
    }
}

fn view<'a>(inside: &'a Inside, waiting: &'a Waiting, around: Surroundings<'a>) -> View<'a> {
    View { now: around.now, fleet: around.fleet, inside, waiting, predictor: around.predictor }
}
