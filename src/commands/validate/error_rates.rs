//! How often a verdict would be wrong: judged on simulated engines of which it is known what they are.

use super::trials::{Rehearsal, rehearse, rehearse_reference};
use super::{offered, quirks, stopped};
use crate::draws::draw_from;
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::table::{number, percent, table};
use rayon::prelude::*;
use scaleproof_calibrate::simulated::Quirks;
use scaleproof_pack::experiment::{EngineFacts, Experiment};
use scaleproof_pack::interval::wilson_95;
use scaleproof_pack::verdict::{self, Evidence, Pair};
use serde_json::json;

/// A wrong model's engine: its steps take so many times what the profile says.
const WRONG: f64 = 1.1;
/// Engines of a trial, as the result has them: the profile's own,
const TRUE: &str = "true";
/// one that takes [`WRONG`] times as long,
const SLOWER: &str = "wrong";
/// and one of those that the profile takes to be possible.
const DRAWN: &str = "drawn";
/// The draws that are engines have numbers from here on.
const ENGINES_FROM: u64 = 1 << 40;
/// How many metrics were judged, and the verdict on each engine.
type Judged = (usize, Vec<(&'static str, verdict::Outcome)>);

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    confirmed: u64,
    refuted: u64,
    inconclusive: u64,
}

impl Given {
    fn count(&mut self, outcome: verdict::Outcome) {
        *match outcome {
            verdict::Outcome::Confirmed => &mut self.confirmed,
            verdict::Outcome::Refuted => &mut self.refuted,
            verdict::Outcome::Inconclusive => &mut self.inconclusive,
        } += 1;
    }

    /// Shares with their intervals, after the engine's name.
    fn row(self, engine: &str) -> Vec<String> {
        let counts = [self.confirmed, self.refuted, self.inconclusive];
        let of: u64 = counts.iter().sum();
        let share = |count: u64| {
            let interval = wilson_95(count, of).map(|(low, high)| {
                format!(" ({} to {})", number(Some(100.0 * low), 1), number(Some(100.0 * high), 1))
            });
            percent(Some(count as f64 / of as f64)) + &interval.unwrap_or_default()
        };
        [vec![engine.to_owned()], counts.map(share).to_vec()].concat()
    }
}

impl Rehearsal<'_> {
    /// The rates over so many trials, as JSON and as text.
    pub fn error_rates(&self, trials: u64) -> Result<(serde_json::Value, String), CommandError> {
        let progress = Progress::counting("judge", trials, "trials");
        let one = |trial: u64| {
            if interrupted() {
                return Err(stopped());
            }
            let outcomes = self.trial(trial)?;
            progress.advance(1);
            Ok(outcomes)
        };
        let all: Result<Vec<Judged>, CommandError> = (0..trials).into_par_iter().map(one).collect();
        drop(progress);
        let (mut given, mut metrics): (Vec<(&'static str, Given)>, usize) = (Vec::new(), 0);
        for (judged, outcomes) in all? {
            metrics = metrics.max(judged);
            for (engine, outcome) in outcomes {
                match given.iter_mut().find(|(known, _)| *known == engine) {
                    Some((_, given)) => given.count(outcome),
                    None => {
                        let mut first = Given::default();
                        first.count(outcome);
                        given.push((engine, first));
                    }
                }
            }
        }
        let mut json = json!({
            "trials": trials, "repeats": self.design.repeats, "metrics": metrics, "noise": self.quirks.run_sd,
        });
        for (engine, Given { confirmed, refuted, inconclusive }) in &given {
            json[*engine] = json!({"confirmed": confirmed, "refuted": refuted, "inconclusive": inconclusive});
        }
        let rows: Vec<Vec<String>> =
            given.iter().map(|(engine, given)| given.row(in_words(engine))).collect();
        let text = format!(
            "{trials} trials of {} repeats, up to {metrics} metrics judged together, {} of noise between runs and between \
             requests\n{}",
            self.design.repeats,
            percent(Some(self.quirks.run_sd)),
            table(&["engine", "confirmed", "refuted", "inconclusive"], &rows)
        );
        Ok((json, text))
    }

    /// One trial: the same predictions judged on each engine. How many metrics were judged, and the verdicts.
    fn trial(&self, trial: u64) -> Result<Judged, CommandError> {
        let Rehearsal { loaded, design, quirks, .. } = *self;
        let slower = Quirks { speed: quirks.speed * WRONG, ..quirks };
        let mut engines = vec![(TRUE, loaded.clone(), quirks), (SLOWER, loaded.clone(), slower)];
        if loaded.profile.uncertainty.is_some() {
            // Far from the draws that the predictions are given.
            let draw = draw_from(loaded, ENGINES_FROM + trial, 1)?.pop();
            engines.extend(draw.map(|draw| (DRAWN, draw.loaded, quirks)));
        }
        let uncertainty = self.uncertainty(trial)?;
        let replicas = design.fleets[0];
        let mut points: Vec<Vec<verdict::Point>> = vec![Vec::new(); engines.len()];
        for point in design.points(replicas, 0) {
            let mut pairs: Vec<Vec<Pair>> = vec![Vec::new(); engines.len()];
            for repeat in 0..design.repeats {
                let point = Point { run: trial * design.repeats + repeat, ..point };
                let (predicted, _) = rehearse(loaded, &point, Quirks::default())?;
                for ((_, truth, quirks), pairs) in engines.iter().zip(&mut pairs) {
                    let (measured, _) = rehearse(truth, &point, *quirks)?;
                    pairs.push(Pair { predicted: predicted.clone(), measured });
                }
            }
            let offered_rps = offered(&point);
            for (points, pairs) in points.iter_mut().zip(pairs) {
                let draws = uncertainty.at(replicas, offered_rps);
                points.push(verdict::Point { replicas, offered_rps, pairs, draws });
            }
        }
        let mut judged = 0;
        let mut outcomes = Vec::new();
        for ((name, truth, quirks), points) in engines.iter().zip(&points) {
            let verdict = self.judge(truth, *quirks, (trial, points))?;
            judged = judged.max(verdict.compared.len());
            outcomes.push((*name, verdict.outcome));
        }
        Ok((judged, outcomes))
    }

    /// The verdict on one engine.
    fn judge(
        &self,
        truth: &Loaded,
        quirks: Quirks,
        (trial, points): (u64, &[verdict::Point]),
    ) -> Result<verdict::Verdict, CommandError> {
        let (replicas, repeats) = (self.design.fleets[0], self.design.repeats);
        let mut references = Vec::new();
        for number in 0..=repeats {
            let number = trial * (repeats + 1) + number;
            let made = rehearse_reference((self.loaded, truth), (replicas, number), quirks)?;
            references.extend(made.map(|(found, _)| found));
        }
        let facts: EngineFacts =
            quirks::fleet(truth, replicas, quirks).engine().map_err(CommandError::could_not_run)?;
        let evidence = Evidence {
            points,
            unmeasured: &[],
            references: &references,
            invalid: &[],
            facts: &facts,
            expected: &facts,
            live: false,
        };
        verdict::judge(&evidence, self.rule).map_err(CommandError::could_not_run)
    }
}

/// What the engine of a row is, in words.
fn in_words(engine: &str) -> &'static str {
    match engine {
        TRUE => "true",
        DRAWN => "drawn from the profile's uncertainty",
        _ => "slower by 10 %",
    }
}
