//! Walks a schedule against the wall clock. One thread does nothing else: it sleeps until the next request is due, has
//! its body ready, hands it to a task, and takes what ended. Connections live on the runtime's threads, records
//! are looked at on the caller's: neither a slow answer nor a slow disk delays an arrival.

use crate::attempt::{Job, Shared, attempt};
use crate::dispatch::{Dispatch, Due};
use crate::maker::PromptMaker;
use crate::request::Template;
use crate::route::Routes;
use bytes::Bytes;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::ScheduleError;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::workload::RequestRef;
use scaleproof_policy::Scheduled;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The state of a run is told this often.
const TELL_EVERY: Nanos = Nanos(100_000_000);

/// What reaches the driver.
pub(crate) enum Message {
    Ended(RequestRef, Box<Record>),
    Sample(TimelineRow),
    Stop,
}

/// What the driver tells.
pub(crate) enum Told {
    Record(Box<Record>),
    Status(Status),
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// The run's own time.
    pub now: Nanos,
    /// Requests sent, warm-up included.
    pub sent: u64,
    /// Of those, ended.
    pub ended: u64,
    /// Requests known so far, warm-up included.
    pub planned: u64,
    /// Requests that no target was there for.
    pub dropped: u64,
    /// Measured requests taken from the schedule's continuation.
    pub continued: u64,
    /// Mean of the requests in flight until now.
    pub mean_in_flight: f64,
}

/// The driver's parts.
pub(crate) struct Driver<'a> {
    pub dispatch: Dispatch<'a>,
    pub routes: Routes,
    pub prompts: &'a mut dyn PromptMaker,
    pub template: &'a Template,
    pub shared: Arc<Shared>,
    pub runtime: Handle,
    pub inbox: Receiver<Message>,
    /// Given to each attempt.
    pub reply: Sender<Message>,
    pub tell: Sender<Told>,
    pub stop: watch::Sender<bool>,
}

/// What the driver counts.
#[derive(Default)]
struct Counts {
    status: Status,
    /// The body of the next request, made before its time.
    prepared: Option<(RequestRef, Bytes)>,
    /// Sum of requests in flight times nanoseconds, and until when.
    in_flight_ns: u128,
    counted_until: Nanos,
    told_at: Nanos,
}

impl Driver<'_> {
    /// Runs the schedule to its end, or until it is told to stop.
    ///
    /// # Errors
    /// If the schedule could not be continued; what was told until then is valid.
    pub(crate) fn run(mut self) -> Result<Status, ScheduleError> {
        let mut counts = Counts::default();
        while !self.dispatch.is_over() {
            self.send_what_is_due(&mut counts);
            self.prepare(&mut counts);
            let now = self.shared.clock.now();
            if now >= counts.told_at + TELL_EVERY {
                counts.told_at = now;
                let status = self.status(&mut counts);
                let _ = self.tell.send(Told::Status(status));
            }
            let wake = self.dispatch.next().map_or(now + TELL_EVERY, |due| due.at.min(now + TELL_EVERY));
            match self.inbox.recv_timeout(Duration::from_nanos(wake.since(now).0)) {
                Ok(message) => {
                    self.take(message, &mut counts);
                    // What else is there, but never past the next request's time.
                    while self.dispatch.next().is_none_or(|due| due.at > self.shared.clock.now())
                        && let Ok(message) = self.inbox.try_recv()
                    {
                        self.take(message, &mut counts);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The driver holds a sender itself.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.status(&mut counts);
        match self.dispatch.take_failure() {
            Some(error) => Err(error),
            None => Ok(status),
        }
    }

    fn status(&self, counts: &mut Counts) -> Status {
        let now = self.count_in_flight(counts);
        let mean_in_flight = counts.in_flight_ns as f64 / (now.0 as f64).max(1.0);
        let workload = self.dispatch.workload();
        Status {
            now,
            planned: workload.len(),
            continued: workload.continued(),
            mean_in_flight,
            ..counts.status
        }
    }

    fn count_in_flight(&self, counts: &mut Counts) -> Nanos {
        let now = self.shared.clock.now();
        let passed = now.since(counts.counted_until).0;
        counts.in_flight_ns += u128::from(passed) * u128::from(self.dispatch.in_flight());
        counts.counted_until = now;
        now
    }

    fn send_what_is_due(&mut self, counts: &mut Counts) {
        loop {
            let now = self.count_in_flight(counts);
            let Some(due) = self.dispatch.take(now) else { return };
            self.send(due, counts);
        }
    }

    fn send(&mut self, due: Due, counts: &mut Counts) {
        let planned = self.dispatch.planned(due.request);
        let body = match counts.prepared.take() {
            Some((request, body)) if request == due.request => body,
            other => {
                counts.prepared = other;
                self.body(due.request)
            }
        };
        counts.status.sent += 1;
        let scheduled = Scheduled { workload: self.dispatch.workload(), request: due.request };
        let asking = scheduled.asking(self.shared.clock.now());
        let Some(replica) = asking.and_then(|asking| self.routes.choose(&asking)) else {
            counts.status.dropped += 1;
            let record = Box::new(dropped(due, &planned, self.shared.clock.now()));
            self.take(Message::Ended(due.request, record), counts);
            return;
        };
        let job = Job { request: due.request, planned, scheduled: due.at, replica, body };
        let (shared, reply) = (Arc::clone(&self.shared), self.reply.clone());
        self.runtime.spawn(async move {
            let (request, record) = attempt(shared, job).await;
            // Nobody listens any more only when the run is over.
            let _ = reply.send(Message::Ended(request, Box::new(record)));
        });
    }

    fn prepare(&mut self, counts: &mut Counts) {
        let Some(due) = self.dispatch.next() else { return };
        if counts.prepared.as_ref().is_none_or(|(request, _)| *request != due.request) {
            counts.prepared = Some((due.request, self.body(due.request)));
        }
    }

    fn body(&mut self, request: RequestRef) -> Bytes {
        let planned = self.dispatch.planned(request);
        let segments =
            self.dispatch.workload().prompt(request).map_or_else(Vec::new, |(segments, _)| segments);
        self.template.body(self.prompts.prompt(&segments), planned.output_tokens, planned.priority)
    }

    fn take(&mut self, message: Message, counts: &mut Counts) {
        match message {
            Message::Ended(request, record) => {
                let now = self.count_in_flight(counts);
                self.dispatch.ended(request, record.outcome, now);
                counts.status.ended += 1;
                if let Some(target) = record.replica {
                    self.routes.ended(target);
                }
                let _ = self.tell.send(Told::Record(record));
            }
            Message::Sample(row) => self.routes.sampled(&row),
            Message::Stop => {
                self.dispatch.stop();
                let _ = self.stop.send(true);
            }
        }
    }
}

/// The record of a request that could go nowhere.
fn dropped(due: Due, planned: &scaleproof_pack::schedule::Planned, now: Nanos) -> Record {
    Record {
        id: due.request.index,
        class: planned.class,
        warmup: due.request.warmup,
        scheduled: due.at,
        sent: now,
        first_token: None,
        ended: now,
        input_tokens: planned.input_tokens,
        cached_tokens: 0,
        output_tokens: 0,
        requested_tokens: planned.output_tokens,
        outcome: Outcome::Error,
        replica: None,
        preemptions: 0,
        retries: 0,
        reason: "no replica",
        computed_tokens: None,
        wire: None,
    }
}
