//! What each engine calls what rules and dashboard read. observability/scrapes/ shows where each name is exposed.

use super::Engine;

/// The names of one engine. Without suffix where they are histograms; None where it exposes nothing of the kind.
pub(crate) struct Names {
    /// The engine's own name.
    pub engine: &'static str,
    pub waiting: &'static str,
    pub running: &'static str,
    pub queue_time: &'static str,
    /// Histogram of tokens a step.
    pub step_tokens: Option<&'static str>,
    /// Counter with a label `reason`.
    pub rejections: Option<&'static str>,
    pub aborted: &'static str,
    pub kv_share: &'static str,
    pub preemptions: &'static str,
    pub prefix_hits: &'static str,
    pub prefix_queries: &'static str,
    /// Counter of what left the prefix cache, and its unit.
    pub evictions: (&'static str, &'static str),
    pub prompt_tokens: &'static str,
    pub generation_tokens: &'static str,
    pub ttft: &'static str,
    /// PromQL: tokens a verification yields, and the share of drafted tokens that are accepted.
    pub speculation: (&'static str, &'static str),
    pub failed_transfers: &'static str,
    /// PromQL: bytes of KV transfers a second, and the mean time of one in seconds.
    pub transfers: (&'static str, &'static str),
    /// Gauge of start-up durations with a label `phase`.
    pub startup: Option<&'static str>,
}

const VLLM: Names = Names {
    engine: "vLLM",
    waiting: "vllm:num_requests_waiting",
    running: "vllm:num_requests_running",
    queue_time: "vllm:request_queue_time_seconds",
    step_tokens: Some("vllm:iteration_tokens_total"),
    rejections: Some("vllm:admission_rejections_total"),
    aborted: "vllm:request_success_total{finished_reason=\"abort\"}",
    kv_share: "vllm:kv_cache_usage_perc",
    preemptions: "vllm:num_preemptions_total",
    prefix_hits: "vllm:prefix_cache_hits_total",
    prefix_queries: "vllm:prefix_cache_queries_total",
    evictions: ("vllm:kv_block_lifetime_seconds_count", "sampled blocks"),
    prompt_tokens: "vllm:prompt_tokens_total",
    generation_tokens: "vllm:generation_tokens_total",
    ttft: "vllm:time_to_first_token_seconds",
    speculation: (
        "1 + sum by (replica) (rate(vllm:spec_decode_num_accepted_tokens_total[$__rate_interval])) / \
         sum by (replica) (rate(vllm:spec_decode_num_drafts_total[$__rate_interval]))",
        "sum by (replica) (rate(vllm:spec_decode_num_accepted_tokens_total[$__rate_interval])) / \
         sum by (replica) (rate(vllm:spec_decode_num_draft_tokens_total[$__rate_interval]))",
    ),
    failed_transfers: "vllm:nixl_num_failed_transfers_total",
    transfers: (
        "sum by (replica) (rate(vllm:nixl_bytes_transferred_sum[$__rate_interval]))",
        "sum by (replica) (rate(vllm:nixl_xfer_time_seconds_sum[$__rate_interval])) / \
         sum by (replica) (rate(vllm:nixl_xfer_time_seconds_count[$__rate_interval]))",
    ),
    startup: None,
};

const SGLANG: Names = Names {
    engine: "SGLang",
    waiting: "sglang:num_queue_reqs",
    running: "sglang:num_running_reqs",
    queue_time: "sglang:queue_time_seconds",
    step_tokens: None,
    rejections: None,
    aborted: "sglang:num_aborted_requests_total",
    kv_share: "sglang:token_usage",
    preemptions: "sglang:num_retracted_requests_total",
    prefix_hits: "sglang:cached_tokens_total",
    prefix_queries: "sglang:prompt_tokens_total",
    evictions: ("sglang:evicted_tokens_total", "tokens"),
    prompt_tokens: "sglang:prompt_tokens_total",
    generation_tokens: "sglang:generation_tokens_total",
    ttft: "sglang:time_to_first_token_seconds",
    speculation: (
        "avg by (replica) (sglang:spec_accept_length)",
        "avg by (replica) (sglang:spec_accept_rate)",
    ),
    failed_transfers: "sglang:num_transfer_failed_reqs_total",
    transfers: (
        "sum by (replica) (rate(sglang:kv_transfer_total_mb_sum[$__rate_interval])) * 1e6",
        "sum by (replica) (rate(sglang:kv_transfer_latency_ms_sum[$__rate_interval])) / \
         sum by (replica) (rate(sglang:kv_transfer_latency_ms_count[$__rate_interval])) / 1000",
    ),
    startup: Some("sglang:startup_time_seconds"),
};

impl Engine {
    /// Both.
    pub const ALL: [Engine; 2] = [Engine::Vllm, Engine::Sglang];

    /// The name of its files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Engine::Vllm => "vllm",
            Engine::Sglang => "sglang",
        }
    }

    pub(crate) fn names(self) -> &'static Names {
        match self {
            Engine::Vllm => &VLLM,
            Engine::Sglang => &SGLANG,
        }
    }
}
