use super::*;
use crate::step_time::BatchShape;
use scaleproof_pack::time::Nanos;

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
hardware: {peak_flops_per_s: 1.0e+15, hbm_bytes_per_s: 4.0e+12, weight_bytes: 1.0e+6, kv_bytes_per_token: 100, token_flops: 2.0e+6, pair_flops: 100}
validity: {batch_tokens: [1, 256], rows: [1, 8], context_tokens: [1, 512]}
uncertainty:
  - {factor: weights, prior_sd: 0.2, deviations: [0.1]}
  - {factor: compute, prior_sd: 0.3, deviations: [0.03, 0.04]}
provenance: {method: fitted, sources: [one, two], date: 2026-01-02, command: made, residuals: [{metric: m, target: 1, fitted: 2}], fit_errors: [{kind: decode, count: 3, median_relative: 0.02}], expected_relative_error: 0.1, factors: [{factor: weights, value: 1.2}]}
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
    assert_eq!(profile.provenance.sources, ["one", "two"]);
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
fn knots_must_rise_in_tokens_and_may_fall_in_time() {
    for knots in ["[[256, 0], [64, 1000]]", "[[64, 0], [64, 1]]"] {
        let found = faults("[[64, 0], [256, 1000]]", knots);
        assert!(found.contains("more tokens than the knot before"), "{found}");
    }
    assert!(faults("[[64, 0], [256, 1000]]", "[]").contains("a list of 1 to 1000"));
    let falling = PROFILE.replace("[[64, 0], [256, 1000]]", "[[64, 1000], [256, 999]]");
    assert!(Profile::parse("p.yaml", &falling).is_ok());
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

#[test]
fn a_run_is_below_the_validity_region_if_its_mean_step_is() {
    let mut validity = Profile::parse("p.yaml", PROFILE).unwrap().validity;
    let totals = ReplicaTotals {
        steps: 10,
        computed_tokens: 300,
        rows: 35,
        row_tokens: 2000,
        ..ReplicaTotals::default()
    };
    assert_eq!(validity.fallen_below(&totals), Vec::<String>::new());
    (validity.rows, validity.batch_tokens) = ((4, 8), (30, 256));
    assert_eq!(validity.fallen_below(&totals), ["rows are 3.5 in the mean step, the profile holds from 4"]);
    assert_eq!(validity.fallen_below(&ReplicaTotals::default()), Vec::<String>::new(), "nothing ran");
    assert_eq!(validity.fallen_below(&totals.and(&totals)).len(), 1);
}

#[test]
fn a_profile_says_what_it_is_worth() {
    let label = |old, new| Profile::parse("p.yaml", &PROFILE.replace(old, new)).unwrap().label();
    assert_eq!(label("", ""), "calibrated, expected error 10 %, on some-gpu");
    assert_eq!(label("calibrated", "prior"), "uncalibrated prior, expected error 10 %, on some-gpu");
    let no_gpu = label("kind: calibrated\ngpu: some-gpu", "kind: fixture");
    assert_eq!(no_gpu, "fixture, expected error 10 %, names no GPU, so no hardware bound was checked");
    let silent = PROFILE.replace("calibrated", "prior").replace(", expected_relative_error: 0.1", "");
    let label = Profile::parse("p.yaml", &silent).unwrap().label();
    assert_eq!(label, "uncalibrated prior, expected error not stated, on some-gpu");
}

#[test]
fn what_is_drawn_follows_the_posterior_and_stays_above_the_bound() {
    use super::uncertainty::Knob;
    use crate::step_time::StepTimeError;
    use scaleproof_pack::chance::stream;
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    let draws = |profile: &Profile| -> Vec<Result<f64, StepTimeError>> {
        let mut chance = stream(1, 0, "test");
        (0..4000).map(|_| Ok(profile.drawn(&mut chance)?.1.factor(Knob::Compute).ln())).collect()
    };
    let logs: Vec<f64> = draws(&profile).into_iter().collect::<Result<_, _>>().unwrap();
    let mean = logs.iter().sum::<f64>() / 4000.0;
    let sd = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 4000.0).sqrt();
    assert!(mean.abs() < 0.003 && (sd - 0.05).abs() < 0.002, "{mean} {sd}: row 0.03, 0.04 expected");

    // The least step takes 40 us: a bound of 39 leaves out what the host's cost, which nothing here scales down, is not.
    let near = PROFILE.replace("weight_bytes: 1.0e+6", "weight_bytes: 1.55e+8");
    let near = near.replace("host: {base_us: 30, row_us: 5}", "host: {base_us: 0, row_us: 0}");
    let near = near.replace("base_us: 10\n", "base_us: 40\n");
    let near = Profile::parse("p.yaml", &near).unwrap();
    let found = draws(&near);
    let rejected = found.iter().filter(|draw| matches!(draw, Err(StepTimeError::BelowBound(_)))).count();
    assert!(rejected > 400 && rejected < 3600, "{rejected}");
    let mut chance = stream(1, 0, "test");
    let kept = (0..200).filter_map(|_| near.drawn(&mut chance).ok());
    kept.for_each(|(profile, _)| profile.check_bound().unwrap());

    let certain = Profile { uncertainty: None, ..profile.clone() };
    assert_eq!(certain.drawn(&mut chance).unwrap().0, certain);
}

