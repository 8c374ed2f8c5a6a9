//! The policies of a scenario, and files that hold nothing else: alternatives to put in their place.

use super::{Scenario, seconds};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, from_to, mapping};
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::time::Nanos;
use scaleproof_policy::{AdmissionPolicy, RouterPolicy};

/// The router and how fresh its loads are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// The policy.
    pub policy: RouterPolicy,
    /// Engines' loads are polled this often; None: as often as the policy usually does, which may be never.
    pub poll_interval: Option<Nanos>,
}

pub(super) fn read_routing(fields: &mut Fields<'_>) -> Option<Routing> {
    let policy = RouterPolicy::read(fields);
    let poll = fields.opt("poll_interval_seconds").f64(from_to(0.001, 3600.0));
    Some(Routing { policy: policy?, poll_interval: seconds(poll) })
}

/// A file of policies: the sections of scenario.yaml that say who is let in and where requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFile {
    router: Option<Routing>,
    admission: Option<AdmissionPolicy>,
    /// The engines' queue limits: requests, and prompt tokens.
    limits: Option<(Option<u64>, Option<u64>)>,
}

impl PolicyFile {
    /// Reads one, for the classes of a manifest.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn of(document: &Document, manifest: &Manifest) -> Result<PolicyFile, Faults> {
        document.read(|fields| {
            let (router, admission, engine) =
                (fields.opt("router"), fields.opt("admission"), fields.opt("engine"));
            if !router.is_present() && !admission.is_present() && !engine.is_present() {
                router.fault("no policy", "router, admission or engine, as in scenario.yaml", "");
            }
            let read_admission = |fields: &mut Fields<'_>| AdmissionPolicy::read(fields, &manifest.classes);
            let file = PolicyFile {
                router: if router.is_present() { Some(mapping(&router, read_routing)?) } else { None },
                admission: if admission.is_present() {
                    Some(mapping(&admission, read_admission)?)
                } else {
                    None
                },
                limits: if engine.is_present() {
                    Some(mapping(&engine, |fields| Some(read_limits(fields)))?)
                } else {
                    None
                },
            };
            Some(file)
        })
    }

    /// Puts what the file has in the place of the scenario's own.
    pub fn apply(&self, scenario: &mut Scenario) {
        if let Some(router) = self.router {
            scenario.router = router;
        }
        if let Some(admission) = &self.admission {
            scenario.admission.clone_from(admission);
        }
        if let Some(limits) = self.limits {
            (scenario.max_num_queued_reqs, scenario.max_num_queued_tokens) = limits;
        }
    }
}

/// The engines' queue limits: requests, and prompt tokens.
pub(super) fn read_limits(fields: &mut Fields<'_>) -> (Option<u64>, Option<u64>) {
    let requests = fields.opt("max_num_queued_reqs").u64(1..=u64::MAX);
    (requests, fields.opt("max_num_queued_tokens").u64(1..=u64::MAX))
}
