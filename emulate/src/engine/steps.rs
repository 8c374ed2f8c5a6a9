//! What happens at an engine's times: requests come in, steps end, tokens go out.

use super::live::Requests;
use super::{Engine, Event, Piece};
use crate::book::Ended;
use crate::tokens::answer_token;
use scaleproof_pack::prompt::TokenStream;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::FrontEndProcess;
use scaleproof_sim::step_time::StepTimeError;
use std::cmp::Reverse;
use std::time::Instant;

impl Engine {
    /// Handles what is due.
    pub(super) fn advance(&mut self) -> Result<(), StepTimeError> {
        let mut moved = false;
        while let Some(&Reverse((at, event, _))) = self.events.peek() {
            if self.clock.moment(at).is_none_or(|due| due > Instant::now()) {
                break;
            }
            self.events.pop();
            self.now = at;
            moved = true;
            match event {
                Event::Reached(id) => self.reached(id)?,
                Event::Ingested(id) => self.ingested(id)?,
                Event::TakenIn => self.taken_in(),
                Event::StepEnded => self.step_ended()?,
                Event::Abort(id) => self.abort(id)?,
                Event::LookAgain => self.launch_if_idle()?,
                Event::Deliver(id, tokens, last) => self.outbox.push((id, tokens, last)),
            }
        }
        if moved {
            self.note_load();
            self.deliver();
        }
        Ok(())
    }

    pub(super) fn note_load(&self) {
        let mut book = self.shared.book();
        book.load = self.replica.engine().load();
        book.totals = self.replica.engine().totals();
    }

    fn reached(&mut self, id: u64) -> Result<(), StepTimeError> {
        let Some(live) = self.requests.get_mut(id) else { return Ok(()) };
        let front_end = &self.config.front_end;
        if front_end.process == FrontEndProcess::Parallel {
            let ingested = self.now + front_end.ingest(live.prompt_tokens)?;
            self.push(ingested, Event::Ingested(id));
        } else if self.replica.await_intake(id, front_end.work(live.prompt_tokens)?) {
            self.begin_intake();
        }
        Ok(())
    }

    fn begin_intake(&mut self) {
        let shared = self.config.front_end.process == FrontEndProcess::Shared;
        if let Some((done, _)) = self.replica.begin_intake(self.now, shared) {
            self.push(done, Event::TakenIn);
        }
    }

    fn taken_in(&mut self) {
        if let Some(id) = self.replica.end_intake() {
            self.push(self.now + self.config.front_end.aside(), Event::Ingested(id));
        }
        self.begin_intake();
    }

    fn ingested(&mut self, id: u64) -> Result<(), StepTimeError> {
        let Some(live) = self.requests.get_mut(id) else { return Ok(()) };
        live.queued_at = self.now;
        if let Some(request) = live.request.take() {
            self.replica.add(request);
        }
        self.launch_if_idle()
    }

    pub(super) fn launch_if_idle(&mut self) -> Result<(), StepTimeError> {
        if self.replica.is_idle() { self.launch() } else { Ok(()) }
    }

    /// Puts as many steps in flight as the pipeline takes.
    fn launch(&mut self) -> Result<(), StepTimeError> {
        loop {
            let Some(launched) = self.replica.launch(self.now, &self.config.step_time)? else {
                return Ok(());
            };
            let begins = launched.span.map_or(self.now, |(begins, _)| begins);
            self.requests.note(launched.batch, begins);
            if let (Some(log), Some(span)) = (&self.step_log, launched.span) {
                log.note(self.number, span, launched.batch);
            }
            let (span, preempted) = (launched.span, !launched.batch.preempted.is_empty());
            match span {
                Some((_, ends)) => self.push(ends, Event::StepEnded),
                None if preempted && self.replica.is_idle() => {}
                None => return Ok(()),
            }
        }
    }

