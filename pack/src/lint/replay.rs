//! The rows of a trace against the gates of the manifest that replays it: what reading the files alone cannot show.

use super::document::Document;
use super::{Finding, rules};
use crate::fault::Faults;
use crate::manifest::Manifest;
use crate::schedule::Schedule;
use crate::yaml;

/// Judges a replay's rows by class. `file` and `text` are the manifest's, `schedule` is that of its trace;
/// `max_request_tokens` is what an engine can hold of prompt and output together.
///
/// # Errors
/// What is no YAML.
pub fn lint_replay(
    (file, text): (&str, &str),
    manifest: &Manifest,
    schedule: &Schedule,
    max_request_tokens: u32,
) -> Result<Vec<Finding>, Faults> {
    let tree = yaml::parse(file, text)?;
    let mut document = Document::new(file, &tree);
    let gates = &manifest.acceptance;
    let needed = gates.min_successful_samples_per_class as f64;
    let needed = if gates.error_rate_max < 1.0 { needed / (1.0 - gates.error_rate_max) } else { needed };
    let requests = &schedule.measured.requests;
    for (index, class) in manifest.classes.iter().enumerate() {
        let rows = requests.iter().filter(|request| usize::from(request.class) == index).count();
        if (rows as f64) < needed.ceil() {
            let found = format!("{}: {rows} rows of the trace, of at least {}", class.name, needed.ceil());
            document.find(&rules::SMALL_CLASS, &format!("workload[{index}]"), found);
        }
    }
    let tokens = |input: u32, output: u32| u64::from(input) + u64::from(output);
    let too_long = requests.iter().map(|r| tokens(r.input_tokens, r.output_tokens));
    let too_long = too_long.filter(|&tokens| tokens > u64::from(max_request_tokens)).count();
    if too_long > 0 {
        let share = 100.0 * too_long as f64 / requests.len() as f64;
        let found = format!(
            "{too_long} of {} rows ({share:.1} %) beyond {max_request_tokens} tokens of prompt and output",
            requests.len()
        );
        document.find(&rules::BEYOND_CONTEXT, "client.trace.file", found);
    }
    Ok(document.finish())
}
