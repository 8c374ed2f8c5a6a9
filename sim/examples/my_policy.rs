//! An admission policy of one's own, in a single file: `cargo run -p scaleproof-sim --example my_policy`.
//!
//! It refuses what is long while the fleet is busy: a request whose prompt is more than the fleet's room, the room being
//! what is left of a budget of prompt tokens that wait for their first token. docs/policies.md walks through it.

#![allow(clippy::print_stdout, reason = "an example prints")]

use scaleproof_pack::experiment::Observer;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::record::Record;
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_policy::admission::{Decision, View};
use scaleproof_policy::{Admission, RouteRequest};
use scaleproof_sim::engine::BatchScheduler;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::{Policies, run_with};
use std::collections::BTreeMap;
use std::error::Error;

/// A budget of prompt tokens, for each available replica.
struct Room {
    tokens_per_replica: u64,
}

impl Admission for Room {
    fn arrive(&mut self, request: &RouteRequest<'_>, view: &View<'_>) -> Decision {
        let budget = self.tokens_per_replica * view.fleet.available().len() as u64;
        let room = budget.saturating_sub(view.inside.tokens_without_answer);
        if u64::from(request.input_tokens) > room {
            return Decision::Refuse("longer than the room left");
        }
        Decision::Admit
    }
}

/// How the attempts of each class ended.
#[derive(Default)]
struct Ends(BTreeMap<(u16, &'static str, &'static str), u64>);

impl Observer for Ends {
    fn record(&mut self, record: &Record) {
        if !record.warmup {
            *self.0.entry((record.class, record.outcome.word(), record.reason)).or_default() += 1;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let manifest = Manifest::parse(
        "workload-manifest.yaml",
        include_str!("../../scenarios/tp2-dp4/workload-manifest.yaml"),
    )?;
    let profile = Profile::parse(
        "dense-70b-fixture-r1.yaml",
        include_str!("../../models/fixture/dense-70b-fixture-r1.yaml"),
    )?;
    let scenario = Scenario::parse(
        "scenario.yaml",
        include_str!("../../scenarios/tp2-dp4/scenario.yaml"),
        &profile,
        &manifest,
    )?;
    let config = scenario.run_config(&manifest, &profile, manifest.engine.placement.replicas);
    let schedule = Schedule::generate(&manifest, Load::Open { rps: 31.2 }, 0, None, false)?;
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::grouping(&scenario.scheduler).expect("the scenario was checked"))
    };
    let policies =
        Policies { admission: Some(Box::new(Room { tokens_per_replica: 9000 })), ..Policies::of(&config) };
    let mut ends = Ends::default();
    run_with(&config, policies, &schedule, &engine, &mut ends)?;
    for ((class, outcome, reason), count) in &ends.0 {
        println!("{}: {outcome} {reason} {count}", manifest.classes[usize::from(*class)].name);
    }
    Ok(())
}
