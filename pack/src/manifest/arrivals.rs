//! The arrival pattern with its parameters.

use super::distribution::positive_seconds;
use super::{ArrivalPattern, DURATION_MAX_SECONDS, RatePiece, TraceFormat, TraceSource};
use crate::fields::{Fields, Item, above, from_to};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Constant,
    Poisson,
    Gamma,
    Piecewise,
    Trace,
}

/// Reads `arrival_pattern` with `gamma_shape`, `pieces` or `trace`, whichever belongs to it. The second value is
/// whether the pattern is a trace, known even if the trace itself is faulty.
pub(super) fn pattern(client: &mut Fields<'_>) -> (Option<ArrivalPattern>, bool) {
    let kind = client.req("arrival_pattern").word(&[
        ("constant", Kind::Constant),
        ("poisson", Kind::Poisson),
        ("gamma", Kind::Gamma),
        ("piecewise", Kind::Piecewise),
        ("trace", Kind::Trace),
    ]);
    let shape = parameter(client, "gamma_shape", "since arrival_pattern is not gamma", kind, Kind::Gamma);
    let pieces = parameter(client, "pieces", "since arrival_pattern is not piecewise", kind, Kind::Piecewise);
    let trace = parameter(client, "trace", "since arrival_pattern is not trace", kind, Kind::Trace);
    let pattern = kind.and_then(|kind| match kind {
        Kind::Constant => Some(ArrivalPattern::Constant),
        Kind::Poisson => Some(ArrivalPattern::Poisson),
        Kind::Gamma => shape.f64(from_to(0.01, 10_000.0)).map(|shape| ArrivalPattern::Gamma { shape }),
        Kind::Piecewise => rate_pieces(&pieces).map(|pieces| ArrivalPattern::Piecewise { pieces }),
        Kind::Trace => trace.fields().and_then(source).map(ArrivalPattern::Trace),
    });
    (pattern, kind == Some(Kind::Trace))
}

/// The field `name`, which must be there for `owner` and must not for any other pattern.
fn parameter<'a>(
    client: &mut Fields<'a>,
    name: &'static str,
    reason: &str,
    kind: Option<Kind>,
    owner: Kind,
) -> Item<'a> {
    if kind == Some(owner) {
        return client.req(name);
    }
    let item = client.opt(name);
    if kind.is_some() {
        item.refuse(reason);
    }
    item
}

fn rate_pieces(item: &Item<'_>) -> Option<Vec<RatePiece>> {
    let items = item.list(1..=10_000)?;
    let pieces: Vec<Option<RatePiece>> = items.iter().map(rate_piece).collect();
    let pieces = pieces.into_iter().collect::<Option<Vec<RatePiece>>>()?;
    if pieces.iter().all(|piece| piece.from + piece.to <= 0.0) {
        item.fault("only rates of 0", "a rate above 0 in some piece", "");
        return None;
    }
    Some(pieces)
}

/// `{seconds, rate}` or `{seconds, from, to}`.
fn rate_piece(item: &Item<'_>) -> Option<RatePiece> {
    let mut fields = item.fields()?;
    let seconds = positive_seconds(&fields.req("seconds"));
    let factor = from_to(0.0, 1e9);
    let constant = fields.opt("rate");
    let (from, to) = if constant.is_present() {
        for end in [fields.opt("from"), fields.opt("to")] {
            end.refuse("since rate stands for both from and to");
        }
        let rate = constant.f64(factor);
        (rate, rate)
    } else {
        (fields.req("from").f64(factor), fields.req("to").f64(factor))
    };
    fields.finish();
    Some(RatePiece { seconds: seconds?, from: from?, to: to? })
}

fn source(mut fields: Fields<'_>) -> Option<TraceSource> {
    let file = fields.req("file").string();
    let format = fields.req("format").word(&[
        ("mooncake", TraceFormat::Mooncake),
        ("azure", TraceFormat::Azure),
        ("csv", TraceFormat::Csv),
    ]);
    let window_item = fields.opt("window_seconds");
    let window = window_item.list(2..=2).map(|ends| {
        let seconds = from_to(0.0, DURATION_MAX_SECONDS);
        Some((ends[0].f64(seconds)?, ends[1].f64(seconds)?))
    });
    if let Some(Some((from, to))) = window
        && from >= to
    {
        window_item.fault(format!("[{from}, {to}]"), "a window that ends after it begins", "");
    }
    let scale = fields.opt("rate_scale").f64(above(0.0, 1e6));
    fields.finish();
    Some(TraceSource {
        file: file?,
        format: format?,
        window_seconds: window.flatten(),
        rate_scale: scale.unwrap_or(1.0),
    })
}
