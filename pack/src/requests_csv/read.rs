//! Reading requests.csv, ours or another tool's.

use super::{ID_PREFIX, OWN, SHARED};
use crate::record::{Outcome, Record};
use crate::time::Nanos;
use csv::{ByteRecord, ErrorKind};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::str::FromStr;

/// What is wrong with a requests.csv, and where. The caller knows the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestsCsvError {
    /// Line, counted from 1.
    pub line: u64,
    /// The column's name; empty if it concerns the whole line.
    pub column: String,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
}

impl fmt::Display for RequestsCsvError {
    /// `LINE: COLUMN: found X; expected Y`, to stand after the file's name and a colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        if !self.column.is_empty() {
            write!(f, ": {}", self.column)?;
        }
        write!(f, ": found {}; expected {}", self.found, self.expected)
    }
}

impl std::error::Error for RequestsCsvError {}

/// A row of a file that has only the seven shared columns. Times are rounded to the nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignRow {
    /// Index into the manifest's classes.
    pub class: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// From sending to the first token.
    pub ttft: Nanos,
    /// As the file has it, in milliseconds; None for a single token.
    pub tpot_ms: Option<f64>,
    /// From sending to the last token.
    pub e2e: Nanos,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// A row: with our own columns it is the whole record.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// All columns.
    Own {
        /// The record; its `reason` is empty, being a word of the program that wrote it.
        record: Record,
        /// Why it failed.
        reason: String,
    },
    /// The seven shared columns.
    Foreign(ForeignRow),
}

/// Reads rows one by one. Columns may stand in any order, and unknown ones are ignored.
pub struct Reader<R> {
    csv: csv::Reader<R>,
    record: ByteRecord,
    classes: Vec<String>,
    shared: [usize; SHARED.len()],
    own: Option<[usize; OWN.len()]>,
    /// Line of each request id so far.
    seen: BTreeMap<Box<[u8]>, u64>,
}

impl<R: Read> Reader<R> {
    /// Reads the header. `classes` are the manifest's, in its order.
    ///
    /// # Errors
    /// A missing or doubled column, unreadable input.
    pub fn new<'a>(
        input: R,
        classes: impl IntoIterator<Item = &'a str>,
    ) -> Result<Reader<R>, RequestsCsvError> {
        let mut csv = csv::ReaderBuilder::new().from_reader(input);
        let header = csv.byte_headers().map_err(of_csv)?.clone();
        let names: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let position = |wanted: &str| -> Result<Option<usize>, RequestsCsvError> {
            let mut places = (0..names.len()).filter(|&i| names[i] == wanted);
            match (places.next(), places.next()) {
                (_, Some(_)) => {
                    Err(of_header(format!("the column {wanted} twice"), "each column once".into()))
                }
                (place, None) => Ok(place),
            }
        };
        let mut shared = [0; SHARED.len()];
        for (place, name) in shared.iter_mut().zip(SHARED) {
            *place = position(name)?.ok_or_else(|| {
                of_header(
                    format!("{:?} without {name}", names.join(",")),
                    format!("the columns {}", SHARED.join(",")),
                )
            })?;
        }
        let mut own = Some([0; OWN.len()]);
        for (i, name) in OWN.iter().enumerate() {
            match (position(name)?, &mut own) {
                (Some(place), Some(places)) => places[i] = place,
                _ => own = None,
            }
        }
        let classes = classes.into_iter().map(str::to_string).collect();
        Ok(Reader { csv, record: ByteRecord::new(), classes, shared, own, seen: BTreeMap::new() })
    }

    /// The next row; None at the end.
    fn next_row(&mut self) -> Result<Option<Row>, RequestsCsvError> {
        if !self.csv.read_byte_record(&mut self.record).map_err(of_csv)? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        let Reader { record, classes, shared, own, seen, .. } = self;
        let field = |i: usize| Field { line, column: SHARED[i], text: &record[shared[i]] };
        if let Some(first) = seen.insert(field(0).text.into(), line) {
            return Err(field(0).error(&format!("an id that no other row has (line {first} has it)")));
        }
        let row = ForeignRow {
            class: field(1).class(classes)?,
            outcome: field(6).outcome()?,
            ttft: field(2).millis()?,
            tpot_ms: Some(field(3).number()?),
            e2e: field(4).millis()?,
            output_tokens: field(5).integer()?,
        };
        if row.outcome == Outcome::Ok && row.output_tokens == 0 {
            return Err(field(5).error("at least 1 token for the status ok"));
        }
        if row.outcome == Outcome::Ok && row.ttft > row.e2e {
            return Err(field(2).error("at most the row's e2e_ms"));
        }
        if let Some(places) = own {
            let id = field(0).request_id()?;
            let own = |i: usize| Field { line, column: OWN[i], text: &record[places[i]] };
            return own_row(id, &row, own).map(Some);
        }
        let tpot_ms = row.tpot_ms.filter(|_| row.output_tokens > 1);
        Ok(Some(Row::Foreign(ForeignRow { tpot_ms, ..row })))
    }
}

