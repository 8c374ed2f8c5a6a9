//! A schedule read in its order: what comes next, what follows what, and more if it has to go on.

use super::RequestRef;
use crate::prompt::{Segment, TokenStream};
use crate::schedule::{Continuation, Planned, PlannedList, Release, Schedule, ScheduleError};
use crate::time::Nanos;

/// Walks a schedule.
pub(super) struct Walk<'a> {
    warmup: &'a PlannedList,
    /// The schedule's own list, then its continuation.
    measured: Vec<std::borrow::Cow<'a, PlannedList>>,
    /// Index of the first request of each of them.
    starts: Vec<u64>,
    continuation: Continuation,
    cursor: RequestRef,
}

impl<'a> Walk<'a> {
    /// At the schedule's beginning.
    #[must_use]
    pub(super) fn new(schedule: &'a Schedule) -> Self {
        Walk {
            warmup: &schedule.warmup,
            measured: vec![std::borrow::Cow::Borrowed(&schedule.measured)],
            starts: vec![0],
            continuation: schedule.continuation(),
            cursor: RequestRef { warmup: true, index: 0 },
        }
    }

    /// Requests known so far, warm-up included.
    #[must_use]
    pub(super) fn len(&self) -> u64 {
        self.warmup.requests.len() as u64 + self.measured_len()
    }

    /// Measured requests known so far.
    #[must_use]
    pub(super) fn measured_len(&self) -> u64 {
        let last = self.measured.len() - 1;
        self.starts[last] + self.measured[last].requests.len() as u64
    }

    /// A request of the schedule, if there is one at `at`.
    #[must_use]
    pub(super) fn get(&self, at: RequestRef) -> Option<(&Planned, &PlannedList)> {
        let (list, offset) = if at.warmup {
            (self.warmup, at.index)
        } else {
            let chunk = self.starts.partition_point(|&start| start <= at.index) - 1;
            (self.measured[chunk].as_ref(), at.index - self.starts[chunk])
        };
        list.requests.get(offset as usize).map(|planned| (planned, list))
    }

    /// The next request that waits neither for an answer nor for a place behind one: warm-up first, then the
    /// measured ones. Moves on.
    pub(super) fn next_independent(&mut self) -> Option<(RequestRef, Release)> {
        loop {
            let at = self.cursor;
            match self.get(at).map(|(planned, _)| planned.release) {
                None if at.warmup => self.cursor = RequestRef { warmup: false, index: 0 },
                None => return None,
                Some(release) => {
                    self.cursor.index += 1;
                    if !matches!(release, Release::After { .. }) {
                        return Some((at, release));
                    }
                }
            }
        }
    }

    /// The next turn of `request`'s session, with its pause. A session's turns stand behind one another.
    #[must_use]
    pub(super) fn follower(&self, request: RequestRef) -> Option<(RequestRef, Nanos)> {
        let next = RequestRef { index: request.index + 1, ..request };
        match self.get(next)?.0.release {
            Release::After { predecessor, delay } if predecessor == request.index => Some((next, delay)),
            _ => None,
        }
    }

    /// The request that opened the session of `request`: itself, unless it is a later turn.
    #[must_use]
    pub(super) fn session_opener(&self, request: RequestRef) -> RequestRef {
        let mut at = request;
        while let Some((Release::After { predecessor, .. }, _)) = self.get(at).map(|(p, l)| (p.release, l)) {
            at.index = predecessor;
        }
        at
    }

    /// Appends one more piece of the schedule's continuation. False if it has none.
    ///
    /// # Errors
    /// If the schedule cannot be continued further.
    pub(super) fn extend(&mut self) -> Result<bool, ScheduleError> {
        let Some(list) = self.continuation.next().transpose()? else { return Ok(false) };
        if list.requests.is_empty() {
            return Ok(false);
        }
        self.starts.push(self.measured_len());
        self.measured.push(std::borrow::Cow::Owned(list));
        Ok(true)
    }

    /// The whole prompt of a request: the segments it shares, then tokens of its own; and the stream of its
    /// output.
    #[must_use]
    pub(super) fn prompt(&self, at: RequestRef) -> Option<(Vec<Segment>, TokenStream)> {
        let (planned, list) = self.get(at)?;
        let mut prompt = list.segments_of(planned).to_vec();
        let shared: u32 = prompt.iter().map(|segment| segment.len).sum();
        let (own, output) = if at.warmup {
            (TokenStream::unique_warmup(at.index), TokenStream::output_warmup(at.index))
        } else {
            (TokenStream::unique(at.index), TokenStream::output(at.index))
        };
        if planned.input_tokens > shared {
            prompt.push(Segment { stream: own, start: 0, len: planned.input_tokens - shared });
        }
        Some((prompt, output))
    }
}
