//! `/metrics`: the counts of a replica in Prometheus' text format, under the names, types, labels and bucket edges of
//! vLLM 0.32.0. What only an emulator has is named `scaleproof_emulate_*`.

use crate::book::{Book, Ended};
use crate::config::Facts;
use crate::histogram::Histogram;
use std::fmt::Write as _;

/// The text.
#[must_use]
pub fn exposition(book: &Book, facts: &Facts) -> String {
    let mut page = Page::new(&facts.model);
    page.gauges(book);
    page.counters(book);
    page.outcomes(book);
    page.histograms(book);
    page.cache_config(facts);
    page.http(book);
    page.own(book);
    page.text
}

struct Page {
    text: String,
    model: String,
}

impl Page {
    fn new(model: &str) -> Page {
        let escaped = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        Page { text: String::with_capacity(32 << 10), model: format!("model_name=\"{escaped}\"") }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One line. `labels` come after the engine's.
    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(self.text, "{name}{{engine=\"0\",{}{comma}{labels}}} {value:?}", self.model);
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, "", value);
    }

    fn gauges(&mut self, book: &Book) {
        let load = book.load;
        let waiting = f64::from(load.waiting);
        self.single(
            "vllm:num_requests_running",
            "gauge",
            "Requests in the running batch.",
            load.running.into(),
        );
        self.single("vllm:num_requests_waiting", "gauge", "Requests that wait for a place in it.", waiting);
        let name = "vllm:num_requests_waiting_by_reason";
        self.family(name, "gauge", "The same by what they wait for.");
        self.sample(name, "reason=\"capacity\"", waiting);
        self.sample(name, "reason=\"deferred\"", 0.0);
        let name = "vllm:engine_sleep_state";
        self.family(name, "gauge", "1 for the state the engine is in.");
        for (state, value) in [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)] {
            self.sample(name, &format!("sleep_state=\"{state}\""), value);
        }
        let used = f64::from(load.kv_blocks_used) / f64::from(load.kv_blocks_total.max(1));
        self.single("vllm:kv_cache_usage_perc", "gauge", "Share of the KV blocks in use, 0 to 1.", used);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.single(name, "counter", help, value as f64);
    }

    fn counters(&mut self, book: &Book) {
        let (totals, cached) = (book.totals, book.cached_tokens);
        self.counter("vllm:prefix_cache_queries_total", "Tokens looked up.", totals.prefix_queries);
        self.counter("vllm:prefix_cache_hits_total", "Tokens found.", totals.prefix_hits);
        self.counter("vllm:external_prefix_cache_queries_total", "There is no external cache.", 0);
        self.counter("vllm:external_prefix_cache_hits_total", "There is no external cache.", 0);
        self.counter("vllm:mm_cache_queries_total", "There are no images.", 0);
        self.counter("vllm:mm_cache_hits_total", "There are no images.", 0);
        self.counter("vllm:num_preemptions_total", "Requests that lost their blocks.", totals.preemptions);
        self.counter("vllm:prompt_tokens_total", "Prompt tokens of prefills that ended.", book.prompt_tokens);
        let computed = book.prompt_tokens - cached;
        let sources = [("local_compute", computed), ("local_cache_hit", cached), ("external_kv_transfer", 0)];
        self.by_source("vllm:prompt_tokens_by_source_total", &sources);
        self.counter("vllm:prompt_tokens_cached_total", "Of the prompt tokens, those found.", cached);
        let tiers = ["device", "host", "p2p", "disk", "external_unspecified"];
        let tiers = tiers.map(|tier| (tier, if tier == "device" { cached } else { 0 }));
        self.by_source("vllm:prompt_tokens_cached_by_source_total", &tiers);
        self.counter("vllm:generation_tokens_total", "Tokens given.", book.generation_tokens);
    }

    fn by_source(&mut self, name: &str, sources: &[(&str, u64)]) {
        self.family(name, "counter", "The same by where they came from.");
        for (source, value) in sources {
            self.sample(name, &format!("source=\"{source}\""), *value as f64);
        }
    }

    fn outcomes(&mut self, book: &Book) {
        let name = "vllm:request_success_total";
        self.family(name, "counter", "Requests that ended, by how.");
        let reasons = [
            ("stop", 0),
            ("length", book.ended(Ended::Length)),
            ("abort", book.ended(Ended::Abort)),
            ("error", book.ended(Ended::Error)),
            ("repetition", 0),
        ];
        for (reason, value) in reasons {
            self.sample(name, &format!("finished_reason=\"{reason}\""), value as f64);
        }
        let name = "vllm:admission_rejections_total";
        self.family(name, "counter", "Requests refused because of a queue limit, by which.");
        let limits = [("max_num_queued_reqs", book.rejected.0), ("max_num_queued_tokens", book.rejected.1)];
        for (reason, value) in limits {
            // Without the engine's label, as the server has it.
            let _ = writeln!(self.text, "{name}{{{},reason=\"{reason}\"}} {:?}", self.model, value as f64);
        }
    }

    fn histograms(&mut self, book: &Book) {
        for (name, help, histogram) in [
            ("vllm:request_prompt_tokens", "Prompt tokens a request.", &book.request_prompt_tokens),
            ("vllm:request_generation_tokens", "Tokens given a request.", &book.request_generation_tokens),
            ("vllm:iteration_tokens_total", "Tokens a step: whole prompts, and outputs.", &book.step_tokens),
            (
                "vllm:request_max_num_generation_tokens",
                "The longest answer to a request.",
                &book.request_generation_tokens,
            ),
            ("vllm:request_params_n", "Answers asked for.", &book.request_n),
            ("vllm:request_params_max_tokens", "Tokens asked for.", &book.request_max_tokens),
            ("vllm:time_to_first_token_seconds", "From arriving to the first token.", &book.ttft),
            ("vllm:inter_token_latency_seconds", "From token to token.", &book.itl),
            ("vllm:request_time_per_output_token_seconds", "Mean over a request's tokens.", &book.tpot),
            ("vllm:e2e_request_latency_seconds", "From arriving to the last token.", &book.e2e),
            ("vllm:request_queue_time_seconds", "From queued to scheduled.", &book.queued),
            ("vllm:request_inference_time_seconds", "From scheduled to the last token.", &book.inference),
            ("vllm:request_prefill_time_seconds", "From scheduled to the first token.", &book.prefill),
            ("vllm:request_decode_time_seconds", "From the first token to the last.", &book.decode),
            ("vllm:request_num_preemptions", "Times a request lost its blocks.", &book.request_preemptions),
            (
                "vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens that were not cached.",
                &book.request_kv_computed,
            ),
        ] {
            self.histogram(name, help, histogram);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (edge, count) in histogram.cumulative() {
            let edge = if edge.is_finite() { format!("{edge:?}") } else { "+Inf".to_owned() };
            self.sample(&bucket, &format!("le=\"{edge}\""), count as f64);
        }
        self.sample(&format!("{name}_count"), "", histogram.count() as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum());
    }

    fn cache_config(&mut self, facts: &Facts) {
        let name = "vllm:cache_config_info";
        self.family(name, "gauge", "The KV cache's settings, as labels.");
        let (size, blocks) = (facts.block_size, facts.num_blocks);
        let caching = if facts.prefix_caching { "True" } else { "False" };
        let tokens = u64::from(size) * u64::from(blocks);
        let _ = writeln!(
            self.text,
            "{name}{{block_size=\"{size}\",cache_dtype=\"auto\",effective_attention_block_size=\"{size}\",\
             enable_prefix_caching=\"{caching}\",engine=\"0\",kv_cache_size_tokens=\"{tokens}\",\
             num_gpu_blocks=\"{blocks}\"}} 1.0"
        );
    }

    fn http(&mut self, book: &Book) {
        let name = "http_requests_total";
        self.family(name, "counter", "HTTP requests by handler, method and class of status.");
        for ((handler, method, class), count) in &book.http {
            let _ = writeln!(
                self.text,
                "{name}{{handler=\"{handler}\",method=\"{method}\",status=\"{class}xx\"}} {:?}",
                *count as f64
            );
        }
    }

    fn own(&mut self, book: &Book) {
        self.counter("scaleproof_emulate_steps_total", "Steps ended.", book.steps);
        self.counter("scaleproof_emulate_evictions_total", "Cached blocks evicted.", book.totals.evictions);
        let help = "How long after its moment a step ended.";
        self.histogram("scaleproof_emulate_step_lag_seconds", help, &book.step_lag);
    }
}