/// The whole record, from what the shared columns say and our own `field`s.
fn own_row<'a>(
    id: u64,
    shared: &ForeignRow,
    field: impl Fn(usize) -> Field<'a>,
) -> Result<Row, RequestsCsvError> {
    let record = Record {
        id,
        class: shared.class,
        warmup: false,
        scheduled: field(0).seconds()?,
        sent: field(1).seconds()?,
        first_token: field(2).optional(Field::seconds)?,
        ended: field(3).seconds()?,
        input_tokens: field(4).integer()?,
        cached_tokens: field(5).integer()?,
        requested_tokens: field(6).integer()?,
        output_tokens: field(7).integer()?,
        outcome: shared.outcome,
        replica: field(8).optional(Field::integer)?,
        preemptions: field(9).integer()?,
        retries: 0,
        computed_tokens: None,
        wire: None,
        reason: "",
    };
    if record.sent < record.scheduled {
        return Err(field(1).error("no less than scheduled_s"));
    }
    if record.first_token.is_some_and(|t| t < record.sent) {
        return Err(field(2).error("no less than sent_s"));
    }
    if record.ended < record.first_token.unwrap_or(record.sent) {
        return Err(field(3).error("no less than sent_s and first_token_s"));
    }
    Ok(Row::Own { record, reason: String::from_utf8_lossy(field(10).text).into_owned() })
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Row, RequestsCsvError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

/// One field, with what an error about it says.
#[derive(Clone, Copy)]
struct Field<'a> {
    line: u64,
    column: &'static str,
    text: &'a [u8],
}

impl Field<'_> {
    fn error(&self, expected: &str) -> RequestsCsvError {
        let text: String = String::from_utf8_lossy(self.text).chars().take(60).collect();
        RequestsCsvError {
            line: self.line,
            column: self.column.into(),
            found: format!("{text:?}"),
            expected: expected.into(),
        }
    }

    fn parse<T: FromStr>(&self, expected: &str) -> Result<T, RequestsCsvError> {
        let text = std::str::from_utf8(self.text).ok();
        text.and_then(|t| t.trim().parse().ok()).ok_or_else(|| self.error(expected))
    }

    fn number(&self) -> Result<f64, RequestsCsvError> {
        let expected = "a number of milliseconds, finite and not negative";
        let value: f64 = self.parse(expected)?;
        if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(self.error(expected)) }
    }

    fn millis(&self) -> Result<Nanos, RequestsCsvError> {
        Nanos::from_millis(self.number()?).map_err(|_| self.error("less than a century"))
    }

    fn seconds(&self) -> Result<Nanos, RequestsCsvError> {
        let expected = "a number of seconds, finite and not negative";
        Nanos::from_seconds(self.parse(expected)?).map_err(|_| self.error(expected))
    }

    fn integer(&self) -> Result<u32, RequestsCsvError> {
        self.parse("a whole number from 0 to 4294967295")
    }

    fn optional<T>(
        self,
        read: impl Fn(&Self) -> Result<T, RequestsCsvError>,
    ) -> Result<Option<T>, RequestsCsvError> {
        if self.text.is_empty() { Ok(None) } else { read(&self).map(Some) }
    }

    fn request_id(&self) -> Result<u64, RequestsCsvError> {
        let expected = "an id as r-17";
        match self.text.strip_prefix(ID_PREFIX.as_bytes()) {
            Some(number) => Field { text: number, ..*self }.parse(expected).map_err(|_| self.error(expected)),
            None => Err(self.error(expected)),
        }
    }

    fn class(&self, classes: &[String]) -> Result<u16, RequestsCsvError> {
        let index = classes.iter().position(|name| name.as_bytes() == self.text);
        index
            .and_then(|i| u16::try_from(i).ok())
            .ok_or_else(|| self.error(&format!("a class of the manifest: {}", classes.join(", "))))
    }

    fn outcome(&self) -> Result<Outcome, RequestsCsvError> {
        std::str::from_utf8(self.text)
            .ok()
            .and_then(Outcome::from_word)
            .ok_or_else(|| self.error(&format!("one of {}", Outcome::ALL.map(Outcome::word).join(", "))))
    }
}

fn of_header(found: String, expected: String) -> RequestsCsvError {
    RequestsCsvError { line: 1, column: String::new(), found, expected }
}

fn of_csv(error: csv::Error) -> RequestsCsvError {
    let line = error.position().map_or(1, csv::Position::line);
    let (found, expected) = match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            (format!("{len} fields"), format!("{expected_len}, as in the header"))
        }
        _ => (format!("unreadable input ({error})"), "comma-separated text".to_string()),
    };
    RequestsCsvError { line, column: String::new(), found, expected }
}
