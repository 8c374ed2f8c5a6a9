//! Schedules from traces: which rows, of which class, when.

use super::arrivals::{Releases, WarmUp};
use super::extras::Extras;
use super::{Load, Part, Planned, PlannedList, Release, ScheduleError, check_count, segment_number};
use crate::chance::{self, Stream};
use crate::fault::{Fault, Faults, suggestion};
use crate::manifest::{Class, LengthRule, Manifest, TraceSource};
use crate::prompt::{Segment, TokenStream};
use crate::time::Nanos;
use crate::trace::{BLOCK_TOKENS, Trace, TraceRow};
use rand::RngExt;

/// Faults of a trace are reported up to this many.
const FAULTS_MAX: usize = 20;

/// The mean rate at which a trace is offered unless a rate is asked for: that of its rows within the window, from the
/// first to the last, times `rate_scale`. None if fewer than two moments are in the window.
#[must_use]
pub fn trace_rate_rps(source: &TraceSource, trace: &Trace) -> Option<f64> {
    let (_, rows) = window(source, trace).ok()?;
    recorded_rate_rps(rows).map(|rps| rps * source.rate_scale)
}

/// The mean rate at which rows were recorded, from the first to the last, in requests per second; None if they have
/// fewer than two moments.
#[must_use]
pub fn recorded_rate_rps(rows: &[TraceRow]) -> Option<f64> {
    let span_s = rows.last()?.at.since(rows.first()?.at).seconds();
    (span_s > 0.0).then(|| (rows.len() - 1) as f64 / span_s)
}

/// The rows within the window, at least one, and the window's beginning.
fn window<'a>(source: &TraceSource, trace: &'a Trace) -> Result<(Nanos, &'a [TraceRow]), ScheduleError> {
    let (from, to) = match source.window_seconds {
        Some((from, to)) => (Nanos::from_seconds(from)?, Nanos::from_seconds(to)?),
        None => (Nanos::ZERO, Nanos(u64::MAX)),
    };
    let first = trace.rows.partition_point(|row| row.at < from);
    let last = trace.rows.partition_point(|row| row.at < to).max(first);
    if first == last {
        let fault = Fault {
            file: trace.file.clone(),
            field: "client.trace.window_seconds".into(),
            found: "no row in the window".into(),
            expected: format!("a window within the trace's {} s", trace.span().seconds()),
            ..Fault::default()
        };
        return Err(Faults::from(fault).into());
    }
    Ok((from, &trace.rows[first..last]))
}

/// The rows of a trace that a manifest selects, with their classes, and what is drawn beside them.
pub(super) struct Replay<'a> {
    manifest: &'a Manifest,
    rows: Vec<(u16, &'a TraceRow)>,
    /// Where the window begins in the trace.
    from: Nanos,
    load: Load,
    run: u64,
    shared_prefixes: bool,
    /// A second of the trace lasts this many.
    stretch: f64,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        manifest: &'a Manifest,
        (source, trace): (&TraceSource, &'a Trace),
        load: Load,
        run: u64,
        shared_prefixes: bool,
    ) -> Result<Replay<'a>, ScheduleError> {
        let (from, rows) = window(source, trace)?;
        check_count(rows.len() as f64)?;
        let stretch = match (load, recorded_rate_rps(rows)) {
            (Load::Open { rps }, Some(recorded)) => recorded / rps,
            _ => 1.0,
        };
        let rows = classified(&manifest.classes, rows, &trace.file)?;
        check_counts(manifest, &rows, &trace.file)?;
        Ok(Replay { manifest, rows, from, load, run, shared_prefixes, stretch })
    }

    fn stream(&self, part: Part) -> impl Fn(&str) -> Stream {
        let (seed, run) = (self.manifest.client.request_schedule_seed, self.run);
        move |name| chance::stream(seed, run, &format!("{}{name}", part.stream_prefix()))
    }

    /// The rows in their order, at the offered rate, from `window_from` on.
    pub(super) fn measured(&self, window_from: Nanos) -> Result<PlannedList, ScheduleError> {
        let stream = self.stream(Part::Measured);
        let mut extras = Extras::new(self.manifest, &stream);
        let mut releases = Releases::new(&self.manifest.client, self.load, 1.0, &stream);
        let mut list = PlannedList::default();
        list.requests.reserve_exact(self.rows.len());
        for (class, row) in &self.rows {
            let release = match self.load {
                Load::Open { .. } => {
                    let at_s = row.at.since(self.from).seconds() * self.stretch;
                    Release::At(window_from + Nanos::from_seconds(at_s)?)
                }
                Load::Closed { .. } => releases.when_free()?,
            };
            self.push(&mut list, (*class, row), release, &mut extras, block_segments(row))?;
        }
        Ok(list)
    }

    /// Rows drawn at random, Poisson at the offered rate. They share their groups' prefixes, but no block of the
    /// trace, which would find the cache filled with what is measured.
    pub(super) fn warmup(&self, warmup: WarmUp) -> Result<PlannedList, ScheduleError> {
        let stream = self.stream(Part::Warmup);
        let mut extras = Extras::new(self.manifest, &stream);
        let mut releases = Releases::new(&self.manifest.client, self.load, 1.0, &stream);
        let mut chosen = stream("rows");
        let mut list = PlannedList::default();
        loop {
            let release = releases.next()?;
            if !warmup.covers(release, list.requests.len()) {
                return Ok(list);
            }
            let row = self.rows[chosen.random_range(0..self.rows.len())];
            self.push(&mut list, row, release, &mut extras, [])?;
        }
    }

    fn push(
        &self,
        list: &mut PlannedList,
        (class, row): (u16, &TraceRow),
        release: Release,
        extras: &mut Extras,
        blocks: impl IntoIterator<Item = Segment>,
    ) -> Result<(), ScheduleError> {
        let segments_from = segment_number(list.segments.len())?;
        if self.shared_prefixes {
            list.segments.extend(extras.prefix(class, row.input_tokens));
            list.segments.extend(blocks);
        }
        list.requests.push(Planned {
            release,
            class,
            priority: self.manifest.classes[usize::from(class)].priority,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cancel_after: extras.cancel_after()?,
            segments_from,
            segments_len: segment_number(list.segments.len())? - segments_from,
        });
        Ok(())
    }
}

