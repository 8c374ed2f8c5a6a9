//! The two files as text: a comment on every line that holds a value.

use super::Answers;
use super::traffic::{TraceTraffic, Traffic};
use scaleproof_pack::report::EXPLORATORY_BELOW;
use scaleproof_pack::yaml::quoted;
use std::fmt::Write;

/// Successes that each class's gate asks for.
const GATE_SUCCESSES: usize = EXPLORATORY_BELOW as usize;

/// Comments begin in this column, where there is room.
const COMMENT_COLUMN: usize = 52;

/// Lines of YAML, each with its comment.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, yaml: &str, comment: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{yaml:<COMMENT_COLUMN$} # {comment}");
    }

    /// A line of comment only.
    fn say(&mut self, comment: &str) {
        let _ = writeln!(self.0, "# {comment}");
    }

    fn gap(&mut self) {
        self.0.push('\n');
    }
}

/// workload-manifest.yaml.
pub fn manifest(answers: &Answers) -> String {
    let mut lines = Lines::default();
    lines.say("What is offered to which system, and the gates it must pass. Written by `scaleproof init`; every field");
    lines.say(
        "is described in docs/formats.md. Revisions never move: a commit, a digest or an exact version.",
    );
    lines.gap();
    lines.add(&format!("cutoff: {}", quoted(&answers.cutoff)), "the date on which the system was frozen");
    system(&mut lines, answers);
    client(&mut lines, answers);
    match &answers.traffic {
        Traffic::Classes { classes, .. } => {
            lines.add("workload:", "the classes of requests, each with its service level");
            for (class, _) in classes {
                lines.add(&format!("  - name: {}", quoted(&class.name)), "the class's name in every report");
                lines.add(&format!("    mix: {}", class.mix), "its share of the requests");
                lines.add(
                    &format!("    input_tokens: {}", class.input_tokens),
                    "prompt length, or a distribution",
                );
                lines.add(
                    &format!("    output_tokens: {}", class.output_tokens),
                    "answer length, or a distribution",
                );
                cutoffs(&mut lines, class.ttft_ms, class.tpot_ms);
            }
        }
        Traffic::Trace(trace) => trace_classes(&mut lines, trace),
    }
    acceptance(&mut lines);
    lines.0
}

fn system(lines: &mut Lines, answers: &Answers) {
    let profile = &answers.profile;
    lines.add("model:", "must be the profile's model");
    lines.add(&format!("  id: {}", quoted(&profile.model_id)), "its name");
    lines.add(&format!("  revision: {}", quoted(&profile.model_revision)), "its exact weights");
    lines.add(
        &format!("  tokenizer_revision: {}", quoted(&answers.tokenizer_revision)),
        "the tokenizer's; lengths are counted in its tokens",
    );
    lines.add(&format!("  precision: {}", quoted(&profile.precision)), "of weights and activations");
    lines.add("engine:", "what serves it");
    lines.add(
        &format!("  name: {}", quoted(&answers.engine_name)),
        "the engine; --engine NAME@VERSION sets both",
    );
    lines.add(&format!("  version: {}", quoted(&answers.engine_version)), "its exact version");
    lines.add("  placement:", "GPUs and replicas");
    let (tp, pp, replicas) = (profile.tp, profile.pp, answers.replicas);
    lines.add(&format!("    tp: {tp}"), "tensor parallel degree of a replica, the profile's");
    lines.add(&format!("    pp: {pp}"), "pipeline parallel degree of a replica, the profile's");
    lines.add(&format!("    dp: {replicas}"), "the same as replicas");
    lines.add(&format!("    replicas: {replicas}"), "independent engines behind the router");
    let gpus = u64::from(tp) * u64::from(pp) * u64::from(replicas);
    lines.add(&format!("    gpus: {gpus}"), "replicas x tp x pp");
    let cached = if profile.scheduler.enable_prefix_caching { "enabled" } else { "disabled" };
    lines.add(&format!("  prefix_cache: {cached}"), "whether prompts that begin alike share their KV blocks");
    lines.add("  speculative_decoding: disabled", "not simulated yet");
    lines.add("  disaggregated_prefill: disabled", "not simulated yet");
}

