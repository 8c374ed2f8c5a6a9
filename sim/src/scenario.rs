//! A scenario: the fleet that serves a workload manifest, and the experiment to make with it. Read from
//! scenario.yaml beside the manifest.

use crate::engine::EngineConfig;
use crate::faults::{FaultPlan, read_plan};
use crate::profile::{Profile, read_scheduler};
use crate::setup::{GatewayConfig, RunConfig, ServerLimits};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::{Fault, Faults};
use scaleproof_pack::fields::{Fields, Item, above, from_to, mapping};
use scaleproof_pack::manifest::{Distribution, Manifest, PrefixGroup, read_prefix_groups};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::{AdmissionPolicy, RouterPolicy};

/// A checked scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The profile's path as written, relative to the scenario's directory.
    pub profile: String,
    /// Who chooses the replica.
    pub router: Routing,
    /// Who is let in.
    pub admission: AdmissionPolicy,
    /// The profile's scheduler settings with the scenario's own over them.
    pub scheduler: EngineConfig,
    /// See [`ServerLimits`].
    pub max_num_queued_reqs: Option<u64>,
    /// See [`ServerLimits`].
    pub max_num_queued_tokens: Option<u64>,
    /// The client's time limit for an answer, over the manifest's.
    pub timeout: Option<Nanos>,
    /// The client's time limit for the first token, over the manifest's.
    pub ttft_timeout: Option<Nanos>,
    /// Groups of prompts with a shared prefix, for the warm experiment.
    pub prefix_groups: Vec<PrefixGroup>,
    /// The experiment.
    pub experiment: Experiment,
    /// What may go wrong, if anything is said of it.
    pub faults: Option<FaultPlan>,
}

/// The router and how fresh its loads are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// The policy.
    pub policy: RouterPolicy,
    /// Engines' loads are polled this often; None: the router's own count in flight.
    pub poll_interval: Option<Nanos>,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Offered rates of a sweep, rising.
    pub rates_rps: Vec<f64>,
    /// Whether prompts share the prefixes of the groups.
    pub shared_prefixes: bool,
    /// Independent repeats of each point.
    pub repeats: u64,
    /// The timeline's interval.
    pub sample_interval: Nanos,
    /// A run ends at this many times its schedule's requests, even if a class lacks successes.
    pub max_continuation: f64,
}

impl Scenario {
    /// The path of the profile a scenario names: read first, because its settings are what the scenario's own
    /// change.
    ///
    /// # Errors
    /// If the file is no mapping or names no profile.
    pub fn profile_path(document: &Document) -> Result<String, Faults> {
        document.read_some(|fields| fields.req("profile").string())
    }

    /// Parses a scenario and reads it over its profile.
    ///
    /// # Errors
    /// As [`Document::parse`] and [`Scenario::of`].
    pub fn parse(file: &str, text: &str, profile: &Profile, manifest: &Manifest) -> Result<Scenario, Faults> {
        Scenario::of(&Document::parse(file, text)?, profile, manifest)
    }

    /// Reads a scenario over its profile.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn of(document: &Document, profile: &Profile, manifest: &Manifest) -> Result<Scenario, Faults> {
        document.read(|fields| {
            let path = fields.req("profile").string();
            let router = mapping(&fields.req("router"), read_routing);
            let admission = optional_mapping(&fields.opt("admission"), AdmissionPolicy::None, |fields| {
                AdmissionPolicy::read(fields, &manifest.classes)
            });
            let base = &profile.scheduler;
            let engine =
                optional_mapping(&fields.opt("engine"), (base.clone(), None, None), |f| read_engine(f, base));
            let limits = optional_mapping(&fields.opt("client"), (None, None), read_client);
            let groups = fields.opt("prefix_groups");
            let names: Vec<&str> = manifest.classes.iter().map(|class| class.name.as_str()).collect();
            let prefix_groups = read_prefix_groups(&groups, Some(&names));
            let experiment = mapping(&fields.req("experiment"), read_experiment);
            let faults = read_plan(fields, manifest.engine.placement.replicas);
            let (mut scheduler, max_num_queued_reqs, max_num_queued_tokens) = engine?;
            let (timeout, ttft_timeout) = limits?;
            scheduler.enable_prefix_caching &= manifest.engine.prefix_cache;
            Some(Scenario {
                profile: path?,
                router: router?,
                admission: admission?,
                scheduler,
                max_num_queued_reqs,
                max_num_queued_tokens,
                timeout: timeout.or(manifest.client.timeout),
                ttft_timeout: ttft_timeout.or(manifest.client.ttft_timeout),
                prefix_groups: prefix_groups?,
                experiment: experiment?,
                faults: faults?,
            })
        })
    }

    /// Prompt and output tokens of a request that a replica can hold: its context, or its whole KV pool.
    #[must_use]
    pub fn max_request_tokens(&self) -> u32 {
        let pool = u64::from(self.scheduler.usable_blocks()) * u64::from(self.scheduler.block_size);
        u32::try_from(pool).unwrap_or(u32::MAX).min(self.scheduler.max_model_len)
    }

    /// Classes of which every request is longer than the engine's context, because their lengths are fixed.
    ///
    /// # Errors
    /// A fault of the manifest `file` for each.
    pub fn check_lengths(&self, file: &str, manifest: &Manifest) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for class in &manifest.classes {
            let (Distribution::Fixed(input), Distribution::Fixed(output)) =
                (&class.input_tokens, &class.output_tokens)
            else {
                continue;
            };
            if input + output > f64::from(self.scheduler.max_model_len) {
                faults.0.push(Fault {
                    file: file.to_owned(),
                    field: format!("workload.{}", class.name),
                    found: format!("{input} prompt and {output} output tokens"),
                    expected: format!(
                        "at most {} together, the engine's context",
                        self.scheduler.max_model_len
                    ),
                    hint: "every request would be refused; shorten them, or raise max_model_len".to_owned(),
                    ..Fault::default()
                });
            }
        }
        faults.unless_any(())
    }

    /// How often the replicas are polled: as the router says, or else as often as the policies that need it usually do.
    #[must_use]
    pub fn poll_interval(&self) -> Option<Nanos> {
        let usual = [self.router.policy.usual_poll_interval(), self.admission.usual_poll_interval()];
        self.router.poll_interval.or(usual.into_iter().flatten().min())
    }

    /// What a run of `replicas` replicas needs.
    #[must_use]
    pub fn run_config(&self, manifest: &Manifest, profile: &Profile, replicas: u32) -> RunConfig {
        let scheduled = manifest.client.initial_scheduled_requests;
        RunConfig {
            replicas,
            step_time: profile.step_time.on(&self.scheduler),
            front_end: profile.front_end,
            limits: ServerLimits {
                max_request_tokens: self.max_request_tokens(),
                max_queued_requests: self.max_num_queued_reqs,
                max_queued_tokens: self.max_num_queued_tokens,
            },
            router: self.router.policy,
            gateway: GatewayConfig {
                admission: self.admission.clone(),
                batch_tokens: self.scheduler.max_num_batched_tokens,
                overlapped: self.scheduler.async_scheduling,
            },
            poll_interval: self.poll_interval(),
            timeout: self.timeout,
            ttft_timeout: self.ttft_timeout,
            sample_interval: self.experiment.sample_interval,
            faults: self.faults.clone().map(Box::new),
            enough: Enough {
                successes: manifest.acceptance.min_successful_samples_per_class,
                max_requests: (scheduled as f64 * self.experiment.max_continuation) as u64,
            },
        }
    }
}

