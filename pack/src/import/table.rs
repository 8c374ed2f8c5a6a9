//! Tables of operating points in this project's own format: CSV with a row a point, or YAML with a list of them. A row
//! of the CSV is read as the mapping that the YAML has, by the same reader.

use super::Run;
use super::point::{Clock, EndRule, OfferedRate, OperatingPoint, Source, Summary, Tokens, Tool};
use super::request::throughputs;
use crate::fault::{Fault, Faults, suggestion};
use crate::fields::{Fields, Item, Reader, above, from_to};
use crate::manifest::{TOKENS_MAX, lengths};
use crate::yaml::{self, Entry, Node, Place, Value};
use csv::ByteRecord;
use std::io;

/// The most points of a table.
const POINTS_MAX: usize = 100_000;
/// The greatest rate, throughput or time in milliseconds that is believed.
const NUMBER_MAX: f64 = 1e12;
/// The greatest count that is believed.
const COUNT_MAX: u64 = 1 << 48;

/// The columns of a metric, each with its percentage; the mean has none.
type MetricColumns = [(&'static str, Option<f64>); 11];

const TTFT: MetricColumns = [
    ("ttft_mean_ms", None),
    ("ttft_p1_ms", Some(1.0)),
    ("ttft_p5_ms", Some(5.0)),
    ("ttft_p10_ms", Some(10.0)),
    ("ttft_p25_ms", Some(25.0)),
    ("ttft_p50_ms", Some(50.0)),
    ("ttft_p75_ms", Some(75.0)),
    ("ttft_p90_ms", Some(90.0)),
    ("ttft_p95_ms", Some(95.0)),
    ("ttft_p99_ms", Some(99.0)),
    ("ttft_p999_ms", Some(99.9)),
];
const TPOT: MetricColumns = [
    ("tpot_mean_ms", None),
    ("tpot_p1_ms", Some(1.0)),
    ("tpot_p5_ms", Some(5.0)),
    ("tpot_p10_ms", Some(10.0)),
    ("tpot_p25_ms", Some(25.0)),
    ("tpot_p50_ms", Some(50.0)),
    ("tpot_p75_ms", Some(75.0)),
    ("tpot_p90_ms", Some(90.0)),
    ("tpot_p95_ms", Some(95.0)),
    ("tpot_p99_ms", Some(99.0)),
    ("tpot_p999_ms", Some(99.9)),
];
const E2E: MetricColumns = [
    ("e2e_mean_ms", None),
    ("e2e_p1_ms", Some(1.0)),
    ("e2e_p5_ms", Some(5.0)),
    ("e2e_p10_ms", Some(10.0)),
    ("e2e_p25_ms", Some(25.0)),
    ("e2e_p50_ms", Some(50.0)),
    ("e2e_p75_ms", Some(75.0)),
    ("e2e_p90_ms", Some(90.0)),
    ("e2e_p95_ms", Some(95.0)),
    ("e2e_p99_ms", Some(99.0)),
    ("e2e_p999_ms", Some(99.9)),
];

/// Reads `points:`, a list of mappings.
pub(super) fn yaml(file: &str, bytes: &[u8]) -> Result<Vec<Run>, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Fault {
            file: file.to_owned(),
            line: u32::try_from(line).ok(),
            found: "a byte that is not UTF-8".to_owned(),
            expected: "UTF-8 text".to_owned(),
            ..Fault::default()
        }
    })?;
    read(file, &yaml::parse(file, text)?)
}

/// Reads a row a point.
pub(super) fn csv(file: &str, bytes: &[u8]) -> Result<Vec<Run>, Faults> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut csv = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(bytes);
    let mut rows = Vec::new();
    let mut header: Option<ByteRecord> = None;
    let mut record = ByteRecord::new();
    loop {
        match csv.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => match &header {
                None => header = Some(checked_header(file, record.clone())?),
                Some(header) => rows.push(mapping(header, &record)),
            },
            Err(error) => {
                let line = error.position().map_or(1, csv::Position::line);
                return Err(Fault {
                    file: file.to_owned(),
                    line: u32::try_from(line).ok(),
                    found: "a row of another width".to_owned(),
                    expected: "as many fields as the header has".to_owned(),
                    ..Fault::default()
                }
                .into());
            }
        }
    }
    let place = Place { line: 1, column: 1 };
    let points =
        Entry { key: "points".to_owned(), key_place: place, node: Node { value: Value::Seq(rows), place } };
    read(file, &Node { value: Value::Map(vec![points]), place })
}

