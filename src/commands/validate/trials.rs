//! What a sweep could tell, before it is made: how many repeats it takes, and how often its verdict would be wrong. Both by
//! rehearsing it on simulated engines with the noise that is expected of the live one.

use super::design::{self, Design};
use super::simulated::{Quirks, Simulated};
use super::{ValidateArgs, arm, mean_e2e_ms, offered};
use crate::args::Format;
use crate::exit::{CommandError, Exit, Outcome};
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::study::{print_out, use_threads};
use crate::table::{number, percent, table};
use rayon::prelude::*;
use scaleproof_pack::experiment::{EngineFacts, Experiment};
use scaleproof_pack::interval::wilson_95;
use scaleproof_pack::verdict::{self, Evidence, Pair, Reference, Tolerance};
use serde_json::json;

/// Rehearsed repeats that a plan rests on.
const PILOTS: u64 = 10;
/// Noise of an engine about which nothing is said.
const NOISE: f64 = 0.01;
/// A wrong model's engine: its steps take so many times what the profile says.
const WRONG: f64 = 1.1;
/// Metrics that a plan lists.
const LISTED: usize = 12;

/// Plans, or finds the error rates.
pub fn run(args: &ValidateArgs, loaded: &Loaded, design: &Design, rule: &Tolerance) -> Outcome {
    use_threads(&args.common)?;
    let mut quirks = Quirks::parse(&args.engine, design.live_runs(design.fleets.len()))?;
    if args.engine.is_empty() {
        quirks.noise = NOISE;
    }
    let (json, text) = match args.error_rates {
        Some(trials) => error_rates(loaded, design, rule, (quirks, trials))?,
        None => plan(loaded, design, rule, quirks)?,
    };
    match args.common.format {
        Format::Json => {
            print_out(&(serde_json::to_string_pretty(&json).map_err(CommandError::could_not_run)? + "\n"))?;
        }
        Format::Text => print_out(&(text + &loaded.footing()))?,
    }
    Ok(Exit::Passed)
}

fn stopped() -> CommandError {
    CommandError::could_not_run("interrupted: found a request to stop; nothing was written")
}

/// A run in memory: its report, and what a verdict looks at.
fn rehearse(loaded: &Loaded, point: &Point, quirks: Quirks) -> Result<(verdict::Run, f64), CommandError> {
    let schedule = point.schedule(loaded)?;
    let enough = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas).enough;
    let world = arm::world(loaded, point.replicas, point.shared_prefixes, false);
    let mut engine = Simulated::new(loaded, point.replicas, quirks);
    let made = arm::measure(&mut engine, loaded, (&schedule, enough), &world)?;
    let (report, yielded) = made.ok_or_else(stopped)?;
    let seconds = report.duration_s + schedule.window_from.seconds();
    let run = verdict::Run::new(report, &arm::classes(loaded), &yielded.records, &yielded.samples);
    Ok((run.map_err(CommandError::could_not_run)?, seconds))
}

/// One run of the reference point and the seconds that it takes; None if there is no such point.
fn rehearse_reference(
    loaded: &Loaded,
    (replicas, number): (u32, u64),
    quirks: Quirks,
) -> Result<Option<(Reference, f64)>, CommandError> {
    let Some(schedule) = design::reference(loaded, replicas, number)? else { return Ok(None) };
    let world = arm::world(loaded, replicas, false, false);
    let run = |quirks| {
        let mut engine = Simulated::new(loaded, replicas, quirks);
        let made = arm::measure(&mut engine, loaded, (&schedule, design::REFERENCE_ENOUGH), &world)?;
        made.ok_or_else(stopped)
    };
    let ((_, predicted), (report, measured)) = (run(Quirks::default())?, run(quirks)?);
    let found = Reference {
        predicted_ms: mean_e2e_ms(&predicted.records),
        measured_ms: mean_e2e_ms(&measured.records),
    };
    Ok(Some((found, report.duration_s)))
}

