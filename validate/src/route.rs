//! Which target takes a request: the same routers as in a simulation, over what a client can know of its targets.

use scaleproof_pack::chance::{self, Stream};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_policy::{Fleet, Polled, RouteRequest, Router, RouterPolicy};

/// How requests are spread over several targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// Who chooses.
    pub policy: RouterPolicy,
    /// Loads are what the targets say this often; None: the client's own count in flight.
    pub poll_interval: Option<Nanos>,
}

/// A router with its fleet.
pub(crate) struct Routes {
    targets: u32,
    fleet: Fleet,
    router: Box<dyn Router>,
    chance: Stream,
}

impl Routes {
    pub(crate) fn new(routing: Routing, targets: u32, schedule: &Schedule) -> Routes {
        let source = routing.policy.load_source(routing.poll_interval.is_some());
        Routes {
            targets,
            fleet: Fleet::new(targets, source),
            router: scaleproof_policy::build(routing.policy),
            chance: chance::stream(schedule.seed, schedule.run, "router"),
        }
    }

    /// The target of a request that is sent now.
    pub(crate) fn choose(&mut self, request: &RouteRequest<'_>) -> Option<u32> {
        let target = self.router.choose(request, &self.fleet, &mut self.chance)?;
        self.fleet.sent(target);
        Some(target)
    }

    /// A request that was sent to `target` has ended.
    pub(crate) fn ended(&mut self, target: u32) {
        self.fleet.ended(target);
    }

    /// Whether a target may be chosen.
    pub(crate) fn is_available(&self, target: u32) -> bool {
        self.fleet.is_available(target)
    }

    /// Leaves a target out, or takes it in again.
    pub(crate) fn set_available(&mut self, target: u32, takes_work: bool) {
        self.fleet.set_available(target, takes_work);
    }

    /// A target said how loaded it is. Of replicas behind a target nobody here chooses.
    pub(crate) fn sampled(&mut self, row: &TimelineRow) {
        if row.replica >= self.targets {
            return;
        }
        let kv_usage = f64::from(row.kv_blocks_used) / f64::from(row.kv_blocks_total.max(1));
        self.fleet.polled(row.replica, Polled { waiting: row.waiting, running: row.running, kv_usage });
    }
}
