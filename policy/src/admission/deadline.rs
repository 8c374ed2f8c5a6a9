//! Refuses a request whose predicted TTFT exceeds its class's cutoff: nobody waits for an answer that comes too late. The
//! prediction is the time that a replica with the fleet's mean load needs for the prompt tokens before this request and its
//! own, in full steps beside what decodes there, after the API server and half a step that is under way.

use super::{Admission, Decision, View, cutoffs};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::manifest::Class;

/// Settings of [`Deadline`], and of [`super::decode_load::DecodeLoad`], which asks for more.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Refuses above so many times a cutoff. 1.
    pub margin: f64,
    /// TTFT and TPOT cutoffs of the classes, in milliseconds.
    pub cutoffs_ms: Vec<(f64, f64)>,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Settings {
        let margin = fields.opt("margin").f64(above(0.0, 1e3)).unwrap_or(1.0);
        Settings { margin, cutoffs_ms: cutoffs(classes) }
    }
}

/// The TTFT that a request is predicted to have if it is let in now, in milliseconds.
pub(super) fn predicted_ttft_ms(request: &RouteRequest<'_>, view: &View<'_>) -> f64 {
    let replicas = view.fleet.available().len().max(1) as f64;
    let decoding = f64::from(view.inside.requests - view.inside.without_answer) / replicas;
    let context_tokens = view.inside.context_tokens as f64 / replicas;
    let before = view.inside.tokens_without_answer as f64 / replicas;
    let tokens = before + f64::from(request.input_tokens);
    let under_way_ms =
        if view.inside.requests > 0 { view.predictor.decode_step_ms(decoding, context_tokens) } else { 0.0 };
    view.predictor.ingest_ms(request.input_tokens)
        + 0.5 * under_way_ms
        + view.predictor.prefill_ms(tokens, decoding, context_tokens)
}

/// Deadline-aware refusal.
#[derive(Clone, Debug)]
pub struct Deadline(pub Settings);

impl Admission for Deadline {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let Some(&(ttft_cutoff_ms, _)) = self.0.cutoffs_ms.get(usize::from(request.class)) else {
            return Decision::Admit;
        };
        if predicted_ttft_ms(request, view) > self.0.margin * ttft_cutoff_ms {
            return Decision::Refuse("predicted TTFT too long");
        }
        Decision::Admit
    }
}
