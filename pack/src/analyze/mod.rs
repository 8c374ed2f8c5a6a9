//! The analyzer: records in, one at a time and in any order, a report out. The same code judges simulated, live
//! and foreign records. Formulas and boundaries are in docs/metrics.md.

mod class;
mod gates;
#[cfg(test)]
mod tests;
mod window;

use crate::experiment::Observer;
use crate::manifest::{Acceptance, Manifest};
use crate::record::{Outcome, Record};
use crate::report::{LittlesLaw, OutcomeCounts, Report, RunFacts, SendLag};
use crate::requests_csv::{ForeignRow, Row};
use crate::time::Nanos;
use crate::timeline::{FleetSample, FleetSeries, TimelineRow};
use crate::trend::Verdict;
use class::ClassTally;
pub(crate) use class::{Success, share};
use std::collections::BTreeMap;
use window::{Residence, Window};

/// Whether an attempt succeeded inside both cutoffs, in milliseconds.
#[must_use]
pub fn passes(record: &Record, ttft_cutoff_ms: f64, tpot_cutoff_ms: f64) -> bool {
    Success::of_record(record).is_some_and(|success| success.in_time(ttft_cutoff_ms, tpot_cutoff_ms))
}

/// Relative gap in Little's law from which on the report warns.
const LITTLE_GAP_MAX: f64 = 0.10;
/// A gap of less than this many requests says nothing: samples of a nearly empty fleet mostly see nobody.
const LITTLE_GAP_MIN_REQUESTS: f64 = 1.0;
/// Fewest samples that Little's law is judged on.
const LITTLE_SAMPLES_MIN: usize = 30;
/// Relative difference between a file's TPOT and (E2E - TTFT)/(O - 1) from which on it is another definition.
const FOREIGN_TPOT_GAP_MAX: f64 = 0.05;

/// What the caller states instead of having it computed: needed for a file that lacks times and samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stated {
    /// Length of the measured window, in seconds; counts as unstated unless finite and above 0.
    pub duration_s: Option<f64>,
    /// The queue's verdict.
    pub queue_trend: Option<Verdict>,
}

/// Gathers records and samples of one operating point. Keeps 24 bytes a success, 32 where requests were sent
/// late, so that ten million fit.
#[derive(Debug)]
pub struct Analyzer {
    acceptance: Acceptance,
    classes: Vec<ClassTally>,
    outcomes: OutcomeCounts,
    failure_reasons: BTreeMap<String, u64>,
    warmup_attempts: u64,
    window: Option<Window>,
    residence: Residence,
    fleet: FleetSeries,
    /// Lags above zero, over all attempts.
    lags_ns: Vec<u64>,
    prompt_tokens: u64,
    cached_tokens: u64,
    preemptions: u64,
    foreign_rows: u64,
    foreign_tpot_gaps: u64,
}

