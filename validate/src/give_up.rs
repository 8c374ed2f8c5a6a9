//! Clients that give up together: which requests are of them is drawn when each is sent, so that the client of one knows its
//! moment beforehand.

use crate::config::GiveUp;
use scaleproof_pack::chance::{self, Stream};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;

/// Who gives up, and when.
pub(crate) struct GivingUp {
    rules: GiveUp,
    chance: Stream,
}

impl GivingUp {
    pub(crate) fn new(rules: GiveUp, schedule: &Schedule) -> GivingUp {
        GivingUp { rules, chance: chance::stream(schedule.seed, schedule.run, "faults") }
    }

    /// When the client of a request that is sent now to `target` gives up, if it is one of them.
    pub(crate) fn draw(&mut self, target: u32, now: Nanos) -> Option<Nanos> {
        let meant = now < self.rules.at && self.rules.targets.contains(&target);
        (meant && chance::uniform(&mut self.chance) < self.rules.share).then_some(self.rules.at)
    }
}
