//! What a sweep could tell, before it is made: how many repeats it takes, by rehearsing it on a simulated engine with the
//! noise that is expected of the live one.

use super::design::{self, Design};
use super::uncertainty::Uncertainty;
use super::{ValidateArgs, arm, mean_e2e_ms, offered, quirks, stopped};
use crate::args::Format;
use crate::exit::{CommandError, Exit, Outcome};
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::Progress;
use crate::study::{print_out, use_threads};
use crate::table::{percent, table};
use rayon::prelude::*;
use scaleproof_calibrate::simulated::Quirks;
use scaleproof_pack::verdict::{self, Pair, Reference, Tolerance};
use serde_json::json;

/// Rehearsed repeats that a plan rests on.
const PILOTS: u64 = 10;
/// Noise of an engine about which nothing is said.
const NOISE: f64 = 0.01;
/// Metrics that a plan lists.
const LISTED: usize = 12;

/// Plans, or finds the error rates.
pub fn run(args: &ValidateArgs, loaded: &Loaded, design: &Design, rule: &Tolerance) -> Outcome {
    use_threads(&args.common)?;
    let mut quirks = quirks::parse(&args.engine, design.live_runs(design.fleets.len()))?;
    if args.engine.is_empty() {
        (quirks.run_sd, quirks.request_sd) = (NOISE, NOISE);
    }
    let rehearsal = Rehearsal { loaded, design, rule, quirks, draws: args.draws };
    let (json, text) = match args.error_rates {
        Some(trials) => rehearsal.error_rates(trials)?,
        None => rehearsal.plan()?,
    };
    match args.common.format {
        Format::Json => {
            print_out(&(serde_json::to_string_pretty(&json).map_err(CommandError::could_not_run)? + "\n"))?;
        }
        Format::Text => print_out(&(text + &loaded.footing()))?,
    }
    Ok(Exit::Passed)
}

/// What is rehearsed.
pub struct Rehearsal<'a> {
    pub loaded: &'a Loaded,
    pub design: &'a Design,
    pub rule: &'a Tolerance,
    /// The engine's.
    pub quirks: Quirks,
    /// Engines drawn from the profile's uncertainty for each verdict.
    pub draws: u64,
}

/// A run in memory: its report, and what a verdict looks at.
pub fn rehearse(loaded: &Loaded, point: &Point, quirks: Quirks) -> Result<(verdict::Run, f64), CommandError> {
    let schedule = point.schedule(loaded)?;
    let enough = loaded.scenario.run_config(&loaded.manifest, &loaded.profile, point.replicas).enough;
    let world = arm::world(loaded, point.replicas, point.shared_prefixes, false);
    let mut engine = quirks::fleet(loaded, point.replicas, quirks);
    let made = arm::measure(&mut engine, loaded, (&schedule, enough), &world)?;
    let (report, yielded) = made.ok_or_else(stopped)?;
    let seconds = report.duration_s + schedule.window_from.seconds();
    let run = verdict::Run::new(report, &arm::classes(loaded), &yielded.records, &yielded.samples);
    Ok((run.map_err(CommandError::could_not_run)?, seconds))
}

/// One run of the reference point, predicted by one scenario and served by another's engine, and the seconds that it takes;
/// None if there is no such point.
pub fn rehearse_reference(
    (loaded, truth): (&Loaded, &Loaded),
    (replicas, number): (u32, u64),
    quirks: Quirks,
) -> Result<Option<(Reference, f64)>, CommandError> {
    let Some(schedule) = design::reference(loaded, replicas, number)? else { return Ok(None) };
    let world = arm::world(loaded, replicas, false, false);
    let run = |loaded: &Loaded, quirks| {
        let mut engine = quirks::fleet(loaded, replicas, quirks);
        let made = arm::measure(&mut engine, loaded, (&schedule, design::REFERENCE_ENOUGH), &world)?;
        made.ok_or_else(stopped)
    };
    let ((_, predicted), (report, measured)) = (run(loaded, Quirks::default())?, run(truth, quirks)?);
    let found = Reference {
        predicted_ms: mean_e2e_ms(&predicted.records),
        measured_ms: mean_e2e_ms(&measured.records),
    };
    Ok(Some((found, report.duration_s)))
}

impl Rehearsal<'_> {
    /// The draws of a verdict over the points of some repeats, `number` counting the verdicts.
    pub fn uncertainty(&self, number: u64) -> Result<Uncertainty, CommandError> {
        let own = |point: &Point| {
            let (run, _) = rehearse(self.loaded, point, Quirks::default())?;
            Ok((point.schedule(self.loaded)?, run))
        };
        Uncertainty::over(
            self.loaded,
            self.design,
            (number * self.draws, self.draws),
            &own,
            &Progress::silent(),
        )
    }

    fn plan(&self) -> Result<(serde_json::Value, String), CommandError> {
        let Rehearsal { loaded, design, quirks, .. } = *self;
        let uncertainty = self.uncertainty(0)?;
        let points: Vec<Point> =
            design.fleets.iter().flat_map(|&replicas| design.points(replicas, 0)).collect();
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
            let (replicas, offered_rps) = (point.replicas, offered(point));
            let draws = uncertainty.at(replicas, offered_rps);
            let point = verdict::Point { replicas, offered_rps, pairs, draws };
            Ok((point, seconds.iter().sum::<f64>() / PILOTS as f64))
        };
        let pilots: Result<Vec<(verdict::Point, f64)>, CommandError> = points.iter().map(pilot).collect();
        let (pilots, seconds): (Vec<verdict::Point>, Vec<f64>) = pilots?.into_iter().unzip();
        drop(progress);
        self.planned(&pilots, seconds.iter().sum())
    }

    /// The plan that pilots ask for; a repeat of all points takes `each_s`.
    fn planned(
        &self,
        pilots: &[verdict::Point],
        each_s: f64,
    ) -> Result<(serde_json::Value, String), CommandError> {
        let Rehearsal { loaded, design, rule, quirks, .. } = *self;
        let found = verdict::plan(pilots, rule).map_err(CommandError::could_not_run)?;
        let mut reference_s = 0.0;
        for &replicas in &design.fleets {
            let made = rehearse_reference((loaded, loaded), (replicas, 0), quirks)?;
            reference_s += made.map_or(0.0, |(_, seconds)| seconds);
        }
        let hours = |repeats: u64| (each_s * repeats as f64 + reference_s * (repeats + 1) as f64) / 3600.0;
        let json = json!({
            "recommended_repeats": found.repeats,
            "hours_recommended": found.repeats.map(|repeats| hours(repeats as u64)),
            "repeats": design.repeats,
            "hours": hours(design.repeats),
            "noise": quirks.run_sd,
            "metrics": found.rows,
        });
        let text = format!(
            "a repeat of all points takes {each_s:.0} s, and {reference_s:.0} s of reference point; {} repeats take {:.2} h\n",
            design.repeats,
            hours(design.repeats)
        );
        let recommended = found.repeats.map(|repeats| hours(repeats as u64));
        Ok((json, text + &plan_text(&found, recommended, quirks.run_sd)))
    }
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