fn plan(
    loaded: &Loaded,
    design: &Design,
    rule: &Tolerance,
    quirks: Quirks,
) -> Result<(serde_json::Value, String), CommandError> {
    let points: Vec<Point> = design.fleets.iter().flat_map(|&replicas| design.points(replicas, 0)).collect();
    let progress = Progress::counting("plan", points.len() as u64 * PILOTS, "pilots");
    let pilot = |point: &Point| {
        let pairs: Result<Vec<(Pair, f64)>, CommandError> = (0..PILOTS)
            .into_par_iter()
            .map(|run| {
                let point = Point { run, ..*point };
                let ((predicted, _), (measured, seconds)) =
                    (rehearse(loaded, &point, Quirks::default())?, rehearse(loaded, &point, quirks)?);
                progress.advance(1);
                Ok((Pair { predicted, measured }, seconds))
            })
            .collect();
        let (pairs, seconds): (Vec<Pair>, Vec<f64>) = pairs?.into_iter().unzip();
        let point = verdict::Point { replicas: point.replicas, offered_rps: offered(point), pairs };
        Ok((point, seconds.iter().sum::<f64>() / PILOTS as f64))
    };
    let pilots: Result<Vec<(verdict::Point, f64)>, CommandError> = points.iter().map(pilot).collect();
    let (pilots, seconds): (Vec<verdict::Point>, Vec<f64>) = pilots?.into_iter().unzip();
    drop(progress);
    let found = verdict::plan(&pilots, rule).map_err(CommandError::could_not_run)?;
    let mut reference_s = 0.0;
    for &replicas in &design.fleets {
        reference_s += rehearse_reference(loaded, (replicas, 0), quirks)?.map_or(0.0, |(_, seconds)| seconds);
    }
    let each_s = seconds.iter().sum::<f64>();
    let hours = |repeats: u64| (each_s * repeats as f64 + reference_s * (repeats + 1) as f64) / 3600.0;
    let json = json!({
        "recommended_repeats": found.repeats,
        "hours_recommended": found.repeats.map(|repeats| hours(repeats as u64)),
        "repeats": design.repeats,
        "hours": hours(design.repeats),
        "noise": quirks.noise,
        "metrics": found.rows,
    });
    let text = format!(
        "a repeat of all points takes {each_s:.0} s, and {reference_s:.0} s of reference point; {} repeats take {:.2} h\n",
        design.repeats,
        hours(design.repeats)
    );
    Ok((json, text + &plan_text(&found, found.repeats.map(|repeats| hours(repeats as u64)), quirks.noise)))
}

/// What is recommended, and the metrics that ask for most.
fn plan_text(found: &verdict::Plan, hours: Option<f64>, noise: f64) -> String {
    let text = match found.repeats.zip(hours) {
        Some((repeats, hours)) => format!(
            "recommended: {repeats} repeats, {hours:.2} h, for an engine with {} of noise between runs and between \
             requests\n",
            percent(Some(noise))
        ),
        None => "recommended: none of up to 50 repeats is enough: offer more requests a run, leave out the rates of the \
                 first rows, or widen their tolerances\n"
            .to_owned(),
    };
    let row = |row: &verdict::PlanRow| {
        vec![
            row.name.clone(),
            format!("{:.4}", row.repeat_sd),
            format!("{:.4}", row.tolerance),
            row.repeats.map_or("over 50".to_owned(), |repeats| repeats.to_string()),
            format!("{:.4}", row.refutable),
        ]
    };
    let rows: Vec<Vec<String>> = found.rows.iter().take(LISTED).map(row).collect();
    let headers = ["metric", "sd of a repeat", "tolerance", "repeats", "refuted from"];
    text + &format!("\nthe most demanding of {} metrics\n{}", found.rows.len(), table(&headers, &rows))
}

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

    fn total(self) -> u64 {
        self.confirmed + self.refuted + self.inconclusive
    }
}

