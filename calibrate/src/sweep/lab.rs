//! Runs experiments one after the other: the clock, the budget, the reference point, and what every request saw.

use super::data::robust;
use crate::loads::{Builder, whole_prompt};
use scaleproof_pack::experiment::{Experiment, ExperimentError, Observer};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::{RATE_MAX_RPS, Schedule};
use scaleproof_pack::time::TimeError;
use scaleproof_pack::workload::Enough;
use std::fmt;

/// Why a sweep ended without a profile.
#[derive(Clone, Debug, PartialEq)]
pub enum SweepError {
    /// The engine could not be reached, or a run not be made.
    Experiment(ExperimentError),
    /// What was measured cannot be used: what was found, what was expected, what to do.
    Unusable(String),
    /// The user asked to stop.
    Stopped,
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Experiment(error) => error.fmt(f),
            SweepError::Unusable(text) => f.write_str(text),
            SweepError::Stopped => f.write_str("interrupted: found a request to stop"),
        }
    }
}

impl std::error::Error for SweepError {}

impl From<ExperimentError> for SweepError {
    fn from(error: ExperimentError) -> Self {
        SweepError::Experiment(error)
    }
}

impl From<TimeError> for SweepError {
    fn from(error: TimeError) -> Self {
        SweepError::Unusable(format!("an experiment's time: {error}"))
    }
}

/// Told how far a sweep is; asked whether to stop.
pub trait Monitor {
    /// A line for the user.
    fn say(&mut self, _line: &str) {}
    /// So many seconds of experiments are done, of so many.
    fn spent(&mut self, _spent_s: f64, _budget_s: f64) {}
    /// Whether to stop.
    fn stop(&mut self) -> bool {
        false
    }
}

/// A request to send.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Seconds into the run; None: as soon as a client is free.
    pub at_s: Option<f64>,
    /// Prompt tokens.
    pub input: u32,
    /// Output tokens.
    pub output: u32,
    /// Requests of a run with the same number have the same tokens at first, so many; None: a prompt that no other has.
    pub shared: Option<(u32, u32)>,
}

impl Ask {
    /// A prompt of its own.
    #[must_use]
    pub fn new(at_s: Option<f64>, input: u32, output: u32) -> Ask {
        Ask { at_s, input, output, shared: None }
    }

    /// One prompt after the other for one token; those of a run with the same number are the same.
    #[must_use]
    pub fn whole(number: u32, input: u32) -> Ask {
        Ask { shared: Some((number, input)), ..Ask::new(None, input, 1) }
    }
}

/// What came back of a request that ended well.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Which of the asked, in order.
    pub index: usize,
    /// Seconds into the run.
    pub sent_s: f64,
    /// Arrival of each token.
    pub tokens_s: Vec<f64>,
    /// Prompt tokens.
    pub input: u32,
    /// Prompt tokens that the engine says it had.
    pub cached: u32,
}

impl Answer {
    /// From sending to the first token.
    #[must_use]
    pub fn ttft_s(&self) -> f64 {
        self.tokens_s.first().map_or(0.0, |first| first - self.sent_s)
    }
}

/// A run of the reference point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// Seconds of experiments before it.
    pub at_s: f64,
    /// Time of a step, microseconds.
    pub step_us: f64,
    /// Its standard deviation, as a share.
    pub relative_sd: f64,
}

/// The bench.
pub struct Lab<'a> {
    experiment: &'a mut dyn Experiment,
    monitor: &'a mut dyn Monitor,
    /// Seconds of experiments so far.
    pub spent_s: f64,
    /// Seconds allowed.
    pub budget_s: f64,
    /// The reference point's runs.
    pub references: Vec<Reference>,
    /// Experiments so far.
    pub runs: u64,
    /// Of those, made again because the client's own checks failed.
    pub repeated: u64,
    /// What failed of those that did not pass them when made again either.
    pub doubtful: Vec<String>,
    /// Tokens of the longest request, prompt and output.
    pub longest: u32,
}

/// An experiment that fails the client's own checks is made again so often,
const AGAIN: u32 = 2;
/// not beyond this share of the time,
const AGAIN_UNTIL: f64 = 0.7;
/// and no more once that has not helped so many: what fails them is then no disturbance that passes.
const IN_VAIN: usize = 3;
/// Tokens of the reference point's prompt and answer.
pub(super) const REFERENCE: (u32, u32) = (64, 48);
/// Of the time, about, for the reference point.
pub(super) const REFERENCE_SHARE: f64 = 0.05;

