use super::*;

use crate::engine::SchedulingPolicy;
use crate::profile::tests::PROFILE;
use scaleproof_policy::RouterPolicy;

/// One class, which names what these tests need and no more.
const MANIFEST: &str = "\
cutoff: 2026-01-02
model: {id: m, revision: r1, tokenizer_revision: t1, precision: bf16}
engine:
  name: e
  version: \"1\"
  placement: {tp: 2, pp: 1, dp: 1, replicas: 1, gpus: 2}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: here
  streaming: true
  arrival_pattern: poisson
  minimum_duration_seconds: 0
  initial_scheduled_requests: 10
  request_schedule_seed: 1
  class_schedule_counts: {chat: 10}
  warmup_seconds: 0
  timeout_seconds: 30
workload:
  - {name: chat, mix: 1, input_tokens: 8, output_tokens: 2, request_ttft_cutoff_ms: 9, request_tpot_cutoff_ms: 9}
acceptance:
  class_slo_attainment_min: 0.95
  min_successful_samples_per_class: 7
  error_rate_max: 0.01
  queue_trend_required: flat
  target_utilization: 0.75
";

const SCENARIO: &str = "\
profile: p.yaml
router: {policy: power_of_two, poll_interval_seconds: 0.5}
experiment: {rates_rps: [1, 2.5]}
";

fn manifest(old: &str, new: &str) -> Manifest {
    Manifest::parse("m.yaml", &MANIFEST.replace(old, new)).unwrap()
}

fn parse(text: &str, manifest: &Manifest) -> Result<Scenario, String> {
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    Scenario::parse("s.yaml", text, &profile, manifest).map_err(|faults| faults.to_string())
}

fn faults(text: &str) -> String {
    parse(text, &manifest("", "")).unwrap_err()
}

fn document(text: &str) -> Document {
    Document::parse("s.yaml", text).unwrap()
}

#[test]
fn what_is_left_out_has_its_usual_value() {
    let scenario = parse(SCENARIO, &manifest("", "")).unwrap();
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    assert_eq!(scenario.scheduler, profile.scheduler);
    assert_eq!(scenario.router.policy, RouterPolicy::PowerOfTwo);
    assert_eq!(scenario.router.poll_interval, Some(Nanos(500_000_000)));
    assert_eq!(scenario.timeout, Some(Nanos(30_000_000_000)), "the manifest's");
    let experiment = &scenario.experiment;
    assert_eq!(experiment.rates_rps, [1.0, 2.5]);
    assert_eq!((experiment.shared_prefixes, experiment.repeats), (false, 1));
    let config = scenario.run_config(&manifest("", ""), &profile, 3);
    assert_eq!((config.replicas, config.enough), (3, Enough { successes: 7, max_requests: 20 }));
    // 100 usable blocks of 16 hold more than the model's 1,024 tokens.
    assert_eq!(config.limits.max_request_tokens, 1024);
}

#[test]
fn the_scenarios_own_settings_stand_over_the_others() {
    let own = "engine: {num_blocks: 11, policy: priority, max_num_queued_reqs: 5}\n\
               client: {timeout_seconds: 2, ttft_timeout_seconds: 1}\n";
    let scenario = parse(&format!("{SCENARIO}{own}"), &manifest("", "")).unwrap();
    assert_eq!(scenario.scheduler.policy, SchedulingPolicy::Priority);
    assert_eq!(scenario.scheduler.max_num_seqs, 8, "the profile's");
    assert_eq!(
        (scenario.timeout, scenario.ttft_timeout),
        (Some(Nanos(2_000_000_000)), Some(Nanos(1_000_000_000)))
    );
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    let limits = scenario.run_config(&manifest("", ""), &profile, 1).limits;
    assert_eq!((limits.max_request_tokens, limits.max_queued_requests), (160, Some(5)), "ten usable blocks");
}

#[test]
fn a_manifest_without_prefix_cache_turns_it_off() {
    let off = manifest("prefix_cache: enabled", "prefix_cache: disabled");
    assert!(!parse(SCENARIO, &off).unwrap().scheduler.enable_prefix_caching);
}

#[test]
fn every_fault_is_reported_and_no_other() {
    let found = faults(
        "profile: p.yaml\nrouter: {policy: least}\nengine: 5\nclient: {timeout_second: 1}\n\
         prefix_groups: [{name: g, tokens: 5, weight: 1, classes: [chatt]}]\n\
         experiment: {rates_rps: [2, 1], cache: hot}\n",
    );
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 6, "{found}");
    for (line, expected) in lines.iter().zip([
        "s.yaml:2:18: router.policy: found \"least\"",
        "s.yaml:3:9: engine: found 5; expected a mapping",
        "s.yaml:4:10: client.timeout_second: found an unknown field; did you mean timeout_seconds?",
        "s.yaml:5:",
        "s.yaml:6:25: experiment.rates_rps: found 1 after a rate that is no less; expected rates in rising order",
        "s.yaml:6:40: experiment.cache: found \"hot\"; expected one of: cold, warm",
    ]) {
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn a_missing_profile_is_the_only_fault() {
    let without = SCENARIO.replace("profile: p.yaml\n", "");
    let found = Scenario::profile_path(&document(&without)).unwrap_err().to_string();
    assert_eq!(found, "s.yaml:1:1: profile: found nothing; expected text");
    assert_eq!(Scenario::profile_path(&document(SCENARIO)).unwrap(), "p.yaml");
}

#[test]
fn a_poll_that_takes_no_time_is_refused() {
    let found = faults(&SCENARIO.replace("0.5", "1e-12"));
    assert!(found.contains("router.poll_interval_seconds: found"), "{found}");
}
