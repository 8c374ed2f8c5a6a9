//! The hash of a schedule, over a canonical encoding of everything that decides a run.

use super::{Load, PlannedList, Release, Schedule};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// So many bytes are hashed at once.
const BYTES: usize = 4096;

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
    let mut bytes = Vec::with_capacity(BYTES + 64);
    let mut flush = |bytes: &mut Vec<u8>, from: usize| {
        if bytes.len() >= from {
            hash.update(&bytes);
            bytes.clear();
        }
    };
    for request in &list.requests {
        let (kind, first, second) = match request.release {
            Release::At(at) => (0, at.0, 0),
            Release::After { predecessor, delay } => (1, predecessor, delay.0),
            Release::WhenFree { think } => (2, think.0, 0),
        };
        bytes.push(kind);
        bytes.extend(first.to_le_bytes());
        bytes.extend(second.to_le_bytes());
        bytes.extend(request.class.to_le_bytes());
        bytes.extend(request.priority.to_le_bytes());
        bytes.extend(request.input_tokens.to_le_bytes());
        bytes.extend(request.output_tokens.to_le_bytes());
        bytes.push(u8::from(request.cancel_after.is_some()));
        bytes.extend(request.cancel_after.unwrap_or_default().0.to_le_bytes());
        bytes.extend(request.segments_from.to_le_bytes());
        bytes.extend(request.segments_len.to_le_bytes());
        flush(&mut bytes, BYTES);
    }
    bytes.extend((list.segments.len() as u64).to_le_bytes());
    for segment in &list.segments {
        bytes.extend(segment.stream.0.to_le_bytes());
        bytes.extend(segment.start.to_le_bytes());
        bytes.extend(segment.len.to_le_bytes());
        flush(&mut bytes, BYTES);
    }
    flush(&mut bytes, 0);
}
