//! The fleet grows and shrinks with its load.

use super::Simulation;
use super::faults::{Leaving, Process};
use crate::event::{Event, FleetEvent};
use crate::faults::{Autoscaler, ScaleTarget};
use scaleproof_pack::time::Nanos;

impl Simulation<'_> {
    /// The autoscaler looks: load over target is the replicas that there should be. Those on their way count as there, so
    /// that none is ordered twice.
    pub(super) fn scale(&mut self, now: Nanos) {
        let Some(scaler) = self.turmoil().plan.autoscaler else { return };
        let there = self.staying();
        let wanted = self.wanted(&scaler);
        if wanted > there.len() as u32 {
            let missing = wanted - there.len() as u32;
            self.add_replicas(missing, now);
        } else if wanted < there.len() as u32 && self.cooled_down(&scaler, now) {
            // One at a time, the last first: the load is seen anew before the next.
            let up = there.iter().rev().find(|&&replica| self.answers(replica));
            if let Some(&replica) = up {
                self.turmoil().scaled = Some(now);
                self.drain(replica, Leaving::Retire, scaler.drain, now);
            }
        }
        if self.goes_on() {
            self.events.push(now + scaler.interval, Event::Fleet(FleetEvent::Scale));
        }
    }

    /// The replicas that are there or on their way, and are not to go.
    fn staying(&mut self) -> Vec<u32> {
        let units = self.turmoil().units.iter().enumerate();
        let stays = |(_, unit): &(usize, &super::faults::Unit)| {
            unit.process != Process::Absent && unit.leaving.is_none()
        };
        units.filter(stays).map(|(replica, _)| replica as u32).collect()
    }

    fn wanted(&self, scaler: &Autoscaler) -> u32 {
        let answering = (0..self.replicas.len() as u32).filter(|&replica| self.answers(replica));
        let loads = answering.map(|replica| self.replicas[replica as usize].engine().load());
        let total = match scaler.target {
            ScaleTarget::Queue => loads.map(|load| f64::from(load.waiting)).sum::<f64>(),
            ScaleTarget::Kv => loads
                .map(|load| f64::from(load.kv_blocks_used) / f64::from(load.kv_blocks_total.max(1)))
                .sum(),
            ScaleTarget::Concurrency => self.servers.iter().map(|server| server.unfinished as f64).sum(),
        };
        // A float beyond all counts is cut.
        let wanted = (total / scaler.value).ceil() as u32;
        wanted.clamp(scaler.min, scaler.max)
    }

    fn cooled_down(&mut self, scaler: &Autoscaler, now: Nanos) -> bool {
        self.turmoil().scaled.is_none_or(|at| now >= at + scaler.cool_down)
    }

    fn add_replicas(&mut self, missing: u32, now: Nanos) {
        let absent = |replica: &u32| {
            self.turmoil
                .as_ref()
                .is_some_and(|turmoil| turmoil.units[*replica as usize].process == Process::Absent)
        };
        let free: Vec<u32> = (0..self.replicas.len() as u32).filter(absent).take(missing as usize).collect();
        if !free.is_empty() {
            self.turmoil().scaled = Some(now);
        }
        for replica in free {
            self.order(replica, now);
        }
    }
}
