//! Queueing theory: with a constant step and seats as servers, the simulator is M/M/1, M/M/c or M/D/1, whose mean
//! waits are known.
//!
//! `cargo test --release --test analytic -- --nocapture` prints the table.
//!
//! At 90 % load a plain mean needs millions of requests for 3 %. So the same arrivals and services also go
//! through the textbook recursion (Kiefer and Wolfowitz), whose mean is known too, and the estimate is
//! `simulated - recursion + formula`: an unbiased control variate whose noise is only where the two differ.

#![allow(clippy::print_stdout, reason = "prints its table")]

use rand_distr::{Distribution, Exp, Geometric};
use scaleproof_pack::chance;
use scaleproof_pack::experiment::Observer;
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::schedule::{Load, Planned, PlannedList, Release, Schedule};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::RouterPolicy;
use scaleproof_sim::engine::EngineConfig;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::step_time::{Coefficients, HostCost, StepTime};
use scaleproof_sim::{FrontEnd, GatewayConfig, RunConfig, ServerLimits, run};

const STEP_MS: u64 = 10;
const MEAN_STEPS: f64 = 1000.0;
const MEAN_SERVICE_S: f64 = MEAN_STEPS * STEP_MS as f64 / 1e3;
const REQUESTS: usize = 2_000;
const REPEATS: u64 = 10;
/// Two-sided 95 % over nine comparisons (Bonferroni), Student's t with 9 degrees of freedom: t(1 - 0.025/9).
const T_CORRECTED: f64 = 3.7622;
/// How far from the formula the whole interval may reach.
const TOLERANCE: f64 = 0.03;

#[derive(Clone, Copy, Debug)]
enum Service {
    Geometric,
    Fixed,
}

struct Case {
    name: &'static str,
    seats: u32,
    service: Service,
}

const CASES: [Case; 3] = [
    Case { name: "M/M/1", seats: 1, service: Service::Geometric },
    Case { name: "M/M/4", seats: 4, service: Service::Geometric },
    Case { name: "M/D/1", seats: 1, service: Service::Fixed },
];

/// Mean wait in units of the mean service time, by the Erlang C and the Pollaczek-Khinchine formula.
fn formula(case: &Case, load: f64) -> f64 {
    match case.service {
        Service::Fixed => load / (2.0 * (1.0 - load)),
        Service::Geometric => {
            let (c, a) = (case.seats, load * f64::from(case.seats));
            let term = |k: u32| (1..=k).map(|i| a / f64::from(i)).product::<f64>();
            let last = term(c) / (1.0 - load);
            let waits = last / ((0..c).map(term).sum::<f64>() + last);
            waits / (f64::from(c) * (1.0 - load))
        }
    }
}

/// Waits of the same requests by the recursion over the sorted workloads of `seats` servers, in seconds.
fn recursion(seats: u32, arrivals: &[(f64, f64)]) -> f64 {
    let mut free_at = vec![0.0f64; seats as usize];
    let mut sum = 0.0;
    for &(arrival, service) in arrivals {
        let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        let start = first.max(arrival);
        *first = start + service;
        sum += start - arrival;
    }
    sum / arrivals.len() as f64
}

#[derive(Default)]
struct Collected {
    waits_s: Vec<f64>,
    e2e_s: Vec<f64>,
    last_end_s: f64,
    in_flight: Vec<(f64, f64)>,
}

impl Observer for Collected {
    fn record(&mut self, record: &Record) {
        assert_eq!(record.outcome, Outcome::Ok);
        self.waits_s.push(record.ttft().unwrap().seconds() - STEP_MS as f64 / 1e3);
        self.e2e_s.push(record.e2e().seconds());
        self.last_end_s = self.last_end_s.max(record.ended.seconds());
    }

    fn sample(&mut self, row: &TimelineRow) {
        self.in_flight.push((row.at.seconds(), f64::from(row.waiting + row.running)));
    }
}

fn schedule(case: &Case, load: f64, run: u64) -> (Schedule, Vec<(f64, f64)>) {
    let mut gaps = chance::stream(7, run, "arrivals");
    let mut lengths = chance::stream(7, run, "lengths");
    let gap = Exp::new(load * f64::from(case.seats) / MEAN_SERVICE_S).unwrap();
    let geometric = Geometric::new(1.0 / MEAN_STEPS).unwrap();
    let (mut at, mut list, mut plain) = (0.0, PlannedList::default(), Vec::new());
    for _ in 0..REQUESTS {
        at += gap.sample(&mut gaps);
        let steps = match case.service {
            Service::Geometric => 1 + geometric.sample(&mut lengths) as u32,
            Service::Fixed => MEAN_STEPS as u32,
        };
        plain.push((at, f64::from(steps) * STEP_MS as f64 / 1e3));
        list.requests.push(Planned {
            release: Release::At(Nanos::from_seconds(at).unwrap()),
            class: 0,
            priority: 0,
            input_tokens: 1,
            output_tokens: steps,
            cancel_after: None,
            segments_from: 0,
            segments_len: 0,
        });
    }
    let schedule = Schedule::of(Load::Open { rps: load }, list);
    (schedule, plain)
}

