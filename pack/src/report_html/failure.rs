//! The page of a failure test: what one fault did, over time.

use super::html::{escape, figure, number, page, verdicts};
use super::svg::{Chart, Measure, Point, Scale, Series};
use super::table::{NONE, Table, pairs};
use crate::failure::FailureReport;
use crate::record::{Outcome, Record};
use crate::time::Nanos;
use crate::timeline::{FleetSeries, TimelineRow};

/// Points that a line over time is thinned to.
const LINE_POINTS: usize = 240;
/// Rows of the table under a line over time.
const TABLE_ROWS: usize = 12;
/// Seconds that attainment and failures are counted over.
const BUCKET_S: f64 = 10.0;
/// Replicas that have a line of their own.
const REPLICAS_MAX: usize = 5;

/// What the page of a failure test shows.
#[derive(Clone, Copy, Debug)]
pub struct FailurePage<'a> {
    /// The verdict.
    pub report: &'a FailureReport,
    /// All attempts.
    pub records: &'a [Record],
    /// The replicas over time.
    pub rows: &'a [TimelineRow],
}

/// The page of a failure test, as HTML.
#[must_use]
pub fn failure_html(input: &FailurePage) -> String {
    let report = input.report;
    let verdict = if report.pass { "The test is passed." } else { "The test is NOT passed." };
    let mut body = verdicts(&[escape(verdict)]);
    body += &format!("<p>{}.</p>\n", escape(&report.fault.what));
    body += "<h2>Verdict</h2>\n";
    body += &Table::of(&report.checks)
        .key("asked", |check| check.name.to_owned())
        .key("so?", |check| match check.pass {
            Some(true) => "yes".to_owned(),
            Some(false) => "NO".to_owned(),
            None => "not asked".to_owned(),
        })
        .text("seen", |check| check.evidence.clone())
        .html("Verdict");
    body += "<h2>Over time</h2>\n<div class=\"pictures\">\n";
    body += &queue(input);
    body += &by_replica(input);
    body += &shares(input);
    body += &failures(input);
    body += "</div>\n<h2>What happened</h2>\n";
    let rows: Vec<(String, String)> = report
        .moments
        .iter()
        .map(|seen| {
            let whom = seen.replica.map_or(String::new(), |replica| format!("replica {replica}: "));
            (format!("{:.2} s after the injection", seen.after_s), format!("{whom}{}", seen.what))
        })
        .collect();
    body += &pairs("What happened", ["when", "what"], &rows);
    page(&format!("Failure test: {}", report.fault.kind), &body)
}

/// The injection as a mark, and the times in which a replica was out as spans.
fn chart(input: &FailurePage, title: &str, unit: &str, series: Vec<Series>) -> Chart {
    let report = input.report;
    let out = report.removed.as_ref().map(|removed| {
        let end = report.readmitted.as_ref().map(|seen| seen.at_s);
        (removed.at_s, end.unwrap_or_else(|| last_s(input)), "out of the router")
    });
    Chart {
        title: title.to_owned(),
        x: Measure::new("time since the run began, s", Scale::Tight),
        y: Measure::new(unit, Scale::FromZero),
        series,
        mark: Some((report.fault.at_s, "fault".to_owned())),
        spans: out.into_iter().filter(|(from, to, _)| from < to).collect(),
        ..Chart::default()
    }
}

fn last_s(input: &FailurePage) -> f64 {
    input.records.iter().map(|record| record.ended).max().map_or(0.0, Nanos::seconds)
}

/// The greatest of each of so many parts.
fn thinned(points: &[Point], parts: usize) -> Vec<Point> {
    let interval = points.len().div_ceil(parts).max(1);
    let greatest = |chunk: &[Point]| Point::at(chunk[0].x, chunk.iter().map(|p| p.y).fold(0.0, f64::max));
    points.chunks(interval).map(greatest).collect()
}

fn numbers(points: &[Point], unit: &str, label: &str) -> String {
    Table::of(points).key("from, s", |p| number(p.x)).key(unit, |p| number(p.y)).html(label)
}

fn queue(input: &FailurePage) -> String {
    let mut fleet = FleetSeries::default();
    input.rows.iter().for_each(|row| fleet.push(row));
    let points: Vec<Point> =
        fleet.into_samples().iter().map(|s| Point::at(s.at.seconds(), s.waiting as f64)).collect();
    let line = Series { name: "waiting".to_owned(), points: thinned(&points, LINE_POINTS), apart: false };
    let svg = chart(input, "Queue depth over time", "requests waiting", vec![line]).svg();
    let reading = "All replicas that answer, together; each point is the greatest value of its interval. Grey: from \
                   the replica's removal until it takes work again.";
    let table = numbers(&thinned(&points, TABLE_ROWS), "requests waiting", "Queue depth");
    figure("Queue depth", reading, &svg, &table)
}

