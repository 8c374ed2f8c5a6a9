//! What is drawn for every request, wherever its class and lengths come from: shared prefix, cancellation.

use super::draw::{Sampler, cumulative, pick};
use crate::chance::Stream;
use crate::manifest::Manifest;
use crate::prompt::{Segment, TokenStream};
use crate::time::{Nanos, TimeError};
use rand::RngExt;

/// Draws the extras of requests, each kind from a stream of its own.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    /// By class.
    prefixes: Vec<Prefixes>,
    prefix_stream: Stream,
    cancellation: Option<(f64, Sampler)>,
    cancellation_stream: Stream,
}

/// The prefix groups of one class.
#[derive(Clone, Debug)]
struct Prefixes {
    /// Number of the group, and its tokens.
    groups: Vec<(u64, u32)>,
    cumulative: Vec<f64>,
}

impl Extras {
    /// `stream` gives the named streams of the part of the schedule that this is for.
    pub(super) fn new(manifest: &Manifest, stream: &impl Fn(&str) -> Stream) -> Extras {
        let cancellation = manifest.client.cancellation.as_ref();
        Extras {
            prefixes: manifest.classes.iter().map(|class| Prefixes::new(manifest, &class.name)).collect(),
            prefix_stream: stream("prefixes"),
            cancellation: cancellation.map(|c| (c.probability, Sampler::seconds(&c.after_seconds))),
            cancellation_stream: stream("cancellations"),
        }
    }

    /// The beginning of a prompt of `input_tokens` that other requests share. At least one token stays its own.
    pub(super) fn prefix(&mut self, class: u16, input_tokens: u32) -> Option<Segment> {
        let prefixes = &self.prefixes[usize::from(class)];
        let (group, tokens) = prefixes.groups[pick(&prefixes.cumulative, &mut self.prefix_stream)?];
        let len = tokens.min(input_tokens - 1);
        (len > 0).then_some(Segment { stream: TokenStream::group(group), start: 0, len })
    }

    /// How long after sending the client cancels, if it does.
    pub(super) fn cancel_after(&mut self) -> Result<Option<Nanos>, TimeError> {
        let Some((probability, after)) = &self.cancellation else { return Ok(None) };
        let cancelled = self.cancellation_stream.random::<f64>() < *probability;
        if cancelled { after.draw_time(&mut self.cancellation_stream).map(Some) } else { Ok(None) }
    }
}

impl Prefixes {
    fn new(manifest: &Manifest, class: &str) -> Prefixes {
        let numbered = (0..).zip(&manifest.prefix_groups);
        let used =
            numbered.filter(|(_, g)| g.classes.is_empty() || g.classes.iter().any(|name| name == class));
        let (groups, weights): (Vec<(u64, u32)>, Vec<f64>) =
            used.map(|(number, group)| ((number, group.tokens), group.weight)).unzip();
        Prefixes { groups, cumulative: cumulative(&weights) }
    }
}
