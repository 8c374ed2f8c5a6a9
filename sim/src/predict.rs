//! What the profile says of a replica under a load: for admission policies that look ahead.

use crate::setup::RunConfig;
use crate::step_time::BatchShape;
use scaleproof_policy::admission::Predictor;

/// The predictor of a run.
#[derive(Clone, Copy)]
pub(crate) struct Prediction<'a> {
    config: &'a RunConfig,
}

impl<'a> Prediction<'a> {
    pub(crate) fn of(config: &'a RunConfig) -> Prediction<'a> {
        Prediction { config }
    }

    fn step_ms(&self, shape: &BatchShape) -> f64 {
        self.config.step_time.step_us(shape, self.config.gateway.overlapped) / 1e3
    }
}

impl Predictor for Prediction<'_> {
    fn ingest_ms(&self, input_tokens: u32) -> f64 {
        let front_end = &self.config.front_end;
        front_end.request.millis() + front_end.prompt_token_us * f64::from(input_tokens) / 1e3
    }

    fn prefill_ms(&self, prompt_tokens: f64, decoding: f64, context_tokens: f64) -> f64 {
        if prompt_tokens <= 0.0 {
            return 0.0;
        }
        let room = (f64::from(self.config.gateway.batch_tokens) - decoding).max(1.0);
        let chunk = prompt_tokens.min(room).max(1.0);
        let rows = decoding as u32 + 1;
        let shape = BatchShape {
            tokens: (chunk + decoding) as u64,
            rows,
            sampled: rows,
            decode_context: (context_tokens + decoding) as u64,
            prefill_pairs: (chunk * chunk) as u64,
            ..BatchShape::default()
        };
        prompt_tokens / chunk * self.step_ms(&shape)
    }

    fn decode_step_ms(&self, decoding: f64, context_tokens: f64) -> f64 {
        let rows = decoding.max(1.0).ceil() as u32;
        self.step_ms(&BatchShape {
            tokens: u64::from(rows),
            rows,
            sampled: rows,
            decode_context: (context_tokens + decoding) as u64,
            ..BatchShape::default()
        })
    }
}
