#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::recovery::compare;
use crate::simulated::{Noise, SimulatedEngine};
use crate::testing::engine;

struct Quiet;

impl Monitor for Quiet {}

fn settings(budget_s: f64) -> Settings {
    Settings { budget_s, name: "found".to_owned(), num_blocks: None, max_model_len: None }
}

/// A small GPU's engine, without graphs and with few blocks.
fn small() -> Profile {
    let mut profile = engine();
    profile.step_time.graphs = None;
    profile.step_time.hardware = None;
    profile.gpu = None;
    profile.scheduler.num_blocks = 3001;
    profile.scheduler.max_num_seqs = 48;
    profile.scheduler.max_num_batched_tokens = 1536;
    profile.scheduler.max_model_len = 8192;
    profile
}

#[test]
fn a_hidden_engine_is_found_from_outside() {
    let noise = Noise { step_sd: 0.02, seed: 5, ..Noise::default() };
    let truth = small();
    let mut hidden = SimulatedEngine::new(truth.clone(), noise).hiding_its_blocks();
    let swept = sweep(&mut hidden, &settings(120.0), &mut Quiet).unwrap();
    assert!(swept.spent_s < 140.0, "{}", swept.spent_s);
    let found = &swept.found.scheduler;
    assert_eq!(found.max_num_seqs, 48);
    assert_eq!(found.max_num_batched_tokens, 1536);
    assert!(found.enable_prefix_caching);
    assert!((f64::from(found.num_blocks) / 3001.0 - 1.0).abs() < 0.01, "{}", found.num_blocks);
    let calibration = fit(&swept, "found").unwrap();
    assert_eq!(calibration.profile.scheduler.async_scheduling, truth.scheduler.async_scheduling);
    for error in &calibration.profile.provenance.fit_errors {
        assert!(error.median_relative < 0.02, "{error:?}");
    }
    let compared = compare(&hidden, noise, &calibration.profile).unwrap();
    let missed: Vec<_> = compared.iter().filter(|row| !row.met()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let text = calibration.profile.to_yaml(&[]);
    let read = Profile::parse("found.yaml", &text).unwrap();
    assert_eq!(read.step_time, calibration.profile.step_time);
}
