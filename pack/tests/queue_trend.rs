//! Error rates of the queue trend, measured on simulated M/M/1 queues. Prints its table with `--nocapture`.

#![allow(clippy::print_stdout, reason = "the table is what this test is run for")]

use rand::RngExt;
use rand_distr::{Distribution, Exp, Gamma};
use scaleproof_pack::chance::{Stream, stream};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::trend::{Verdict, queue_trend};

const ARRIVALS: u64 = 22_000;
const ARRIVALS_PER_S: f64 = 24.0;
const RUNS: u64 = 400;
const SEED: u64 = 20_260_829;

/// One kind of run.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    load: f64,
    /// Begin with a draw from the stationary distribution of M/M/1, not empty.
    stationary: bool,
    /// Shape of the gamma gaps: 1 is Poisson.
    shape: f64,
    /// Arrivals that find this many waiting are turned away.
    limit: u64,
}

/// The depth (those in service not counted) at every whole second until the last arrival.
fn depths(case: Case, random: &mut Stream) -> Vec<(Nanos, u64)> {
    let gaps = Gamma::new(case.shape, 1.0 / (case.shape * ARRIVALS_PER_S)).expect("shapes are positive");
    let services = Exp::new(ARRIVALS_PER_S / case.load).expect("loads are positive");
    let mut present = if case.stationary {
        ((1.0 - random.random::<f64>()).ln() / case.load.ln()).floor() as u64
    } else {
        0
    };
    let mut depths = vec![(Nanos::ZERO, present.saturating_sub(1))];
    let (mut arrival, mut departure) = (gaps.sample(random), services.sample(random));
    let mut arrived = 0;
    while arrived < ARRIVALS {
        let now = if present > 0 { arrival.min(departure) } else { arrival };
        while (depths.len() as f64) <= now {
            depths.push((Nanos(depths.len() as u64 * 1_000_000_000), present.saturating_sub(1)));
        }
        if arrival <= now {
            // A server that was idle starts now: its next departure is drawn from this moment on.
            if present == 0 {
                departure = now + services.sample(random);
            }
            present += u64::from(present <= case.limit);
            arrived += 1;
            arrival = now + gaps.sample(random);
        } else {
            present -= 1;
            departure = now + services.sample(random);
        }
    }
    depths
}

/// Share of runs called growing.
fn growing(case: Case) -> f64 {
    let alarms = (0..RUNS)
        .filter(|&run| {
            let series = depths(case, &mut stream(SEED, run, case.name));
            queue_trend(&series, ARRIVALS).verdict == Verdict::Growing
        })
        .count();
    let share = alarms as f64 / RUNS as f64;
    println!("{:<34} {:>6.1} %", case.name, share * 100.0);
    share
}

#[test]
fn false_alarms_and_power() {
    println!(
        "called growing, of {RUNS} runs of {ARRIVALS} arrivals at {ARRIVALS_PER_S}/s, sampled every second:"
    );
    let poisson = |name, load, stationary| Case { name, load, stationary, shape: 1.0, limit: u64::MAX - 1 };
    for case in [
        poisson("70 %, stationary start", 0.70, true),
        poisson("70 %, empty start", 0.70, false),
        poisson("90 %, stationary start", 0.90, true),
        poisson("90 %, empty start", 0.90, false),
        Case { shape: 0.25, ..poisson("90 %, bursty (gamma shape 0.25)", 0.90, false) },
    ] {
        let share = growing(case);
        assert!(share <= 0.05, "{}: {share} false alarms", case.name);
    }
    for case in [
        poisson("105 %, empty start", 1.05, false),
        Case { limit: 1_000, ..poisson("120 %, at most 1,000 waiting", 1.20, false) },
    ] {
        let share = growing(case);
        assert!(share >= 0.95, "{}: power {share}", case.name);
    }
    // No goal: near the critical load "stable" and "growing" are a matter of how long one looks.
    growing(poisson("95 %, stationary start", 0.95, true));
    growing(poisson("98 %, stationary start", 0.98, true));
    growing(poisson("98 %, empty start", 0.98, false));
    growing(poisson("100 %, empty start", 1.00, false));
    growing(poisson("102 %, empty start", 1.02, false));
    growing(Case { limit: 100, ..poisson("120 %, at most 100 waiting", 1.20, false) });
}
