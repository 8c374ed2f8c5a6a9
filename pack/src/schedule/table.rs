//! The schedule as CSV. docs/formats.md describes the columns.

use super::{Part, Planned, PlannedList, Release, Schedule};
use crate::manifest::Manifest;
use crate::time::Nanos;
use std::io;

const COLUMNS: [&str; 13] = [
    "request_id",
    "phase",
    "class",
    "release",
    "at_s",
    "predecessor",
    "delay_s",
    "input_tokens",
    "output_tokens",
    "priority",
    "cancel_after_s",
    "prefix_group",
    "shared_tokens",
];

/// Writes a row for each request, warm-up first.
///
/// # Errors
/// Those of the writer.
pub fn write_csv(schedule: &Schedule, manifest: &Manifest, writer: impl io::Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(writer);
    csv.write_record(COLUMNS)?;
    for (part, list) in [(Part::Warmup, &schedule.warmup), (Part::Measured, &schedule.measured)] {
        for (id, request) in (0..).zip(&list.requests) {
            csv.write_record(row(part, id, request, list, manifest))?;
        }
    }
    csv.flush()
}

fn row(part: Part, id: u64, request: &Planned, list: &PlannedList, manifest: &Manifest) -> [String; 13] {
    let none = String::new;
    let (release, at, predecessor, delay) = match request.release {
        Release::At(at) => ("at", seconds(at), none(), none()),
        Release::After { predecessor, delay } => ("after", none(), predecessor.to_string(), seconds(delay)),
        Release::WhenFree { think } => ("when_free", none(), none(), seconds(think)),
    };
    let segments = list.segments_of(request);
    let group = segments.first().and_then(|segment| segment.stream.as_group());
    let group = group.and_then(|group| manifest.prefix_groups.get(usize::try_from(group).ok()?));
    let shared = segments.iter().filter(|segment| segment.stream != part.unique(id));
    let shared: u64 = shared.map(|segment| u64::from(segment.len)).sum();
    let class = manifest.classes.get(usize::from(request.class));
    [
        id.to_string(),
        part.word().to_owned(),
        class.map(|class| class.name.clone()).unwrap_or_default(),
        release.to_owned(),
        at,
        predecessor,
        delay,
        request.input_tokens.to_string(),
        request.output_tokens.to_string(),
        request.priority.to_string(),
        request.cancel_after.map(seconds).unwrap_or_default(),
        group.map(|group| group.name.clone()).unwrap_or_default(),
        shared.to_string(),
    ]
}

/// All nine digits: the file says exactly what the schedule does.
fn seconds(time: Nanos) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}