impl Analyzer {
    /// For the classes and gates of `manifest`.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Analyzer {
        Analyzer {
            acceptance: manifest.acceptance,
            classes: manifest.classes.iter().map(ClassTally::new).collect(),
            outcomes: OutcomeCounts::default(),
            failure_reasons: BTreeMap::new(),
            warmup_attempts: 0,
            window: None,
            residence: Residence::default(),
            fleet: FleetSeries::default(),
            lags_ns: Vec::new(),
            prompt_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            foreign_rows: 0,
            foreign_tpot_gaps: 0,
        }
    }

    /// Takes an attempt. Warm-up counts only towards what was in flight.
    ///
    /// # Panics
    /// If the record's class is not one of the manifest's.
    pub fn push(&mut self, record: &Record) {
        self.push_with_reason(record, record.reason);
    }

    fn push_with_reason(&mut self, record: &Record, reason: &str) {
        self.residence.push(record);
        if record.warmup {
            self.warmup_attempts += 1;
            return;
        }
        let own = Window::of(record);
        self.window = Some(self.window.map_or(own, |window| window.and(own)));
        if record.lag() > Nanos::ZERO {
            self.lags_ns.push(record.lag().0);
        }
        self.preemptions += u64::from(record.preemptions);
        self.count(record.class, record.outcome, reason);
        if let Some(success) = Success::of_record(record) {
            self.prompt_tokens += u64::from(record.input_tokens);
            self.cached_tokens += u64::from(record.cached_tokens);
            self.classes[usize::from(record.class)].success(success);
        }
    }

    /// Takes a row of a requests.csv.
    ///
    /// # Panics
    /// If the row's class is not one of the manifest's.
    pub fn push_row(&mut self, row: &Row) {
        match row {
            Row::Own { record, reason } => self.push_with_reason(record, reason),
            Row::Foreign(foreign) => self.push_foreign(foreign),
        }
    }

    fn push_foreign(&mut self, row: &ForeignRow) {
        self.foreign_rows += 1;
        self.count(row.class, row.outcome, "");
        if let Some(success) = Success::of_foreign(row) {
            self.foreign_tpot_gaps += u64::from(tpot_is_of_another_kind(row));
            self.classes[usize::from(row.class)].success(success);
        }
    }

    fn count(&mut self, class: u16, outcome: Outcome, reason: &str) {
        self.outcomes.add(outcome);
        self.classes[usize::from(class)].attempted += 1;
        if outcome != Outcome::Ok && !reason.is_empty() {
            match self.failure_reasons.get_mut(reason) {
                Some(count) => *count += 1,
                None => {
                    self.failure_reasons.insert(reason.to_string(), 1);
                }
            }
        }
    }

    /// Takes a sample of a replica.
    pub fn push_sample(&mut self, row: &TimelineRow) {
        self.fleet.push(row);
    }

    /// How attempts have ended until now.
    #[must_use]
    pub fn outcomes(&self) -> OutcomeCounts {
        self.outcomes
    }

    /// Each class with its attainment until now.
    pub fn attainments(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.classes.iter().map(|class| (class.name.as_str(), share(class.passing, class.successful())))
    }

    /// The report.
    #[must_use]
    pub fn finish(self, facts: RunFacts, stated: Stated) -> Report {
        let samples = self.fleet.into_samples();
        let attempted = self.outcomes.attempted();
        let stated_s = stated.duration_s.filter(|s| s.is_finite() && *s > 0.0);
        let duration_s = stated_s.or(self.window.map(|w| w.seconds())).unwrap_or(0.0);
        let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
        let trend = match (stated.queue_trend, self.window) {
            (None, Some(window)) => Some(window.trend(&samples, attempted)),
            _ => None,
        };
        let queue_trend =
            stated.queue_trend.or(trend.as_ref().map(|t| t.verdict)).unwrap_or(Verdict::Undetermined);
        let in_window = self.window.map_or(&[][..], |window| window.samples(&samples));
        let littles_law = self.window.and_then(|window| self.residence.littles_law(&window, &samples));
        let warnings =
            warnings(&self.classes, littles_law, in_window.len(), self.foreign_tpot_gaps, queue_trend);

        let passing = self.classes.iter().map(|c| c.passing).sum();
        let output_tokens = self.classes.iter().map(|c| c.output_tokens).sum();
        let own = self.foreign_rows == 0 && self.window.is_some();
        let classes: BTreeMap<_, _> = self
            .classes
            .into_iter()
            .map(|tally| (tally.name.clone(), tally.report(&self.acceptance, own)))
            .collect();
        let error_rate = share(self.outcomes.failed(), attempted);
        let gates = gates::gates(&self.acceptance, &classes, error_rate, queue_trend);
        Report {
            facts,
            duration_s,
            arrivals_s: self.window.map(|w| (w.first_scheduled.seconds(), w.last_scheduled.seconds())),
            warmup_attempts: self.warmup_attempts,
            attempted,
            successful: self.outcomes.ok,
            failed: self.outcomes.failed(),
            outcomes: self.outcomes,
            failure_reasons: self.failure_reasons,
            error_rate,
            overall_attainment: share(passing, self.outcomes.ok),
            attempted_attainment: share(passing, attempted),
            observed_goodput_rps: per_second(passing),
            request_throughput_rps: per_second(self.outcomes.ok),
            output_throughput_tps: per_second(output_tokens),
            queue_trend,
            queue_trend_test: trend,
            queue_peak: in_window.iter().map(|s| s.waiting).max(),
            kv_peak_share: kv_peak_share(in_window),
            all_class_slos_pass: classes.values().all(|c| c.class_slo_pass),
            capacity_gate_pass: gates.iter().all(|g| g.pass),
            gates,
            classes,
            send_lag: if own { send_lag(self.lags_ns, attempted) } else { None },
            littles_law,
            prefix_hit_share: share(self.cached_tokens, self.prompt_tokens),
            prefix_cache: None,
            preemptions: own.then_some(self.preemptions),
            warnings,
            checks: None,
            invalid: None,
        }
    }
}

