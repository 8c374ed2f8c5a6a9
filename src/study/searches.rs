//! Searches that go on from what they found: each asks for its next points as soon as its own are done, whatever the
//! others do, so that no core waits for the slowest of a round.

use super::Study;
use crate::exit::CommandError;
use crate::point::{Point, PointResult};
use crate::progress::{Progress, interrupted};
use rayon::prelude::*;
use rayon::{ScopeFifo, scope_fifo};
use std::sync::{Mutex, PoisonError};

/// So many rounds a search usually takes, for the progress shown.
const USUAL_ROUNDS: u64 = 4;

/// A search.
pub trait Search: Send {
    /// The points to simulate next; none if it is over.
    fn wanted(&self) -> Vec<Point>;
    /// One of them has been simulated. They come in the order asked for.
    fn found(&mut self, result: &PointResult);
}

/// A point that was simulated, and its place among all: by round, by search, by the order asked for.
type Done = ((usize, usize, usize), PointResult);

/// What came of a point that was asked for.
enum Obtained {
    /// It was simulated before: its place among the results.
    Known(usize),
    New(Box<PointResult>),
    /// It was not, or not to its end.
    Stopped,
}

impl Obtained {
    /// A point that was stopped has its own pack, but its numbers are not the point's.
    fn of(result: PointResult) -> Obtained {
        if result.report.facts.complete { Obtained::New(Box::new(result)) } else { Obtained::Stopped }
    }
}

/// What the searches share while they run.
struct Work<'s> {
    study: &'s Study,
    progress: Progress,
    /// What was done, or the first error.
    done: Mutex<Result<Vec<Done>, CommandError>>,
}

impl Study {
    /// Simulates what searches ask for, all cores at once. Results are appended as if all searches had gone round by round
    /// together, whatever the number of threads.
    pub fn search<S: Search>(&mut self, label: &str, searches: &mut [S]) -> Result<(), CommandError> {
        let first = searches.iter().flat_map(|search| search.wanted());
        let expected: u64 = first.map(|point| self.expected_attempts(&point)).sum();
        let work = Work {
            study: self,
            progress: Progress::start(label, USUAL_ROUNDS * expected),
            done: Mutex::new(Ok(Vec::new())),
        };
        scope_fifo(|scope| {
            for (number, search) in searches.iter_mut().enumerate() {
                let work = &work;
                scope.spawn_fifo(move |scope| work.go_on(number, 0, search, scope));
            }
        });
        let Work { progress, done, .. } = work;
        drop(progress);
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        done.sort_by_key(|&(place, _)| place);
        let from = self.results.len();
        self.results.extend(done.into_iter().map(|(_, result)| result));
        self.refuse_interrupted()?;
        self.refuse_outside(self.results[from..].iter())
    }
}

impl<'s> Work<'s> {
    /// One round of a search, then the next: in turn with the other searches, so that all end at about the same time.
    fn go_on<S: Search>(&'s self, number: usize, round: usize, search: &'s mut S, scope: &ScopeFifo<'s>) {
        match self.round(number, round, search) {
            Ok(true) => scope.spawn_fifo(move |scope| self.go_on(number, round + 1, search, scope)),
            Ok(false) => {}
            Err(error) => {
                let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                if done.is_ok() {
                    *done = Err(error);
                }
            }
        }
    }

    /// False if the search is over.
    fn round(&self, number: usize, round: usize, search: &mut impl Search) -> Result<bool, CommandError> {
        let wanted = search.wanted();
        if wanted.is_empty() || self.has_failed() {
            return Ok(false);
        }
        let obtain = |point: &Point| {
            self.study.loaded.check_fleet(point.replicas)?;
            match self.study.position(point) {
                _ if interrupted() => Ok(Obtained::Stopped),
                Some(known) => Ok(Obtained::Known(known)),
                None => self.study.obtain(point, &self.progress).map(Obtained::of),
            }
        };
        let obtained: Result<Vec<Obtained>, CommandError> =
            wanted.par_iter().with_max_len(1).map(obtain).collect();
        for (place, obtained) in obtained?.into_iter().enumerate() {
            match obtained {
                Obtained::Known(known) => search.found(&self.study.results[known]),
                Obtained::New(result) => {
                    search.found(&result);
                    if let Ok(done) = &mut *self.done.lock().unwrap_or_else(PoisonError::into_inner) {
                        done.push(((round, number, place), *result));
                    }
                }
                Obtained::Stopped => return Ok(false),
            }
        }
        Ok(true)
    }

    fn has_failed(&self) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).is_err()
    }
}
