//! Operating points as a fit sees them: how one was loaded, what was measured, and what a candidate profile makes of it.

use scaleproof_pack::experiment::Observer;
use scaleproof_pack::import::Summary;
use scaleproof_pack::percentile::nearest_rank;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{BatchScheduler, EngineConfig};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::{Extremes, GatewayConfig, RunConfig, RunError, ServerLimits};
use std::fmt;
use std::ops::Range;

/// A load on one replica.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it is called in tables.
    pub label: String,
    /// Schedules of equal standing (draws of what is not known): metrics are averaged over them.
    pub schedules: Vec<Schedule>,
    /// Positions of the requests that count, in each schedule.
    pub counted: Range<u64>,
    /// The engine's `max_num_seqs` there, if not the profile's.
    pub seats: Option<u32>,
    /// Factor on every step: how much slower than usual the machine was while it was measured; 1 if nothing is known of that.
    pub pace: f64,
}

/// A statistic of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Mean.
    Mean,
    /// Percentile, in percent.
    Percentile(f64),
}

/// A number that both worlds have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// Time to first token, milliseconds.
    Ttft(Statistic),
    /// Time per output token after the first, milliseconds.
    Tpot(Statistic),
    /// From sending to the last token, milliseconds.
    E2e(Statistic),
    /// Output tokens per second, from the first arrival to the last end.
    OutputThroughput,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, statistic) = match self {
            Metric::Ttft(statistic) => ("TTFT", statistic),
            Metric::Tpot(statistic) => ("TPOT", statistic),
            Metric::E2e(statistic) => ("E2E", statistic),
            Metric::OutputThroughput => return f.write_str("output tokens/s"),
        };
        match statistic {
            Statistic::Mean => write!(f, "{name} mean ms"),
            Statistic::Percentile(percent) => write!(f, "{name} p{percent} ms"),
        }
    }
}

/// What was measured at a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Which number.
    pub metric: Metric,
    /// Its value, above 0.
    pub value: f64,
    /// Its relative standard deviation: what a repeat of the run would differ by, and how far the simulator is trusted.
    pub relative_sd: f64,
}

/// What a candidate did at a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Time to first token.
    pub ttft_ms: Summary,
    /// Time per output token after the first.
    pub tpot_ms: Summary,
    /// From sending to the last token.
    pub e2e_ms: Summary,
    /// Output tokens per second.
    pub output_throughput_tps: f64,
    /// Requests that did not end well.
    pub failed: u64,
    /// The largest batches.
    pub extremes: Extremes,
}

impl Served {
    /// One number; None if nothing was served that has it.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let of = |summary: &Summary, statistic| match statistic {
            Statistic::Mean => summary.mean_ms,
            Statistic::Percentile(percent) => summary.at_ms(percent),
        };
        match metric {
            Metric::Ttft(statistic) => of(&self.ttft_ms, statistic),
            Metric::Tpot(statistic) => of(&self.tpot_ms, statistic),
            Metric::E2e(statistic) => of(&self.e2e_ms, statistic),
            Metric::OutputThroughput => Some(self.output_throughput_tps),
        }
    }
}

