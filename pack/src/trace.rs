//! Traces: recorded arrivals with their lengths, from bytes. docs/formats.md describes the three formats.

mod mooncake;
mod table;

use crate::fault::{Fault, Faults};
use crate::manifest::{TOKENS_MAX, TraceFormat};
use crate::time::Nanos;

/// Tokens of a block that a Mooncake hash id names.
pub const BLOCK_TOKENS: u32 = 512;
/// The greatest span of a trace, in seconds: ten years.
const SPAN_MAX_SECONDS: u64 = 10 * 366 * 86_400;
/// Reading stops after this many faults: a file of the wrong format has one in every row.
const FAULTS_MAX: usize = 20;
/// Traces with more rows than this have their unit checked by their mean rate, which must lie in `RATES_RPS`.
const UNIT_CHECK_ROWS: usize = 100;
/// Mean rates of real traces, in rows per second, with margins. A unit that is wrong by 1,000 leaves them.
const RATES_RPS: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;

/// A trace: at least one row, none before the one above it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The file, as the caller named it.
    pub file: String,
    /// The rows.
    pub rows: Vec<TraceRow>,
    /// Rows that state an output of 0 tokens. They are read as 1: a request that is answered has a last token.
    pub zero_outputs: u64,
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRow {
    /// Its line in the file.
    pub line: u32,
    /// Its arrival after the first row's.
    pub at: Nanos,
    /// Its class, if the file states one.
    pub class: Option<String>,
    /// Prompt tokens, from 1 to [`TOKENS_MAX`].
    pub input_tokens: u32,
    /// Output tokens, from 1 to [`TOKENS_MAX`].
    pub output_tokens: u32,
    /// Hash ids of the prompt's blocks of [`BLOCK_TOKENS`], the last one partial; empty if the file has none.
    pub blocks: Vec<u64>,
}

impl Trace {
    /// Reads a trace. `file` only names it in the faults.
    ///
    /// # Errors
    /// The first 20 things that are wrong, each with its line: what is not of the format, timestamps that run
    /// backwards, lengths out of bounds, and a span or mean rate that is absurd for the format's unit of time.
    pub fn parse(file: &str, format: TraceFormat, bytes: &[u8]) -> Result<Trace, Faults> {
        let mut rows = Rows::new(file);
        match format {
            TraceFormat::Mooncake => mooncake::read(bytes, &mut rows),
            TraceFormat::Azure => table::read(bytes, &table::AZURE, &mut rows),
            TraceFormat::Csv => table::read(bytes, &table::PLAIN, &mut rows),
        }
        rows.finish(format)
    }

    /// From the first arrival to the last.
    #[must_use]
    pub fn span(&self) -> Nanos {
        self.rows.last().map_or(Nanos::ZERO, |row| row.at)
    }
}

/// Collects rows, and what is wrong with them.
struct Rows {
    trace: Trace,
    /// The first row's timestamp, in nanoseconds since whatever the file counts from.
    origin_ns: Option<i128>,
    faults: Vec<Fault>,
}

/// A row as read, before the checks that all formats share.
struct RawRow<'a> {
    line: u32,
    time_field: &'a str,
    at_ns: i128,
    class: Option<String>,
    input_tokens: u32,
    output_tokens: u32,
    blocks: Vec<u64>,
}

impl Rows {
    fn new(file: &str) -> Rows {
        let trace = Trace { file: file.to_owned(), rows: Vec::new(), zero_outputs: 0 };
        Rows { trace, origin_ns: None, faults: Vec::new() }
    }

    /// Whether reading on is pointless.
    fn full(&self) -> bool {
        self.faults.len() >= FAULTS_MAX
    }

    fn fault(&mut self, line: u32, field: &str, found: impl Into<String>, expected: impl Into<String>) {
        self.faults.push(Fault {
            file: self.trace.file.clone(),
            line: Some(line),
            field: field.to_owned(),
            found: found.into(),
            expected: expected.into(),
            ..Fault::default()
        });
    }

    fn push(&mut self, row: RawRow<'_>) {
        let since_ns = row.at_ns - *self.origin_ns.get_or_insert(row.at_ns);
        let ahead_ns = since_ns - i128::from(self.trace.span().0);
        let wrong = |rows: &mut Rows, found: String, expected: &str| {
            rows.fault(row.line, row.time_field, found, expected);
        };
        if ahead_ns < 0 {
            let found = format!("a time {} s before the latest above it", -ahead_ns as f64 / 1e9);
            return wrong(self, found, "timestamps that never run backwards");
        }
        let since = u64::try_from(since_ns).ok().filter(|ns| *ns <= SPAN_MAX_SECONDS * 1_000_000_000);
        let Some(since) = since else {
            let found = format!("a time {:.0} s after the first row's", since_ns as f64 / 1e9);
            return wrong(self, found, "a span below ten years");
        };
        self.trace.zero_outputs += u64::from(row.output_tokens == 0);
        self.trace.rows.push(TraceRow {
            line: row.line,
            at: Nanos(since),
            class: row.class,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens.max(1),
            blocks: row.blocks,
        });
    }

    /// Tokens within bounds, or a fault. An output may be 0 here.
    fn tokens(&mut self, line: u32, field: &str, text: &str, least: u32) -> Option<u32> {
        let tokens = text.trim().parse::<u32>().ok().filter(|tokens| (least..=TOKENS_MAX).contains(tokens));
        if tokens.is_none() {
            self.fault(line, field, shown(text), format!("a whole number from {least} to {TOKENS_MAX}"));
        }
        tokens
    }

    fn finish(mut self, format: TraceFormat) -> Result<Trace, Faults> {
        if self.faults.is_empty() {
            self.check_whole(format);
        }
        Faults(self.faults).unless_any(self.trace)
    }

    fn check_whole(&mut self, format: TraceFormat) {
        let count = self.trace.rows.len();
        let mut fault = Fault { file: self.trace.file.clone(), ..Fault::default() };
        if count == 0 {
            fault.found = "no rows".into();
            fault.expected = "at least one".into();
            self.faults.push(fault);
            return;
        }
        let span_s = self.trace.span().seconds();
        let rate = (count - 1) as f64 / span_s;
        if count > UNIT_CHECK_ROWS && !RATES_RPS.contains(&rate) {
            fault.found = format!("{count} rows within {span_s} s, {rate:.4} a second");
            fault.expected = format!("a mean from {} to {} a second", RATES_RPS.start(), RATES_RPS.end());
            fault.hint = match format {
                TraceFormat::Mooncake => "this format counts milliseconds: is the file in another unit?",
                TraceFormat::Azure => "are these the arrivals of one service?",
                TraceFormat::Csv => "a column of seconds is named arrival_s, one of milliseconds arrival_ms",
            }
            .into();
            self.faults.push(fault);
        }
    }
}

/// Text as a fault shows it.
fn shown(text: &str) -> String {
    crate::yaml::Value::Str(text.to_owned()).to_string()
}

/// A float count of `unit_ns` in nanoseconds, if it is a time from 0 to about 30,000 years.
fn nanos(count: f64, unit_ns: f64) -> Option<i128> {
    let ns = count * unit_ns;
    (0.0..=1e21).contains(&ns).then(|| ns.round() as i128)
}

#[cfg(test)]
mod tests;
