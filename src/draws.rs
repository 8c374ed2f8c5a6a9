//! Draws: engines whose parameters come from the profile's uncertainty, each with a seed of its own. What a command
//! says of the profile's own engine, it can say of these.

mod capacity;
mod peak;

pub use capacity::{DrawnCapacity, Near, drawn_capacity};
pub use peak::{ConfidentFleet, check_enough, confident_fleet};

use crate::exit::CommandError;
use crate::input::Loaded;
use rayon::prelude::*;
use scaleproof_pack::chance::{self, Stream};
use scaleproof_sim::profile::uncertainty::Correction;
use scaleproof_sim::step_time::StepTimeError;
use std::collections::BTreeMap;

/// The stream that parameter sets are drawn from.
const STREAM: &str = "profile parameters";
/// A draw that was found impossible this often shows an uncertainty that physics has no room for.
const REJECTIONS_MAX: u32 = 1000;

/// One draw: a parameter set and a seed.
pub struct Draw {
    /// The repeat whose random numbers its traffic has.
    pub run: u64,
    /// Parameter sets that crossed the GPU's bound before this one.
    pub rejected: u32,
    /// The factors on the profile's costs.
    pub correction: Correction,
    /// The scenario with the drawn profile.
    pub loaded: Loaded,
    chance: Stream,
}

impl Draw {
    /// The draw of number `run`. It is the same whatever the other draws.
    fn of(base: &Loaded, run: u64) -> Result<Draw, CommandError> {
        let chance = chance::stream(base.manifest.client.request_schedule_seed, run, STREAM);
        let (loaded, correction) = (base.clone(), Correction::default());
        let mut draw = Draw { run, rejected: 0, correction, loaded, chance };
        draw.again(base)?;
        Ok(draw)
    }

    /// Another parameter set, in the place of one that is not possible.
    fn again(&mut self, base: &Loaded) -> Result<(), CommandError> {
        loop {
            match base.profile.drawn(&mut self.chance) {
                Ok((profile, correction)) => {
                    (self.loaded.profile, self.correction) = (profile, correction);
                    return Ok(());
                }
                Err(error) => self.reject(base, &error)?,
            }
        }
    }

    fn reject(&mut self, base: &Loaded, error: &StepTimeError) -> Result<(), CommandError> {
        self.rejected += 1;
        if self.rejected < REJECTIONS_MAX {
            return Ok(());
        }
        Err(CommandError::bad_input(format!(
            "profile {}: uncertainty: found {REJECTIONS_MAX} parameter sets in a row that are not possible (the last \
             is {error}); expected most of them to be; check the deviations, or leave out the draws",
            base.profile.name
        )))
    }

    /// Does what a draw is for; with another parameter set if the work finds this one faster than its GPU, which only a
    /// run can find outside the validity region.
    pub fn with<T>(
        &mut self,
        base: &Loaded,
        work: impl Fn(&Loaded) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        loop {
            match work(&self.loaded) {
                Err(error) if error.below_bound && self.rejected < REJECTIONS_MAX => {
                    self.rejected += 1;
                    self.again(base)?;
                }
                done => return done,
            }
        }
    }

    /// The factors by name.
    pub fn factors(&self) -> BTreeMap<&'static str, f64> {
        self.correction.factors.iter().map(|&(knob, factor)| (knob.word(), factor)).collect()
    }
}

/// So many draws from the uncertainty of `base`'s profile, with the seeds of the repeats 0 and up.
///
/// # Errors
/// An uncertainty that leaves no possible parameter set.
pub fn draw(base: &Loaded, count: u64) -> Result<Vec<Draw>, CommandError> {
    draw_from(base, 0, count)
}

/// The same with the seeds of the repeats `first` and up.
///
/// # Errors
/// As [`draw`].
pub fn draw_from(base: &Loaded, first: u64, count: u64) -> Result<Vec<Draw>, CommandError> {
    let draws: Vec<Result<Draw, CommandError>> =
        (first..first.saturating_add(count)).into_par_iter().map(|run| Draw::of(base, run)).collect();
    // The first error by number, not by time.
    draws.into_iter().collect()
}

/// What a reader should know about draws of this profile.
pub fn remarks(base: &Loaded, draws: &[Draw]) -> Vec<String> {
    let mut remarks = Vec::new();
    if base.profile.uncertainty.is_none() {
        remarks.push(format!(
            "profile {} states no uncertainty of its parameters: the draws differ by their seeds alone",
            base.profile.name
        ));
    }
    let rejected: u32 = draws.iter().map(|draw| draw.rejected).sum();
    if rejected > 0 {
        remarks.push(format!(
            "{rejected} parameter sets would have been faster than the GPU can be and were drawn again, for {} draws",
            draws.len()
        ));
    }
    remarks
}