/// Columns must be known and differ: a fault here, once, not in every row.
fn checked_header(file: &str, header: ByteRecord) -> Result<ByteRecord, Faults> {
    let known: Vec<&str> = columns().iter().map(|(name, _)| *name).collect();
    let mut faults = Faults::default();
    let names: Vec<String> = header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    for (i, name) in names.iter().enumerate() {
        let unknown = !known.contains(&name.as_str());
        if unknown || names[..i].contains(name) {
            faults.0.push(Fault {
                file: file.to_owned(),
                line: Some(1),
                column: u32::try_from(i + 1).ok(),
                field: name.clone(),
                found: if unknown { "an unknown column" } else { "the column a second time" }.to_owned(),
                expected: if unknown { "" } else { "each column once" }.to_owned(),
                hint: if unknown { suggestion(name, known.iter().copied()) } else { String::new() },
            });
        }
    }
    faults.unless_any(header)
}

/// A row as a mapping; an empty cell is a key without a value.
fn mapping(header: &ByteRecord, record: &ByteRecord) -> Node {
    let line = record.position().and_then(|at| u32::try_from(at.line()).ok()).unwrap_or(1);
    let entries = header.iter().zip(record).zip(1..).map(|((name, cell), column)| {
        let place = Place { line, column };
        let key = String::from_utf8_lossy(name).into_owned();
        let node = Node { value: value(&key, &String::from_utf8_lossy(cell)), place };
        Entry { key, key_place: Place { line: 1, column }, node }
    });
    Node { value: Value::Map(entries.collect()), place: Place { line, column: 1 } }
}

/// Columns whose cells are text even where they look like numbers.
const TEXTS: [&str; 2] = ["label", "source_metric_semantics"];

fn value(column: &str, cell: &str) -> Value {
    if cell.is_empty() {
        return Value::Null;
    }
    if TEXTS.contains(&column) {
        return Value::Str(cell.to_owned());
    }
    if let Ok(whole) = cell.parse::<i128>() {
        return Value::Int(whole);
    }
    match cell.parse::<f64>() {
        Ok(number) if number.is_finite() => Value::Float(number),
        _ => Value::Str(cell.to_owned()),
    }
}

fn read(file: &str, tree: &Node) -> Result<Vec<Run>, Faults> {
    Reader::read_tree(file, tree, |fields| {
        let label = fields.opt("label").string();
        let items = fields.req("points").list(1..=POINTS_MAX)?;
        let points: Vec<_> = items.iter().map(|item| point(item, label.as_deref().unwrap_or(file))).collect();
        points.into_iter().collect::<Option<Vec<OperatingPoint>>>()
    })
    .map(|points| {
        points.into_iter().map(|point| Run { point, requests: Vec::new(), notes: Vec::new() }).collect()
    })
}

fn point(item: &Item<'_>, label: &str) -> Option<OperatingPoint> {
    let mut fields = item.fields()?;
    let label = fields.opt("label").string().unwrap_or_else(|| label.to_owned());
    let mut point = OperatingPoint::new(&label, source(&mut fields));
    point.offered_rate = rate(&fields.opt("rate"));
    point.concurrency = fields.opt("concurrency").u32(1..=u32::MAX);
    point.gamma_shape = fields.opt("gamma_shape").f64(above(0.0, NUMBER_MAX));
    point.input_tokens = tokens(&mut fields, ["input_tokens", "input_tokens_total"]);
    point.output_tokens = tokens(&mut fields, ["output_tokens", "output_tokens_total"]);
    point.prefix_hit_share = fields.opt("prefix_hit_share").f64(from_to(0.0, 1.0));
    let mut count = |name| fields.opt(name).u64(0..=COUNT_MAX);
    point.attempted = count("requests");
    point.completed = count("completed");
    point.failed = count("failed");
    let mut number = |name| fields.opt(name).f64(from_to(0.0, NUMBER_MAX));
    point.duration_s = number("duration_s");
    point.request_throughput_rps = number("request_throughput_rps");
    point.output_throughput_tps = number("output_throughput_tps");
    point.total_throughput_tps = number("total_throughput_tps");
    point.ttft_ms = summary(&mut fields, &TTFT);
    point.tpot_ms = summary(&mut fields, &TPOT);
    point.e2e_ms = summary(&mut fields, &E2E);
    fields.finish();
    throughputs(&mut point);
    Some(point)
}

fn source(fields: &mut Fields<'_>) -> Source {
    let tool = fields.opt("source_tool").word(&Tool::ALL.map(|tool| (tool.word(), tool)));
    let semantics = fields.opt("source_metric_semantics").string();
    let clock = fields.opt("clock").word(&Clock::ALL.map(|clock| (clock.word(), clock)));
    let e2e_end = fields.opt("e2e_end").word(&EndRule::ALL.map(|rule| (rule.word(), rule)));
    Source {
        tool: tool.unwrap_or(Tool::PointTable),
        semantics: semantics.unwrap_or_else(|| "as the table has them".to_owned()),
        clock: clock.unwrap_or(Clock::Unstated),
        e2e_end: e2e_end.unwrap_or(EndRule::Unstated),
    }
}

