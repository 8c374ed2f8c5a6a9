//! The gateway before the replicas: arrival, admission, its queue, router, replica.

use super::{REFUSAL_TURNAROUND_MIN, Simulation};
use crate::attempt::{Attempt, Fate, Stage};
use crate::event::{Event, GiveUp, Slot};
use crate::front_end::FrontEndProcess;
use crate::predict::Prediction;
use crate::setup::RunError;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::RequestRef;
use scaleproof_policy::Scheduled;
use scaleproof_policy::admission::{Decision, Ended};
use scaleproof_policy::gate::{Size, Surroundings};

impl Attempt {
    fn size(&self) -> Size {
        Size { class: self.class, input_tokens: self.input_tokens, output_tokens: self.requested_tokens }
    }
}

impl Simulation<'_> {
    /// A client sends a request.
    pub(super) fn send(&mut self, request: RequestRef, now: Nanos) -> Result<(), RunError> {
        let planned = *self.workload.get(request).expect("only scheduled requests are sent");
        let deadline = [
            self.config.timeout.map(|limit| (now + limit, GiveUp::Timeout)),
            planned.cancel_after.map(|after| (now + after, GiveUp::Cancel)),
        ];
        let slot = self.attempts.insert(Attempt {
            request,
            class: planned.class,
            scheduled: now,
            sent: now,
            first_token: None,
            input_tokens: planned.input_tokens,
            requested_tokens: planned.output_tokens,
            output_tokens: 0,
            cached_tokens: 0,
            prefilled_tokens: 0,
            preemptions: 0,
            replica: None,
            counted: false,
            stage: Stage::Through,
            in_engine: false,
            away: Nanos::ZERO,
            retries: 0,
            fate: None,
            deadline: deadline.into_iter().flatten().min_by_key(|&(at, _)| at),
        });
        match self.ask(slot, request, now) {
            Decision::Admit => {
                self.arm_patience(slot);
                self.dispatch(slot, now)?;
            }
            Decision::Wait { at_most } => {
                self.arm_patience(slot);
                self.events.push(now + at_most, Event::GiveUp(slot, GiveUp::GatewayTimeout));
            }
            Decision::Refuse(why) => self.refuse(slot, Outcome::Rejected, now + REFUSAL_TURNAROUND_MIN, why),
        }
        Ok(())
    }

    /// What the admission policy says to an arrival.
    fn ask(&mut self, slot: Slot, request: RequestRef, now: Nanos) -> Decision {
        let Some(gate) = &mut self.gate else { return Decision::Admit };
        let scheduled = Scheduled { workload: &self.workload, request };
        let asking = scheduled.asking(now).expect("only scheduled requests are sent");
        let predictor = Prediction::of(self.config);
        let decision =
            gate.arrive(slot, &asking, Surroundings { now, fleet: &self.fleet, predictor: &predictor });
        let attempt = self.attempts.get_mut(slot).expect("it was just sent");
        attempt.stage = match decision {
            Decision::Admit => Stage::Inside,
            Decision::Wait { .. } => Stage::Waiting,
            Decision::Refuse(_) => Stage::Through,
        };
        decision
    }

    /// The router chooses a replica for an attempt that was let in, and it is sent there.
    pub(super) fn dispatch(&mut self, slot: Slot, now: Nanos) -> Result<(), RunError> {
        let Some(&attempt) = self.attempts.get(slot) else { return Ok(()) };
        let scheduled = Scheduled { workload: &self.workload, request: attempt.request };
        let asking = scheduled.asking(now).expect("only scheduled requests are sent");
        let Some(replica) = self.router.choose(&asking, &self.fleet, &mut self.router_chance) else {
            match self.turmoil {
                Some(_) => self.will_fail(slot, Fate::NoReplica, now),
                None => self.settle(slot, Outcome::Error, now, "no replica"),
            }
            return Ok(());
        };
        let chosen = self.attempts.get_mut(slot).expect("just seen");
        (chosen.replica, chosen.counted) = (Some(replica), true);
        self.fleet.sent(replica);
        let server = &mut self.servers[replica as usize];
        let refusal = self.config.limits.refusal(server, attempt.input_tokens, attempt.requested_tokens);
        server.unfinished += 1;
        server.tokens_without_answer += u64::from(attempt.input_tokens);
        let mut way = Nanos::ZERO;
        if self.turmoil.is_some() {
            let full = refusal.is_some_and(|(outcome, _)| outcome == Outcome::Rejected);
            match self.connect(slot, replica, full, now) {
                Some(latency) => way = latency,
                None => return Ok(()),
            }
        }
        if let Some((outcome, reason)) = refusal {
            // The answer takes its way, however short: a closed-loop client that is refused comes back after it.
            let work = self.config.front_end.ingest(attempt.input_tokens)?;
            self.refuse(slot, outcome, now + (way + work).max(REFUSAL_TURNAROUND_MIN), reason);
            return Ok(());
        }
        if way > Nanos::ZERO && self.config.front_end.process != FrontEndProcess::Parallel {
            self.events.push(now + way, Event::Reached(slot));
            return Ok(());
        }
        self.reached(slot, now + way)
    }

    /// A request is at its replica's front end, at `at`: now, unless nobody waits there.
    pub(super) fn reached(&mut self, slot: Slot, at: Nanos) -> Result<(), RunError> {
        let Some(attempt) = self.attempts.get(slot) else { return Ok(()) };
        let front_end = &self.config.front_end;
        if front_end.process == FrontEndProcess::Parallel {
            self.events.push(at + front_end.ingest(attempt.input_tokens)?, Event::Ingested(slot));
            return Ok(());
        }
        let work = front_end.work(attempt.input_tokens)?;
        let replica = attempt.replica.expect("it was sent to one");
        if self.replicas[replica as usize].await_intake(slot.engine_id(), work) {
            self.begin_intake(replica, at);
        }
        Ok(())
    }

    fn begin_intake(&mut self, replica: u32, now: Nanos) {
        let shared = self.config.front_end.process == FrontEndProcess::Shared;
        if shared {
            self.interrupt(replica, false);
        }
        let unit = &mut self.replicas[replica as usize];
        let Some((done, held_up)) = unit.begin_intake(now, shared) else { return };
        self.events.push(done, Event::TakenIn(replica, unit.start()));
        if held_up > Nanos::ZERO {
            self.events.set_step_end(replica, unit.next_end());
            if let Some(watcher) = &mut self.watcher {
                watcher.held_up(replica, now, held_up);
            }
        }
    }

    /// The front end of a replica, if its process is still this one, has worked on its first request: that goes on to the engine,
    /// and the next is worked on.
    pub(super) fn taken_in(&mut self, replica: u32, start: u32, now: Nanos) {
        let unit = &mut self.replicas[replica as usize];
        if unit.start() != start {
            return;
        }
        if let Some(id) = unit.end_intake() {
            self.events.push(now + self.config.front_end.aside(), Event::Ingested(Slot::of_engine_id(id)));
        }
        self.begin_intake(replica, now);
    }

    /// Tells the gate of a first token.
    pub(super) fn answered(&mut self, attempt: &Attempt) {
        if let (Some(gate), Stage::Inside) = (&mut self.gate, attempt.stage) {
            gate.first_token(attempt.size());
        }
    }

    /// Tells the gate of an end, and lets those in that may go on then.
    pub(super) fn leave(&mut self, slot: Slot, attempt: &Attempt, record: &Record, now: Nanos) {
        let Some(gate) = &mut self.gate else { return };
        let predictor = Prediction::of(self.config);
        let around = Surroundings { now, fleet: &self.fleet, predictor: &predictor };
        match attempt.stage {
            Stage::Through => return,
            Stage::Waiting => gate.left(slot, attempt.class),
            Stage::Inside => {
                gate.ended(attempt.size(), attempt.first_token.is_some(), &ended(record), around);
            }
        }
        while let Some(next) = gate.release(around) {
            self.attempts.get_mut(next).expect("those that wait are open").stage = Stage::Inside;
            self.events.push(now, Event::Dispatch(next));
        }
    }

    /// The longest wait at the gateway is over.
    pub(super) fn waited_too_long(&mut self, slot: Slot, now: Nanos) {
        if self.attempts.get(slot).is_some_and(|attempt| attempt.stage == Stage::Waiting) {
            self.abandon(slot, GiveUp::GatewayTimeout, now);
        }
    }
}

fn ended(record: &Record) -> Ended {
    Ended {
        class: record.class,
        arrived: record.sent,
        ok: record.outcome == Outcome::Ok,
        ttft_ms: record.ttft().map(Nanos::millis),
        tpot_ms: record.tpot_ms(),
        e2e_ms: record.e2e().millis(),
        output_tokens: record.output_tokens,
    }
}
