//! requests.csv with the seven shared columns, of any tool or of this project.

use super::Run;
use super::point::{Clock, EndRule, OperatingPoint, Source, Tool};
use super::request::{Answer, End, ImportedRequest, fill};
use crate::fault::{Fault, Faults};
use crate::record::{Outcome, Record};
use crate::requests_csv::{ForeignRow, Reader, RequestsCsvError, Row};

/// Reads the whole file as one run. Its classes are those that its rows name.
pub(super) fn runs(file: &str, bytes: &[u8]) -> Result<Vec<Run>, Faults> {
    let fault = |error: RequestsCsvError| -> Faults {
        Fault {
            file: file.to_owned(),
            line: u32::try_from(error.line).ok(),
            field: error.column,
            found: error.found,
            expected: error.expected,
            ..Fault::default()
        }
        .into()
    };
    let names = names(bytes);
    let mut classes: Vec<&str> = names.iter().map(|(_, class)| class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() > usize::from(u16::MAX) {
        return Err(Fault {
            file: file.to_owned(),
            field: "class".to_owned(),
            found: format!("{} classes", classes.len()),
            expected: format!("at most {}", u16::MAX),
            ..Fault::default()
        }
        .into());
    }
    let mut requests = Vec::new();
    let (mut cached, mut prompts) = (0u64, 0u64);
    let reader = Reader::new(bytes, classes.iter().copied()).map_err(fault)?;
    for (row, (id, class)) in reader.zip(&names) {
        let row = row.map_err(fault)?;
        if let Row::Own { record, .. } = &row
            && record.outcome == Outcome::Ok
        {
            cached += u64::from(record.cached_tokens);
            prompts += u64::from(record.input_tokens);
        }
        requests.push(request(row, id, class));
    }
    requests.sort_by_key(|request| request.sent);
    let own = requests.iter().any(|request| request.sent.is_some());
    let mut point = OperatingPoint::new(file, source(own));
    // None at all may as well be an engine that does not say.
    point.prefix_hit_share = (cached > 0).then(|| (cached as f64 / prompts.max(1) as f64).min(1.0));
    fill(&mut point, &requests);
    Ok(vec![Run { point, requests, notes: Vec::new() }])
}

fn source(own: bool) -> Source {
    let semantics = if own { "this project's own" } else { "as the file has them; TPOT as stated" };
    Source {
        tool: Tool::RequestsCsv,
        semantics: semantics.to_owned(),
        clock: if own { Clock::Monotonic } else { Clock::Unstated },
        e2e_end: if own { EndRule::LastToken } else { EndRule::Unstated },
    }
}

/// Id and class of each row, as far as the rows can be read; the reader proper says what is wrong with them.
fn names(bytes: &[u8]) -> Vec<(String, String)> {
    let mut csv = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let Ok(header) = csv.byte_headers().cloned() else { return Vec::new() };
    let position = |name: &[u8]| header.iter().position(|column| column == name);
    let (Some(id), Some(class)) = (position(b"request_id"), position(b"class")) else { return Vec::new() };
    let text = |record: &csv::ByteRecord, at: usize| {
        String::from_utf8_lossy(record.get(at).unwrap_or_default()).into_owned()
    };
    csv.byte_records().map_while(Result::ok).map(|record| (text(&record, id), text(&record, class))).collect()
}

fn request(row: Row, id: &str, class: &str) -> ImportedRequest {
    let (shared, record, reason) = match row {
        Row::Foreign(shared) => (shared, None, String::new()),
        Row::Own { record, reason } => (shared_columns(&record), Some(record), reason),
    };
    let ForeignRow { outcome, ttft, e2e, tpot_ms, output_tokens, .. } = shared;
    let end = match outcome {
        Outcome::Ok => End::Ok(Answer { ttft, e2e, tpot_ms, output_tokens }),
        outcome => End::Failed { outcome, reason },
    };
    ImportedRequest {
        id: id.to_owned(),
        class: Some(class.to_owned()),
        scheduled: record.as_ref().map(|record| record.scheduled),
        sent: record.as_ref().map(|record| record.sent),
        input_tokens: record.as_ref().map(|record| record.input_tokens),
        end,
    }
}

fn shared_columns(record: &Record) -> ForeignRow {
    ForeignRow {
        class: record.class,
        outcome: record.outcome,
        ttft: record.ttft().unwrap_or(record.e2e()),
        tpot_ms: record.tpot_ms(),
        e2e: record.e2e(),
        output_tokens: record.output_tokens,
    }
}
