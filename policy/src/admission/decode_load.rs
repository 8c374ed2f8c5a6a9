//! Refuses by the load that will decode when this request's prefill ends, not by the one that decodes now: with the current
//! one, prefill and decode load swing against each other (the lesson of Mooncake). Then decode with it all that wait for
//! their first token now, without those that end until then; of those, as many as would end at the rate seen so far.
//! Refuses too if the TTFT is predicted too long.

use super::deadline::predicted_ttft_ms;
use super::{Admission, Decision, Ended, View, cutoffs};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::manifest::Class;

/// Settings of [`DecodeLoad`].
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

/// Weight of the newest request in the mean decode time.
const NEWEST: f64 = 0.02;

/// Refusal by the decode load to come.
#[derive(Clone, Debug)]
pub struct DecodeLoad {
    settings: Settings,
    /// Mean time from first to last token, in milliseconds.
    decode_ms: Option<f64>,
}

impl DecodeLoad {
    /// Without any experience.
    #[must_use]
    pub fn new(settings: Settings) -> DecodeLoad {
        DecodeLoad { settings, decode_ms: None }
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
        if self.predicted_tpot_ms(request, view, ttft_ms) > self.settings.margin * tpot_cutoff_ms {
            return Decision::Refuse("predicted decode load too high");
        }
        Decision::Admit
    }

    fn ended(&mut self, ended: &Ended, _: &View<'_>) {
        if let (true, Some(ttft_ms)) = (ended.ok, ended.ttft_ms) {
            let decode_ms = ended.e2e_ms - ttft_ms;
            self.decode_ms =
                Some(self.decode_ms.map_or(decode_ms, |mean| mean + NEWEST * (decode_ms - mean)));
        }
    }
}
