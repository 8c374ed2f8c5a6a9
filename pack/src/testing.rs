//! What the tests of several modules build on: a small manifest and records for it.

use crate::manifest::{
    Acceptance, ArrivalPattern, Class, Client, Distribution, Engine, Manifest, Model, Placement,
};
use crate::record::{Outcome, Record};
use crate::time::Nanos;

/// The worked example's three classes and gates, with this least number of successes.
pub(crate) fn manifest(min_successes: u64) -> Manifest {
    Manifest {
        workload_revision: None,
        cutoff: "2026-08-29".into(),
        model: Model {
            id: "dense-70b-class".into(),
            revision: "r1".into(),
            tokenizer_revision: "t1".into(),
            precision: "bf16".into(),
            chat_template_revision: None,
        },
        engine: Engine {
            name: "fixture".into(),
            version: "1.0".into(),
            scheduler_revision: None,
            placement: Placement { tp: 2, pp: 1, dp: 4, replicas: 4, gpus: 8 },
            prefix_cache: true,
            speculative_decoding: false,
            disaggregated_prefill: false,
        },
        client: client(),
        classes: vec![
            class("interactive", 0.7, 500.0, 40.0),
            class("long_context", 0.2, 2500.0, 50.0),
            class("generation_heavy", 0.1, 800.0, 45.0),
        ],
        prefix_groups: Vec::new(),
        acceptance: Acceptance {
            class_slo_attainment_min: 0.95,
            min_successful_samples_per_class: min_successes,
            error_rate_max: 0.01,
            queue_trend_flat_required: true,
            target_utilization: 0.75,
        },
    }
}

fn client() -> Client {
    Client {
        location: "here".into(),
        streaming: true,
        arrivals: ArrivalPattern::Poisson,
        minimum_duration_seconds: 300.0,
        initial_scheduled_requests: 22_000,
        request_schedule_seed: 20_260_829,
        class_schedule_counts: vec![15_400, 4_400, 2_200],
        warmup_seconds: 60.0,
        timeout: None,
        ttft_timeout: None,
        cancellation: None,
        think_time: None,
        ignore_eos: true,
        sampling: Vec::new(),
    }
}

fn class(name: &str, mix: f64, ttft_ms: f64, tpot_ms: f64) -> Class {
    Class {
        name: name.into(),
        mix,
        input_tokens: Distribution::Fixed(1024.0),
        output_tokens: Distribution::Fixed(128.0),
        request_ttft_cutoff_ms: ttft_ms,
        request_tpot_cutoff_ms: tpot_ms,
        priority: 0,
        session: None,
        rule: None,
    }
}

/// A success of class `class`, sent on schedule at `id` seconds, its first token `ttft_ns` later and its last
/// `decode_ns` after that.
pub(crate) fn ok(id: u64, class: u16, ttft_ns: u64, decode_ns: u64, output_tokens: u32) -> Record {
    let sent = Nanos(id * 1_000_000_000);
    Record {
        id,
        class,
        warmup: false,
        scheduled: sent,
        sent,
        first_token: Some(sent + Nanos(ttft_ns)),
        ended: sent + Nanos(ttft_ns + decode_ns),
        input_tokens: 1024,
        cached_tokens: 0,
        output_tokens,
        requested_tokens: output_tokens,
        outcome: Outcome::Ok,
        replica: Some(0),
        preemptions: 0,
        retries: 0,
        computed_tokens: None,
        wire: None,
        reason: "",
    }
}

/// An attempt of class `class` that ended as `outcome` one second after it was sent.
pub(crate) fn failed(id: u64, class: u16, outcome: Outcome) -> Record {
    let record = ok(id, class, 500_000_000, 500_000_000, 128);
    Record { first_token: None, output_tokens: 0, outcome, reason: "made to fail", ..record }
}
