//! A concurrency limit by additive increase and multiplicative decrease: `L += increase/L` with each success inside its
//! class's cutoffs while the limit is in use, `L *= decrease` with a miss, but once only for all that arrived before the
//! last decrease, as TCP does once a round trip.

use super::{Admission, Bounds, Decision, Ended, View, cutoffs};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::manifest::Class;
use scaleproof_pack::time::Nanos;

/// Settings of [`Aimd`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Bounds of the limit.
    pub bounds: Bounds,
    /// Added to the limit for each limit's worth of successes. 1.
    pub increase: f64,
    /// Factor after a miss. 0.9.
    pub decrease: f64,
    /// TTFT and TPOT cutoffs of the classes, in milliseconds.
    pub cutoffs_ms: Vec<(f64, f64)>,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Option<Settings> {
        let bounds = Bounds::read(fields);
        let increase = fields.opt("increase").f64(above(0.0, 1e3)).unwrap_or(1.0);
        let decrease = fields.opt("decrease").f64(above(0.0, 1.0)).unwrap_or(0.9);
        Some(Settings { bounds: bounds?, increase, decrease, cutoffs_ms: cutoffs(classes) })
    }
}

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
pub struct Aimd {
    settings: Settings,
    limit: f64,
    decreased_at: Nanos,
}

impl Aimd {
    /// At its initial limit.
    #[must_use]
    pub fn new(settings: Settings) -> Aimd {
        Aimd { limit: settings.bounds.initial, settings, decreased_at: Nanos::ZERO }
    }

    /// The limit now.
    #[must_use]
    pub fn limit(&self) -> f64 {
        self.limit
    }

    fn open(&self, view: &View<'_>) -> bool {
        f64::from(view.inside.requests) < self.limit.floor()
    }
}

impl Admission for Aimd {
    fn arrive(&mut self, _: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        if self.open(view) { Decision::Admit } else { self.settings.bounds.room.wait(view) }
    }

    fn release(&mut self, view: &View<'_>) -> Option<u16> {
        if self.open(view) { view.waiting.oldest(|_| true) } else { None }
    }

    fn ended(&mut self, ended: &Ended, view: &View<'_>) {
        let in_use = f64::from(view.inside.requests + 1) >= 0.5 * self.limit;
        let limit = if ended.in_time(&self.settings.cutoffs_ms) {
            self.limit + if in_use { self.settings.increase / self.limit } else { 0.0 }
        } else if ended.arrived >= self.decreased_at {
            self.decreased_at = view.now;
            self.limit * self.settings.decrease
        } else {
            return;
        };
        self.limit = self.settings.bounds.clamped(limit);
    }
}
