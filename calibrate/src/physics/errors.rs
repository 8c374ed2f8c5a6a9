//! How far a prior's steps may be off because the fits of its kernels are: by kind of step, then by kernel.
//!
//! A step's kernels run one after the other, so its error is the mean of theirs, each weighted by its time in the step: as
//! large as it can be if all are off to the same side. What is not a measured kernel (the head, copies, the host) has
//! none here.

use super::Composer;
use crate::hardware::Precision;
use scaleproof_sim::profile::{FitError, rounded};

/// A step to weigh the kernels by.
struct Step {
    /// Its kind, in the profile.
    kind: &'static str,
    /// Tokens of a prompt.
    prompt: u32,
    /// Decode rows.
    rows: u32,
}

/// Tokens of context of a decode row.
const CONTEXT: f64 = 1024.0;
const STEPS: [Step; 3] = [
    Step { kind: "prefill step, 1024 tokens", prompt: 1024, rows: 0 },
    Step { kind: "decode step, 32 rows at 1024 tokens", prompt: 0, rows: 32 },
    Step { kind: "mixed step, 32 rows and 480 tokens", prompt: 480, rows: 32 },
];

impl Composer<'_> {
    /// The errors of the three kinds of step, and of the kernels that they rest on.
    pub(super) fn fit_errors(&self) -> Vec<FitError> {
        let kinds = self.kinds();
        let steps = STEPS.iter().filter_map(|step| self.step_error(step, &kinds));
        let measured_on = self.kernels.gpus.join(", ");
        let alone = |kind: &&String| self.memory.tp > 1 || *kind != "collective";
        let named = kinds.iter().filter(alone).filter_map(|kind| self.kernels.fit_error(kind)).map(|error| {
            FitError { kind: format!("kernel {}, of {measured_on}", error.kind), ..error.clone() }
        });
        steps.chain(named).collect()
    }

    /// The kinds of measured kernels in a step. FP8's products and 16-bit attention stand for formats that were not measured.
    fn kinds(&self) -> [String; 5] {
        let fitted = |kernel: &str, precision: Precision, instead: Precision| {
            let kind = |precision: Precision| format!("{kernel}_{}", precision.word());
            let own = kind(precision);
            if self.kernels.fit_error(&own).is_some() { own } else { kind(instead) }
        };
        [
            fitted("products", self.memory.precision, Precision::Fp8),
            fitted("decode", self.memory.kv_precision, Precision::Bf16),
            "prefill".to_owned(),
            "collective".to_owned(),
            "element_wise".to_owned(),
        ]
    }

    /// The time of each in a step, in the same order.
    fn kernels_us(&self, step: &Step) -> Option<[f64; 5]> {
        let (prompt, rows) = (f64::from(step.prompt), f64::from(step.rows));
        let tokens = step.prompt + step.rows;
        let knot = self.products.iter().find(|knot| knot.tokens >= tokens).or(self.products.last())?;
        let [products_us, reduce_us, element_us] = self.tokens_us(knot);
        let costs = self.coefficients(std::slice::from_ref(knot), self.prefill_token_us());
        let decode_us = rows * (costs.row_us + CONTEXT * costs.decode_context_token_us);
        let prefill_us = prompt * (self.prefill_token_us() + costs.prefill_pair_us * prompt / 2.0);
        Some([products_us, decode_us, prefill_us, reduce_us, element_us])
    }

    fn step_error(&self, step: &Step, kinds: &[String]) -> Option<FitError> {
        let (mut sum, mut total_us, mut count) = (0.0, 0.0, 0);
        for (kind, us) in kinds.iter().zip(self.kernels_us(step)?).filter(|(_, us)| *us > 0.0) {
            let error = self.kernels.fit_error(kind)?;
            sum += us * error.median_relative;
            total_us += us;
            count += error.count;
        }
        let median_relative = rounded(sum / total_us, 2);
        Some(FitError { kind: format!("{}, by its kernels", step.kind), count, median_relative })
    }
}