fn error_rates(
    loaded: &Loaded,
    design: &Design,
    rule: &Tolerance,
    (quirks, trials): (Quirks, u64),
) -> Result<(serde_json::Value, String), CommandError> {
    let progress = Progress::counting("judge", trials, "trials");
    let one = |trial: u64| {
        if interrupted() {
            return Err(stopped());
        }
        let outcomes = trial_of(loaded, design, rule, (quirks, trial))?;
        progress.advance(1);
        Ok(outcomes)
    };
    let all: Result<Vec<(usize, [verdict::Outcome; 2])>, CommandError> =
        (0..trials).into_par_iter().map(one).collect();
    drop(progress);
    let (mut right, mut wrong, mut metrics) = (Given::default(), Given::default(), 0);
    for (judged, [of_right, of_wrong]) in all? {
        metrics = metrics.max(judged);
        right.count(of_right);
        wrong.count(of_wrong);
    }
    let models = [("true", right), ("10 % slower engine", wrong)];
    let as_json = |given: Given| json!({"confirmed": given.confirmed, "refuted": given.refuted, "inconclusive": given.inconclusive});
    let json = json!({
        "trials": trials, "repeats": design.repeats, "metrics": metrics, "noise": quirks.noise,
        "true": as_json(right), "wrong": as_json(wrong),
    });
    let share = |count: u64, of: u64| {
        let interval = wilson_95(count, of).map(|(low, high)| {
            format!(" ({} to {})", number(Some(100.0 * low), 1), number(Some(100.0 * high), 1))
        });
        percent(Some(count as f64 / of as f64)) + &interval.unwrap_or_default()
    };
    let row = |&(name, given): &(&str, Given)| {
        let of = given.total();
        let counts = [given.confirmed, given.refuted, given.inconclusive];
        [vec![name.to_owned()], counts.map(|count| share(count, of)).to_vec()].concat()
    };
    let rows: Vec<Vec<String>> = models.iter().map(row).collect();
    let text = format!(
        "{trials} trials of {} repeats, up to {metrics} metrics judged together, {} of noise between runs and between \
         requests\n{}",
        design.repeats,
        percent(Some(quirks.noise)),
        table(&["engine", "confirmed", "refuted", "inconclusive"], &rows)
    );
    Ok((json, text))
}

/// One trial: the same predictions judged on a true engine and on one whose steps take longer. How many metrics were judged,
/// and the two verdicts.
fn trial_of(
    loaded: &Loaded,
    design: &Design,
    rule: &Tolerance,
    (quirks, trial): (Quirks, u64),
) -> Result<(usize, [verdict::Outcome; 2]), CommandError> {
    let engines = [quirks, Quirks { speed: quirks.speed * WRONG, ..quirks }];
    let mut sides: [(Vec<verdict::Point>, Vec<Reference>); 2] = Default::default();
    let replicas = design.fleets[0];
    for point in design.points(replicas, 0) {
        let mut pairs: [Vec<Pair>; 2] = Default::default();
        for repeat in 0..design.repeats {
            let point = Point { run: trial * design.repeats + repeat, ..point };
            let (predicted, _) = rehearse(loaded, &point, Quirks::default())?;
            for (engine, pairs) in engines.iter().zip(&mut pairs) {
                let (measured, _) = rehearse(loaded, &point, *engine)?;
                pairs.push(Pair { predicted: predicted.clone(), measured });
            }
        }
        for (side, pairs) in sides.iter_mut().zip(pairs) {
            side.0.push(verdict::Point { replicas, offered_rps: offered(&point), pairs });
        }
    }
    for number in 0..=design.repeats {
        for (engine, side) in engines.iter().zip(&mut sides) {
            let number = trial * (design.repeats + 1) + number;
            side.1.extend(rehearse_reference(loaded, (replicas, number), *engine)?.map(|(found, _)| found));
        }
    }
    let facts: EngineFacts =
        Simulated::new(loaded, replicas, quirks).engine().map_err(CommandError::could_not_run)?;
    let mut judged = 0;
    let mut outcomes = [verdict::Outcome::Inconclusive; 2];
    for ((points, references), outcome) in sides.iter().zip(&mut outcomes) {
        let evidence = Evidence {
            points,
            predicted_only: &[],
            references,
            invalid: &[],
            facts: &facts,
            expected: &facts,
        };
        let verdict = verdict::judge(&evidence, rule).map_err(CommandError::could_not_run)?;
        judged = judged.max(verdict.compared.len());
        *outcome = verdict.outcome;
    }
    Ok((judged, outcomes))
}
