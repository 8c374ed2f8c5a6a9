//! A concurrency limit by the gradient of the latency: `L = L clip(tolerance RTT_min / RTT, 0.5, 1) + sqrt(L)`, smoothed, with
//! the TTFT as RTT, because it is what a queue lengthens, and each class's own least TTFT, because prompts differ.

use super::{Admission, Bounds, Decision, Ended, View};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above, from_to};

/// Settings of [`Gradient`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bounds of the limit.
    pub bounds: Bounds,
    /// A TTFT up to so many times the least is no sign of a queue. 2.
    pub tolerance: f64,
    /// Weight of the newest sample. 0.1.
    pub smoothing: f64,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Settings> {
        let bounds = Bounds::read(fields);
        let tolerance = fields.opt("tolerance").f64(from_to(1.0, 100.0)).unwrap_or(2.0);
        let smoothing = fields.opt("smoothing").f64(above(0.0, 1.0)).unwrap_or(0.1);
        Some(Settings { bounds: bounds?, tolerance, smoothing })
    }
}

/// A gradient concurrency limit.
#[derive(Clone, Debug)]
pub struct Gradient {
    settings: Settings,
    limit: f64,
    /// The least TTFT of each class, in milliseconds.
    least_ms: Vec<f64>,
}

impl Gradient {
    /// At its initial limit.
    #[must_use]
    pub fn new(settings: Settings) -> Gradient {
        Gradient { limit: settings.bounds.initial, settings, least_ms: Vec::new() }
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

impl Admission for Gradient {
    fn arrive(&mut self, _: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        if self.open(view) { Decision::Admit } else { self.settings.bounds.room.wait(view) }
    }

    fn release(&mut self, view: &View<'_>) -> Option<u16> {
        if self.open(view) { view.waiting.oldest(|_| true) } else { None }
    }

    fn ended(&mut self, ended: &Ended, view: &View<'_>) {
        let Some(ttft_ms) = ended.ttft_ms.filter(|ms| *ms > 0.0) else { return };
        let class = usize::from(ended.class);
        if self.least_ms.len() <= class {
            self.least_ms.resize(class + 1, f64::INFINITY);
        }
        self.least_ms[class] = self.least_ms[class].min(ttft_ms);
        let gradient = (self.settings.tolerance * self.least_ms[class] / ttft_ms).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + self.limit.sqrt();
        if wanted > self.limit && f64::from(view.inside.requests + 1) < 0.5 * self.limit {
            return;
        }
        let limit = self.limit + self.settings.smoothing * (wanted - self.limit);
        self.limit = self.settings.bounds.clamped(limit);
    }
}
