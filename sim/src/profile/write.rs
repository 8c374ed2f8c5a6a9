//! A profile as the text that reads back as it.

use super::read::{GRAPH_MODES, POLICIES};
use super::uncertainty::Uncertainty;
use super::{Profile, Provenance};
use crate::front_end::FrontEndProcess;
use crate::hardware::Hardware;
use crate::step_time::{Coefficients, GraphTimes};
use scaleproof_pack::fields::word_of;
use scaleproof_pack::yaml::quoted;
use std::fmt::{self, Write};

/// `value` with so many significant digits, as a file holds it: more would say more than is known.
#[must_use]
pub fn rounded(value: f64, digits: usize) -> f64 {
    let places = digits.saturating_sub(1);
    format!("{value:.places$e}").parse().expect("a printed number is a number")
}

impl Profile {
    /// YAML, with `comment` lines (none of them empty, without `#`) on top.
    #[must_use]
    pub fn to_yaml(&self, comment: &[String]) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.write(&mut text, comment);
        text
    }

    fn write(&self, out: &mut String, comment: &[String]) -> fmt::Result {
        for line in comment {
            writeln!(out, "# {line}")?;
        }
        writeln!(out, "profile: {}\nkind: {}", quoted(&self.name), self.kind.word())?;
        if let Some(gpu) = &self.gpu {
            writeln!(out, "gpu: {}", quoted(gpu))?;
        }
        let (id, revision, precision) =
            (quoted(&self.model_id), quoted(&self.model_revision), quoted(&self.precision));
        writeln!(out, "model: {{id: {id}, revision: {revision}, precision: {precision}}}")?;
        writeln!(out, "placement: {{tp: {}, pp: {}}}", self.tp, self.pp)?;
        self.write_scheduler(out)?;
        let front = &self.front_end;
        let (process, busy) = match front.process {
            FrontEndProcess::Parallel => (String::new(), String::new()),
            one => (format!("process: {}, ", one.word()), format!("busy_ms: {}, ", front.busy.millis())),
        };
        writeln!(
            out,
            "front_end: {{{process}request_ms: {}, {busy}prompt_token_us: {}, output_token_ms: {}}}",
            front.request.millis(),
            front.prompt_token_us,
            front.output_token.millis()
        )?;
        if let Some(hardware) = &self.step_time.hardware {
            write_hardware(out, hardware)?;
        }
        self.write_step_time(out)?;
        let ((t0, t1), (r0, r1), (c0, c1)) =
            (self.validity.batch_tokens, self.validity.rows, self.validity.context_tokens);
        writeln!(
            out,
            "validity: {{batch_tokens: [{t0}, {t1}], rows: [{r0}, {r1}], context_tokens: [{c0}, {c1}]}}"
        )?;
        if let Some(uncertainty) = &self.uncertainty {
            write_uncertainty(out, uncertainty)?;
        }
        write_provenance(out, &self.provenance)
    }

    fn write_scheduler(&self, out: &mut String) -> fmt::Result {
        let s = &self.scheduler;
        writeln!(out, "scheduler:\n  num_blocks: {}\n  block_size: {}", s.num_blocks, s.block_size)?;
        writeln!(out, "  max_num_batched_tokens: {}", s.max_num_batched_tokens)?;
        writeln!(out, "  max_num_seqs: {}\n  max_model_len: {}", s.max_num_seqs, s.max_model_len)?;
        let policy = word_of(&POLICIES, &s.policy);
        writeln!(out, "  policy: {policy}\n  async_scheduling: {}", s.async_scheduling)?;
        writeln!(out, "  enable_prefix_caching: {}", s.enable_prefix_caching)?;
        writeln!(out, "  long_prefill_token_threshold: {}", s.long_prefill_token_threshold)?;
        writeln!(out, "  scheduler_reserve_full_isl: {}", s.scheduler_reserve_full_isl)?;
        writeln!(out, "  watermark: {}", s.watermark)
    }

    fn write_step_time(&self, out: &mut String) -> fmt::Result {
        let model = &self.step_time;
        writeln!(out, "step_time:")?;
        write_coefficients(out, "  ", &model.eager)?;
        let host = &model.host;
        writeln!(out, "  host: {{base_us: {}, row_us: {}}}", host.base_us, host.row_us)?;
        if let Some(graphs) = &model.graphs {
            write_graphs(out, graphs)?;
        }
        Ok(())
    }
}

