//! How far a prior's steps may be off because the fits of its kernels are: by kind of step, then by kernel.
//!
//! A step's kernels run one after the other, so its error is the mean of theirs, each weighted by its time in the step: as
//! large as it can be if all are off to the same side. What is not a measured kernel (the head, copies, the host) has
//! none here.

use super::Composer;
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
        let steps = STEPS.iter().filter_map(|step| self.step_error(step));
        let precisions = [self.memory.precision.word(), self.memory.kv_precision.word()];
        let kernels = [
            self.products_kind(precisions[0]),
            self.decode_kind(precisions[1]),
            "prefill".to_owned(),
            "collective".to_owned(),
            "element_wise".to_owned(),
        ];
        let measured_on = self.kernels.gpus.join(", ");
        let alone = |kind: &&String| self.memory.tp > 1 || *kind != "collective";
        let named =
            kernels.iter().filter(alone).filter_map(|kind| self.kernels.fit_error(kind)).map(|error| {
                FitError { kind: format!("kernel {}, of {measured_on}", error.kind), ..error.clone() }
            });
        steps.chain(named).collect()
    }

    /// FP8's products stand for other formats that were not measured.
    fn products_kind(&self, precision: &str) -> String {
        let kind = format!("products_{precision}");
        if self.kernels.fit_error(&kind).is_some() { kind } else { "products_fp8".to_owned() }
    }

    /// As 16-bit attention stands for others.
    fn decode_kind(&self, precision: &str) -> String {
        let kind = format!("decode_{precision}");
        if self.kernels.fit_error(&kind).is_some() { kind } else { "decode_bf16".to_owned() }
    }

    /// Time of each measured kernel in a step, and its kind.
    fn kernels_us(&self, step: &Step) -> Option<[(String, f64); 5]> {
        let (prompt, rows) = (f64::from(step.prompt), f64::from(step.rows));
        let tokens = step.prompt + step.rows;
        let knot = self.products.iter().find(|knot| knot.tokens >= tokens).or(self.products.last())?;
        let [products_us, reduce_us, element_us] = self.tokens_us(knot);
        let costs = self.coefficients(std::slice::from_ref(knot), self.prefill_token_us());
        let decode_us = rows * (costs.row_us + CONTEXT * costs.decode_context_token_us);
        let prefill_us = prompt * (self.prefill_token_us() + costs.prefill_pair_us * prompt / 2.0);
        Some([
            (self.products_kind(self.memory.precision.word()), products_us),
            ("collective".to_owned(), reduce_us),
            ("element_wise".to_owned(), element_us),
            (self.decode_kind(self.memory.kv_precision.word()), decode_us),
            ("prefill".to_owned(), prefill_us),
        ])
    }

    fn step_error(&self, step: &Step) -> Option<FitError> {
        let (mut sum, mut total_us, mut count) = (0.0, 0.0, 0);
        for (kind, us) in self.kernels_us(step)?.into_iter().filter(|(_, us)| *us > 0.0) {
            let error = self.kernels.fit_error(&kind)?;
            sum += us * error.median_relative;
            total_us += us;
            count += error.count;
        }
        let median_relative = rounded(sum / total_us, 2);
        Some(FitError { kind: format!("{}, by its kernels", step.kind), count, median_relative })
    }
}