    fn step_ended(&mut self) -> Result<(), StepTimeError> {
        // A front end on the same core may have held it up.
        if let Some(later) = self.replica.next_end().filter(|end| end.at > self.now) {
            self.push(later.at, Event::StepEnded);
            return Ok(());
        }
        let due = self.clock.moment(self.now).unwrap_or_else(Instant::now);
        let lag = Instant::now().saturating_duration_since(due);
        let mut emitted = std::mem::take(&mut self.emitted);
        emitted.clear();
        self.replica.complete(&mut emitted);
        let given = self.now + self.config.front_end.output_token;
        let arrives = given + Nanos::from_millis(self.conditions.token_latency_ms)?;
        let mut step_tokens = 0;
        for token in &emitted {
            let Some(live) = self.requests.get_mut(token.id) else { continue };
            let last = token.finish.is_some();
            if live.output_tokens == 0 && token.tokens > 0 {
                self.server.tokens_without_answer -= u64::from(live.prompt_tokens);
            }
            step_tokens += live.note_tokens(token.tokens, given, &self.clock, &mut self.shared.book());
            if last {
                self.finished(token.id);
            }
            self.send(token.id, token.tokens, last, arrives);
        }
        self.emitted = emitted;
        let mut book = self.shared.book();
        book.step_tokens.observe(step_tokens as f64);
        book.step_ended(lag);
        drop(book);
        self.launch()
    }

    /// Lets tokens reach the client at `arrives`, but not before those sent earlier.
    fn send(&mut self, id: u64, tokens: u32, last: bool, arrives: Nanos) {
        let Some(live) = self.requests.get_mut(id) else { return };
        let arrives = arrives.max(live.delivered_until);
        live.delivered_until = arrives;
        if arrives > self.now {
            self.push(arrives, Event::Deliver(id, tokens, last));
        } else {
            self.outbox.push((id, tokens, last));
        }
    }

    /// Hands out what is due, after it was counted: who has an answer finds it in `/metrics`.
    fn deliver(&mut self) {
        for (id, tokens, last) in self.outbox.drain(..) {
            let Some(live) = self.requests.get_mut(id) else { continue };
            // Nobody may listen any more: its abort is on the way.
            let _ = live.pieces.send(Piece { tokens, cached_tokens: live.cached_tokens, last });
            if last {
                self.requests.remove(id);
            }
        }
    }

    /// The engine is done with a request whose last tokens may still be on their way.
    fn finished(&mut self, id: u64) {
        let Some(live) = self.requests.get_mut(id) else { return };
        live.finished = true;
        self.shared.book().finished(&live.result(&self.clock));
        self.leave(id);
    }

    fn abort(&mut self, id: u64) -> Result<(), StepTimeError> {
        let Some(live) = self.requests.get_mut(id) else { return Ok(()) };
        if !live.finished {
            self.replica.abort(id);
            self.shared.book().count_end(Ended::Abort);
            self.leave(id);
        }
        self.requests.remove(id);
        self.launch_if_idle()
    }

    /// The server and the cache take note that a request has left the engine.
    fn leave(&mut self, id: u64) {
        let Some(live) = self.requests.get_mut(id) else { return };
        self.server.unfinished = self.server.unfinished.saturating_sub(1);
        if live.output_tokens == 0 {
            let input = u64::from(live.prompt_tokens);
            self.server.tokens_without_answer = self.server.tokens_without_answer.saturating_sub(input);
        }
        let (key, given) = (live.end.key(), live.output_tokens);
        let answer = (0..given).map(|index| answer_token(key, index));
        self.contents.answered(&live.end, TokenStream::output(id), answer);
    }

    /// The engine cannot go on. Whoever waits for it learns so by the end of his channel.
    pub(super) fn fail(&mut self, error: &StepTimeError) {
        let mut book = self.shared.book();
        (0..self.requests.open()).for_each(|_| book.count_end(Ended::Error));
        drop(book);
        self.shared.fail(format!("the profile's step time is unusable: {error}"));
        self.requests = Requests::default();
        self.events.clear();
    }
}