/// The blocks of a row's prompt, the last one as long as what is left.
fn block_segments(row: &TraceRow) -> impl Iterator<Item = Segment> {
    let starts = (0..row.input_tokens).step_by(BLOCK_TOKENS as usize);
    starts.zip(&row.blocks).map(|(start, id)| Segment {
        stream: TokenStream::trace_block(*id),
        start: 0,
        len: BLOCK_TOKENS.min(row.input_tokens - start),
    })
}

/// Each row with its class: the one it names, or else the first whose rule takes it.
fn classified<'a>(
    classes: &[Class],
    rows: &'a [TraceRow],
    file: &str,
) -> Result<Vec<(u16, &'a TraceRow)>, ScheduleError> {
    let mut faults = Faults::default();
    let mut classified = Vec::with_capacity(rows.len());
    for row in rows {
        match class_of(classes, row) {
            Some(class) => classified.push((class, row)),
            None if faults.0.len() < FAULTS_MAX => {
                faults.0.push(Fault { file: file.to_owned(), line: Some(row.line), ..untaken(classes, row) });
            }
            None => {}
        }
    }
    Ok(faults.unless_any(classified)?)
}

fn class_of(classes: &[Class], row: &TraceRow) -> Option<u16> {
    let takes = |class: &Class| match &row.class {
        Some(name) => class.name == *name,
        None => class.rule.is_none_or(|rule| within(&rule, row)),
    };
    classes.iter().position(takes).and_then(|index| u16::try_from(index).ok())
}

/// What is wrong with a row that has no class.
fn untaken(classes: &[Class], row: &TraceRow) -> Fault {
    match &row.class {
        Some(name) => Fault {
            field: "class".into(),
            found: format!("{name:?}"),
            expected: "a class of the workload".into(),
            hint: suggestion(name, classes.iter().map(|class| class.name.as_str())),
            ..Fault::default()
        },
        None => Fault {
            found: format!("{} input and {} output tokens", row.input_tokens, row.output_tokens),
            expected: "lengths that the `when` of some class takes".into(),
            hint: "a last class without `when` takes the rest".into(),
            ..Fault::default()
        },
    }
}

fn within(rule: &LengthRule, row: &TraceRow) -> bool {
    (rule.input_min..=rule.input_max).contains(&row.input_tokens)
        && (rule.output_min..=rule.output_max).contains(&row.output_tokens)
}

/// What the manifest states about the counts must be what the rows have.
fn check_counts(manifest: &Manifest, rows: &[(u16, &TraceRow)], file: &str) -> Result<(), ScheduleError> {
    let client = &manifest.client;
    let mut counts = vec![0_u64; manifest.classes.len()];
    for (class, _) in rows {
        counts[usize::from(*class)] += 1;
    }
    let total = (
        "client.initial_scheduled_requests".to_owned(),
        client.initial_scheduled_requests,
        rows.len() as u64,
    );
    let by_class = client.class_schedule_counts.iter().zip(counts).zip(&manifest.classes);
    let by_class = by_class.map(|((stated, counted), class)| {
        (format!("client.class_schedule_counts.{}", class.name), *stated, counted)
    });
    let stated = std::iter::once(total).filter(|(_, stated, _)| *stated > 0).chain(by_class);
    let fault = |(field, stated, counted)| Fault {
        file: file.to_owned(),
        field,
        found: format!("{counted} rows"),
        expected: format!("{stated}, as the manifest states"),
        hint: "the manifest of a trace need not state its counts".into(),
        ..Fault::default()
    };
    let faults = stated.filter(|(_, stated, counted)| stated != counted).map(fault).collect();
    Ok(Faults(faults).unless_any(())?)
}
