//! Queue limits at the gateway, as the engines have them (503): refuses once the requests without a first token, or their
//! prompt tokens, reach a limit for each available replica.

use super::{Admission, Decision, View};
use crate::request::RouteRequest;
use scaleproof_pack::fields::Fields;

/// Settings of [`QueueLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests without a first token, for each available replica; none: no limit.
    pub max_requests: Option<u32>,
    /// Their prompt tokens, for each available replica; none: no limit.
    pub max_tokens: Option<u64>,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Settings> {
        let requests = fields.opt("max_queued_reqs_per_replica");
        let tokens = fields.opt("max_queued_tokens_per_replica");
        if !requests.is_present() && !tokens.is_present() {
            requests.fault("no limit", "this one, or max_queued_tokens_per_replica", "give one of them");
            return None;
        }
        Some(Settings { max_requests: requests.u32(1..=u32::MAX), max_tokens: tokens.u64(1..=u64::MAX) })
    }
}

/// Queue limits.
#[derive(Clone, Debug)]
pub struct QueueLimit(pub Settings);

impl Admission for QueueLimit {
    fn arrive(&mut self, _: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let replicas = view.fleet.available().len() as u64;
        let full = |limit: Option<u64>, count: u64| {
            limit.is_some_and(|limit| count >= limit.saturating_mul(replicas))
        };
        let requests = full(self.0.max_requests.map(u64::from), view.inside.without_answer.into());
        if requests || full(self.0.max_tokens, view.inside.tokens_without_answer) {
            return Decision::Refuse("queue limit of the gateway");
        }
        Decision::Admit
    }
}
