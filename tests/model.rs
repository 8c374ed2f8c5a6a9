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

fn predict(scenario: &Scenario, args: &str) -> Run {
    let words: Vec<&str> = ["model", "predict"].into_iter().chain(args.split_whitespace()).collect();
    scenario.run(&words)
}

#[test]
fn a_prediction_is_no_faster_than_the_gpu_and_reads_back() {
    let place = Scenario::new();
    let args = "--gpu h100 --model llama-3.1-70b --tp 2 --precision bf16 --out prior.yaml";
    let text = predict(&place, args).expect(0).out;
    assert!(text.contains("llama-3.1-70b-h100-sxm-tp2-bf16-prior: an uncalibrated prior"), "{text}");
    let json = predict(&place, &format!("{args} --format json")).expect(0).json();
    for row in json["prefill"].as_array().unwrap().iter().chain(json["decode"].as_array().unwrap()) {
        assert!(row["times_the_bound"].as_f64().unwrap() > 1.0, "{row}");
    }
    // 70.6e9 weights of 2 bytes over two GPUs at 3.35 TB/s: no step takes less than 20 ms.
    let least = json["decode"].as_array().unwrap().iter().map(|row| row["time_ms"].as_f64().unwrap());
    assert!(least.fold(f64::INFINITY, f64::min) > 20.0);
    let written = place.read("prior.yaml");
    assert!(
        written.contains("\nkind: prior\n") && written.contains("scaleproof model predict --gpu h100"),
        "{written}"
    );
    let profile = scaleproof_sim::profile::Profile::parse("prior.yaml", &written).unwrap();
    let errors = &profile.provenance.fit_errors;
    for kind in ["prefill step", "decode step", "mixed step", "kernel products_bf16", "kernel collective"] {
        let of_kind = errors.iter().find(|error| error.kind.starts_with(kind)).unwrap();
        assert!((0.01..0.3).contains(&of_kind.median_relative) && of_kind.count > 20, "{of_kind:?}");
        assert!(text.contains(&format!("{}: median error ", of_kind.kind)), "{text}");
    }
    assert_eq!(json["fit_errors"].as_array().unwrap().len(), errors.len());
    assert_eq!(
        profile.to_yaml(&[]),
        written.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    );
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let place = Scenario::new();
    predict(&place, "--gpu h100 --model llama-3.1-70b").refuses(&["does not fit: found -", "raise --tp"]);
    predict(&place, "--gpu rtx-4090 --model llama-3.1-8b --max-model-len 131072")
        .refuses(&["max_model_len: found 131072", "which the KV cache holds"]);
    predict(&place, "--gpu h100 --model llama-3.1-8b --max-model-len 1")
        .refuses(&["found 1; expected at least 2"]);
    predict(&place, "--gpu h100 --model llama-3.1-8b --max-num-batched-tokens 64")
        .refuses(&["max_num_batched_tokens: found 64"]);
}

/// A server that the simulator plays, with another front-end and slower weights than the prior: the fit finds both from
/// its requests, and another degree takes them over.
#[test]
fn a_fit_finds_the_factors_of_a_simulated_server() {
    // The points are of one replica.
    let place = Scenario::new().manifest("dp: 2, replicas: 2, gpus: 4", "dp: 1, replicas: 1, gpus: 2");
    predict(&place, "--gpu h100 --model llama-3.1-8b --tp 2 --max-num-seqs 64 --out prior.yaml").expect(0);
    let prior = scaleproof_sim::profile::Profile::parse("prior.yaml", &place.read("prior.yaml")).unwrap();
    let truth = [("weights", 1.15), ("front_end", 2.5)];
    let factors = truth.map(|(word, factor)| {
        let known =
            scaleproof_sim::profile::uncertainty::Knob::WORDS.iter().find(|(known, _)| *known == word);
        (known.unwrap().1, factor)
    });
    let correction = scaleproof_sim::profile::uncertainty::Correction { factors: factors.to_vec() };
    let mut server = prior.corrected(&correction).unwrap();
    (server.model_id, server.model_revision) = ("small".to_owned(), "small-r1".to_owned());
    place.write("profile.yaml", &server.to_yaml(&[]));
    place.run(&["simulate", "small", "--rps", "20", "--out", "pack"]);
    let fit = "model fit --prior prior.yaml --points pack/requests.csv --out fitted.yaml --format json";
    let fitted = place.run(&fit.split(' ').collect::<Vec<_>>()).expect(0).json();
    let factor = |word: &str| {
        fitted["factors"].as_array().unwrap().iter().find(|f| f["factor"] == word).unwrap().clone()
    };
    for (word, known) in truth {
        let found = factor(word);
        assert!((found["value"].as_f64().unwrap() / known - 1.0).abs() < 0.08, "{found}");
        assert_eq!(found["identified"], Value::Bool(true), "{found}");
    }
    assert_eq!(factor("decode_context")["identified"], Value::Bool(false), "contexts below 232 tokens");
    let text = place.read("fitted.yaml");
    assert!(text.contains("kind: calibrated") && text.contains("data_sha256: \""), "{text}");
    let like = "--gpu h100 --model llama-3.1-8b --tp 4 --like fitted.yaml --format json";
    let carried = predict(&place, like).expect(0).json();
    assert_eq!(carried["kind"], "prior");
    let weights = carried["factors"].as_array().unwrap().iter().find(|f| f["factor"] == "weights").unwrap();
    assert!((weights["value"].as_f64().unwrap() - factor("weights")["value"].as_f64().unwrap()).abs() < 1e-4);
}