impl Trial {
    /// Requests of all its schedules.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.schedules.iter().map(|s| (s.warmup.requests.len() + s.measured.requests.len()) as u64).sum()
    }

    /// Simulates every schedule of the trial; one result each.
    ///
    /// # Errors
    /// A run that cannot end, or a step below the hardware's bound.
    pub fn serve(&self, profile: &Profile) -> Result<Vec<Served>, RunError> {
        let paced = profile.with_steps_longer(self.pace)?;
        self.schedules.iter().map(|schedule| self.serve_one(&paced, schedule)).collect()
    }

    /// One number, averaged over the schedules; None if nothing was served that has it.
    #[must_use]
    pub fn mean(served: &[Served], metric: Metric) -> Option<f64> {
        let values: Option<Vec<f64>> = served.iter().map(|s| s.metric(metric)).collect();
        let values = values.filter(|v| !v.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    fn serve_one(&self, profile: &Profile, schedule: &Schedule) -> Result<Served, RunError> {
        let enough = Enough { successes: 0, max_requests: 0 };
        let (config, scheduler) = alone(profile, self.seats, enough);
        let engine = || -> Box<dyn BatchScheduler + Send> {
            Box::new(VllmScheduler::grouping(&scheduler).expect("a profile's settings were checked"))
        };
        let mut collected = Collected { counted: self.counted.clone(), ..Collected::default() };
        let summary = scaleproof_sim::run(&config, schedule, &engine, &mut collected)?;
        let extremes =
            summary.replicas.iter().fold(Extremes::default(), |seen, replica| seen.max(replica.extremes));
        Ok(collected.served(extremes))
    }
}

/// Nobody looks at the samples.
const SAMPLE_INTERVAL: Nanos = Nanos(60_000_000_000);

/// One replica of the profile without a router's or a client's limits, with other seats if any are given.
pub(crate) fn alone(profile: &Profile, seats: Option<u32>, enough: Enough) -> (RunConfig, EngineConfig) {
    let mut scheduler = profile.scheduler.clone();
    scheduler.max_num_seqs = seats.unwrap_or(scheduler.max_num_seqs);
    let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
    let longest = u32::try_from(pool).unwrap_or(u32::MAX).min(scheduler.max_model_len);
    let config = RunConfig {
        replicas: 1,
        step_time: profile.step_time.on(&scheduler),
        front_end: profile.front_end,
        limits: ServerLimits {
            max_request_tokens: longest,
            max_queued_requests: None,
            max_queued_tokens: None,
        },
        router: RouterPolicy::RoundRobin,
        gateway: GatewayConfig::default(),
        poll_interval: None,
        timeout: None,
        ttft_timeout: None,
        sample_interval: SAMPLE_INTERVAL,
        enough,
        faults: None,
    };
    (config, scheduler)
}

/// The percentile, by nearest rank, that the first of each burst is, of bursts of up to 50 requests at once.
pub const EARLY_PERCENT: u32 = 2;

/// The latencies of the requests that count.
#[derive(Default)]
struct Collected {
    counted: Range<u64>,
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    e2e_ms: Vec<f64>,
    output_tokens: u64,
    failed: u64,
    first: Option<Nanos>,
    last: Nanos,
}

impl Observer for Collected {
    fn record(&mut self, record: &Record) {
        if record.warmup || !self.counted.contains(&record.id) {
            return;
        }
        self.first = Some(self.first.map_or(record.sent, |first| first.min(record.sent)));
        self.last = self.last.max(record.ended);
        if record.outcome != Outcome::Ok {
            self.failed += 1;
            return;
        }
        self.ttft_ms.extend(record.ttft().map(Nanos::millis));
        self.tpot_ms.extend(record.tpot_ms());
        self.e2e_ms.push(record.e2e().millis());
        self.output_tokens += u64::from(record.output_tokens);
    }
}

impl Collected {
    fn served(mut self, extremes: Extremes) -> Served {
        let seconds = self.first.map_or(0.0, |first| self.last.since(first).seconds());
        let mut ttft_ms = Summary::of(&mut self.ttft_ms);
        if let Some(early_ms) = nearest_rank(&mut self.ttft_ms, EARLY_PERCENT, f64::total_cmp) {
            ttft_ms.set(EARLY_PERCENT.into(), early_ms);
        }
        Served {
            ttft_ms,
            tpot_ms: Summary::of(&mut self.tpot_ms),
            e2e_ms: Summary::of(&mut self.e2e_ms),
            output_throughput_tps: if seconds > 0.0 { self.output_tokens as f64 / seconds } else { 0.0 },
            failed: self.failed,
            extremes,
        }
    }
}
