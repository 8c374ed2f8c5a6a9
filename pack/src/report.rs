//! The report on one operating point: what slo-report.json holds. docs/metrics.md has the formula of every field.

use crate::cache::CacheReport;
use crate::record::Outcome;
use crate::schedule::{Load, Schedule};
use crate::trend::{Trend, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Successes of a class from which on its P99 is reported.
pub const P99_SUCCESSES_MIN: u64 = 10_000;
/// Successes of a class below which it is labelled exploratory.
pub const EXPLORATORY_BELOW: u64 = 2_000;

/// What a warning begins with that says where a run left its profile's validity region.
pub const OUTSIDE_VALIDITY: &str = "outside the profile's validity region: ";

/// Where the records came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The simulator.
    Simulated,
    /// A live engine.
    Live,
    /// A requests.csv, of this or another tool.
    File,
    /// Another tool's result, converted.
    Imported,
}

/// What was run: all of it null for a file of unknown origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Where the records came from.
    pub origin: Origin,
    /// Hash of the schedule.
    pub schedule_hash: Option<String>,
    /// Seed of the schedule.
    pub seed: Option<u64>,
    /// Repeat number.
    pub run: Option<u64>,
    /// The schedule's rate, open loop only.
    pub offered_rps: Option<f64>,
    /// Clients, closed loop only.
    pub concurrency: Option<u32>,
    /// What served the schedule.
    pub system: Option<SystemFacts>,
    /// False if the run was stopped before its schedule's end.
    pub complete: bool,
}

/// What served a schedule, as far as the numbers rest on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemFacts {
    /// Replicas.
    pub replicas: u32,
    /// GPUs in all.
    pub gpus: u32,
    /// The router.
    pub router: String,
    /// `cold` or `warm`.
    pub cache: String,
    /// The engine's profile; null for a live engine.
    pub profile: Option<ProfileFacts>,
}

/// What a simulated engine rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Name.
    pub name: String,
    /// `fixture`, `prior` or `calibrated`.
    pub kind: String,
    /// The GPU; null for a profile of no real one.
    pub gpu: Option<String>,
    /// What the profile is worth, in words: its kind, its expected error if it is known, and its GPU or that it names
    /// none.
    #[serde(default)]
    pub label: String,
    /// The relative error to expect of its step times, as a share; null if it states none.
    #[serde(default)]
    pub expected_relative_error: Option<f64>,
    /// SHA-256 of its file, in hexadecimal.
    pub sha256: String,
    /// The batches it was fitted for.
    pub validity: String,
}

impl RunFacts {
    /// The facts of a run of `schedule`.
    #[must_use]
    pub fn of(origin: Origin, schedule: &Schedule) -> RunFacts {
        let (offered_rps, concurrency) = match schedule.load {
            Load::Open { rps } => (Some(rps), None),
            Load::Closed { concurrency } => (None, Some(concurrency)),
        };
        RunFacts {
            origin,
            schedule_hash: Some(schedule.hash.clone()),
            seed: Some(schedule.seed),
            run: Some(schedule.run),
            offered_rps,
            concurrency,
            system: None,
            complete: true,
        }
    }

    /// The facts of a file that says nothing about its run.
    #[must_use]
    pub fn of_file() -> RunFacts {
        RunFacts {
            origin: Origin::File,
            schedule_hash: None,
            seed: None,
            run: None,
            offered_rps: None,
            concurrency: None,
            system: None,
            complete: true,
        }
    }
}

/// How many measured attempts ended in each way. They add up to `Report::attempted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCounts {
    /// All tokens arrived.
    pub ok: u64,
    /// Server error or broken stream.
    pub error: u64,
    /// The client's time limit.
    pub timeout: u64,
    /// Refused on purpose.
    pub rejected: u64,
    /// Given up on purpose.
    pub cancelled: u64,
    /// Died with their replica.
    pub lost: u64,
}

impl OutcomeCounts {
    /// Counts one.
    pub fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Ok => &mut self.ok,
            Outcome::Error => &mut self.error,
            Outcome::Timeout => &mut self.timeout,
            Outcome::Rejected => &mut self.rejected,
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Lost => &mut self.lost,
        } += 1;
    }

    /// All but `ok`.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.error + self.timeout + self.rejected + self.cancelled + self.lost
    }

    /// All six.
    #[must_use]
    pub fn attempted(&self) -> u64 {
        self.ok + self.failed()
    }
}

