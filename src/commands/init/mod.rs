//! `scaleproof init`: a commented scenario, from flags, from a trace, or from the answers to a few questions.

mod args;
mod ask;
mod paths;
mod render;
#[cfg(test)]
mod tests;
mod traffic;

pub use args::InitArgs;

use crate::args::Format;
use crate::exit::{CommandError, Exit, Outcome};
use crate::files::{self, MANIFEST, SCENARIO, read_text, unwritable};
use crate::input;
use crate::progress::say;
use crate::study::{print_out, shown};
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::manifest::Manifest;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use traffic::Traffic;

/// All that a scenario is written from.
struct Answers {
    /// The profile's path as scenario.yaml has it.
    profile_path: String,
    profile: Profile,
    replicas: u32,
    cutoff: String,
    tokenizer_revision: String,
    engine_name: String,
    engine_version: String,
    seed: u64,
    rates_rps: Vec<f64>,
    traffic: Traffic,
}

/// Runs the command: nothing is written unless both files would load, and nothing is overwritten.
pub fn run(args: &InitArgs) -> Outcome {
    let files = [MANIFEST, SCENARIO].map(|name| args.dir.join(name));
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(CommandError::bad_input(format!(
            "{}: found a file; expected none, since init overwrites nothing; name another directory",
            there.display()
        )));
    }
    let asked = if args.says_nothing() && io::stdin().is_terminal() {
        Some(ask::complete(args, &mut ask::Questions::new(io::stdin().lock(), io::stderr()))?)
    } else {
        None
    };
    let answers = answers(asked.as_ref().unwrap_or(args))?;
    let texts = [render::manifest(&answers), render::scenario(&answers)];
    check(&args.dir, &texts, &answers.profile)?;
    fs::create_dir_all(&args.dir).map_err(|error| unwritable(&args.dir, &error))?;
    for (file, text) in files.iter().zip(&texts) {
        files::write(file, text.as_bytes())?;
    }
    for finding in super::lint::of_trace(&input::load_with_trace_if_there(&args.dir)?)? {
        say(&format!(
            "warning: {}:{}: {}: found {}; {}",
            finding.file, finding.line, finding.rule, finding.found, finding.repair
        ));
    }
    let [manifest, scenario] = files.map(|file| shown(&file));
    print_out(&match args.format {
        Format::Json => {
            format!("{}\n", serde_json::json!({"workload_manifest": manifest, "scenario": scenario}))
        }
        Format::Text => format!("{manifest}\n{scenario}\nnext: scaleproof sweep {}\n", args.dir.display()),
    })?;
    Ok(Exit::Passed)
}

/// Checks what would be written by the readers that will read it.
fn check(
    directory: &Path,
    [manifest, scenario]: &[String; 2],
    profile: &Profile,
) -> Result<(), CommandError> {
    let name = |file: &str| format!("{} (from the flags, not written)", directory.join(file).display());
    let manifest = Manifest::parse(&name(MANIFEST), manifest).map_err(CommandError::bad_input)?;
    let scenario =
        Scenario::parse(&name(SCENARIO), scenario, profile, &manifest).map_err(CommandError::bad_input)?;
    scenario.check_lengths(&name(MANIFEST), &manifest).map_err(CommandError::bad_input)
}

fn answers(args: &InitArgs) -> Result<Answers, CommandError> {
    let path = args.profile.as_deref().ok_or_else(|| {
        CommandError::bad_input(
            "--profile: found none; expected the engine's profile; models/fixture/dense-70b-fixture-r1.yaml is one",
        )
    })?;
    let text = read_text(path)?;
    let profile = Profile::parse(&shown(path), &text).map_err(CommandError::bad_input)?;
    if let Some(tp) = args.tp.filter(|tp| *tp != profile.tp) {
        return Err(CommandError::bad_input(format!(
            "--tp: found {tp}; expected {}, as in the profile {}; name a profile that was made for this system",
            profile.tp,
            path.display()
        )));
    }
    let replicas = args.replicas.unwrap_or(4);
    let traffic = traffic::of(args)?;
    let rates_rps =
        if args.rates.is_empty() { traffic.usual_rates_rps(replicas) } else { args.rates.clone() };
    let engine = args.engine.clone();
    let (engine_name, engine_version) = engine
        .unwrap_or_else(|| (profile.name.clone(), format!("profile-{}", &sha256_hex(text.as_bytes())[..12])));
    Ok(Answers {
        profile_path: paths::relative(&args.dir, path)?,
        replicas,
        cutoff: args.cutoff.clone().map_or_else(paths::today, Ok)?,
        tokenizer_revision: args.tokenizer_revision.clone().unwrap_or_else(|| profile.model_revision.clone()),
        engine_name,
        engine_version,
        seed: args.seed,
        rates_rps,
        traffic,
        profile,
    })
}