/// Attempts in flight by the replica that they ended on, at points in time.
fn by_replica(input: &FailurePage) -> String {
    let mut replicas: Vec<u32> = input.records.iter().filter_map(|record| record.replica).collect();
    replicas.sort_unstable();
    replicas.dedup();
    // Those that the fault met are shown first.
    replicas.sort_by_key(|replica| !input.report.fault.replicas.contains(replica));
    replicas.truncate(REPLICAS_MAX);
    let last = last_s(input);
    let counted = |replica: u32, parts: usize| {
        let step = (last / parts as f64).max(1e-9);
        let mut changes = vec![0i64; parts + 2];
        for record in input.records.iter().filter(|record| record.replica == Some(replica)) {
            // In flight at point k if sent by then and not ended.
            let place = |at: Nanos| ((at.seconds() / step).ceil() as usize).min(parts + 1);
            changes[place(record.sent)] += 1;
            changes[place(record.ended)] -= 1;
        }
        let mut now = 0i64;
        let at = |(point, change): (usize, i64)| {
            now += change;
            Point::at(point as f64 * step, now.max(0) as f64)
        };
        changes.into_iter().take(parts + 1).enumerate().map(at).collect::<Vec<_>>()
    };
    let line = |&replica: &u32| Series {
        name: format!("replica {replica}"),
        points: counted(replica, LINE_POINTS),
        apart: false,
    };
    let series = replicas.iter().map(line).collect();
    let svg = chart(input, "In flight by replica", "requests in flight", series).svg();
    let coarse: Vec<Vec<Point>> = replicas.iter().map(|&replica| counted(replica, TABLE_ROWS)).collect();
    let indices: Vec<usize> = (0..coarse.first().map_or(0, Vec::len)).collect();
    let mut table = Table::of(&indices).key("at, s", |&i| number(coarse[0][i].x));
    for (column, replica) in replicas.iter().enumerate() {
        let cells = &coarse;
        table = table.key(format!("replica {replica}"), move |&i: &usize| number(cells[column][i].y));
    }
    let reading = "By the attempts' records, each with the replica of its last try.";
    figure("In flight by replica", reading, &svg, &table.html("In flight by replica"))
}

/// Attempts by the ten seconds in which they were scheduled: all, and those that `counts`.
fn buckets(input: &FailurePage, at: fn(&Record) -> Nanos, counts: fn(&Record) -> bool) -> Vec<(u64, u64)> {
    let mut buckets = vec![(0u64, 0u64); (last_s(input) / BUCKET_S) as usize + 1];
    let last = buckets.len() - 1;
    for record in input.records.iter().filter(|record| !record.warmup) {
        let bucket = &mut buckets[((at(record).seconds() / BUCKET_S) as usize).min(last)];
        bucket.0 += 1;
        bucket.1 += u64::from(counts(record));
    }
    buckets
}

fn points(buckets: &[(u64, u64)], value: fn(u64, u64) -> Option<f64>) -> Vec<Point> {
    let point = |(i, &(all, counted)): (usize, &(u64, u64))| {
        Some(Point::at((i as f64 + 0.5) * BUCKET_S, value(all, counted)?))
    };
    buckets.iter().enumerate().filter_map(point).collect()
}

fn shares(input: &FailurePage) -> String {
    let ok = buckets(input, |record| record.scheduled, |record| record.outcome == Outcome::Ok);
    let share = |all: u64, ok: u64| (all > 0).then(|| 100.0 * ok as f64 / all as f64);
    let drawn = points(&ok, share);
    let mut classes: Vec<(&String, f64, f64)> = Vec::new();
    for part in &input.report.parts {
        for (name, class) in &part.report.classes {
            let attainment = class.attempted_attainment.map_or(f64::NAN, |share| 100.0 * share);
            classes.push((name, (part.from_s + part.to_s) / 2.0, attainment));
        }
    }
    let mut names: Vec<&String> = classes.iter().map(|(name, ..)| *name).collect();
    names.sort();
    names.dedup();
    let mut series = vec![Series { name: "answered".to_owned(), points: drawn, apart: false }];
    series.extend(names.iter().take(4).map(|name| Series {
        name: format!("{name}: inside its cutoffs, by part"),
        points: classes.iter().filter(|(n, ..)| n == name).map(|&(_, x, y)| Point::at(x, y)).collect(),
        apart: true,
    }));
    let svg = chart(input, "Answered and inside cutoffs", "% of attempts", series).svg();
    let table = Table::of(&input.report.parts)
        .key("part", |part| part.name.to_owned())
        .key("% of attempts inside", |part| {
            part.report.attempted_attainment.map_or(NONE.to_owned(), |share| number(100.0 * share))
        })
        .html("Attainment");
    let reading = "The line: attempts that were answered, over ten seconds of their scheduled times. The marks: attempts \
                   inside their cutoffs, before, during and after.";
    figure("Attainment", reading, &svg, &table)
}

fn failures(input: &FailurePage) -> String {
    let failed = |record: &Record| record.outcome != Outcome::Ok;
    let by_end = buckets(input, |record| record.ended, failed);
    let retried = buckets(input, |record| record.sent, |record| record.retries > 0);
    let count = |_: u64, counted: u64| (counted > 0).then_some(counted as f64);
    let series = vec![
        Series { name: "failed".to_owned(), points: points(&by_end, count), apart: true },
        Series { name: "retried".to_owned(), points: points(&retried, count), apart: true },
    ];
    let svg = chart(input, "Failures and retries", "attempts in ten seconds", series).svg();
    let rows = points(&by_end, count);
    let reading = "Each mark: attempts that failed, or that were sent again, in ten seconds.";
    figure("Failures and retries", reading, &svg, &numbers(&rows, "failed", "Failures"))
}
