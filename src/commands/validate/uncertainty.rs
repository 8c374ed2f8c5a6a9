//! How far the profile's own uncertainty moves what it predicts: engines drawn from it, as `capacity` draws them, each on the
//! schedules of one repeat beside the profile's own.

use super::design::Design;
use super::{arm, offered};
use crate::draws::{Draw, draw_from, remarks};
use crate::exit::CommandError;
use crate::input::Loaded;
use crate::point::Point;
use crate::progress::Progress;
use crate::study::Study;
use rayon::prelude::*;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::verdict::{Drawn, Run};
use serde_json::{Value, json};

/// The draws of all points.
#[derive(Debug, Default)]
pub struct Uncertainty {
    /// Replicas, rate, and a draw at that point.
    drawn: Vec<(u32, f64, Drawn)>,
    /// Each draw's factors on the profile's costs.
    factors: Vec<Value>,
    /// What a reader should know.
    pub remarks: Vec<String>,
}

/// The profile's own engine at a point: the schedule that it was given, and what it did.
type Own = (Schedule, Run);

impl Uncertainty {
    /// Of a prediction that has been made.
    pub fn of(study: &Study, design: &Design, count: u64) -> Result<Uncertainty, CommandError> {
        let loaded = &study.loaded;
        let own = |point: &Point| {
            let place = study.position(point).expect("it was predicted");
            let result = &study.results[place];
            let schedule = point.schedule_of_report(loaded, &result.report)?;
            Ok((schedule, arm::read(&result.directory, loaded, &result.report)?))
        };
        let attempts = design.all_points().iter().map(|point| study.expected_attempts(point)).sum::<u64>();
        let progress = Progress::start("draws of the profile", attempts / design.repeats.max(1) * count);
        Uncertainty::over(loaded, design, (0, count), &own, &progress)
    }

    /// Of the draws `first` and on, `count` of them; none of a profile that states no uncertainty.
    pub fn over(
        base: &Loaded,
        design: &Design,
        (first, count): (u64, u64),
        own: &(dyn Fn(&Point) -> Result<Own, CommandError> + Sync),
        progress: &Progress,
    ) -> Result<Uncertainty, CommandError> {
        if count == 0 || base.profile.uncertainty.is_none() {
            let mut none = Uncertainty::default();
            if count > 0 {
                none.remarks.push(format!(
                    "profile {} states no uncertainty of its parameters: the predicted intervals cover seeds alone",
                    base.profile.name
                ));
            }
            return Ok(none);
        }
        let mut draws = draw_from(base, first, count)?;
        let points = |draw: &Draw| -> Vec<Point> {
            let run = draw.run % design.repeats.max(1);
            design.fleets.iter().flat_map(|&replicas| design.points(replicas, run)).collect()
        };
        let one = |draw: &mut Draw| -> Result<Vec<(u32, f64, Drawn)>, CommandError> {
            let points = points(draw);
            draw.with(base, |loaded| points.iter().map(|point| drawn(loaded, point, own, progress)).collect())
        };
        let all: Result<Vec<_>, CommandError> = draws.par_iter_mut().with_max_len(1).map(one).collect();
        Ok(Uncertainty {
            drawn: all?.into_iter().flatten().collect(),
            factors: draws.iter().map(|draw| json!(draw.factors())).collect(),
            remarks: remarks(base, &draws),
        })
    }

    /// The draws of one point.
    pub fn at(&self, replicas: u32, offered_rps: f64) -> Vec<Drawn> {
        let here = |(n, rps, _): &&(u32, f64, Drawn)| *n == replicas && rps.total_cmp(&offered_rps).is_eq();
        self.drawn.iter().filter(here).map(|(.., drawn)| drawn.clone()).collect()
    }

    /// The parameter sets, for the file of the prediction.
    pub fn to_json(&self) -> Value {
        json!(self.factors)
    }
}

/// One drawn engine at one point.
fn drawn(
    loaded: &Loaded,
    point: &Point,
    own: &(dyn Fn(&Point) -> Result<Own, CommandError> + Sync),
    progress: &Progress,
) -> Result<(u32, f64, Drawn), CommandError> {
    let (schedule, own) = own(point)?;
    let observed = point.observed(loaded, &schedule, progress)?.ok_or_else(super::stopped)?;
    let run = Run::new(observed.report, &arm::classes(loaded), &observed.records, &observed.samples);
    let drawn = run.and_then(|run| Drawn::of(&own, &run)).map_err(CommandError::could_not_run)?;
    Ok((point.replicas, offered(point), drawn))
}
