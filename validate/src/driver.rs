//! Walks a schedule against the wall clock. One thread does nothing else: it sleeps until the next request is due, has
//! its body ready, hands it to a task, and takes what ended. Connections live on the runtime's threads, records
//! are looked at on the caller's: neither a slow answer nor a slow disk delays an arrival.

use crate::answer::Failed;
use crate::attempt::{Job, Shared, attempt};
use crate::dispatch::{Dispatch, Due};
use crate::give_up::GivingUp;
use crate::guard::{Guard, Later};
use crate::maker::PromptMaker;
use crate::news::News;
use crate::request::Template;
use crate::route::Routes;
use bytes::Bytes;
use scaleproof_pack::failure::{Moment, Sign, What};
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
    /// A try ended, and how if it failed.
    Ended(Box<Job>, Box<Record>, Option<Failed>),
    /// A target began to answer.
    Answered(u32),
    /// A connection to it broke, in the middle of an answer or before.
    Broke(u32),
    FirstToken {
        target: u32,
        took: Nanos,
    },
    /// A target was asked whether it serves.
    Checked(u32, bool),
    Sample(TimelineRow),
    Stop,
}

/// What the driver tells.
pub(crate) enum Told {
    Record(Box<Record>),
    Status(Status),
    News(News),
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
    /// What is done about targets that fail.
    pub guard: Option<Guard>,
    /// Clients that give up together.
    pub giving_up: Option<GivingUp>,
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
            self.do_what_is_later(&mut counts);
            self.prepare(&mut counts);
            let now = self.shared.clock.now();
            if now >= counts.told_at + TELL_EVERY {
                counts.told_at = now;
                let status = self.status(&mut counts);
                let _ = self.tell.send(Told::Status(status));
            }
            let ahead = [self.dispatch.next().map(|due| due.at), self.guard.as_ref().and_then(Guard::next)];
            let wake = ahead.into_iter().flatten().fold(now + TELL_EVERY, Nanos::min);
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
        let job = Job {
            request: due.request,
            planned,
            scheduled: due.at,
            replica: 0,
            body,
            first_sent: None,
            retries: 0,
            gives_up: None,
        };
        self.try_once(Box::new(job), counts);
    }

    /// Sends a request to the target that the router chooses.
    fn try_once(&mut self, mut job: Box<Job>, counts: &mut Counts) {
        let scheduled = Scheduled { workload: self.dispatch.workload(), request: job.request };
        let now = self.shared.clock.now();
        let asking = scheduled.asking(now);
        let Some(target) = asking.and_then(|asking| self.routes.choose(&asking)) else {
            let record = Box::new(dropped(&job, now));
            match self.guard.as_mut() {
                Some(guard) => {
                    job.first_sent.get_or_insert(now);
                    let given_up = guard.again(job, record, now);
                    given_up.into_iter().for_each(|record| self.settle(record, counts));
                }
                None => {
                    counts.status.dropped += 1;
                    self.settle(record, counts);
                }
            }
            return;
        };
        job.replica = target;
        job.gives_up = self.giving_up.as_mut().and_then(|giving_up| giving_up.draw(target, now));
        self.guard.iter_mut().for_each(Guard::tried);
        self.say(News::Sent { target });
        let (shared, reply) = (Arc::clone(&self.shared), self.reply.clone());
        self.runtime.spawn(async move {
            let (job, record, failed) = attempt(shared, job, &reply).await;
            // Nobody listens any more only when the run is over.
            let _ = reply.send(Message::Ended(job, Box::new(record), failed));
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
            Message::Ended(job, record, failed) => self.try_ended(job, record, failed, counts),
            Message::Answered(target) => {
                self.guard.iter_mut().for_each(|guard| guard.try_succeeded(target));
            }
            Message::Broke(target) => self.note(target, What::Detected(Sign::Reset)),
            Message::FirstToken { target, took } => self.say(News::FirstToken { target, took }),
            Message::Checked(target, passed) => {
                self.guard.iter_mut().for_each(|guard| guard.checked(target, passed));
                // Of one that is out already, that it fails is no news.
                if !passed && self.routes.is_available(target) {
                    self.note(target, What::Detected(Sign::HealthCheck));
                }
                self.admit_or_remove(target, Sign::HealthCheck);
            }
            Message::Sample(row) => self.routes.sampled(&row),
            Message::Stop => {
                self.dispatch.stop();
                let _ = self.stop.send(true);
                let now = self.shared.clock.now();
                for mut record in self.guard.as_mut().map_or_else(Vec::new, Guard::stop) {
                    (record.outcome, record.reason, record.ended) =
                        (Outcome::Cancelled, "the run was stopped", now);
                    self.settle(Box::new(record), counts);
                }
            }
        }
    }

    /// A try ended: the request with it, unless it is sent again.
    fn try_ended(&mut self, job: Box<Job>, record: Box<Record>, failed: Option<Failed>, counts: &mut Counts) {
        let (now, target) = (self.shared.clock.now(), job.replica);
        self.routes.ended(target);
        let connection = failed.and_then(Failed::connection);
        self.say(News::TryEnded { target, at: record.ended, failed: connection });
        if let Some(failed) = failed {
            let sign = match failed {
                Failed::NoConnection(_) => Some(Sign::Connection),
                Failed::Full => Some(Sign::ServerError),
                // Told when it happened, and of one whose answer had begun no router makes anything.
                Failed::Broken => None,
            };
            if let Some(sign) = sign {
                self.note(target, What::Detected(sign));
                self.guard.iter_mut().for_each(|guard| guard.try_failed(target, now));
                self.admit_or_remove(target, sign);
            }
        }
        let again = failed.is_some_and(|failed| failed != Failed::Broken) && !*self.stop.borrow();
        let ended = match self.guard.as_mut() {
            Some(guard) if again => guard.again(job, record, now),
            _ => Some(record),
        };
        ended.into_iter().for_each(|record| self.settle(record, counts));
    }

    /// The one end of a request.
    fn settle(&mut self, record: Box<Record>, counts: &mut Counts) {
        let now = self.count_in_flight(counts);
        let request = RequestRef { warmup: record.warmup, index: record.id };
        self.dispatch.ended(request, record.outcome, now);
        counts.status.ended += 1;
        let _ = self.tell.send(Told::Record(record));
    }

    fn do_what_is_later(&mut self, counts: &mut Counts) {
        while let Some(later) = self.guard.as_mut().and_then(|guard| guard.take(self.shared.clock.now())) {
            match later {
                Later::HalfOpen(target) => {
                    self.guard.iter_mut().for_each(|guard| guard.half_open(target));
                    self.admit_or_remove(target, Sign::Connection);
                }
                Later::Retry(job, _) => self.try_once(job, counts),
            }
        }
    }

    /// Puts into effect what is known of a target; `sign` is what brought the news.
    fn admit_or_remove(&mut self, target: u32, sign: Sign) {
        let Some(guard) = &self.guard else { return };
        let takes_work = guard.takes_work(target);
        if takes_work != self.routes.is_available(target) {
            self.routes.set_available(target, takes_work);
            self.note(target, if takes_work { What::Readmitted } else { What::Removed(sign) });
        }
    }

    fn note(&self, target: u32, what: What) {
        self.say(News::Moment(Moment { at: self.shared.clock.now(), replica: Some(target), what }));
    }

    fn say(&self, news: News) {
        let _ = self.tell.send(Told::News(news));
    }
}

/// The record of a request that could go nowhere.
fn dropped(job: &Job, now: Nanos) -> Record {
    let planned = &job.planned;
    Record {
        id: job.request.index,
        class: planned.class,
        warmup: job.request.warmup,
        scheduled: job.scheduled,
        sent: job.first_sent.unwrap_or(now),
        first_token: None,
        ended: now,
        input_tokens: planned.input_tokens,
        cached_tokens: 0,
        output_tokens: 0,
        requested_tokens: planned.output_tokens,
        outcome: Outcome::Error,
        replica: None,
        preemptions: 0,
        retries: job.retries,
        reason: "no replica",
        computed_tokens: None,
        wire: None,
    }
}
