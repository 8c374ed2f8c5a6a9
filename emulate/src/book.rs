//! What one replica has counted, as the engine's `/metrics` counts it. Times are in seconds of the wall clock.

use crate::histogram::{Histogram, Lags, one_two_five};
use scaleproof_sim::engine::{EngineLoad, EngineTotals};
use std::collections::BTreeMap;
use std::time::Duration;

const TTFT_EDGES_S: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const TOKEN_EDGES_S: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const REQUEST_EDGES_S: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
const STEP_TOKEN_EDGES: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const N_EDGES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];
const PREEMPTION_EDGES: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];
const LAG_EDGES_S: [f64; 12] = [5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1.0];

/// How a request ended, as the engine names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// At its length.
    Length,
    /// Its client went away.
    Abort,
    /// The engine failed.
    Error,
}

/// A request that has had its last token.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Of those, found in the prefix cache.
    pub cached_tokens: u32,
    /// Tokens asked for.
    pub max_tokens: u32,
    /// Tokens given.
    pub output_tokens: u32,
    /// How often it lost its blocks.
    pub preemptions: u32,
    /// From arriving to being scheduled, in the engine.
    pub queued: Duration,
    /// From being scheduled to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// From arriving at the server to the last token.
    pub e2e: Duration,
}

/// The counts.
#[derive(Clone, Debug)]
pub struct Book {
    /// The engine now.
    pub load: EngineLoad,
    /// What its scheduler counted.
    pub totals: EngineTotals,
    /// Prompt tokens of requests whose first token came.
    pub prompt_tokens: u64,
    /// Of those, found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens given.
    pub generation_tokens: u64,
    /// Requests by how they ended.
    pub ended: BTreeMap<Ended, u64>,
    /// Refused because of the number of requests, and of tokens, queued.
    pub rejected: (u64, u64),
    /// HTTP requests by path, method and class of status.
    pub http: BTreeMap<(String, String, u16), u64>,
    /// Steps ended.
    pub steps: u64,
    /// How late steps ended, beside the metric.
    pub lags: Lags,
    pub(crate) step_lag: Histogram,
    pub(crate) step_tokens: Histogram,
    pub(crate) ttft: Histogram,
    pub(crate) itl: Histogram,
    pub(crate) tpot: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) queued: Histogram,
    pub(crate) inference: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) request_prompt_tokens: Histogram,
    pub(crate) request_generation_tokens: Histogram,
    pub(crate) request_max_tokens: Histogram,
    pub(crate) request_kv_computed: Histogram,
    pub(crate) request_n: Histogram,
    pub(crate) request_preemptions: Histogram,
}

impl Book {
    /// Nothing counted yet, for an engine of this context.
    #[must_use]
    pub fn new(max_model_len: u32) -> Book {
        let lengths = one_two_five(max_model_len);
        let (seconds, tokens) = (|| Histogram::new(&REQUEST_EDGES_S), || Histogram::new(&lengths));
        Book {
            load: EngineLoad::default(),
            totals: EngineTotals::default(),
            prompt_tokens: 0,
            cached_tokens: 0,
            generation_tokens: 0,
            ended: BTreeMap::new(),
            rejected: (0, 0),
            http: BTreeMap::new(),
            steps: 0,
            lags: Lags::default(),
            step_lag: Histogram::new(&LAG_EDGES_S),
            step_tokens: Histogram::new(&STEP_TOKEN_EDGES),
            ttft: Histogram::new(&TTFT_EDGES_S),
            itl: Histogram::new(&TOKEN_EDGES_S),
            tpot: Histogram::new(&TOKEN_EDGES_S),
            e2e: seconds(),
            queued: seconds(),
            inference: seconds(),
            prefill: seconds(),
            decode: seconds(),
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            request_max_tokens: tokens(),
            request_kv_computed: tokens(),
            request_n: Histogram::new(&N_EDGES),
            request_preemptions: Histogram::new(&PREEMPTION_EDGES),
        }
    }

    /// Requests that ended so.
    #[must_use]
    pub fn ended(&self, how: Ended) -> u64 {
        self.ended.get(&how).copied().unwrap_or(0)
    }

    pub(crate) fn count_end(&mut self, how: Ended) {
        *self.ended.entry(how).or_default() += 1;
    }

    pub(crate) fn step_ended(&mut self, lag: Duration) {
        self.steps += 1;
        self.lags.observe(lag);
        self.step_lag.observe(lag.as_secs_f64());
    }

    pub(crate) fn first_token(&mut self, ttft: Duration, prompt_tokens: u32, cached_tokens: u32) {
        self.ttft.observe(ttft.as_secs_f64());
        self.prompt_tokens += u64::from(prompt_tokens);
        self.cached_tokens += u64::from(cached_tokens);
    }

    pub(crate) fn finished(&mut self, request: &Finished) {
        self.count_end(Ended::Length);
        let decode_s = request.decode.as_secs_f64();
        let gaps = request.output_tokens.saturating_sub(1);
        self.tpot.observe(if gaps > 0 { decode_s / f64::from(gaps) } else { 0.0 });
        self.e2e.observe(request.e2e.as_secs_f64());
        self.queued.observe(request.queued.as_secs_f64());
        self.prefill.observe(request.prefill.as_secs_f64());
        self.decode.observe(decode_s);
        self.inference.observe((request.prefill + request.decode).as_secs_f64());
        self.request_prompt_tokens.observe(f64::from(request.prompt_tokens));
        self.request_generation_tokens.observe(f64::from(request.output_tokens));
        self.request_max_tokens.observe(f64::from(request.max_tokens));
        self.request_kv_computed.observe(f64::from(request.prompt_tokens - request.cached_tokens));
        self.request_n.observe(1.0);
        self.request_preemptions.observe(f64::from(request.preemptions));
    }
}
