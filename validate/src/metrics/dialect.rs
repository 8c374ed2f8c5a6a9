//! What each engine calls its signals. The names were read in vLLM 0.32 and 0.33, SGLang 0.5.23, TensorRT-LLM's
//! collector of 2026 and llama.cpp's server; older names of the same signal stand behind the newer ones.

use super::text::Exposition;

/// An engine, by the names of its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `vllm:...`
    Vllm,
    /// `sglang:...`
    Sglang,
    /// `trtllm_...`
    TensorRtLlm,
    /// `llamacpp:...`
    LlamaCpp,
}

/// Other names for one signal, the newest first: the first that a text has counts. Each is a sum of series.
pub(super) type Names = &'static [&'static [&'static str]];

/// An engine's names. An empty list is a signal that the engine does not have.
pub(super) struct Vocabulary {
    pub waiting: Names,
    pub running: Names,
    /// Tokens looked up in the prefix cache.
    pub prefix_queries: Names,
    /// Of those, found.
    pub prefix_hits: Names,
    pub preemptions: Names,
    /// Tokens evicted from the prefix cache.
    pub evicted_tokens: Names,
    pub prompt_tokens: Names,
    pub generation_tokens: Names,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: Names,
    pub kv_blocks_used: Names,
    pub kv_tokens_used: Names,
    pub kv_blocks_total: Names,
    pub kv_tokens_total: Names,
    pub block_size: Names,
    /// The metric whose labels say how the cache is set, with the labels for block size and count.
    pub cache_info: Option<(&'static str, &'static str, &'static str)>,
    /// Histograms, in seconds.
    pub ttft: &'static [&'static str],
    pub itl: &'static [&'static str],
    pub e2e: &'static [&'static str],
    pub queue_time: &'static [&'static str],
}

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 4] = [Dialect::Vllm, Dialect::Sglang, Dialect::TensorRtLlm, Dialect::LlamaCpp];

    /// The engine's name.
    #[must_use]
    pub fn engine(self) -> &'static str {
        match self {
            Dialect::Vllm => "vLLM",
            Dialect::Sglang => "SGLang",
            Dialect::TensorRtLlm => "TensorRT-LLM",
            Dialect::LlamaCpp => "llama.cpp",
        }
    }

    /// What its names begin with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Dialect::Vllm => "vllm:",
            Dialect::Sglang => "sglang:",
            Dialect::TensorRtLlm => "trtllm_",
            Dialect::LlamaCpp => "llamacpp:",
        }
    }

    /// The engine that a text is of: whose names it has.
    #[must_use]
    pub fn of(text: &Exposition) -> Option<Dialect> {
        text.samples().iter().find_map(|sample| {
            Dialect::ALL.into_iter().find(|dialect| sample.name.starts_with(dialect.prefix()))
        })
    }

    pub(super) fn vocabulary(self) -> &'static Vocabulary {
        match self {
            Dialect::Vllm => &VLLM,
            Dialect::Sglang => &SGLANG,
            Dialect::TensorRtLlm => &TENSORRT_LLM,
            Dialect::LlamaCpp => &LLAMA_CPP,
        }
    }
}

/// An engine that says nothing.
const NONE: Vocabulary = Vocabulary {
    waiting: &[],
    running: &[],
    prefix_queries: &[],
    prefix_hits: &[],
    preemptions: &[],
    evicted_tokens: &[],
    prompt_tokens: &[],
    generation_tokens: &[],
    kv_usage: &[],
    kv_blocks_used: &[],
    kv_tokens_used: &[],
    kv_blocks_total: &[],
    kv_tokens_total: &[],
    block_size: &[],
    cache_info: None,
    ttft: &[],
    itl: &[],
    e2e: &[],
    queue_time: &[],
};