fn rate(item: &Item<'_>) -> Option<OfferedRate> {
    match item.value() {
        Some(Value::Str(text)) if text == "inf" => Some(OfferedRate::Infinite),
        Some(Value::Str(_)) => {
            item.wrong("a number above 0, or inf", "");
            None
        }
        _ => item.f64(above(0.0, NUMBER_MAX)).map(OfferedRate::Rps),
    }
}

/// Tokens of a request, a mean or a distribution; and all together.
fn tokens(fields: &mut Fields<'_>, [each, total]: [&'static str; 2]) -> Tokens {
    let total = fields.opt(total).u64(0..=COUNT_MAX);
    let each = fields.opt(each);
    match each.value() {
        Some(Value::Map(_)) => Tokens { total, mean: None, lengths: lengths(&each) },
        _ => Tokens { total, mean: each.f64(from_to(0.0, f64::from(TOKENS_MAX))), lengths: None },
    }
}

fn summary(fields: &mut Fields<'_>, columns: &MetricColumns) -> Summary {
    let mut summary = Summary::default();
    for (name, percent) in columns {
        match (fields.opt(name).f64(above(0.0, NUMBER_MAX)), percent) {
            (Some(value), Some(percent)) => summary.set(*percent, value),
            (value, None) => summary.mean_ms = value,
            (None, _) => {}
        }
    }
    summary
}

/// A metric of a point.
type MetricOf = fn(&OperatingPoint) -> &Summary;
/// A column and its cell for a point; empty where the point does not say.
type Column = (&'static str, Box<dyn Fn(&OperatingPoint) -> String>);

fn columns() -> Vec<Column> {
    fn number<T: ToString>(value: Option<T>) -> String {
        value.map_or(String::new(), |value| value.to_string())
    }
    let mut columns: Vec<Column> = vec![
        ("label", Box::new(|p| p.label.clone())),
        ("rate", Box::new(|p| number(p.offered_rate))),
        ("concurrency", Box::new(|p| number(p.concurrency))),
        ("gamma_shape", Box::new(|p| number(p.gamma_shape))),
        ("input_tokens", Box::new(|p| number(p.input_tokens.mean))),
        ("input_tokens_total", Box::new(|p| number(p.input_tokens.total))),
        ("output_tokens", Box::new(|p| number(p.output_tokens.mean))),
        ("output_tokens_total", Box::new(|p| number(p.output_tokens.total))),
        ("prefix_hit_share", Box::new(|p| number(p.prefix_hit_share))),
        ("requests", Box::new(|p| number(p.attempted))),
        ("completed", Box::new(|p| number(p.completed))),
        ("failed", Box::new(|p| number(p.failed))),
        ("duration_s", Box::new(|p| number(p.duration_s))),
        ("request_throughput_rps", Box::new(|p| number(p.request_throughput_rps))),
        ("output_throughput_tps", Box::new(|p| number(p.output_throughput_tps))),
        ("total_throughput_tps", Box::new(|p| number(p.total_throughput_tps))),
    ];
    let metrics: [(&MetricColumns, MetricOf); 3] =
        [(&TTFT, |p| &p.ttft_ms), (&TPOT, |p| &p.tpot_ms), (&E2E, |p| &p.e2e_ms)];
    for (names, of) in metrics {
        for &(name, percent) in names {
            let get = move |p: &OperatingPoint| match percent {
                Some(percent) => number(of(p).at_ms(percent)),
                None => number(of(p).mean_ms),
            };
            columns.push((name, Box::new(get)));
        }
    }
    columns.push(("source_tool", Box::new(|p| p.source.tool.word().to_owned())));
    columns.push(("source_metric_semantics", Box::new(|p| p.source.semantics.clone())));
    columns.push(("clock", Box::new(|p| p.source.clock.word().to_owned())));
    columns.push(("e2e_end", Box::new(|p| p.source.e2e_end.word().to_owned())));
    columns
}

/// Writes points as the CSV that [`super::import`] reads. Distributions of lengths have no cell there, and percentiles
/// other than the columns' are left out.
///
/// # Errors
/// Those of the writer.
pub fn write_points<'a>(
    out: impl io::Write,
    points: impl IntoIterator<Item = &'a OperatingPoint>,
) -> io::Result<()> {
    let columns = columns();
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|(name, _)| *name))?;
    for point in points {
        csv.write_record(columns.iter().map(|(_, cell)| cell(point)))?;
    }
    csv.flush()
}