/// The report on one operating point. Null stands for what is undefined (a percentile of nothing, a share of
/// nothing, a rate over no time) or unknown (a file without the columns for it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was run.
    #[serde(flatten)]
    pub facts: RunFacts,
    /// Length of the measured window, in seconds: from its first scheduled arrival to its last end.
    pub duration_s: f64,
    /// First and last scheduled arrival of the window, in seconds of the run; null where they are unknown.
    pub arrivals_s: Option<(f64, f64)>,
    /// Attempts before the window, which nothing below counts.
    pub warmup_attempts: u64,
    /// Attempts.
    pub attempted: u64,
    /// Attempts that ended `ok`.
    pub successful: u64,
    /// The others.
    pub failed: u64,
    /// Attempts by their end.
    pub outcomes: OutcomeCounts,
    /// Failed attempts by their reason.
    pub failure_reasons: BTreeMap<String, u64>,
    /// failed / attempted.
    pub error_rate: Option<f64>,
    /// Passing / successful, all classes together.
    pub overall_attainment: Option<f64>,
    /// Passing / attempted, all classes together.
    pub attempted_attainment: Option<f64>,
    /// Passing successes per second.
    pub observed_goodput_rps: Option<f64>,
    /// Successes per second.
    pub request_throughput_rps: Option<f64>,
    /// Output tokens of successes per second.
    pub output_throughput_tps: Option<f64>,
    /// The queue's verdict.
    pub queue_trend: Verdict,
    /// What the verdict rests on; null if it was typed in.
    pub queue_trend_test: Option<Trend>,
    /// Most requests waiting at a sample in the window, all replicas together.
    pub queue_peak: Option<u64>,
    /// Greatest share of KV blocks in use at a sample in the window, all replicas together.
    pub kv_peak_share: Option<f64>,
    /// Whether every class passes both of its gates.
    pub all_class_slos_pass: bool,
    /// Whether every gate passes.
    pub capacity_gate_pass: bool,
    /// The gates, each by itself.
    pub gates: Vec<Gate>,
    /// The classes by name.
    pub classes: BTreeMap<String, ClassReport>,
    /// Sent minus scheduled, over all attempts.
    pub send_lag: Option<SendLag>,
    /// Records against samples.
    pub littles_law: Option<LittlesLaw>,
    /// Prompt tokens of successes found in the prefix cache / prompt tokens of successes.
    pub prefix_hit_share: Option<f64>,
    /// The prefix cache over the window, by the replicas' counters; null without a timeline.
    pub prefix_cache: Option<CacheReport>,
    /// Times an attempt lost its blocks and was computed again.
    pub preemptions: Option<u64>,
    /// What a reader should know before believing the numbers.
    pub warnings: Vec<String>,
    /// The load generator's checks of itself; none for a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// The checks that failed, in words: with any, the run is invalid and proves nothing. None for a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<Vec<String>>,
}

impl Report {
    /// Takes the load generator's checks of itself: a run that fails one proves nothing, and so fails a gate.
    pub fn take_checks(&mut self, checks: Vec<Check>) {
        let invalid: Vec<String> = checks.iter().filter_map(Check::failure).collect();
        let failed = invalid.len() as u64;
        self.gates.push(Gate {
            name: "self_checks".to_owned(),
            observed: GateValue::Count(failed),
            relation: "<=".to_owned(),
            required: GateValue::Count(0),
            pass: failed == 0,
        });
        self.capacity_gate_pass &= failed == 0;
        (self.checks, self.invalid) = (Some(checks), Some(invalid));
    }

    /// The names of the gates that fail, in their order.
    pub fn failing_gates(&self) -> impl Iterator<Item = &str> {
        self.gates.iter().filter(|g| !g.pass).map(|g| g.name.as_str())
    }

    /// The class with the lowest attainment, with its name; one without successes counts as lowest. None without
    /// classes.
    #[must_use]
    pub fn weakest_class(&self) -> Option<(&str, &ClassReport)> {
        let attainment = |class: &ClassReport| class.attainment.unwrap_or(-1.0);
        let weakest = self.classes.iter().min_by(|a, b| attainment(a.1).total_cmp(&attainment(b.1)));
        weakest.map(|(name, class)| (name.as_str(), class))
    }

    /// Whether it fails only by gates that a longer run might pass: successes that lack, and a queue trend that so few
    /// samples leave undetermined. Such a failure shows how short the run was, not what the fleet can do.
    #[must_use]
    pub fn too_short_to_judge(&self) -> bool {
        let undetermined = self.queue_trend == Verdict::Undetermined;
        let of_length = |gate: &str| gate.starts_with("samples:") || gate == "queue_trend" && undetermined;
        !self.capacity_gate_pass && self.failing_gates().all(of_length)
    }

    /// What of the run lies outside its profile's validity region, in words.
    pub fn outside_validity(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().filter_map(|warning| warning.strip_prefix(OUTSIDE_VALIDITY))
    }

    /// Whether anything does.
    #[must_use]
    pub fn leaves_validity(&self) -> bool {
        self.outside_validity().next().is_some()
    }

    /// Whether its load generator found that it cannot be trusted.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.invalid.as_ref().is_some_and(|reasons| !reasons.is_empty())
    }

    /// Whether every class has the successes that the manifest asks for.
    #[must_use]
    pub fn samples_adequate(&self) -> bool {
        self.classes.values().all(|c| c.sample_adequate)
    }
}