fn client(lines: &mut Lines, answers: &Answers) {
    lines.add("client:", "the load generator");
    lines.add("  location: simulated", "where it runs, for a live test");
    lines.add("  streaming: true", "tokens come one by one; without it there is no TTFT");
    match &answers.traffic {
        Traffic::Classes { classes, total } => {
            lines
                .add("  arrival_pattern: poisson", "independent users; or constant, gamma, piecewise, trace");
            lines.add("  minimum_duration_seconds: 300", "least length of the measured window");
            lines.add(
                &format!("  initial_scheduled_requests: {total}"),
                "measured requests; more follow if a class lacks successes",
            );
            lines.add("  class_schedule_counts:", "exactly so many of each class: mix x the total");
            for (class, count) in classes {
                lines.add(&format!("    {}: {count}", quoted(&class.name)), "requests");
            }
        }
        Traffic::Trace(trace) => {
            lines.add("  arrival_pattern: trace", "arrivals and lengths as recorded");
            lines.add("  trace:", "the recording");
            lines.add(&format!("    file: {}", quoted(&trace.file)), "from this directory");
            let rate = trace.rate_rps.map_or(String::new(), |rate| format!(", {rate:.3} a second"));
            lines.add(&format!("    format: {}", trace.format.word()), &format!("{} rows{rate}", trace.rows));
        }
    }
    lines.add(
        &format!("  request_schedule_seed: {}", answers.seed),
        "all chance comes from it: the same seed, the same schedule",
    );
    lines.add("  warmup_seconds: 60", "before the window and in addition to it");
    lines.say("  timeout_seconds: 120                              # the client gives up; none by default");
}

fn trace_classes(lines: &mut Lines, trace: &TraceTraffic) {
    lines.add("workload:", "the classes; a row belongs to the first whose `when` takes it");
    for class in &trace.classes {
        let few = if class.rows < GATE_SUCCESSES { ": too few for its gate" } else { "" };
        let comment = format!("{}: {} of {} rows{few}", class.rule, class.rows, trace.rows);
        lines.add(&format!("  - name: {}", quoted(&class.name)), &comment);
        if let Some(bound) = class.input_max {
            lines.add(&format!("    when: {{input_max: {bound}}}"), "prompt tokens, included");
        }
        cutoffs(lines, trace.ttft_ms, trace.tpot_ms);
    }
}

fn cutoffs(lines: &mut Lines, ttft_ms: f64, tpot_ms: f64) {
    lines.add(&format!("    request_ttft_cutoff_ms: {ttft_ms}"), "the first token comes within this");
    lines.add(
        &format!("    request_tpot_cutoff_ms: {tpot_ms}"),
        "and each further one within this, on average",
    );
}

fn acceptance(lines: &mut Lines) {
    lines.add("acceptance:", "the gates that a rate must pass to count as capacity");
    lines.add("  class_slo_attainment_min: 0.95", "of each class's successes inside both cutoffs");
    lines.add(
        &format!("  min_successful_samples_per_class: {GATE_SUCCESSES}"),
        "fewer say too little about a P95",
    );
    lines.add("  error_rate_max: 0.01", "of all attempts");
    lines.add("  queue_trend_required: flat", "a queue that grows is above capacity");
    lines.add("  target_utilization: 0.75", "a planned fleet runs at this share of its capacity");
}

/// scenario.yaml.
pub fn scenario(answers: &Answers) -> String {
    let rates: Vec<String> = answers.rates_rps.iter().map(f64::to_string).collect();
    let mut lines = Lines::default();
    lines.say("The fleet that serves the manifest beside it, and the experiment to make. Written by `scaleproof init`;");
    lines.say("every field is described in docs/formats.md.");
    lines.gap();
    lines.add(&format!("profile: {}", quoted(&answers.profile_path)), "the engine's speed and settings");
    lines.add("router:", "who chooses the replica");
    lines.add("  policy: least_outstanding", "or round_robin, random, power_of_two");
    lines.say(
        "  poll_interval_seconds: 1                          # loads are this old; by default always fresh",
    );
    lines.say("engine: {max_num_seqs: 128}                         # settings over the profile's");
    lines.say("client: {timeout_seconds: 60}                       # over the manifest's");
    lines.say("prefix_groups:                                      # what warm prompts share, and how often");
    lines.say("  - {name: system_prompt, tokens: 512, weight: 1}");
    lines.add("experiment:", "what sweep and capacity do");
    lines.add(&format!("  rates_rps: [{}]", rates.join(", ")), "offered rates, rising");
    lines.add("  cache: cold", "cold: no prompt shares a prefix; warm: the prefix groups");
    lines.add("  repeats: 1", "independent repeats of each point; 3 or more show the spread");
    lines.add("  sample_interval_seconds: 1", "of the timeline");
    lines.add("  max_continuation: 2", "a run ends at this many times its requests, whatever it lacks");
    lines.0
}
