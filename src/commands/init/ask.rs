//! A few questions, for someone at a terminal who gave no flags.

use super::args::{InitArgs, class};
use super::traffic::usual_rates_rps;
use crate::args::rate;
use crate::exit::CommandError;
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Mixes that miss 1 by less than this sum to 1: half of what the manifest forgives.
const MIX_NEAR: f64 = 1e-6;

/// Asks on one side and reads answers from the other.
pub struct Questions<R, W> {
    answers: R,
    prompts: W,
}

impl<R: BufRead, W: Write> Questions<R, W> {
    pub fn new(answers: R, prompts: W) -> Questions<R, W> {
        Questions { answers, prompts }
    }

    /// The answer to a question, or `usual` for an empty line. Asks again after what `read` refuses.
    fn ask<T>(
        &mut self,
        question: &str,
        usual: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, CommandError> {
        loop {
            self.say(&format!("{question} [{usual}]: "));
            let mut line = String::new();
            let length = self.answers.read_line(&mut line).map_err(CommandError::could_not_run)?;
            if length == 0 {
                return Err(CommandError::bad_input(format!(
                    "standard input: found its end; expected an answer to: {question}; give flags instead (--help)"
                )));
            }
            let answer = if line.trim().is_empty() { usual } else { line.trim() };
            match read(answer) {
                Ok(value) => return Ok(value),
                Err(fault) => self.say(&format!("  {fault}\n")),
            }
        }
    }

    fn say(&mut self, text: &str) {
        // A terminal that cannot be written to cannot be asked; the answers still count.
        let _ = self.prompts.write_all(text.as_bytes()).and_then(|()| self.prompts.flush());
    }
}

/// The arguments with what was answered.
pub fn complete<R: BufRead, W: Write>(
    args: &InitArgs,
    questions: &mut Questions<R, W>,
) -> Result<InitArgs, CommandError> {
    let mut args = args.clone();
    questions.say(
        "A scenario needs an engine, a fleet and its traffic. An empty answer takes the value in brackets.\n",
    );
    let profile = questions.ask("engine profile", "models/fixture/dense-70b-fixture-r1.yaml", |text| {
        let path = PathBuf::from(text);
        if path.is_file() { Ok(path) } else { Err(format!("found no file {text}; expected a profile")) }
    })?;
    args.profile = Some(profile);
    if args.replicas.is_none() {
        let replicas = |text: &str| match text.parse() {
            Ok(count @ 1..=100_000) => Ok(count),
            _ => Err(format!("found {text:?}; expected a whole number from 1 to 100000")),
        };
        args.replicas = Some(questions.ask("replicas", "4", replicas)?);
    }
    questions.say("Classes of requests: name:mix:input:output:ttft_ms:tpot_ms. Mixes sum to 1.\n");
    loop {
        let left = 1.0 - args.classes.iter().map(|class| class.mix).sum::<f64>();
        if left < MIX_NEAR {
            break;
        }
        let usual = format!("class{}:{:.4}:1024:128:500:40", args.classes.len() + 1, left);
        args.classes.push(questions.ask("class", &usual, |text| {
            let spec = class(text)?;
            if spec.mix > 0.0 && spec.mix <= left + MIX_NEAR {
                Ok(spec)
            } else {
                Err(format!("mix: found {}; expected above 0, at most the {left:.4} that are left", spec.mix))
            }
        })?);
    }
    if args.rates.is_empty() {
        let usual: Vec<String> =
            usual_rates_rps(args.replicas.unwrap_or(1)).iter().map(f64::to_string).collect();
        let usual = usual.join(",");
        args.rates = questions.ask("offered rates, requests per second", &usual, |text| {
            text.split(',').map(|part| rate(part.trim())).collect()
        })?;
    }
    Ok(args)
}
