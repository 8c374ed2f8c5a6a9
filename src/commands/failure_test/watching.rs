//! What is seen of a live run with a fault: all that a simulated run says of itself, as far as a client can see it.

use super::commands::Step;
use crate::commands::live::Line;
use crate::commands::live::metrics::ClientMetrics;
use crate::exit::CommandError;
use crate::progress::interrupted;
use scaleproof_pack::analyze::Analyzer;
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::failure::{Injected, Moment, Sign, What};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_validate::{LiveObserver, News, Status};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Runs the commands at their times and keeps what it sees.
pub struct Watching {
    pub analyzer: Analyzer,
    pub records: Vec<Record>,
    pub rows: Vec<TimelineRow>,
    pub connection_failures: Vec<Nanos>,
    moments: Vec<Moment>,
    pub line: Line,
    pub metrics: Option<ClientMetrics>,
    /// When the fault is due, and how long after its beginning it is ended.
    pub at: Nanos,
    pub lasts: Nanos,
    /// None where the clients themselves make the fault.
    pub inject: Option<Step>,
    pub restore: Option<Step>,
    pub failure: Option<CommandError>,
    /// When the run began.
    pub began: Option<Instant>,
}

impl Watching {
    /// Nothing seen yet.
    pub fn new(
        analyzer: Analyzer,
        (at, lasts): (Nanos, Nanos),
        inject: Option<Step>,
        restore: Option<Step>,
    ) -> Watching {
        Watching {
            analyzer,
            records: Vec::new(),
            rows: Vec::new(),
            connection_failures: Vec::new(),
            moments: Vec::new(),
            line: Line::new("failure-test"),
            metrics: None,
            at,
            lasts,
            inject,
            restore,
            failure: None,
            began: None,
        }
    }

    fn commands(&mut self, now: Nanos) -> Result<(), CommandError> {
        if let Some(inject) = &mut self.inject {
            if now >= self.at {
                inject.begin(now);
            }
            inject.check()?;
        }
        let ends = self.begun(now).map(|begun| begun + self.lasts);
        if let Some(restore) = &mut self.restore {
            if ends.is_some_and(|ends| now >= ends) {
                restore.begin(now);
            }
            restore.check()?;
        }
        Ok(())
    }

    /// When the fault began, if it did by `now`. Clients that make it themselves do so on time.
    pub fn begun(&self, now: Nanos) -> Option<Nanos> {
        match &self.inject {
            Some(inject) => inject.begun(),
            None => Some(self.at).filter(|&at| at <= now),
        }
    }

    /// After the run: no fault is left behind, and both commands went well.
    pub fn finish(&mut self, now: Nanos) -> Result<(), CommandError> {
        self.line.end();
        let injected = self.inject.as_mut().map_or(Ok(()), Step::finish);
        let begun = self.begun(now).is_some();
        let restored = match &mut self.restore {
            Some(restore) if begun => {
                restore.begin(now);
                restore.finish()
            }
            _ => Ok(()),
        };
        self.failure.take().map_or(Ok(()), Err).and(injected).and(restored)
    }

    /// What happened to the fleet, in order of time. `replicas` of them, and whether the client routes among them.
    pub fn moments(&self, fault: &Injected, at: Nanos, client_routes: bool) -> Vec<Moment> {
        let note = |at, replica, what| Moment { at, replica: Some(replica), what };
        let mut moments: Vec<Moment> = Vec::new();
        let restored = self.restore.as_ref().and_then(Step::begun);
        for &replica in &fault.replicas {
            moments.push(note(at, replica, What::Injected));
            moments.extend(restored.map(|at| note(at, replica, What::Cleared)));
            let Some((gone, back)) = silence(&self.rows, replica, at) else { continue };
            moments.extend(back.map(|back| note(back, replica, What::Ready)));
            if !client_routes && fault.is_failure {
                moments.extend(self.taken_out(replica, gone, back));
            }
            if !client_routes {
                moments.extend(back.and_then(|back| self.taken_in(replica, back)));
            }
        }
        if client_routes {
            let mut detected = BTreeSet::new();
            moments.extend(self.moments.iter().filter(|moment| match moment.what {
                // The first sign of the fault; later ones are no news.
                What::Detected(_) => moment.at >= at && detected.insert(moment.replica),
                _ => true,
            }));
        }
        moments.sort_by_key(|moment| moment.at);
        moments
    }

    /// What a router between does shows only from outside: it has removed a silent replica once no more attempts fail.
    fn taken_out(&self, replica: u32, gone: Nanos, back: Option<Nanos>) -> [Moment; 2] {
        let until = back.unwrap_or(Nanos(u64::MAX));
        let failed = |record: &&Record| {
            matches!(record.outcome, Outcome::Lost | Outcome::Error)
                && record.ended >= gone
                && record.ended < until
        };
        let last = self.records.iter().filter(failed).map(|record| record.ended).max();
        let note = |at, what| Moment { at, replica: Some(replica), what };
        [
            note(gone, What::Detected(Sign::StaleMetrics)),
            note(last.unwrap_or(gone), What::Removed(Sign::StaleMetrics)),
        ]
    }

    /// ... and taken it in once tokens come out of it.
    fn taken_in(&self, replica: u32, back: Nanos) -> Option<Moment> {
        let own = || self.rows.iter().filter(|row| row.replica == replica && row.at >= back);
        let first = own().next().map_or(0, |row| row.generation_tokens);
        let works = own().find(|row| row.running > 0 || row.generation_tokens > first)?;
        Some(Moment { at: works.at, replica: Some(replica), what: What::Readmitted })
    }
}

/// From when on after `at` a replica gave no metrics while others did, and when it did again.
fn silence(rows: &[TimelineRow], replica: u32, at: Nanos) -> Option<(Nanos, Option<Nanos>)> {
    let rounds: BTreeSet<Nanos> = rows.iter().map(|row| row.at).filter(|&round| round >= at).collect();
    let own: BTreeSet<Nanos> = rows.iter().filter(|row| row.replica == replica).map(|row| row.at).collect();
    let gone = rounds.iter().copied().find(|round| !own.contains(round))?;
    Some((gone, own.range(gone..).next().copied()))
}

impl Observer for Watching {
    fn record(&mut self, record: &Record) {
        self.analyzer.push(record);
        self.line.record(record);
        self.metrics.iter().for_each(|metrics| metrics.record(record));
        self.records.push(record.clone());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.analyzer.push_sample(row);
        self.rows.push(*row);
    }

    fn stop(&mut self) -> bool {
        interrupted() || self.failure.is_some()
    }
}

impl LiveObserver for Watching {
    fn status(&mut self, status: &Status) {
        let began = Instant::now().checked_sub(Duration::from_nanos(status.now.0));
        // Told late, it seems to have begun late.
        self.began = [self.began, began].into_iter().flatten().min();
        if let Err(error) = self.commands(status.now) {
            self.failure.get_or_insert(error);
        }
        self.line.show(status, &self.analyzer);
    }

    fn news(&mut self, news: &News) {
        self.metrics.iter().for_each(|metrics| metrics.news(news));
        match *news {
            News::TryEnded { at, failed: Some(_), .. } => self.connection_failures.push(at),
            News::Moment(moment) => self.moments.push(moment),
            _ => {}
        }
    }
}
