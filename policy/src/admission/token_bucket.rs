//! A token bucket for each class: a request takes one token, a bucket holds `burst` of them and gets `rate_rps` a second.
//! Refuses when the bucket is empty (429).

use super::{Admission, Decision, View, by_class};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above, from_to, mapping};
use scaleproof_pack::manifest::Class;
use scaleproof_pack::time::Nanos;

/// A bucket's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Requests a second.
    pub rate_rps: f64,
    /// Requests at once.
    pub burst: f64,
}

/// Settings of [`TokenBucket`]: a bucket by class; a class without one is not limited.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// By class.
    pub buckets: Vec<Option<Bucket>>,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Option<Settings> {
        let buckets = by_class(&fields.req("classes"), classes, |item| {
            mapping(item, |fields| {
                let rate_rps = fields.req("rate_rps").f64(above(0.0, 1e6))?;
                let burst = fields.opt("burst").f64(from_to(1.0, 1e9)).unwrap_or(rate_rps.max(1.0));
                Some(Bucket { rate_rps, burst })
            })
        })?;
        Some(Settings { buckets })
    }
}

/// A token bucket for each class.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    settings: Settings,
    /// Tokens of each class's bucket, and as of when.
    levels: Vec<(f64, Nanos)>,
}

impl TokenBucket {
    /// With full buckets.
    #[must_use]
    pub fn new(settings: Settings) -> TokenBucket {
        let full = |bucket: &Option<Bucket>| (bucket.map_or(0.0, |bucket| bucket.burst), Nanos::ZERO);
        TokenBucket { levels: settings.buckets.iter().map(full).collect(), settings }
    }
}

impl Admission for TokenBucket {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let class = usize::from(request.class);
        let (Some(Some(bucket)), Some((level, as_of))) =
            (self.settings.buckets.get(class), self.levels.get_mut(class))
        else {
            return Decision::Admit;
        };
        *level = (*level + bucket.rate_rps * view.now.since(*as_of).seconds()).min(bucket.burst);
        *as_of = view.now;
        if *level < 1.0 {
            return Decision::Refuse("rate limit of its class");
        }
        *level -= 1.0;
        Decision::Admit
    }
}