static VLLM: Vocabulary = Vocabulary {
    waiting: &[&["vllm:num_requests_waiting"]],
    running: &[&["vllm:num_requests_running"]],
    prefix_queries: &[&["vllm:prefix_cache_queries_total"], &["vllm:gpu_prefix_cache_queries_total"]],
    prefix_hits: &[&["vllm:prefix_cache_hits_total"], &["vllm:gpu_prefix_cache_hits_total"]],
    preemptions: &[&["vllm:num_preemptions_total"]],
    prompt_tokens: &[&["vllm:prompt_tokens_total"]],
    generation_tokens: &[&["vllm:generation_tokens_total"]],
    kv_usage: &[&["vllm:kv_cache_usage_perc"], &["vllm:gpu_cache_usage_perc"]],
    cache_info: Some(("vllm:cache_config_info", "block_size", "num_gpu_blocks")),
    ttft: &["vllm:time_to_first_token_seconds"],
    itl: &["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"],
    e2e: &["vllm:e2e_request_latency_seconds"],
    queue_time: &["vllm:request_queue_time_seconds"],
    ..NONE
};

static SGLANG: Vocabulary = Vocabulary {
    waiting: &[&["sglang:num_queue_reqs", "sglang:num_grammar_queue_reqs"]],
    running: &[&["sglang:num_running_reqs"]],
    prefix_queries: &[&["sglang:prompt_tokens_total"]],
    prefix_hits: &[&["sglang:cached_tokens_total"]],
    preemptions: &[&["sglang:num_retracted_requests_total"], &["sglang:num_retracted_reqs_total"]],
    evicted_tokens: &[&["sglang:evicted_tokens_total"]],
    prompt_tokens: &[&["sglang:prompt_tokens_total"]],
    generation_tokens: &[&["sglang:generation_tokens_total"]],
    kv_usage: &[&["sglang:token_usage"]],
    kv_tokens_used: &[&["sglang:kv_used_tokens"], &["sglang:num_used_tokens"]],
    kv_blocks_total: &[&["sglang:num_pages"]],
    kv_tokens_total: &[&["sglang:max_total_num_tokens"]],
    block_size: &[&["sglang:page_size"]],
    cache_info: Some(("sglang:cache_config_info", "page_size", "num_pages")),
    ttft: &["sglang:time_to_first_token_seconds"],
    itl: &["sglang:inter_token_latency_seconds"],
    e2e: &["sglang:e2e_request_latency_seconds"],
    queue_time: &["sglang:queue_time_seconds"],
    ..NONE
};

static TENSORRT_LLM: Vocabulary = Vocabulary {
    waiting: &[&["trtllm_num_requests_waiting"]],
    running: &[&["trtllm_num_requests_running"]],
    prefix_queries: &[&["trtllm_prompt_tokens_total"]],
    prefix_hits: &[&["trtllm_prompt_cached_tokens_total"]],
    prompt_tokens: &[&["trtllm_prompt_tokens_total"]],
    generation_tokens: &[&["trtllm_generation_tokens_total"]],
    kv_usage: &[&["trtllm_kv_cache_utilization"]],
    kv_blocks_used: &[&["trtllm_kv_cache_used_blocks"]],
    kv_blocks_total: &[&["trtllm_kv_cache_max_blocks"]],
    block_size: &[&["trtllm_kv_cache_tokens_per_block"]],
    ttft: &["trtllm_time_to_first_token_seconds"],
    e2e: &["trtllm_e2e_request_latency_seconds"],
    queue_time: &["trtllm_request_queue_time_seconds"],
    ..NONE
};

static LLAMA_CPP: Vocabulary = Vocabulary {
    waiting: &[&["llamacpp:requests_deferred"]],
    running: &[&["llamacpp:requests_processing"]],
    // Its prompt tokens are those it computed.
    prefix_queries: &[&["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"]],
    prefix_hits: &[&["llamacpp:prompt_tokens_cached_total"]],
    prompt_tokens: &[&["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"]],
    generation_tokens: &[&["llamacpp:tokens_predicted_total"]],
    kv_usage: &[&["llamacpp:kv_cache_usage_ratio"]],
    kv_tokens_used: &[&["llamacpp:kv_cache_tokens"]],
    ..NONE
};
