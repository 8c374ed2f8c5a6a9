//! `scaleproof size`: systems that are not bought yet, side by side.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod small;

use serde_json::Value;
use small::Place;

const SIZE: [&str; 12] = [
    "size",
    "--model",
    "llama-3.2-1b",
    "--peak",
    "400",
    "--workload",
    "scenario",
    "--at-confidence",
    "0.75",
    "--draws",
    "3",
    "--gpu",
];

fn names(json: &Value) -> Vec<&str> {
    json["candidates"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

#[test]
fn a_comparison_adds_up_and_is_sorted_by_what_it_costs() {
    let place = Place::new();
    std::fs::write(place.path("prices.yaml"), "currency: EUR\nper_gpu_hour: {l40s: 1, h100: 30, b200: 50}\n")
        .unwrap();
    let args = [&SIZE[..], &["h100,l40s", "--tp", "1", "--price", "prices.yaml", "--out", "priced"]].concat();
    let priced = place.json(&[0], &args);
    assert_eq!(names(&priced), ["l40s TP1 bf16", "h100-sxm TP1 bf16"]);
    for candidate in priced["candidates"].as_array().unwrap() {
        let number = |path: &str| candidate.pointer(path).and_then(Value::as_f64).unwrap();
        let draws: Vec<f64> = candidate["capacity"]["draws_rps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_f64().unwrap())
            .collect();
        assert_eq!(draws.len(), 3);
        let least = draws.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((number("/capacity/assured/rps") - least).abs() < 1e-12, "all three draws show 0.75");
        assert!(number("/capacity/interval_rps/low") <= number("/capacity/interval_rps/high"));
        let replicas = number("/fleet/plan/planned_replicas");
        assert!((replicas - (400.0 / (least * 0.75)).ceil()).abs() < 1e-9, "{replicas}");
        let price = if candidate["gpu"] == "l40s" { 1.0 } else { 30.0 };
        assert!((number("/cost/per_hour") - price * replicas).abs() < 1e-9);
        let million = number("/cost/per_hour") / (400.0 * 243.2 * 3600.0 / 1e6);
        assert!((number("/cost/per_million_output_tokens") / million - 1.0).abs() < 0.02);
        assert_eq!(candidate["profile"]["kind"], "prior");
    }
    let page = place.read("priced/report.html");
    assert!(
        page.contains("Cost of the fleet") && page.contains("<svg") && page.contains("uncalibrated prior")
    );
    // The profile is one that the other commands read.
    let profile = place.read("priced/profiles/llama-3.2-1b-l40s-tp1-bf16-prior.yaml");
    assert!(profile.contains("\nkind: prior\n"), "{profile}");
}

#[test]
fn what_memory_physics_or_the_shape_forbids_is_listed_with_its_reason() {
    let place = Place::new();
    let text = place.read("scenario/workload-manifest.yaml");
    place.scenario("hasty", &[]);
    let hasty = text.replace("request_ttft_cutoff_ms: 2500", "request_ttft_cutoff_ms: 5");
    std::fs::write(place.path("hasty/workload-manifest.yaml"), hasty).unwrap();
    let size = |model: &str, workload: &str, gpu: &str, tp: &str| {
        let json = place.json(
            &[1],
            &["size", "--model", model, "--peak", "36", "--workload", workload, "--gpu", gpu, "--tp", tp],
        );
        json["candidates"][0].clone()
    };
    let large = size("llama-3.1-70b", "scenario", "l40s", "2");
    assert!(large["reason"].as_str().unwrap().starts_with("does not fit: "), "{large}");
    assert_eq!(large["memory"]["fits"], false);
    let odd = size("llama-3.1-8b", "scenario", "h100", "3");
    assert!(odd["reason"].as_str().unwrap().starts_with("tensor parallel degree: found 3"), "{odd}");
    assert!(odd["memory"].is_null());
    let hasty = size("llama-3.1-8b", "hasty", "h100", "1");
    assert!(hasty["reason"].as_str().unwrap().starts_with("physics: class long_context: TTFT"), "{hasty}");
    assert!(hasty["capacity"].is_null() && hasty["memory"]["fits"] == true);
}

#[test]
fn threads_do_not_change_a_byte() {
    let place = Place::new();
    for threads in ["1", "4"] {
        let args =
            [&SIZE[..], &["l40s,a100-80g", "--tp", "1", "--threads", threads, "--out", threads]].concat();
        assert_eq!(place.run(&args).status.code(), Some(0));
    }
    for file in ["size.json", "report.html"] {
        assert_eq!(place.read(&format!("1/{file}")), place.read(&format!("4/{file}")), "{file}");
    }
}
