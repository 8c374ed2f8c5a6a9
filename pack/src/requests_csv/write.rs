//! Writing requests.csv.

use super::{ID_PREFIX, OWN, SHARED, WIRE};
use crate::digits::{integer, millis, seconds};
use crate::record::{Outcome, Record};
use crate::time::Nanos;
use std::io::{self, Write};

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// Writes requests.csv. Buffers by itself; [`Writer::finish`] must be called.
pub struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    /// Quoted where a comma or quote in them asks for it.
    classes: Vec<Vec<u8>>,
}

impl<W: Write> Writer<W> {
    /// Begins the file with its header, for records whose classes are indices into `classes`.
    #[must_use]
    pub fn new<'a>(out: W, classes: impl IntoIterator<Item = &'a str>) -> Writer<W> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 1024);
        buffer.extend_from_slice(SHARED.join(",").as_bytes());
        buffer.push(b',');
        buffer.extend_from_slice(OWN.join(",").as_bytes());
        buffer.push(b',');
        buffer.extend_from_slice(WIRE.join(",").as_bytes());
        buffer.push(b'\n');
        Writer { out, buffer, classes: classes.into_iter().map(quoted).collect() }
    }

    /// Writes the row of `record`; nothing for a warm-up attempt.
    ///
    /// # Errors
    /// Those of the writer.
    ///
    /// # Panics
    /// If the record's class is not one of the writer's.
    pub fn row(&mut self, record: &Record) -> io::Result<()> {
        if record.warmup {
            return Ok(());
        }
        self.shared_columns(record);
        own_columns(&mut self.buffer, record);
        wire_columns(&mut self.buffer, record);
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn shared_columns(&mut self, record: &Record) {
        let out = &mut self.buffer;
        out.extend_from_slice(ID_PREFIX.as_bytes());
        integer(out, record.id);
        out.push(b',');
        out.extend_from_slice(&self.classes[usize::from(record.class)]);
        out.push(b',');
        if record.outcome == Outcome::Ok {
            millis(out, record.ttft().unwrap_or(record.e2e()));
            out.push(b',');
            millis(out, tpot_rounded(record));
            out.push(b',');
            millis(out, record.e2e());
            out.push(b',');
            integer(out, u64::from(record.output_tokens));
        } else {
            out.extend_from_slice(b"0,0,0,0");
        }
        out.push(b',');
        out.extend_from_slice(record.outcome.word().as_bytes());
    }

    /// Writes the rows so far, each of them whole.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.out.flush()
    }

    /// Writes what is left and flushes; hands the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

/// TPOT to the nearest nanosecond, 0 where there is none.
fn tpot_rounded(record: &Record) -> Nanos {
    let (Some(ttft), gaps) = (record.ttft(), u64::from(record.output_tokens.saturating_sub(1))) else {
        return Nanos::ZERO;
    };
    if gaps == 0 {
        return Nanos::ZERO;
    }
    let decode = record.e2e().since(ttft).0;
    Nanos(decode / gaps + u64::from(decode % gaps * 2 >= gaps))
}

fn own_columns(out: &mut Vec<u8>, record: &Record) {
    for time in [Some(record.scheduled), Some(record.sent), record.first_token, Some(record.ended)] {
        out.push(b',');
        if let Some(time) = time {
            seconds(out, time);
        }
    }
    for tokens in [record.input_tokens, record.cached_tokens, record.requested_tokens, record.output_tokens] {
        out.push(b',');
        integer(out, u64::from(tokens));
    }
    out.push(b',');
    if let Some(replica) = record.replica {
        integer(out, u64::from(replica));
    }
    out.push(b',');
    integer(out, u64::from(record.preemptions));
    out.push(b',');
    if !record.reason.is_empty() {
        out.extend_from_slice(&quoted(record.reason));
    }
}

fn wire_columns(out: &mut Vec<u8>, record: &Record) {
    out.push(b',');
    integer(out, u64::from(record.retries));
    let Some(wire) = &record.wire else {
        out.extend(std::iter::repeat_n(b',', WIRE.len() - 1));
        return;
    };
    for time in [wire.headers, wire.first_byte, wire.done] {
        out.push(b',');
        if let Some(time) = time {
            millis(out, time.since(record.sent));
        }
    }
    out.push(b',');
    if let Some(status) = wire.http_status {
        integer(out, u64::from(status));
    }
    out.push(b',');
    out.extend_from_slice(wire.tokens_from.word().as_bytes());
    out.push(b',');
    if let Some(tokens) = wire.usage_input_tokens {
        integer(out, u64::from(tokens));
    }
    let gaps = wire.gaps();
    for gap in [gaps.map(|gaps| gaps.p50), gaps.map(|gaps| gaps.p99)] {
        out.push(b',');
        if let Some(gap) = gap {
            millis(out, gap);
        }
    }
    out.push(b',');
    if let Some(gaps) = gaps {
        out.extend_from_slice(format!("{:.4}", gaps.zero_share).as_bytes());
    }
    out.push(b',');
    out.extend_from_slice(&quoted(&wire.error));
}

/// `text` as a CSV field.
fn quoted(text: &str) -> Vec<u8> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into_bytes()
    } else {
        text.as_bytes().to_vec()
    }
}