impl<'a> Lab<'a> {
    /// With nothing measured.
    pub fn new(experiment: &'a mut dyn Experiment, monitor: &'a mut dyn Monitor, budget_s: f64) -> Lab<'a> {
        Lab {
            experiment,
            monitor,
            spent_s: 0.0,
            budget_s,
            references: Vec::new(),
            runs: 0,
            repeated: 0,
            doubtful: Vec::new(),
            longest: 0,
        }
    }

    /// A line for the user.
    pub fn say(&mut self, line: &str) {
        self.monitor.say(line);
    }

    /// Sends requests at their times.
    ///
    /// # Errors
    /// A run that could not be made, or a request to stop.
    pub fn open(&mut self, asks: &[Ask]) -> Result<Vec<Answer>, SweepError> {
        self.asked(asks, |list| list.open(RATE_MAX_RPS))
    }

    /// Sends requests by `clients`, each with one in flight.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn closed(&mut self, clients: u32, asks: &[Ask]) -> Result<Vec<Answer>, SweepError> {
        self.asked(asks, |list| list.closed(clients))
    }

    fn asked(
        &mut self,
        asks: &[Ask],
        schedule: impl Fn(Builder) -> Schedule,
    ) -> Result<Vec<Answer>, SweepError> {
        self.believed(|lab| {
            let mut schedule = schedule(lab.list(asks)?);
            schedule.shared_prefixes = asks.iter().any(|ask| ask.shared.is_some());
            Ok(schedule)
        })
    }

    fn list(&mut self, asks: &[Ask]) -> Result<Builder, SweepError> {
        let mut list = Builder::default();
        for ask in asks {
            // Numbers that no other run has: a live engine remembers prompts.
            let begin = |(number, tokens)| whole_prompt(self.runs << 24 | u64::from(number), tokens);
            let segment = ask.shared.map(begin);
            list.add(ask.at_s, (ask.input, ask.output), segment.as_slice())?;
            self.longest = self.longest.max(ask.input.saturating_add(ask.output));
        }
        Ok(list)
    }

    /// Runs any schedule. Prompts that no other request has are new in each run, by its number.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn run(&mut self, schedule: &Schedule) -> Result<Vec<Answer>, SweepError> {
        self.believed(|_| Ok(schedule.clone()))
    }

    /// Runs an experiment, and again if the client's own checks say that it was not what was planned: what disturbed it
    /// may have passed. The last is taken, and noted if it failed too. Each time it is made anew, since its prompts must be.
    fn believed(
        &mut self,
        make: impl Fn(&mut Self) -> Result<Schedule, SweepError>,
    ) -> Result<Vec<Answer>, SweepError> {
        let mut again = if self.doubtful.len() < IN_VAIN { AGAIN } else { 0 };
        loop {
            let schedule = make(self)?;
            let (answers, invalid) = self.once(schedule)?;
            if invalid.is_empty() {
                return Ok(answers);
            }
            if again == 0 || self.spent_s > AGAIN_UNTIL * self.budget_s {
                self.doubtful.push(invalid.join("; "));
                return Ok(answers);
            }
            (again, self.repeated) = (again - 1, self.repeated + 1);
        }
    }

    /// Runs a schedule once. What came back, and which of the client's checks failed.
    fn once(&mut self, mut schedule: Schedule) -> Result<(Vec<Answer>, Vec<String>), SweepError> {
        if self.monitor.stop() {
            return Err(SweepError::Stopped);
        }
        self.runs += 1;
        schedule.run = self.runs;
        let mut kept = Kept { answers: Vec::new(), last_s: 0.0, monitor: &mut *self.monitor };
        let enough = Enough { successes: 0, max_requests: 0 };
        let check = self.experiment.run(&schedule, enough, &mut kept)?;
        let Kept { mut answers, last_s, .. } = kept;
        self.spent_s += last_s;
        self.monitor.spent(self.spent_s, self.budget_s);
        if check.stopped {
            return Err(SweepError::Stopped);
        }
        answers.sort_by_key(|answer| answer.index);
        Ok((answers, check.invalid))
    }

    /// Whether there is time for one more experiment before `until_s` seconds of them; the pace is known for it then.
    ///
    /// # Errors
    /// As [`Lab::reference`].
    pub fn goes_on(&mut self, until_s: f64) -> Result<bool, SweepError> {
        if self.spent_s > until_s {
            return Ok(false);
        }
        self.keep_the_pace()?;
        Ok(true)
    }

    /// Runs the reference point if its last run is long ago.
    ///
    /// # Errors
    /// As [`Lab::reference`].
    pub fn keep_the_pace(&mut self) -> Result<(), SweepError> {
        let due = |last: &Reference| {
            self.spent_s > last.at_s + f64::from(REFERENCE.1) * 1e-6 * last.step_us / REFERENCE_SHARE
        };
        if self.references.last().is_none_or(due) {
            self.reference()?;
        }
        Ok(())
    }

    /// Runs the reference point: one stream of decode steps.
    ///
    /// # Errors
    /// As [`Lab::open`], and an engine that does not stream its tokens.
    pub fn reference(&mut self) -> Result<Reference, SweepError> {
        let at_s = self.spent_s;
        let (input, output) = REFERENCE;
        let answers = self.closed(1, &[Ask::new(None, input, output)])?;
        let gaps = answers.first().map(|answer| gaps_us(&answer.tokens_s)).unwrap_or_default();
        let step = robust(&gaps).filter(|step| step.mean > 0.0 && step.samples + 8 > output);
        let Some(step) = step else {
            return Err(SweepError::Unusable(format!(
                "the reference point: found {} gaps between tokens, expected {} above zero; the engine must stream each \
                 token as it comes and take `ignore_eos`",
                gaps.len(),
                output - 1
            )));
        };
        let reference = Reference { at_s, step_us: step.mean, relative_sd: step.relative_sd };
        self.references.push(reference);
        Ok(reference)
    }
}

/// Differences of times in seconds, in microseconds.
#[must_use]
pub fn gaps_us(times_s: &[f64]) -> Vec<f64> {
    times_s.windows(2).map(|pair| 1e6 * (pair[1] - pair[0])).collect()
}

struct Kept<'a> {
    answers: Vec<Answer>,
    last_s: f64,
    monitor: &'a mut dyn Monitor,
}

impl Observer for Kept<'_> {
    fn record(&mut self, record: &Record) {
        self.last_s = self.last_s.max(record.ended.seconds());
        let (Some(wire), Outcome::Ok) = (&record.wire, record.outcome) else { return };
        let tokens = wire.chunks.iter().flat_map(|(at, count)| (0..*count).map(|_| at.seconds()));
        self.answers.push(Answer {
            index: record.id as usize,
            sent_s: record.sent.seconds(),
            tokens_s: tokens.collect(),
            input: wire.usage_input_tokens.unwrap_or(record.input_tokens),
            cached: record.cached_tokens,
        });
    }

    fn stop(&mut self) -> bool {
        self.monitor.stop()
    }
}
