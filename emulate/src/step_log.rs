//! The steps of all replicas as they are put in flight, a row each of a CSV file.

use crate::config::EmulateError;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::engine::Batch;
use scaleproof_sim::step_time::BatchShape;
use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const HEADER: &str = "replica,begins_s,ends_s,tokens,prefill_rows,decode_rows,admitted,resumed,preempted";

/// Takes steps from every replica's thread. Times are the engine's, from the start of the replica's process.
#[derive(Clone)]
pub struct StepLog(Arc<Mutex<State>>);

struct State {
    out: LineWriter<File>,
    failure: Option<std::io::Error>,
}

impl StepLog {
    /// Begins a file, which is not there yet.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> Result<StepLog, EmulateError> {
        let failed = |error| EmulateError::StepLog { path: path.to_owned(), error };
        let mut out = LineWriter::new(File::create_new(path).map_err(failed)?);
        writeln!(out, "{HEADER}").map_err(failed)?;
        Ok(StepLog(Arc::new(Mutex::new(State { out, failure: None }))))
    }

    /// A step of a replica. After a row that could not be written there are no more.
    pub fn note(&self, replica: u32, (begins, ends): (Nanos, Nanos), batch: &Batch) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            return;
        }
        let written = writeln!(
            state.out,
            "{replica},{:.9},{:.9},{},{},{},{},{},{}",
            begins.seconds(),
            ends.seconds(),
            BatchShape::of(batch).tokens,
            batch.prefill_rows(),
            batch.decode_rows(),
            batch.admitted.len(),
            batch.resumed.len(),
            batch.preempted.len()
        );
        state.failure = written.err();
    }

    /// Why rows are missing, if any are.
    pub fn failure(&self) -> Option<std::io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.take()
    }
}
