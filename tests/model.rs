//! `scaleproof model`: the arithmetic as a user sees it, and its exits.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::{Run, Scenario};

fn show(args: &str) -> Run {
    let words: Vec<&str> = ["model", "show"].into_iter().chain(args.split_whitespace()).collect();
    Scenario::new().run(&words)
}

/// Every part of the memory is printed, and the parts add up to the KV cache.
#[test]
fn the_arithmetic_adds_up() {
    let run = show("llama-3.1-70b --gpu h100 --tp 2 --precision fp8 --format json").expect(0);
    let shown = run.json();
    let memory = &shown["memory"];
    let lines = memory["lines"].as_array().unwrap();
    let sum: i64 = lines.iter().map(|line| line["bytes"].as_i64().unwrap()).sum();
    assert_eq!(sum, memory["kv_bytes"].as_i64().unwrap());
    let block = shown["kv_bytes_per_token_per_gpu"].as_i64().unwrap() * 16;
    assert_eq!(memory["num_blocks"].as_i64().unwrap(), sum / block);
    let weights: i64 = lines[1..=6].iter().map(|line| line["bytes"].as_i64().unwrap()).sum();
    assert_eq!(-weights, shown["weight_bytes_per_gpu"].as_i64().unwrap());
    assert_eq!(memory["fits"], Value::Bool(true));
}

#[test]
fn the_text_has_the_numbers_of_the_json() {
    let args = "qwen3-32b --gpu h100 --tp 2";
    let (text, shown) = (show(args).expect(0).out, show(&format!("{args} --format json")).expect(0).json());
    let digits: String = text.chars().filter(|c| *c != ',').collect();
    for number in [
        &shown["parameters"],
        &shown["non_embedding_parameters"],
        &shown["weight_bytes_per_gpu"],
        &shown["kv_bytes_per_token_per_gpu"],
        &shown["memory"]["kv_bytes"],
        &shown["memory"]["num_blocks"],
        &shown["memory"]["kv_tokens"],
    ] {
        assert!(digits.contains(&number.to_string()), "{number} is not in\n{text}");
    }
    assert!(text.ends_with("fits\n"), "{text}");
}

#[test]
fn what_does_not_fit_says_so_and_fails() {
    let run = show("llama-3.1-70b --gpu h100").expect(1);
    assert!(run.out.contains("does not fit: ") && run.out.contains(" GiB a GPU are missing"), "{}", run.out);
    let run = show("llama-3.1-8b --gpu rtx-4090").expect(0);
    assert!(run.out.contains("fits, but not the whole context of 131,072 tokens"), "{}", run.out);
    let run = show("llama-3.1-8b --gpu rtx-4090 --max-model-len 131072").expect(1);
    assert!(run.out.contains("does not fit: a request of 131,072 tokens needs more"), "{}", run.out);
    show("llama-3.1-8b --gpu rtx-4090 --max-model-len 4096").expect(0);
}

#[test]
fn an_a100_has_no_fp8_products() {
    let run = show("llama-3.1-8b --gpu a100 --precision fp8").expect(0);
    assert!(run.out.contains("note: a100-80g has no fp8 tensor cores"), "{}", run.out);
}

#[test]
fn a_setting_changes_what_it_should() {
    let tokens = |args: &str| {
        let shown = show(&format!("llama-3.1-8b --gpu h100 --format json {args}")).expect(0).json();
        shown["memory"]["kv_tokens"].as_u64().unwrap()
    };
    let usual = tokens("");
    assert!(tokens("--gpu-memory-utilization 0.95") > usual);
    assert!(tokens("--max-num-seqs 256") > usual);
    assert!(tokens("--max-num-batched-tokens 16384") < usual);
    assert!(tokens("--cudagraph-gib 1.5") < usual);
    assert!(tokens("--precision fp8") > usual);
    assert!((tokens("--kv-precision fp8") as f64 / usual as f64 - 2.0).abs() < 0.001);
}

#[test]
fn the_catalogue_is_listed_with_its_sources() {
    let listed = Scenario::new().run(&["model", "list", "--format", "json"]).expect(0).json();
    assert!(listed["models"].as_array().unwrap().iter().all(|model| model["source"].is_string()));
    for gpu in listed["gpus"].as_array().unwrap() {
        for field in
            ["hbm_bytes", "visible_bytes", "hbm_bytes_per_s", "dense_flops", "link_bytes_per_s", "sm_count"]
        {
            assert!(gpu["sources"][field].is_string(), "{}: {field}", gpu["name"]);
        }
    }
}
