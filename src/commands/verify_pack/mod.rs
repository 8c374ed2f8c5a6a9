//! `scaleproof verify-pack`: the packs of a study against the acceptance list. Reads files, and simulates nothing.

mod args;
mod gather;

pub use args::VerifyPackArgs;

use crate::args::Format;
use crate::exit::{CommandError, Outcome};
use crate::study::{exit_by_gate, print_out, shown};
use crate::table::counted;
use scaleproof_pack::acceptance::{Line, Verdict, judge};
use serde_json::json;
use std::path::PathBuf;

/// Of what is wrong, so much is printed as text.
const EVIDENCE_MAX: usize = 8;

/// Runs the command: exit 0 only if every line is met.
pub fn run(args: &VerifyPackArgs) -> Outcome {
    let lines = lines(&args.directories)?;
    let met = lines.iter().all(|line| line.verdict == Verdict::Met);
    print_out(&match args.format {
        Format::Json => {
            let packs: Vec<String> = args.directories.iter().map(|path| shown(path)).collect();
            format!("{:#}\n", json!({"packs": packs, "accepted": met, "lines": lines}))
        }
        Format::Text => text(&lines),
    })?;
    exit_by_gate(met)
}

fn lines(directories: &[PathBuf]) -> Result<Vec<Line>, CommandError> {
    Ok(judge(&gather::gather(directories)?))
}

fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text += &format!("{:<10}{}: {}\n", line.verdict.word(), line.id, line.asked);
        for evidence in line.evidence.iter().take(EVIDENCE_MAX) {
            text += &format!("          {evidence}\n");
        }
        if line.evidence.len() > EVIDENCE_MAX {
            text += &format!("          and {} more\n", line.evidence.len() - EVIDENCE_MAX);
        }
    }
    let open = lines.iter().filter(|line| line.verdict != Verdict::Met).count() as u64;
    let verdict =
        if open == 0 { "accepted".to_owned() } else { format!("refused: {} open", counted(open, "line")) };
    text + &format!("\n{verdict}\n")
}
