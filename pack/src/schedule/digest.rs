//! The hash of a schedule, over a canonical encoding of everything that decides a run.

use super::{Load, PlannedList, Release, Schedule};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// SHA-256, in hexadecimal. All numbers are little-endian; options and variants begin with a byte that names them.
pub(super) fn digest(schedule: &Schedule) -> String {
    let mut hash = Sha256::new();
    hash.update(b"scaleproof schedule 1");
    hash.update(schedule.seed.to_le_bytes());
    hash.update(schedule.run.to_le_bytes());
    match schedule.load {
        Load::Open { rps } => {
            hash.update([0]);
            hash.update(rps.to_bits().to_le_bytes());
        }
        Load::Closed { concurrency } => {
            hash.update([1]);
            hash.update(u64::from(concurrency).to_le_bytes());
        }
    }
    hash.update([u8::from(schedule.shared_prefixes)]);
    hash.update(schedule.window_from.0.to_le_bytes());
    for list in [&schedule.warmup, &schedule.measured] {
        update(&mut hash, list);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

fn update(hash: &mut Sha256, list: &PlannedList) {
    hash.update((list.requests.len() as u64).to_le_bytes());
    let mut row = Vec::with_capacity(64);
    for request in &list.requests {
        row.clear();
        let (kind, first, second) = match request.release {
            Release::At(at) => (0, at.0, 0),
            Release::After { predecessor, delay } => (1, predecessor, delay.0),
            Release::WhenFree { think } => (2, think.0, 0),
        };
        row.push(kind);
        row.extend(first.to_le_bytes());
        row.extend(second.to_le_bytes());
        row.extend(request.class.to_le_bytes());
        row.extend(request.priority.to_le_bytes());
        row.extend(request.input_tokens.to_le_bytes());
        row.extend(request.output_tokens.to_le_bytes());
        row.push(u8::from(request.cancel_after.is_some()));
        row.extend(request.cancel_after.unwrap_or_default().0.to_le_bytes());
        row.extend(request.segments_from.to_le_bytes());
        row.extend(request.segments_len.to_le_bytes());
        hash.update(&row);
    }
    hash.update((list.segments.len() as u64).to_le_bytes());
    for segment in &list.segments {
        row.clear();
        row.extend(segment.stream.0.to_le_bytes());
        row.extend(segment.start.to_le_bytes());
        row.extend(segment.len.to_le_bytes());
        hash.update(&row);
    }
}
