use super::*;
use crate::step_time::BatchShape;

/// A profile with everything in it.
pub(crate) const PROFILE: &str = "\
profile: p
kind: calibrated
gpu: some-gpu
model: {id: m, revision: r1, precision: bf16}
placement: {tp: 2, pp: 1}
scheduler:
  num_blocks: 101
  block_size: 16
  max_num_batched_tokens: 256
  max_num_seqs: 8
  max_model_len: 1024
front_end: {request_ms: 1.5, prompt_token_us: 2, output_token_ms: 0.25}
step_time:
  base_us: 10
  batch_token_knots: [[64, 0], [256, 1000]]
  decode_context_token_us: 0.5
  prefill_pair_us: 0.25
  prefill_context_token_us: 0.125
  row_us: 2
  sampled_row_us: 1
  host: {base_us: 30, row_us: 5}
validity: {batch_tokens: [1, 256], rows: [1, 8], context_tokens: [1, 512]}
provenance: {method: fitted, sources: [one, two], date: 2026-01-02, command: made, residuals: [{metric: m, target: 1, fitted: 2}]}
";

fn faults(old: &str, new: &str) -> String {
    assert_eq!(PROFILE.matches(old).count(), 1, "{old}");
    Profile::parse("p.yaml", &PROFILE.replace(old, new)).unwrap_err().to_string()
}

#[test]
fn a_profile_is_read_as_written() {
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    assert_eq!(
        (profile.name.as_str(), profile.kind, profile.gpu.as_deref()),
        ("p", ProfileKind::Calibrated, Some("some-gpu"))
    );
    assert_eq!((profile.tp, profile.pp), (2, 1));
    assert_eq!((profile.scheduler.num_blocks, profile.scheduler.max_num_seqs), (101, 8));
    assert!(profile.scheduler.async_scheduling, "the engine's own default");
    assert_eq!(profile.front_end.ingest(1000).unwrap(), Nanos::from_millis(3.5).unwrap());
    // base 10 + knots 500 + decode 0.5 x 7 + two rows and two samples, beside the host's 40.
    let shape = BatchShape { tokens: 160, rows: 2, sampled: 2, decode_context: 7, ..BatchShape::default() };
    assert_eq!(profile.step_time.duration(&shape, true).unwrap(), Nanos(519_500));
    assert_eq!(profile.step_time.duration(&shape, false).unwrap(), Nanos(559_500));
    assert_eq!(profile.sources, ["one", "two"]);
}

#[test]
fn every_fault_is_reported_with_its_line() {
    let text = PROFILE
        .replace("kind: calibrated", "kind: calibrate")
        .replace("  base_us: 10\n", "  base_us: -1\n")
        .replace("  row_us: 2\n", "")
        .replace("max_num_seqs: 8", "max_num_seq: 8")
        .replace("rows: [1, 8]", "rows: [8, 1]");
    let found = Profile::parse("p.yaml", &text).unwrap_err().to_string();
    for expected in [
        "p.yaml:2:7: kind: found \"calibrate\"; expected one of: fixture, prior, calibrated; did you mean calibrated?",
        "p.yaml:10:3: scheduler.max_num_seq: found an unknown field; did you mean max_num_seqs?",
        "step_time.base_us: found -1",
        "step_time.row_us: found nothing",
        "validity.rows: found [8, 1]; expected the lower bound first; swap them",
    ] {
        assert!(found.contains(expected), "no {expected:?} in\n{found}");
    }
}

#[test]
fn knots_must_rise() {
    for knots in ["[[256, 0], [64, 1000]]", "[[64, 1000], [256, 999]]", "[[64, 0], [64, 1]]"] {
        let found = faults("[[64, 0], [256, 1000]]", knots);
        assert!(found.contains("more tokens than the knot before, and no less time"), "{found}");
    }
    assert!(faults("[[64, 0], [256, 1000]]", "[]").contains("a list of 1 to 1000"));
}

#[test]
fn settings_must_fit_one_another() {
    let found = faults("max_num_batched_tokens: 256", "max_num_batched_tokens: 4");
    assert!(found.contains("at least max_num_seqs (8)"), "{found}");
}

#[test]
fn costs_have_an_end() {
    let found = faults("sampled_row_us: 1", "sampled_row_us: 1e12");
    assert!(found.contains("step_time.sampled_row_us: found 1"), "{found}");
}

#[test]
fn what_lies_outside_the_validity_region_is_named() {
    let validity = Profile::parse("p.yaml", PROFILE).unwrap().validity;
    let seen = |batch_tokens, rows, context_tokens| Extremes { batch_tokens, rows, context_tokens };
    assert_eq!(validity.exceeded(&seen(256, 8, 512)), Vec::<String>::new());
    assert_eq!(
        validity.exceeded(&seen(257, 1, 600)),
        [
            "batch tokens reached 257, the profile holds to 256",
            "context tokens reached 600, the profile holds to 512"
        ]
    );
}