fn config(seats: u32) -> (RunConfig, EngineConfig) {
    let step_time = StepTime {
        eager: Coefficients {
            base_us: STEP_MS as f64 * 1e3,
            batch_token_knots: vec![(1.0, 0.0)],
            decode_context_token_us: 0.0,
            prefill_pair_us: 0.0,
            prefill_context_token_us: 0.0,
            row_us: 0.0,
            sampled_row_us: 0.0,
            launch_us: 0.0,
            decode_wave_rows: 0.0,
        },
        graphs: None,
        host: HostCost::default(),
        hardware: None,
    };
    let engine = EngineConfig {
        num_blocks: 100_000,
        max_num_batched_tokens: 1024,
        max_num_seqs: seats,
        max_model_len: 1_000_000,
        async_scheduling: false,
        enable_prefix_caching: false,
        ..EngineConfig::default()
    };
    let run = RunConfig {
        replicas: 1,
        step_time,
        front_end: FrontEnd::default(),
        limits: ServerLimits {
            max_request_tokens: u32::MAX,
            max_queued_requests: None,
            max_queued_tokens: None,
        },
        router: RouterPolicy::RoundRobin,
        gateway: GatewayConfig::default(),
        poll_interval: None,
        timeout: None,
        ttft_timeout: None,
        sample_interval: Nanos::from_seconds(1.0).unwrap(),
        enough: Enough { successes: 0, max_requests: 0 },
        faults: None,
    };
    (run, engine)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One repeat: mean wait simulated and by the recursion, in mean services; and Little's relative gap.
fn repeat(case: &Case, load: f64, number: u64) -> (f64, f64, f64) {
    let (schedule, plain) = schedule(case, load, number);
    let (config, engine) = config(case.seats);
    let mut collected = Collected::default();
    run(&config, &schedule, &|| Box::new(VllmScheduler::grouping(&engine).unwrap()), &mut collected).unwrap();
    assert_eq!(collected.waits_s.len(), REQUESTS);
    let span = collected.last_end_s;
    let sampled: Vec<f64> =
        collected.in_flight.iter().filter(|&&(at, _)| at <= span).map(|&(_, n)| n).collect();
    let implied = collected.e2e_s.iter().sum::<f64>() / span;
    let little = mean(&sampled) / implied - 1.0;
    (mean(&collected.waits_s) / MEAN_SERVICE_S, recursion(case.seats, &plain) / MEAN_SERVICE_S, little)
}

#[test]
fn mean_waits_match_the_formulas() {
    println!("queue  load  formula  estimate  half-width  plain mean  largest Little gap");
    for case in CASES {
        for load in [0.5, 0.8, 0.9] {
            let repeats: Vec<_> = (0..REPEATS).map(|number| repeat(&case, load, number)).collect();
            let expected = formula(&case, load);
            let estimates: Vec<f64> = repeats.iter().map(|(s, r, _)| s - r + expected).collect();
            let estimate = mean(&estimates);
            let spread = mean(&estimates.iter().map(|e| (e - estimate).powi(2)).collect::<Vec<_>>());
            let half_width = T_CORRECTED * (spread / (REPEATS - 1) as f64).sqrt();
            let plain = mean(&repeats.iter().map(|r| r.0).collect::<Vec<_>>());
            let little = repeats.iter().map(|r| r.2.abs()).fold(0.0, f64::max);
            println!(
                "{}  {load:.2}  {expected:.4}  {estimate:.4}  {:.2} %  {plain:.4}  {:.2} %",
                case.name,
                100.0 * half_width / expected,
                100.0 * little
            );
            assert!(half_width <= TOLERANCE * expected, "{} at {load}: too noisy", case.name);
            let off = (estimate - expected).abs() + half_width;
            assert!(off <= TOLERANCE * expected, "{} at {load}: {estimate} for {expected}", case.name);
            assert!(little <= 0.01, "{} at {load}: Little's law is off by {little}", case.name);
        }
    }
}

/// The recursion is only a control if its own mean is the formula's: checked on its own, over many requests.
#[test]
fn the_recursion_has_the_mean_of_the_formula() {
    for case in CASES {
        let load = 0.8;
        let mut chance = chance::stream(11, 0, "recursion");
        let gap = Exp::new(load * f64::from(case.seats)).unwrap();
        let service = Exp::new(1.0).unwrap();
        let mut at = 0.0;
        let requests: Vec<(f64, f64)> = (0..2_000_000)
            .map(|_| {
                at += gap.sample(&mut chance);
                let length = match case.service {
                    Service::Geometric => service.sample(&mut chance),
                    Service::Fixed => 1.0,
                };
                (at, length)
            })
            .collect();
        let (found, expected) = (recursion(case.seats, &requests), formula(&case, load));
        assert!((found / expected - 1.0).abs() < 0.03, "{}: {found} for {expected}", case.name);
    }
}
