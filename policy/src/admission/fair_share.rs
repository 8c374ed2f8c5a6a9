//! Seats reserved for classes, and weighted fairness for the others: a class enters while it has less inside than is
//! reserved for it, or while a seat is free that is reserved for nobody. Of the classes that wait and may enter, the one with
//! the fewest inside for its weight goes on.

use super::{Admission, Decision, Room, View, by_class};
use crate::request::RouteRequest;
use scaleproof_pack::fields::{Fields, above, mapping};
use scaleproof_pack::manifest::Class;

/// What a class is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Seats that only it may take.
    pub reserved: u32,
    /// Its weight among those that wait.
    pub weight: f64,
}

/// Settings of [`FairShare`].
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Requests inside.
    pub max_in_flight: u32,
    /// By class; one without a share has no reservation and weight 1.
    pub shares: Vec<Share>,
    /// The queue.
    pub room: Room,
}

impl Settings {
    pub(super) fn read(fields: &mut Fields<'_>, classes: &[Class]) -> Option<Settings> {
        let max_in_flight = fields.req("max_in_flight").u32(1..=u32::MAX);
        let item = fields.req("classes");
        let shares = by_class(&item, classes, |item| {
            mapping(item, |fields| {
                let reserved = fields.opt("reserved").u32(0..=u32::MAX).unwrap_or(0);
                let weight = fields.opt("weight").f64(above(0.0, 1e6)).unwrap_or(1.0);
                Some(Share { reserved, weight })
            })
        });
        let room = Room::read(fields, 100);
        let usual = Share { reserved: 0, weight: 1.0 };
        let shares: Vec<Share> = shares?.into_iter().map(|share| share.unwrap_or(usual)).collect();
        let reserved: u64 = shares.iter().map(|share| u64::from(share.reserved)).sum();
        let max_in_flight = max_in_flight?;
        let everybody = shares.iter().all(|share| share.reserved > 0);
        if reserved > u64::from(max_in_flight) || reserved == u64::from(max_in_flight) && !everybody {
            item.fault(
                format!("{reserved} seats reserved of {max_in_flight}"),
                "fewer, so that every class can enter",
                "raise max_in_flight, or reserve less",
            );
            return None;
        }
        Some(Settings { max_in_flight, shares, room })
    }
}

/// Reservations and weighted fairness.
#[derive(Clone, Debug)]
pub struct FairShare(pub Settings);

impl FairShare {
    fn may_enter(&self, class: u16, view: &View<'_>) -> bool {
        let inside = |class: usize| view.inside.by_class.get(class).copied().unwrap_or_default();
        let own = usize::from(class);
        if self.0.shares.get(own).is_some_and(|share| inside(own) < share.reserved) {
            return view.inside.requests < self.0.max_in_flight;
        }
        let unused =
            |(class, share): (usize, &Share)| u64::from(share.reserved.saturating_sub(inside(class)));
        let kept_free: u64 = self.0.shares.iter().enumerate().map(unused).sum();
        u64::from(view.inside.requests) + kept_free < u64::from(self.0.max_in_flight)
    }

    /// How well a class is served for its weight.
    fn served(&self, class: u16, view: &View<'_>) -> f64 {
        let at = usize::from(class);
        let weight = self.0.shares.get(at).map_or(1.0, |share| share.weight);
        f64::from(view.inside.by_class.get(at).copied().unwrap_or_default()) / weight
    }
}

impl Admission for FairShare {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        if self.may_enter(request.class, view) { Decision::Admit } else { self.0.room.wait(view) }
    }

    fn release(&mut self, view: &View<'_>) -> Option<u16> {
        let waits = |&(_, &(count, _)): &(u16, &(u32, _))| count > 0;
        let classes = (0u16..).zip(&view.waiting.by_class).filter(waits).map(|(class, _)| class);
        let may = classes.filter(|&class| self.may_enter(class, view));
        may.min_by(|&a, &b| self.served(a, view).total_cmp(&self.served(b, view)))
    }
}