/// Reads a mapping if it is there.
fn optional_mapping<T>(
    item: &Item<'_>,
    absent: T,
    read: impl FnOnce(&mut Fields<'_>) -> Option<T>,
) -> Option<T> {
    if item.is_present() { mapping(item, read) } else { Some(absent) }
}

fn read_routing(fields: &mut Fields<'_>) -> Option<Routing> {
    let policy = RouterPolicy::read(fields);
    let poll_item = fields.opt("poll_interval_seconds");
    let poll = poll_item.f64(from_to(0.001, 3600.0));
    Some(Routing { policy: policy?, poll_interval: seconds(poll) })
}

type EngineSettings = (EngineConfig, Option<u64>, Option<u64>);

fn read_engine(fields: &mut Fields<'_>, base: &EngineConfig) -> Option<EngineSettings> {
    let scheduler = read_scheduler(fields, Some(base));
    let requests = fields.opt("max_num_queued_reqs").u64(1..=u64::MAX);
    let tokens = fields.opt("max_num_queued_tokens").u64(1..=u64::MAX);
    Some((scheduler?, requests, tokens))
}

fn read_client(fields: &mut Fields<'_>) -> Option<(Option<Nanos>, Option<Nanos>)> {
    let timeout = fields.opt("timeout_seconds").f64(above(0.0, 1e6));
    let ttft_timeout = fields.opt("ttft_timeout_seconds").f64(above(0.0, 1e6));
    Some((seconds(timeout), seconds(ttft_timeout)))
}

fn seconds(value: Option<f64>) -> Option<Nanos> {
    value.and_then(|seconds| Nanos::from_seconds(seconds).ok())
}

fn read_experiment(fields: &mut Fields<'_>) -> Option<Experiment> {
    let rates_item = fields.req("rates_rps");
    let rates: Option<Vec<f64>> = rates_item
        .list(1..=1000)
        .and_then(|items| items.iter().map(|item: &Item<'_>| item.f64(above(0.0, 1e6))).collect());
    if let Some(rates) = rates.as_ref().filter(|rates| !rates.is_sorted_by(|a, b| a < b)) {
        let fall = rates.windows(2).find(|pair| pair[0] >= pair[1]).map_or(0.0, |pair| pair[1]);
        rates_item.fault(
            format!("{fall} after a rate that is no less"),
            "rates in rising order",
            "order them",
        );
    }
    let cache = fields.opt("cache").word(&[("cold", false), ("warm", true)]).unwrap_or(false);
    let repeats = fields.opt("repeats").u64(1..=1000).unwrap_or(1);
    let interval = fields.opt("sample_interval_seconds").f64(from_to(0.001, 3600.0)).unwrap_or(1.0);
    let continuation = fields.opt("max_continuation").f64(from_to(1.0, 1000.0)).unwrap_or(2.0);
    Some(Experiment {
        rates_rps: rates?,
        shared_prefixes: cache,
        repeats,
        sample_interval: Nanos::from_seconds(interval).ok()?,
        max_continuation: continuation,
    })
}

#[cfg(test)]
mod tests;
