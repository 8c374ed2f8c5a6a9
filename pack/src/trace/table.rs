//! CSV traces: Azure's LLM inference traces, and the plain one.

use super::{RawRow, Rows, shown};
use crate::fault::suggestion;
use csv::{ByteRecord, ReaderBuilder};
use std::str::from_utf8;

/// How the time of a row is written.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    /// `2023-11-16 18:15:46.6805900`, in UTC.
    Calendar,
    /// A count of units of this many nanoseconds.
    Count { unit_ns: f64 },
}

/// The columns of a format. All are required but `class`, and one time column of those offered.
pub(super) struct Columns {
    times: &'static [(&'static str, Clock)],
    class: Option<&'static str>,
    input: &'static str,
    output: &'static str,
}

pub(super) const AZURE: Columns = Columns {
    times: &[("TIMESTAMP", Clock::Calendar)],
    class: None,
    input: "ContextTokens",
    output: "GeneratedTokens",
};

pub(super) const PLAIN: Columns = Columns {
    times: &[("arrival_s", Clock::Count { unit_ns: 1e9 }), ("arrival_ms", Clock::Count { unit_ns: 1e6 })],
    class: Some("class"),
    input: "input_tokens",
    output: "output_tokens",
};

/// Where the columns are.
struct Header {
    columns: usize,
    time: (usize, &'static str, Clock),
    class: Option<usize>,
    input: (usize, &'static str),
    output: (usize, &'static str),
}

pub(super) fn read(bytes: &[u8], columns: &Columns, rows: &mut Rows) {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ByteRecord::new();
    let mut header = None;
    let mut lines = Lines { bytes, at: 0, line: 1 };
    while !rows.full() {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return,
            // Bytes in memory cannot fail to be read, and rows of any width are taken; should it come to this
            // all the same, there is no going on.
            Err(error) => return rows.fault(lines.line, "", error.to_string(), "CSV"),
        }
        let line = lines.of(&record);
        let Ok(cells) = record.iter().map(from_utf8).collect::<Result<Vec<&str>, _>>() else {
            rows.fault(line, "", "bytes that are not UTF-8", "text in UTF-8");
            continue;
        };
        match &header {
            None => match read_header(line, &cells, columns, rows) {
                Some(read) => header = Some(read),
                None => return,
            },
            Some(header) => read_row(line, &cells, header, rows),
        }
    }
}

/// Counts lines up to where a record begins. The reader's own count leaves out a line end of two characters until
/// the next record, and blank lines.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

impl Lines<'_> {
    fn of(&mut self, record: &ByteRecord) -> u32 {
        let from = record.position().map_or(self.at, |position| position.byte() as usize);
        let blank = self.bytes[from..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        let newlines = self.bytes[self.at..from + blank].iter().filter(|b| **b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX));
        self.at = from + blank;
        self.line
    }
}

fn read_header(line: u32, cells: &[&str], columns: &Columns, rows: &mut Rows) -> Option<Header> {
    let times = columns.times.iter().map(|(name, _)| *name);
    let known: Vec<&str> = times.chain(columns.class).chain([columns.input, columns.output]).collect();
    for (i, cell) in cells.iter().enumerate() {
        if !known.contains(&cell.trim()) {
            let hint = suggestion(cell.trim(), known.iter().copied());
            rows.fault(line, cell.trim(), format!("an unknown column: {hint}"), "");
        } else if cells[..i].iter().any(|earlier| earlier.trim() == cell.trim()) {
            rows.fault(line, cell.trim(), "the column a second time", "each column once");
        }
    }
    let find = |name: &str| cells.iter().position(|cell| cell.trim() == name);
    let times: Vec<_> =
        columns.times.iter().filter_map(|(name, clock)| Some((find(name)?, *name, *clock))).collect();
    let (input, output) = (find(columns.input), find(columns.output));
    let names: Vec<&str> = columns.times.iter().map(|(name, _)| *name).collect();
    if times.len() != 1 {
        let found = if times.is_empty() { "no such column" } else { "both columns" };
        rows.fault(line, &names.join(" or "), found, "one column of times");
    }
    for (column, name) in [(input, columns.input), (output, columns.output)] {
        if column.is_none() {
            rows.fault(line, name, "no such column", "the column");
        }
    }
    if !rows.faults.is_empty() {
        return None;
    }
    Some(Header {
        columns: cells.len(),
        time: *times.first()?,
        class: columns.class.and_then(find),
        input: (input?, columns.input),
        output: (output?, columns.output),
    })
}

fn read_row(line: u32, cells: &[&str], header: &Header, rows: &mut Rows) {
    if cells.len() != header.columns {
        let found = format!("{} columns", cells.len());
        return rows.fault(line, "", found, format!("{}, as in the header", header.columns));
    }
    let (column, time_field, clock) = header.time;
    let text = cells[column].trim();
    let (at_ns, expected) = match clock {
        Clock::Calendar => (calendar_ns(text), "a time as 2023-11-16 18:15:46.6805900"),
        Clock::Count { unit_ns } => (
            text.parse().ok().and_then(|count| super::nanos(count, unit_ns)),
            "a number from 0 on, less than 30,000 years",
        ),
    };
    if at_ns.is_none() {
        rows.fault(line, time_field, shown(text), expected);
    }
    let input = rows.tokens(line, header.input.1, cells[header.input.0], 1);
    let output = rows.tokens(line, header.output.1, cells[header.output.0], 0);
    let class = header.class.map(|column| cells[column].trim()).filter(|class| !class.is_empty());
    if let (Some(at_ns), Some(input_tokens), Some(output_tokens)) = (at_ns, input, output) {
        let (class, blocks) = (class.map(str::to_owned), Vec::new());
        rows.push(RawRow { line, time_field, at_ns, class, input_tokens, output_tokens, blocks });
    }
}

/// Nanoseconds since 1970 of `YYYY-MM-DD HH:MM:SS[.fraction]`, with a `T` for the blank and a `Z` or `+00:00` at
/// the end if you like. Times of other zones are not read.
fn calendar_ns(text: &str) -> Option<i128> {
    let text = text.strip_suffix("+00:00").or_else(|| text.strip_suffix('Z')).unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if fraction.is_empty() || fraction.len() > 9 || !digits(fraction) {
        return None;
    }
    let mut parts = clock.split(':');
    let mut part = |most: u32| {
        let text = parts.next().filter(|part| part.len() == 2 && digits(part))?;
        text.parse::<u32>().ok().filter(|value| *value <= most)
    };
    let (hour, minute, second) = (part(23)?, part(59)?, part(59)?);
    if parts.next().is_some() {
        return None;
    }
    let day = i128::from(crate::time::civil_day(date)?);
    let seconds = day * 86_400 + i128::from(hour * 3600 + minute * 60 + second);
    let fraction_ns: i128 = format!("{fraction:0<9}").parse().ok()?;
    Some(seconds * 1_000_000_000 + fraction_ns)
}