fn write_graphs(out: &mut String, graphs: &GraphTimes) -> fmt::Result {
    // No graphs at all is a profile without them.
    let mode = word_of(&GRAPH_MODES, &graphs.settings.mode);
    writeln!(out, "  cudagraphs:\n    mode: {mode}")?;
    if !graphs.settings.sizes.is_empty() {
        writeln!(out, "    sizes: {:?}", graphs.settings.sizes)?;
    }
    writeln!(out, "    ceiling: {}\n    full:", graphs.settings.ceiling)?;
    write_coefficients(out, "      ", &graphs.full)?;
    writeln!(out, "    piecewise:")?;
    write_coefficients(out, "      ", &graphs.piecewise)
}

fn write_coefficients(out: &mut String, indent: &str, costs: &Coefficients) -> fmt::Result {
    let knots: Vec<String> =
        costs.batch_token_knots.iter().map(|(tokens, us)| format!("[{tokens}, {us}]")).collect();
    writeln!(out, "{indent}base_us: {}", costs.base_us)?;
    writeln!(out, "{indent}batch_token_knots: [{}]", knots.join(", "))?;
    writeln!(out, "{indent}decode_context_token_us: {}", costs.decode_context_token_us)?;
    writeln!(out, "{indent}prefill_pair_us: {}", costs.prefill_pair_us)?;
    writeln!(out, "{indent}prefill_context_token_us: {}", costs.prefill_context_token_us)?;
    writeln!(out, "{indent}row_us: {}\n{indent}sampled_row_us: {}", costs.row_us, costs.sampled_row_us)?;
    for (name, value) in [("launch_us", costs.launch_us), ("decode_wave_rows", costs.decode_wave_rows)] {
        if value > 0.0 {
            writeln!(out, "{indent}{name}: {value}")?;
        }
    }
    Ok(())
}

fn write_hardware(out: &mut String, hardware: &Hardware) -> fmt::Result {
    writeln!(
        out,
        "# One GPU of a replica and its share of the model: no step may be faster than it can be."
    )?;
    writeln!(out, "hardware:")?;
    for (name, value) in [
        ("peak_flops_per_s", hardware.peak_flops_per_s),
        ("hbm_bytes_per_s", hardware.hbm_bytes_per_s),
        ("weight_bytes", hardware.weight_bytes),
        ("kv_bytes_per_token", hardware.kv_bytes_per_token),
        ("token_flops", hardware.token_flops),
        ("pair_flops", hardware.pair_flops),
    ] {
        writeln!(out, "  {name}: {value}")?;
    }
    Ok(())
}

fn write_uncertainty(out: &mut String, uncertainty: &Uncertainty) -> fmt::Result {
    writeln!(
        out,
        "# Logarithms of factors on the costs: normal, with these rows of a lower triangle.\nuncertainty:"
    )?;
    for factor in &uncertainty.factors {
        writeln!(
            out,
            "  - {{factor: {}, prior_sd: {}, deviations: {:?}}}",
            factor.knob.word(),
            factor.prior_sd,
            factor.deviations
        )?;
    }
    Ok(())
}

fn write_provenance(out: &mut String, provenance: &Provenance) -> fmt::Result {
    let sources: Vec<String> = provenance.sources.iter().map(|source| quoted(source)).collect();
    writeln!(
        out,
        "provenance:\n  method: {}\n  sources: [{}]",
        quoted(&provenance.method),
        sources.join(", ")
    )?;
    for (name, value) in [
        ("date", &provenance.date),
        ("command", &provenance.command),
        ("engine_version", &provenance.engine_version),
        ("data_sha256", &provenance.data_sha256),
    ] {
        if let Some(value) = value {
            writeln!(out, "  {name}: {}", quoted(value))?;
        }
    }
    if let Some(error) = provenance.expected_relative_error {
        writeln!(out, "  expected_relative_error: {error}")?;
    }
    if !provenance.factors.factors.is_empty() {
        writeln!(out, "  # On the prior's costs.\n  factors:")?;
    }
    for (knob, value) in &provenance.factors.factors {
        writeln!(out, "    - {{factor: {}, value: {value}}}", knob.word())?;
    }
    if !provenance.fit_errors.is_empty() {
        writeln!(out, "  fit_errors:")?;
    }
    for error in &provenance.fit_errors {
        let (kind, count, median) = (quoted(&error.kind), error.count, error.median_relative);
        writeln!(out, "    - {{kind: {kind}, count: {count}, median_relative: {median}}}")?;
    }
    if !provenance.residuals.is_empty() {
        writeln!(out, "  residuals:")?;
    }
    for residual in &provenance.residuals {
        let (metric, target, fitted) = (quoted(&residual.metric), residual.target, residual.fitted);
        writeln!(out, "    - {{metric: {metric}, target: {target}, fitted: {fitted}}}")?;
    }
    Ok(())
}
