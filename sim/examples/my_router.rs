//! A router of one's own, in a run: `cargo run -p scaleproof-sim --example my_router`.
//!
//! It keeps the long prompts apart: they go to the last replica, all others to the least loaded of the rest.

#![allow(clippy::print_stdout, reason = "an example prints")]

use scaleproof_pack::chance::Stream;
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::manifest::Manifest;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::{Load, Schedule};
use scaleproof_policy::{Fleet, RouteRequest, Router};
use scaleproof_sim::engine::BatchScheduler;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use scaleproof_sim::{Policies, run_with};
use std::error::Error;

/// Long prompts to the last replica.
struct LongApart {
    long_tokens: u32,
}

impl Router for LongApart {
    fn choose(&mut self, request: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        let (&last, rest) = fleet.available().split_last()?;
        if request.input_tokens >= self.long_tokens {
            return Some(last);
        }
        rest.iter().copied().min_by_key(|&replica| fleet.load(replica)).or(Some(last))
    }
}

/// P95 TTFT by class, by nearest rank.
#[derive(Default)]
struct Ttfts(Vec<Vec<f64>>);

impl Observer for Ttfts {
    fn record(&mut self, record: &Record) {
        let class = usize::from(record.class);
        if let (Outcome::Ok, false, Some(ttft)) = (record.outcome, record.warmup, record.ttft()) {
            self.0.resize_with(self.0.len().max(class + 1), Vec::new);
            self.0[class].push(ttft.millis());
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
    let schedule = Schedule::generate(&manifest, Load::Open { rps: 20.0 }, 0, None, false)?;
    let engine = || -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::grouping(&scenario.scheduler).expect("the scenario was checked"))
    };
    let usual = Policies::of(&config);
    let own = Policies { router: Box::new(LongApart { long_tokens: 4096 }), admission: None };
    for (name, policies) in [("least outstanding", usual), ("long prompts apart", own)] {
        let mut ttfts = Ttfts::default();
        run_with(&config, policies, &schedule, &engine, &mut ttfts)?;
        for (class, values) in manifest.classes.iter().zip(&mut ttfts.0) {
            values.sort_by(f64::total_cmp);
            let p95 = values[(values.len() * 95).div_ceil(100) - 1];
            println!("{name}: {}: P95 TTFT {p95:.0} ms of {}", class.name, values.len());
        }
    }
    Ok(())
}