#[test]
fn held_out_points_are_predicted_and_judged() {
    let place = Scenario::new();
    predict(&place, "--gpu h100 --model llama-3.1-8b --max-num-seqs 64 --out prior.yaml").expect(0);
    let points = "points:\n  - {concurrency: 1, input_tokens: 300, output_tokens: 16, requests: 4, tpot_mean_ms: 7.5}\n  \
                  - {concurrency: 8, input_tokens: 300, output_tokens: 16, requests: 16, tpot_mean_ms: 70}\n";
    std::fs::write(place.path("points.yaml"), points).unwrap();
    let fit = |more: &str| {
        let line = format!("model fit --prior prior.yaml --points points.yaml --out fitted.yaml {more}");
        place.run(&line.split_whitespace().collect::<Vec<_>>())
    };
    let run = fit("--hold-out 2 --max-error 0.05").expect(1);
    assert!(
        run.out.contains("FAIL held-out TPOT mean ms: ") && run.out.contains("held out:\n"),
        "{}",
        run.out
    );
    let run = fit("--hold-out 2 --max-error 5").expect(0);
    assert!(run.out.contains("all prompts have the mean length, 300 tokens"), "{}", run.out);
    fit("--hold-out 7").refuses(&["--hold-out: found \"7\"", "1 (1 in flight, 300 in, 16 out)"]);
}

/// A sweep of a simulated engine, whose prior says what cannot be seen from outside.
#[test]
fn a_calibration_with_a_prior_names_its_gpu_and_is_held_against_it() {
    let place = Scenario::new();
    let small = "--max-num-seqs 32 --max-num-batched-tokens 1024 --max-model-len 4096 --num-blocks 1001";
    predict(&place, &format!("--gpu h100 --model llama-3.1-8b --out prior.yaml {small}")).expect(0);
    let prior = scaleproof_sim::profile::Profile::parse("prior.yaml", &place.read("prior.yaml")).unwrap();
    let slower = scaleproof_sim::profile::uncertainty::Correction {
        factors: vec![(scaleproof_sim::profile::uncertainty::Knob::Weights, 1.2)],
    };
    std::fs::write(place.path("engine.yaml"), prior.corrected(&slower).unwrap().to_yaml(&[])).unwrap();
    let calibrate = |more: &str| {
        let line = format!("calibrate {more}");
        place.run(&line.split_whitespace().collect::<Vec<_>>())
    };
    let run = calibrate(
        "--simulate engine.yaml --prior prior.yaml --budget 1 --out found.yaml --report sweep --format json",
    );
    // In a minute not every load is predicted within its goal.
    assert!(run.code < 2, "{run:#?}");
    let found = scaleproof_sim::profile::Profile::parse("found.yaml", &place.read("found.yaml")).unwrap();
    assert_eq!((&found.gpu, &found.model_revision), (&prior.gpu, &prior.model_revision));
    assert!(found.label().contains("on h100-sxm"), "{}", found.label());
    // The same measurements cannot be of a model that is nine times as large.
    predict(&place, &format!("--gpu h200 --model llama-3.1-70b --precision fp8 --out large.yaml {small}"))
        .expect(0);
    calibrate("--from sweep --prior large.yaml --out wrong.yaml --report again").refuses(&[
        "faster than its GPU: found ",
        " of the bound, for a step of ",
        "expected at least the ",
        "the prior may be of another GPU",
    ]);
    assert!(!place.path("wrong.yaml").exists());
    calibrate("--from sweep --prior prior.yaml --scenario small --out wrong.yaml --report third")
        .refuses(&["found tp 2, pp 1 and bf16; expected tp 1, pp 1 and bf16"]);
}
