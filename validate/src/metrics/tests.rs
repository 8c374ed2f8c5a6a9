use super::*;
use proptest::prelude::*;

/// What the real engine wrote (tests/live/samples/README.md).
const VLLM: &str = include_str!("../../../tests/live/samples/metrics.txt");

fn fault(text: &str) -> String {
    Exposition::parse(text).expect_err("it is not of the format").to_string()
}

#[test]
fn a_real_scrape_says_what_the_engine_did() {
    let reading = Reading::parse(VLLM).unwrap();
    assert_eq!(reading.dialect, Dialect::Vllm);
    assert_eq!((reading.waiting, reading.running), (Some(0), Some(0)));
    assert_eq!((reading.kv_blocks_used, reading.kv_blocks_total), (Some(0), Some(2399)));
    assert_eq!((reading.prefix_queries, reading.prefix_hits), (Some(126), Some(64)));
    assert_eq!((reading.prompt_tokens, reading.generation_tokens), (Some(126), Some(16)));
    assert_eq!((reading.preemptions, reading.evictions), (Some(0), None));
    let facts = reading.facts();
    assert_eq!((facts.block_size, facts.num_blocks, facts.prefix_cache), (Some(32), Some(2400), Some(true)));
    assert_eq!(reading.lacking(), ["evictions"]);
    let ttft = reading.ttft.unwrap();
    assert_eq!(ttft.count.to_bits(), 4f64.to_bits());
    assert!((ttft.mean().unwrap() - 0.118_111 / 4.0).abs() < 1e-6);
    assert_eq!(ttft.buckets.last(), Some(&(f64::INFINITY, 4.0)));
    assert!(ttft.buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    assert_eq!(reading.itl.unwrap().count.to_bits(), 12f64.to_bits());
    assert!(reading.e2e.is_some() && reading.queue_time.is_some());
}

#[test]
fn declared_kinds_are_kept() {
    let text = Exposition::parse(VLLM).unwrap();
    assert_eq!(text.kinds()["vllm:iteration_tokens_total"], Kind::Histogram);
    assert_eq!(text.kinds()["vllm:num_preemptions_total"], Kind::Counter);
    assert_eq!(text.kinds()["vllm:kv_cache_usage_perc"], Kind::Gauge);
}

/// The names are the engines', the values made up.
#[test]
fn every_engine_is_known_by_its_names() {
    let sglang = "sglang:num_queue_reqs{tp_rank=\"0\"} 3\nsglang:num_queue_reqs{tp_rank=\"1\"} 3\n\
                  sglang:num_grammar_queue_reqs{tp_rank=\"0\"} 1\nsglang:num_running_reqs{tp_rank=\"0\"} 7\n\
                  sglang:page_size 16\nsglang:num_pages 100\nsglang:kv_used_tokens 320\nsglang:prompt_tokens_total 50\n\
                  sglang:cached_tokens_total{cache_source=\"device\"} 20\nsglang:evicted_tokens_total 64\n\
                  sglang:num_retracted_requests_total 2\n";
    let reading = Reading::parse(sglang).unwrap();
    assert_eq!(reading.dialect, Dialect::Sglang);
    assert_eq!((reading.waiting, reading.running), (Some(4), Some(7)));
    assert_eq!((reading.kv_blocks_used, reading.kv_blocks_total), (Some(20), Some(100)));
    assert_eq!((reading.prefix_queries, reading.prefix_hits), (Some(50), Some(20)));
    assert_eq!((reading.evictions, reading.preemptions), (Some(4), Some(2)));

    let old_sglang = "sglang:cache_config_info{page_size=\"1\",num_pages=\"9\"} 1\nsglang:token_usage 0.5\n";
    let reading = Reading::parse(old_sglang).unwrap();
    assert_eq!((reading.kv_blocks_used, reading.kv_blocks_total), (Some(5), Some(9)));

    let trtllm = "trtllm_num_requests_waiting 1\ntrtllm_num_requests_running 2\ntrtllm_kv_cache_used_blocks 3\n\
                  trtllm_kv_cache_max_blocks 4\ntrtllm_kv_cache_tokens_per_block 32\ntrtllm_prompt_tokens_total 5\n\
                  trtllm_prompt_cached_tokens_total 4\n";
    let reading = Reading::parse(trtllm).unwrap();
    assert_eq!(reading.dialect, Dialect::TensorRtLlm);
    assert_eq!((reading.waiting, reading.running), (Some(1), Some(2)));
    assert_eq!((reading.kv_blocks_used, reading.kv_blocks_total), (Some(3), Some(4)));
    assert_eq!((reading.block_size, reading.prefix_hits), (Some(32), Some(4)));

    let llama = "llamacpp:requests_deferred 1\nllamacpp:requests_processing 2\nllamacpp:prompt_tokens_total 10\n\
                 llamacpp:prompt_tokens_cached_total 30\nllamacpp:tokens_predicted_total 6\n";
    let reading = Reading::parse(llama).unwrap();
    assert_eq!(reading.dialect, Dialect::LlamaCpp);
    assert_eq!((reading.waiting, reading.running, reading.generation_tokens), (Some(1), Some(2), Some(6)));
    assert_eq!(
        (reading.prefix_queries, reading.prefix_hits, reading.kv_blocks_total),
        (Some(40), Some(30), None)
    );
}

#[test]
fn engines_inside_one_replica_are_added_up() {
    let text = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
                vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n\
                vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"101\",engine=\"0\"} 1\n";
    let reading = Reading::parse(text).unwrap();
    assert_eq!(reading.running, Some(7));
    assert_eq!((reading.kv_blocks_used, reading.kv_blocks_total), (Some(75), Some(200)));
}

#[test]
fn the_format_with_all_it_allows() {
    let text = "# a comment\n\n# HELP a:b_total It says \\\\ and \\n.\n# TYPE a:b_total counter\n\
                a:b_total{path=\"C:\\\\x\",text=\"a \\\"quote\\\" } , \\n\\d\",} 12.5e3 1395066363000\n\
                nan NaN\nplus +Inf\nminus -Inf -3982045\nspaced { a = \"1\" , b=\"2\" }  7\t\n\
                # TYPE t unknown\nt_bucket{le=\"1\"} 8 # {trace_id=\"K\"} 0.67 1520879607.789\n# EOF\n";
    let parsed = Exposition::parse(text).unwrap();
    let sample = &parsed.samples()[0];
    assert_eq!((sample.name, sample.value.to_bits()), ("a:b_total", 12_500f64.to_bits()));
    assert_eq!(sample.label("path"), Some("C:\\x"));
    assert_eq!(sample.label("text"), Some("a \"quote\" } , \n\\d"));
    let value = |name| parsed.series(name).next().unwrap().value;
    assert!(value("nan").is_nan());
    assert!(value("plus").is_infinite() && value("minus").is_infinite() && value("minus") < 0.0);
    assert_eq!(parsed.series("spaced").next().unwrap().label("b"), Some("2"));
    assert_eq!(parsed.samples().len(), 6);
}

#[test]
fn errors_say_where_and_what() {
    assert_eq!(
        fault("ok 1\n9bad 2\n"),
        "line 2, column 1: found \"9bad\"; expected the name of a metric, or a comment"
    );
    assert_eq!(
        fault("a{b=\"x} 1"),
        "line 1, column 10: found the end of the line; expected the closing quote of a label value"
    );
    assert_eq!(fault("a{b:c=\"x\"} 1"), "line 1, column 4: found \":c=\\\"x\\\"}\"; expected `=`");
    assert_eq!(
        fault("a{é=\"x\"} 1"),
        "line 1, column 3: found \"é=\\\"x\\\"}\"; expected the name of a label, or `}`"
    );
    assert_eq!(fault("a one"), "line 1, column 3: found \"one\"; expected a number");
    assert_eq!(fault("a 1 2 3"), "line 1, column 7: found \"3\"; expected the end of the line");
    assert_eq!(fault("a"), "line 1, column 2: found the end of the line; expected a number");
    assert_eq!(
        fault("# TYPE a count"),
        "line 1, column 10: found \"count\"; expected `counter`, `gauge`, `histogram`, `summary`, `info` or `untyped`"
    );
    assert_eq!(fault("# EOF\na 1"), "line 2, column 1: found \"a\"; expected nothing after `# EOF`");
    let html = fault("<html>\n<body>404</body>");
    assert_eq!(html, "line 1, column 1: found \"<html>\"; expected the name of a metric, or a comment");
    let none = Reading::parse("vllm_router_requests_total 3\n").unwrap_err().to_string();
    assert!(none.contains("none of 1 metrics is an engine's") && none.contains("`vllm:`"), "{none}");
}

#[test]
fn a_histogram_is_taken_over_a_window() {
    let text = |sum: f64, low: u32, all: u32| {
        format!(
            "vllm:time_to_first_token_seconds_sum {sum}\nvllm:time_to_first_token_seconds_count {all}\n\
                 vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {all}\n\
                 vllm:time_to_first_token_seconds_bucket{{le=\"0.5\"}} {low}\n"
        )
    };
    let ttft = |text: String| Reading::parse(&text).unwrap().ttft.unwrap();
    let (early, late) = (ttft(text(1.0, 2, 4)), ttft(text(7.0, 3, 8)));
    let window = late.since(&early);
    assert_eq!(window.buckets, [(0.5, 1.0), (f64::INFINITY, 4.0)]);
    assert!((window.mean().unwrap() - 1.5).abs() < 1e-12);
    assert_eq!(early.since(&late), early, "a restarted engine counts from zero");
    assert_eq!(early.since(&early).mean(), None);
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in "\\PC*") {
        let _ = Reading::parse(&text);
    }

    #[test]
    fn no_damaged_scrape_is_too_odd(at in 0..VLLM.len(), len in 0_usize..40, with in "[ -~\n\\\\é]{0,8}") {
        let bytes = VLLM.as_bytes();
        let end = (at + len).min(bytes.len());
        let damaged = [&bytes[..at], with.as_bytes(), &bytes[end..]].concat();
        if let Err(ReadingError::Parse(error)) = Reading::parse(&String::from_utf8_lossy(&damaged)) {
            prop_assert!(error.line >= 1 && error.column >= 1);
        }
    }

    #[test]
    fn what_is_written_is_read(
        name in "[a-z_:][a-z0-9_:]{0,12}",
        labels in proptest::collection::vec(("[a-z_][a-z0-9_]{0,6}", "[ -~é\n]{0,12}"), 0..4),
        value in proptest::num::f64::ANY,
    ) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let written: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let text = format!("{name}{{{}}} {value}\n", written.join(","));
        let parsed = Exposition::parse(&text).unwrap();
        let sample = &parsed.samples()[0];
        prop_assert_eq!(sample.name, name);
        prop_assert!(sample.value.to_bits() == value.to_bits() || (sample.value.is_nan() && value.is_nan()));
        let read: Vec<(String, String)> = sample.labels.iter().map(|(k, v)| ((*k).to_owned(), v.to_string())).collect();
        prop_assert_eq!(read, labels);
    }
}
