//! Priority shedding by saturation, as llm-d's gateway does it without flow control: saturation is the mean over the
//! replicas of max(waiting / 5, KV usage / 0.8), as of the last poll; a class is refused from its own level on (429). llm-d
//! sheds negative priorities at 1; here each class that may be shed is named with its level.

use super::{Admission, Decision, View, by_class};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above};
use scaleproof_pack::manifest::Class;

/// Settings of [`Shed`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// By class: the saturation from which on it is refused; none: never.
    pub levels: Vec<Option<f64>>,
    /// Waiting requests of a saturated replica. llm-d: 5.
    pub queue_depth: f64,
    /// KV usage of a saturated replica. llm-d: 0.8.
    pub kv_usage: f64,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Option<Settings> {
        let levels = by_class(&fields.req("shed_at"), classes, |item| item.f64(above(0.0, 1e6)));
        let queue_depth = fields.opt("queue_depth").f64(above(0.0, 1e6)).unwrap_or(5.0);
        let kv_usage = fields.opt("kv_usage").f64(above(0.0, 1.0)).unwrap_or(0.8);
        Some(Settings { levels: levels?, queue_depth, kv_usage })
    }
}

/// Sheds classes by saturation.
#[derive(Clone, Debug)]
pub struct Shed(pub Settings);

impl Admission for Shed {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let Some(&Some(level)) = self.0.levels.get(usize::from(request.class)) else {
            return Decision::Admit;
        };
        let of = |&replica: &u32| {
            let poll = view.fleet.last_poll(replica);
            (f64::from(poll.waiting) / self.0.queue_depth).max(poll.kv_usage / self.0.kv_usage)
        };
        let available = view.fleet.available();
        let saturation = available.iter().map(of).sum::<f64>() / available.len().max(1) as f64;
        if saturation >= level {
            Decision::Refuse("shed: the replicas are saturated")
        } else {
            Decision::Admit
        }
    }
}
