//! The worked example's engine profile as a text with a few free parameters. A candidate of the fit *is* such a text,
//! so that the file written in the end holds exactly what was simulated.

use crate::optimize::Parameter;
use crate::worked_example::Residual;
use scaleproof_sim::Extremes;
use scaleproof_sim::profile::rounded;
use std::fmt::Write;

/// Tokens up to which a batch costs no more than reading the weights.
const FLAT_TOKENS: u32 = 256;
/// The scheduler's token budget.
const BUDGET_TOKENS: u32 = 2048;
/// The longest request that the engine takes, in tokens.
const MODEL_LEN_TOKENS: u32 = 16_384;

/// The parameters that are fitted, each rounded to three digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixture {
    /// Microseconds of every step: the weights are read once.
    pub base_us: f64,
    /// Microseconds of each token of a batch beyond the flat part.
    pub token_us: f64,
    /// Microseconds of each row.
    pub row_us: f64,
    /// Requests that run at once.
    pub seats: u32,
}

impl Fixture {
    /// Where the fit begins: found by hand.
    pub const START: [Parameter; 4] = [
        Parameter { name: "base_us", start: 14_500.0, step: 1.03 },
        Parameter { name: "token_us", start: 23.0, step: 1.04 },
        Parameter { name: "row_us", start: 60.0, step: 1.25 },
        Parameter { name: "seats", start: 55.0, step: 1.04 },
    ];

    /// From values in the order of `START`. None if there are not as many.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Fixture> {
        let &[base_us, token_us, row_us, seats] = values else { return None };
        Some(Fixture {
            base_us: rounded(base_us, 3),
            token_us: rounded(token_us, 3),
            row_us: rounded(row_us, 3),
            seats: seats.round() as u32,
        })
    }

    /// The profile's text for batches as large as the scheduler can make them: what a candidate is simulated with.
    #[must_use]
    pub fn text(&self) -> String {
        let largest =
            Extremes { batch_tokens: BUDGET_TOKENS, rows: self.seats, context_tokens: MODEL_LEN_TOKENS };
        self.fitted_text(&largest, &[])
    }

    /// The profile's text with the batches that it was fitted on and what the fit left.
    #[must_use]
    pub fn fitted_text(&self, seen: &Extremes, residuals: &[Residual]) -> String {
        let Fixture { base_us, token_us, row_us, seats } = self;
        let budget_us = token_us * f64::from(BUDGET_TOKENS - FLAT_TOKENS);
        format!(
            "# The worked example's engine. Written by the command under `provenance`: change that program, not this \
             file.\n\
             # docs/calibration.md says what each number rests on. Fast teaching hardware, of no real GPU.\n\
             profile: dense-70b-fixture-r1\n\
             kind: fixture\n\
             model: {{id: dense-70b-class, revision: dense-70b-fixture-r1, precision: bf16}}\n\
             placement: {{tp: 2, pp: 1}}\n\
             scheduler:\n\
             \x20 # 360,000 tokens: never full at the example's rates.\n\
             \x20 num_blocks: 22500\n\
             \x20 block_size: 16\n\
             \x20 # Two long prompts fill a step's budget; one leaves room beside it.\n\
             \x20 max_num_batched_tokens: {BUDGET_TOKENS}\n\
             \x20 long_prefill_token_threshold: 1024\n\
             \x20 # Fitted.\n\
             \x20 max_num_seqs: {seats}\n\
             \x20 max_model_len: {MODEL_LEN_TOKENS}\n\
             front_end: {{request_ms: 20, prompt_token_us: 0, output_token_ms: 0}}\n\
             step_time:\n\
             \x20 # Fitted.\n\
             \x20 base_us: {base_us}\n\
             \x20 # Nothing up to {FLAT_TOKENS} tokens, then {token_us} us a token (fitted).\n\
             \x20 batch_token_knots: [[{FLAT_TOKENS}, 0], [{BUDGET_TOKENS}, {budget_us:.0}]]\n\
             \x20 decode_context_token_us: 0.03\n\
             \x20 prefill_pair_us: 0.0005\n\
             \x20 prefill_context_token_us: 0\n\
             \x20 # Fitted.\n\
             \x20 row_us: {row_us}\n\
             \x20 sampled_row_us: 0\n\
             \x20 host: {{base_us: 0, row_us: 0}}\n\
             validity: {{batch_tokens: [1, {}], rows: [1, {}], context_tokens: [1, {}]}}\n\
             {}",
            seen.batch_tokens,
            seen.rows,
            seen.context_tokens,
            provenance(residuals)
        )
    }
}

fn provenance(residuals: &[Residual]) -> String {
    let mut text = "provenance:\n\
         \x20 method: simulated by this simulator, its four fitted numbers moved by the simplex method of Nelder and Mead\n\
         \x20 sources: [\"the worked example's published table: teaching data\"]\n\
         \x20 command: cargo run --release -p scaleproof-calibrate --example fit_worked_example -- --write \
         models/fixture/dense-70b-fixture-r1.yaml\n"
        .to_owned();
    let known: Vec<_> = residuals.iter().filter_map(|r| Some((r.target, r.fitted?))).collect();
    if !known.is_empty() {
        text += "  residuals:\n";
    }
    for (target, fitted) in known {
        let (name, published) = (target.name(), target.published);
        // Writing into a String cannot fail.
        let _ = writeln!(text, "    - {{metric: \"{name}\", target: {published}, fitted: {fitted:.2}}}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worked_example::residuals;
    use scaleproof_sim::profile::Profile;

    fn fixture() -> Fixture {
        Fixture::of(&Fixture::START.map(|parameter| parameter.start)).unwrap()
    }

    #[test]
    fn a_candidate_is_a_profile() {
        let profile = Profile::parse("f", &fixture().text()).unwrap();
        assert_eq!(profile.scheduler.max_num_seqs, 55);
        assert_eq!(profile.scheduler.long_prefill_token_threshold, 1024);
    }

    #[test]
    fn what_a_fit_left_can_be_read_back() {
        let mut left = residuals(&[]);
        left[3].fitted = Some(261.239);
        let text = fixture().fitted_text(&Extremes { batch_tokens: 9, rows: 8, context_tokens: 7 }, &left);
        let profile = Profile::parse("f", &text).unwrap();
        assert_eq!(profile.validity.to_string(), "batch tokens 1 to 9, rows 1 to 8, context tokens 1 to 7");
        assert_eq!(profile.provenance.residuals.len(), 1, "numbers that do not exist are not written");
        assert_eq!(profile.provenance.residuals[0].metric, "interactive P95 TTFT ms at 20 requests/s");
        assert!((profile.provenance.residuals[0].target - 260.0).abs() < 1e-9);
        assert!((profile.provenance.residuals[0].fitted - 261.24).abs() < 1e-9);
    }

    #[test]
    fn parameters_keep_three_digits() {
        assert!((rounded(12_345.0, 3) - 12_300.0).abs() < 1e-9);
        assert!((rounded(0.012_345, 3) - 0.0123).abs() < 1e-12);
        assert!(rounded(0.0, 3).abs() < 1e-12 && rounded(f64::NAN, 3).is_nan());
        assert_eq!(Fixture::of(&[1.0]), None);
    }
}
