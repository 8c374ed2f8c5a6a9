#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::recovery::compare;
use crate::simulated::{Quirks, SimulatedEngine};
use crate::testing::engine;
use scaleproof_pack::time::Nanos;
use scaleproof_sim::profile::uncertainty::{Correction, Knob};
use scaleproof_sim::step_time::BatchShape;

struct Quiet;

impl Monitor for Quiet {}

fn settings(budget_s: f64) -> Settings {
    Settings { budget_s, name: "found".to_owned(), num_blocks: None, max_model_len: None }
}

/// A small GPU's engine, without graphs and with few blocks.
fn small() -> Profile {
    let mut profile = engine();
    profile.step_time.graphs = None;
    // An H100's kernels of a small model are over before a host has launched them; a smaller GPU's are not.
    profile.step_time.eager.launch_us = 0.0;
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
    let quirks = Quirks { step_sd: 0.02, seed: 5, ..Quirks::default() };
    let truth = small();
    let mut hidden = SimulatedEngine::alone(truth.clone(), quirks).telling_tokens().hiding_its_blocks();
    let swept = sweep(&mut hidden, &settings(120.0), &mut Quiet).unwrap();
    assert!(swept.spent_s < 140.0, "{}", swept.spent_s);
    let found = &swept.found.scheduler;
    assert_eq!(found.max_num_seqs, 48);
    assert_eq!(found.max_num_batched_tokens, 1536);
    assert!(found.enable_prefix_caching);
    assert!((f64::from(found.num_blocks) / 3001.0 - 1.0).abs() < 0.01, "{}", found.num_blocks);
    let calibration = fit(&swept, "found", None).unwrap();
    assert_eq!(calibration.profile.scheduler.async_scheduling, truth.scheduler.async_scheduling);
    for error in &calibration.profile.provenance.fit_errors {
        // A single step varies by 2 %.
        assert!(error.median_relative < 0.03, "{error:?}");
    }
    let compared = compare(&truth, quirks, swept.spent_s, &calibration.profile).unwrap();
    let missed: Vec<_> = compared.iter().filter(|row| !row.met()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let stored = Swept::from_json("s.json", &swept.to_json().to_string()).unwrap();
    let again = fit(&stored, "found", None).unwrap().profile.step_time;
    let shape = BatchShape { tokens: 20, rows: 20, sampled: 20, decode_context: 9000, ..Default::default() };
    let times =
        [again, calibration.profile.step_time.clone()].map(|model| model.duration(&shape, true).unwrap());
    assert!(
        (times[0].seconds() / times[1].seconds() - 1.0).abs() < 1e-3,
        "a stored sweep fits alike: {times:?}"
    );
    let text = calibration.profile.to_yaml(&[]);
    let read = Profile::parse("found.yaml", &text).unwrap();
    assert_eq!(read.step_time, calibration.profile.step_time);
}

#[test]
fn a_prior_names_the_gpu_and_a_profile_that_is_faster_is_refused() {
    let mut prior = engine();
    prior.scheduler = small().scheduler;
    prior.step_time = prior.step_time.on(&prior.scheduler);
    let slower = Correction { factors: vec![(Knob::Weights, 1.2), (Knob::FrontEnd, 1.5)] };
    let truth = prior.corrected(&slower).unwrap();
    let quirks = Quirks { step_sd: 0.01, seed: 3, ..Quirks::default() };
    let mut hidden = SimulatedEngine::alone(truth.clone(), quirks).telling_tokens();
    let swept = sweep(&mut hidden, &settings(60.0), &mut Quiet).unwrap();
    let found = fit(&swept, "found", Some(&prior)).unwrap().profile;
    assert_eq!((&found.gpu, &found.precision, found.tp), (&prior.gpu, &prior.precision, prior.tp));
    assert_eq!(found.step_time.hardware, prior.step_time.hardware);
    let shape = BatchShape { tokens: 8, rows: 8, sampled: 8, decode_context: 4000, ..Default::default() };
    let times = [&found, &truth].map(|profile| profile.step_time.step_us(&shape, true));
    assert!((times[0] / times[1] - 1.0).abs() < 0.02, "{times:?}");
    let read = Profile::parse("found.yaml", &found.to_yaml(&[])).unwrap();
    assert_eq!(read.gpu, prior.gpu);
    // A GPU whose memory is a third as fast cannot have done that.
    let hardware = prior.step_time.hardware.as_mut().unwrap();
    hardware.hbm_bytes_per_s /= 3.0;
    let error = fit(&swept, "found", Some(&prior)).unwrap_err().to_string();
    for words in [
        "faster than its GPU: found ",
        " of the bound, for a step of ",
        "expected at least the ",
        "the prior may be",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn launches_that_bound_small_steps_are_found() {
    let mut truth = small();
    truth.scheduler.async_scheduling = false;
    let one = BatchShape { tokens: 1, rows: 1, sampled: 1, decode_context: 64, ..Default::default() };
    let launch_us = 1.6 * truth.step_time.step_us(&one, true);
    truth.step_time.eager.launch_us = launch_us;
    let quirks = Quirks { step_sd: 0.005, seed: 8, ..Quirks::default() };
    let mut hidden = SimulatedEngine::alone(truth.clone(), quirks).telling_tokens();
    let swept = sweep(&mut hidden, &settings(240.0), &mut Quiet).unwrap();
    let found = fit(&swept, "found", None).unwrap().profile;
    assert!(!found.scheduler.async_scheduling);
    // The host's own part of a step is the same for each, and so in them.
    let host_us = truth.step_time.host.base_us;
    let error = found.step_time.eager.launch_us / (launch_us + host_us) - 1.0;
    assert!(error.abs() < 0.02, "{} for {launch_us} + {host_us}", found.step_time.eager.launch_us);
    let compared = compare(&truth, quirks, swept.spent_s, &found).unwrap();
    let missed: Vec<_> = compared.iter().filter(|row| row.metric.starts_with("TPOT") && !row.met()).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn what_the_front_end_runs_on_is_found_and_what_cached_context_costs() {
    for process in [FrontEndProcess::Parallel, FrontEndProcess::Serial, FrontEndProcess::Shared] {
        let mut truth = small();
        truth.scheduler.async_scheduling = false;
        truth.front_end.process = process;
        (truth.front_end.request, truth.front_end.busy) = (Nanos(6_000_000), Nanos(3_000_000));
        truth.step_time.eager.prefill_context_token_us = 2.0;
        let quirks = Quirks { step_sd: 0.01, seed: 4, ..Quirks::default() };
        let mut hidden = SimulatedEngine::alone(truth.clone(), quirks).telling_tokens();
        let swept = sweep(&mut hidden, &settings(90.0), &mut Quiet).unwrap();
        assert_eq!(swept.found.scheduler.max_num_batched_tokens, 1536, "{process:?}");
        let calibration = fit(&swept, "found", None).unwrap();
        let found = &calibration.profile;
        assert_eq!(found.front_end.process, process, "{:?}", calibration.front_ends);
        let [request_ms, busy_ms] = [found.front_end.request, found.front_end.busy].map(Nanos::millis);
        assert!((request_ms - 6.0).abs() < 0.9, "{process:?}: {request_ms}");
        let one = process != FrontEndProcess::Parallel;
        assert!(!one || (busy_ms - 3.0).abs() < 0.5, "{process:?}: {busy_ms}");
        let behind = |context: u64| BatchShape {
            tokens: 64,
            rows: 1,
            sampled: 1,
            prefill_pairs: 2 * 64 * context + 64 * 64,
            prefill_context: context,
            ..Default::default()
        };
        let cost = |profile: &Profile| {
            profile.step_time.step_us(&behind(6000), false) - profile.step_time.step_us(&behind(0), false)
        };
        let error = cost(found) / cost(&truth) - 1.0;
        assert!(error.abs() < 0.05, "{process:?}: {error}");
    }
}

#[test]
fn a_stored_sweep_that_is_damaged_is_refused() {
    let fault = |text: &str| Swept::from_json("s.json", text).unwrap_err();
    assert!(fault("{").starts_with("s.json: found no JSON"));
    assert!(fault("{}").starts_with("s.json: format: found null"));
    let scheduler = "{\"format\": \"scaleproof sweep 2\", \"scheduler\": {\"num_blocks\": 0}}";
    assert!(fault(scheduler).starts_with("s.json: scheduler.num_blocks: found 0"), "{}", fault(scheduler));
}

#[test]
fn an_engine_that_drifts_away_is_refused() {
    let quirks = Quirks { drift_per_hour: 40.0, ..Quirks::default() };
    let mut hidden = SimulatedEngine::alone(small(), quirks).telling_tokens();
    let swept = sweep(&mut hidden, &settings(60.0), &mut Quiet).unwrap();
    let error = fit(&swept, "found", None).unwrap_err().to_string();
    assert!(error.contains("the reference point") && error.contains("expected at most 30 %"), "{error}");
}

#[test]
fn a_sweep_ends_when_the_user_stops_it_and_too_short_a_time_is_refused() {
    /// Stops so many experiments after the plan.
    struct After(u32, bool);
    impl Monitor for After {
        fn say(&mut self, line: &str) {
            self.1 |= line.starts_with("plan:");
        }
        fn spent(&mut self, _spent_s: f64, _budget_s: f64) {
            self.0 = self.0.saturating_sub(u32::from(self.1));
        }
        fn stop(&mut self) -> bool {
            self.0 == 0
        }
    }
    let engine = || SimulatedEngine::alone(small(), Quirks::default()).telling_tokens();
    let stopped = sweep(&mut engine(), &settings(60.0), &mut After(1, true)).unwrap_err();
    assert_eq!(stopped, SweepError::Stopped, "nothing to keep yet");
    let kept = sweep(&mut engine(), &settings(60.0), &mut After(10, false)).unwrap();
    assert!(kept.stopped && !kept.rows.is_empty() && kept.loaded.is_empty());
    let short = sweep(&mut engine(), &settings(0.5), &mut Quiet).unwrap_err().to_string();
    assert!(short.contains("--budget"), "{short}");
}