/// What a load generator asks of itself: a value and the most that it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is checked, its unit last.
    pub name: String,
    /// What was observed; null where nothing could be, which passes.
    pub value: Option<f64>,
    /// The most that passes.
    pub limit: f64,
    /// Whether it passes.
    pub pass: bool,
}

impl Check {
    /// Whether `value` is at most `limit`. A value that is no number passes nothing.
    #[must_use]
    pub fn at_most(name: &str, value: Option<f64>, limit: f64) -> Check {
        Check { name: name.to_owned(), value, limit, pass: value.is_none_or(|value| value <= limit) }
    }

    /// Why it failed; None if it passed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let value = self.value.filter(|_| !self.pass)?;
        Some(format!("{}: found {value:.3}; expected at most {}", self.name, self.limit))
    }
}

/// A condition on the observed value, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// `attainment:CLASS`, `samples:CLASS`, `error_rate` or `queue_trend`.
    pub name: String,
    /// What was observed.
    pub observed: GateValue,
    /// `>=`, `<=` or `=`: observed RELATION required.
    pub relation: String,
    /// The threshold.
    pub required: GateValue,
    /// Whether the relation holds. An undefined observation passes nothing.
    pub pass: bool,
}

/// What a gate compares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GateValue {
    /// A count.
    Count(u64),
    /// A share; null when undefined.
    Share(Option<f64>),
    /// A word.
    Word(String),
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Attempts.
    pub attempted_count: u64,
    /// Attempts that ended `ok`.
    pub successful_count: u64,
    /// Of those, inside both cutoffs.
    pub passing_count: u64,
    /// The TTFT cutoff, in milliseconds.
    pub request_ttft_cutoff_ms: f64,
    /// The TPOT cutoff, in milliseconds.
    pub request_tpot_cutoff_ms: f64,
    /// passing / successful.
    pub attainment: Option<f64>,
    /// Wilson 95 % interval of `attainment`.
    pub attainment_ci95: Option<(f64, f64)>,
    /// Whether even the interval's lower end reaches the required attainment.
    pub resolved: bool,
    /// passing / attempted: every failure a miss.
    pub attempted_attainment: Option<f64>,
    /// Whether there are as many successes as the manifest asks for.
    pub sample_adequate: bool,
    /// Whether there are enough successes for a P99.
    pub p99_sample_adequate: bool,
    /// Fewer than [`EXPLORATORY_BELOW`] successes, whatever the manifest asks for.
    pub exploratory: bool,
    /// Whether the class passes both of its gates: attainment and successes.
    pub class_slo_pass: bool,
    /// Latencies from sending.
    #[serde(flatten)]
    pub latency: Latency,
    /// Median TPOT, in milliseconds.
    pub p50_tpot_ms: Option<f64>,
    /// 95th percentile of TPOT.
    pub p95_tpot_ms: Option<f64>,
    /// 99th percentile of TPOT, with enough samples.
    pub p99_tpot_ms: Option<f64>,
    /// Mean TPOT over the successes that have one.
    pub mean_tpot_ms: Option<f64>,
    /// Latencies from the scheduled arrival; null where it is unknown.
    pub from_schedule: Option<Latency>,
    /// Output tokens of successes.
    pub output_tokens: u64,
}

/// TTFT and E2E of the successes, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median TTFT.
    pub p50_ttft_ms: Option<f64>,
    /// 95th percentile of TTFT.
    pub p95_ttft_ms: Option<f64>,
    /// 99th percentile of TTFT, with enough samples.
    pub p99_ttft_ms: Option<f64>,
    /// Mean TTFT.
    pub mean_ttft_ms: Option<f64>,
    /// Median E2E.
    pub p50_e2e_ms: Option<f64>,
    /// 95th percentile of E2E.
    pub p95_e2e_ms: Option<f64>,
    /// 99th percentile of E2E, with enough samples.
    pub p99_e2e_ms: Option<f64>,
    /// Mean E2E.
    pub mean_e2e_ms: Option<f64>,
}

/// How late the client sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendLag {
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Greatest.
    pub max_ms: f64,
}

/// Little's law over the measured window: what the samples saw in flight against what the records imply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Mean of waiting plus running over the samples.
    pub sampled_in_flight: f64,
    /// Ends of measured attempts per second, failures included.
    pub completion_rps: f64,
    /// Their mean time from sending to end, in seconds.
    pub mean_e2e_s: f64,
    /// In flight on average because warm-up attempts were not done yet.
    pub warmup_in_flight: f64,
    /// completion rate x mean E2E + warm-up.
    pub implied_in_flight: f64,
    /// (sampled - implied)/larger of the two; null if both are 0.
    pub relative_gap: Option<f64>,
}
