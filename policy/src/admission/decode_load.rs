//! Refuses by the load that will decode when this request's prefill ends, not by the one that decodes now: with the current
//! one, prefill and decode load swing against each other (the lesson of Mooncake). Then decode with it all that wait for
//! their first token now, without those that end until then; of those, as many as would end at the rate seen so far.
//! A step in which others prefill takes longer than one that only decodes: the prediction is corrected by the ratio of the mean
//! TPOT seen to the mean predicted. Refuses too if the TTFT is predicted too long.

use super::deadline::{Settings, predicted_ttft_ms};
use super::{Admission, Decision, Ended, View};
use crate::request::RouteRequest;

/// Weight of the newest request in the means.
const NEWEST: f64 = 0.02;

/// Refusal by the decode load to come.
#[derive(Clone, Debug)]
pub struct DecodeLoad {
    settings: Settings,
    /// Mean time from first to last token, in milliseconds.
    decode_ms: Option<f64>,
    /// Mean TPOT of those that ended, in milliseconds.
    seen_ms: Option<f64>,
    /// Mean prediction for those that were let in, uncorrected, in milliseconds.
    predicted_ms: Option<f64>,
}

/// Moves a mean towards a newer value.
fn renew(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + NEWEST * (value - mean)));
}

impl DecodeLoad {
    /// Without any experience.
    #[must_use]
    pub fn new(settings: Settings) -> DecodeLoad {
        DecodeLoad { settings, decode_ms: None, seen_ms: None, predicted_ms: None }
    }

    /// The time of a token when the request's prefill ends, in milliseconds.
    fn predicted_tpot_ms(&self, request: &RouteRequest<'_>, view: &View<'_>, ttft_ms: f64) -> f64 {
        let replicas = view.fleet.available().len().max(1) as f64;
        let (inside, waiting) = (f64::from(view.inside.requests), f64::from(view.inside.without_answer));
        let stays = self.decode_ms.map_or(1.0, |decode_ms| (1.0 - ttft_ms / decode_ms).max(0.0));
        let decoding = (inside - waiting) * stays + waiting;
        let waiting_tokens = view.inside.tokens_without_answer as f64;
        let context_tokens = view.inside.context_tokens as f64 * stays + waiting_tokens;
        let own_tokens = f64::from(request.input_tokens) + 0.5 * f64::from(request.output_tokens);
        view.predictor.decode_step_ms(decoding / replicas + 1.0, context_tokens / replicas + own_tokens)
    }
}

impl Admission for DecodeLoad {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let Some(&(ttft_cutoff_ms, tpot_cutoff_ms)) =
            self.settings.cutoffs_ms.get(usize::from(request.class))
        else {
            return Decision::Admit;
        };
        let ttft_ms = predicted_ttft_ms(request, view);
        if ttft_ms > self.settings.margin * ttft_cutoff_ms {
            return Decision::Refuse("predicted TTFT too long");
        }
        let tpot_ms = self.predicted_tpot_ms(request, view, ttft_ms);
        let correction = match (self.seen_ms, self.predicted_ms) {
            (Some(seen), Some(predicted)) if predicted > 0.0 => (seen / predicted).max(1.0),
            _ => 1.0,
        };
        if correction * tpot_ms > self.settings.margin * tpot_cutoff_ms {
            return Decision::Refuse("predicted decode load too high");
        }
        renew(&mut self.predicted_ms, tpot_ms);
        Decision::Admit
    }

    fn ended(&mut self, ended: &Ended, _: &View<'_>) {
        if let (true, Some(ttft_ms)) = (ended.ok, ended.ttft_ms) {
            renew(&mut self.decode_ms, ended.e2e_ms - ttft_ms);
            if let Some(tpot_ms) = ended.tpot_ms {
                renew(&mut self.seen_ms, tpot_ms);
            }
        }
    }
}