impl Observer for Analyzer {
    fn record(&mut self, record: &Record) {
        self.push(record);
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.push_sample(row);
    }
}

/// Whether a file's TPOT is not the one of this analyzer, as far as the row's other numbers tell.
fn tpot_is_of_another_kind(row: &ForeignRow) -> bool {
    let Some(tpot_ms) = row.tpot_ms else { return false };
    let ours_ms = row.e2e.since(row.ttft).millis() / f64::from(row.output_tokens.max(2) - 1);
    (tpot_ms - ours_ms).abs() > FOREIGN_TPOT_GAP_MAX * tpot_ms.max(ours_ms)
}

fn kv_peak_share(samples: &[FleetSample]) -> Option<f64> {
    samples.iter().filter_map(|s| share(s.kv_blocks_used, s.kv_blocks_total)).max_by(f64::total_cmp)
}

/// Of `attempted` lags, those not in `positive_ns` are zero.
fn send_lag(mut positive_ns: Vec<u64>, attempted: u64) -> Option<SendLag> {
    let zeros = usize::try_from(attempted).ok()?.checked_sub(positive_ns.len())?;
    if attempted == 0 {
        return None;
    }
    let max_ms = positive_ns.iter().max().map_or(0.0, |&ns| Nanos(ns).millis());
    let mut at = |percent| {
        let rank = crate::percentile::rank(zeros + positive_ns.len(), percent);
        if rank <= zeros {
            return 0.0;
        }
        let (_, value, _) = positive_ns.select_nth_unstable(rank - zeros - 1);
        Nanos(*value).millis()
    };
    Some(SendLag { p50_ms: at(50), p99_ms: at(99), max_ms })
}

fn warnings(
    classes: &[ClassTally],
    littles_law: Option<LittlesLaw>,
    samples: usize,
    foreign_tpot_gaps: u64,
    trend: Verdict,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in classes.iter().filter(|c| c.attempted == 0) {
        warnings.push(format!(
            "class {} was never attempted: it has no attainment and fails its gates",
            class.name
        ));
    }
    if trend == Verdict::Undetermined {
        warnings
            .push("the queue trend is undetermined: too few samples of the queue in the window".to_string());
    }
    if let Some(LittlesLaw { relative_gap: Some(gap), sampled_in_flight, implied_in_flight, .. }) =
        littles_law
        && gap.abs() > LITTLE_GAP_MAX
        && (sampled_in_flight - implied_in_flight).abs() >= LITTLE_GAP_MIN_REQUESTS
        && samples >= LITTLE_SAMPLES_MIN
    {
        warnings.push(format!(
            "Little's law is off by {:.0} %: {sampled_in_flight:.1} in flight in the samples, \
             {implied_in_flight:.1} in the records",
            gap * 100.0
        ));
    }
    if foreign_tpot_gaps > 0 {
        warnings.push(format!(
            "{foreign_tpot_gaps} rows have a tpot_ms more than {:.0} % off (e2e_ms - ttft_ms)/(output_tokens - 1): \
             their TPOT is another metric (some tools divide by all tokens or include the TTFT)",
            FOREIGN_TPOT_GAP_MAX * 100.0
        ));
    }
    warnings
}