#[test]
fn a_profile_written_reads_back_as_itself() {
    let graphs = "  cudagraphs: {mode: full_and_piecewise, full: {base_us: 1, batch_token_knots: [[1, 2]], \
                  decode_context_token_us: 1, prefill_pair_us: 1, \
                  prefill_context_token_us: 1, row_us: 1, sampled_row_us: 1}, piecewise: {base_us: 2, \
                  batch_token_knots: [[1, 2]], decode_context_token_us: 1, prefill_pair_us: 1, \
                  prefill_context_token_us: 1, row_us: 1, sampled_row_us: 1}}\n";
    let text = PROFILE.replace("  host: {base", &format!("{graphs}  host: {{base"));
    let profile = Profile::parse("p.yaml", &text).unwrap();
    let written = profile.to_yaml(&["a comment".to_owned()]);
    assert_eq!(Profile::parse("written.yaml", &written).unwrap(), profile, "{written}");
}

#[test]
fn a_profile_faster_than_its_gpu_is_refused_with_both_numbers() {
    let text = faults("weight_bytes: 1.0e+6", "weight_bytes: 1.0e+9");
    // The bytes of the weights over the bandwidth are 250 us; a step of one row and one token takes 40.
    assert!(text.contains("expected at least the 250") && text.contains("0.1"), "{text}");
    let unbounded = faults(
        "hardware: {peak_flops_per_s: 1.0e+15, hbm_bytes_per_s: 4.0e+12, weight_bytes: 1.0e+6, kv_bytes_per_token: 100, token_flops: 2.0e+6, pair_flops: 100}\n",
        "",
    );
    assert!(unbounded.contains("hardware"), "a GPU is named, so its bound must be: {unbounded}");
}

#[test]
fn a_correction_scales_each_part_by_its_own_factor() {
    use super::uncertainty::{Correction, Knob};
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    let draw = profile.uncertainty.as_ref().unwrap().correction(&[1.0, 2.0]);
    assert!((draw.factor(Knob::Weights) - 0.1_f64.exp()).abs() < 1e-12);
    assert!((draw.factor(Knob::Compute) - 0.11_f64.exp()).abs() < 1e-12);
    assert!((draw.factor(Knob::Rows) - 1.0).abs() < 1e-12);
    let factors = vec![(Knob::Weights, 2.0), (Knob::Compute, 3.0), (Knob::FrontEnd, 10.0)];
    let corrected = profile.corrected(&Correction { factors }).unwrap();
    // base 10 x 2 + knots 500 x 3 + decode 0.5 x 7 + two rows and two samples.
    let shape = BatchShape { tokens: 160, rows: 2, sampled: 2, decode_context: 7, ..BatchShape::default() };
    assert_eq!(corrected.step_time.duration(&shape, true).unwrap(), Nanos(1_529_500));
    assert_eq!(corrected.front_end.ingest(1000).unwrap(), Nanos::from_millis(35.0).unwrap());
}

#[test]
fn a_corrected_profile_reads_back_as_itself_and_says_by_what() {
    use super::uncertainty::{Correction, Knob};
    let profile = Profile::parse("p.yaml", PROFILE).unwrap();
    let third = Correction { factors: vec![(Knob::Weights, 4.0 / 3.0), (Knob::Rows, 1.0 / 3.0)] };
    let corrected = profile.corrected(&third).unwrap();
    let written = corrected.to_yaml(&[]);
    assert_eq!(Profile::parse("written.yaml", &written).unwrap(), corrected, "{written}");
    // 1.2 of before times 4/3.
    assert!(written.contains("{factor: weights, value: 1.6}"), "{written}");
    assert!(
        written.contains("{factor: rows, value: 0.333333}") && written.contains("base_us: 13.3333\n"),
        "{written}"
    );
}

#[test]
fn a_factor_stands_once_and_above_nothing() {
    let twice = faults("value: 1.2}]", "value: 1.2}, {factor: weights, value: 1}]");
    assert!(twice.contains("provenance.factors: found weights twice"), "{twice}");
    let nothing = faults("value: 1.2}]", "value: 0}]");
    assert!(nothing.contains("value: found 0"), "{nothing}");
}

#[test]
fn digits_are_significant_ones() {
    let text = [0.150_000_000_000_000_02, 123_456_789.0, 0.0].map(|value| rounded(value, 4).to_string());
    assert_eq!(text, ["0.15", "123500000", "0"]);
}
