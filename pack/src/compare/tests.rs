#![allow(clippy::float_cmp, reason = "equal inputs give equal bits")]

use super::*;
use crate::analyze::{Analyzer, Stated};
use crate::chance::stream;
use crate::record::{Outcome, Record};
use crate::report::{Origin, RunFacts};
use crate::requests_csv::Writer;
use crate::testing::{failed, manifest, ok};
use proptest::prelude::*;
use rand::RngExt;

const CLASSES: [&str; 3] = ["interactive", "long_context", "generation_heavy"];

/// A side of these records, as it comes back from its files.
fn side(records: &[Record], hash: &str) -> Side {
    let mut analyzer = Analyzer::new(&manifest(0));
    let mut csv = Writer::new(Vec::new(), CLASSES);
    for record in records {
        analyzer.push(record);
        csv.row(record).unwrap();
    }
    let facts =
        RunFacts { origin: Origin::Live, schedule_hash: Some(hash.to_owned()), ..RunFacts::of_file() };
    let report = analyzer.finish(facts, Stated::default());
    Side::read(&report, csv.finish().unwrap().as_slice()).unwrap()
}

/// Request `id` with a TTFT of `ttft_ms`.
fn request(id: u64, ttft_ms: f64) -> Record {
    ok(id, (id % 3) as u16, (ttft_ms * 1e6) as u64, 900_000_000, 31)
}

fn p95_ttft() -> Metric {
    Metric::Percentile(Quantity::Ttft, Level::P95)
}

/// Uniform numbers from 0 to 1.
fn noise(seed: u64, count: usize) -> Vec<f64> {
    let mut chance = stream(seed, 0, "test");
    (0..count).map(|_| chance.random_range(0.0..1.0)).collect()
}

fn noisy(seed: u64, count: usize, shift_ms: f64) -> Vec<Record> {
    noise(seed, count).iter().zip(0..).map(|(x, id)| request(id, 100.0 + 100.0 * x + shift_ms)).collect()
}

#[test]
fn the_values_are_those_of_the_report() {
    let mut records = noisy(1, 12_001, 0.0);
    records[7] = failed(7, 1, Outcome::Timeout);
    let mut analyzer = Analyzer::new(&manifest(0));
    records.iter().for_each(|record| analyzer.push(record));
    let report = analyzer.finish(RunFacts::of_file(), Stated::default());
    let side = side(&records, "h");
    let found = compare(&side, &side, &Options::default()).unwrap();
    let all = |metric| found.get(None, metric).unwrap().a;
    assert_eq!(all(Metric::Attainment), report.overall_attainment);
    assert_eq!(all(Metric::AttemptedAttainment), report.attempted_attainment);
    assert_eq!(all(Metric::ErrorRate), report.error_rate);
    assert_eq!(all(Metric::Goodput), report.observed_goodput_rps);
    assert_eq!(all(Metric::Throughput), report.request_throughput_rps);
    assert_eq!(all(Metric::OutputThroughput), report.output_throughput_tps);
    assert_eq!(all(Metric::PrefixHitShare), report.prefix_hit_share);
    assert!(all(Metric::Percentile(Quantity::Ttft, Level::P99)).is_some());
    for class in CLASSES {
        let value = |metric| found.get(Some(class), metric).unwrap().a;
        let reported = &report.classes[class];
        assert_eq!(value(p95_ttft()), reported.latency.p95_ttft_ms);
        assert_eq!(value(Metric::Percentile(Quantity::E2e, Level::P50)), reported.latency.p50_e2e_ms);
        assert_eq!(value(Metric::Percentile(Quantity::Ttft, Level::P99)), None, "too few for a P99");
        assert_eq!(value(Metric::Attainment), reported.attainment);
    }
}

#[test]
fn a_shift_of_every_request_is_found_to_the_digit_in_pairs() {
    let (a, b) = (side(&noisy(3, 900, 0.0), "h"), side(&noisy(3, 900, 5.0), "h"));
    let found = compare(&a, &b, &Options::default()).unwrap();
    let ttft = found.get(None, p95_ttft()).unwrap();
    let (low, high) = ttft.difference_ci95.unwrap();
    assert!(found.paired && ttft.real && (low - 5.0).abs() < 1e-3 && (high - 5.0).abs() < 1e-3, "{ttft:?}");
    assert!(!found.get(None, Metric::ErrorRate).unwrap().real);
}

#[test]
fn other_schedules_and_classes_are_refused() {
    let (a, b) = (side(&noisy(1, 90, 0.0), "aaa"), side(&noisy(2, 90, 0.0), "bbb"));
    let error = compare(&a, &b, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("aaa") && error.contains("bbb") && error.contains("--different-schedules"),
        "{error}"
    );
    let found = compare(&a, &b, &Options { different_schedules: true, seed: 0 }).unwrap();
    assert!(!found.paired && found.warnings.len() == 1);
    let mut other = b.clone();
    other.cutoffs[0].name = "chat".to_owned();
    assert!(compare(&a, &other, &Options::default()).unwrap_err().to_string().contains("and chat, "));
}

#[test]
fn rows_of_another_run_are_refused() {
    let mut analyzer = Analyzer::new(&manifest(0));
    analyzer.push(&request(0, 100.0));
    let report = analyzer.finish(RunFacts::of_file(), Stated::default());
    let csv = Writer::new(Vec::new(), CLASSES).finish().unwrap();
    let error = Side::read(&report, csv.as_slice()).unwrap_err().to_string();
    assert!(error.contains("found 0 attempts, 0 of them ok; expected 1 and 1"), "{error}");
}

#[test]
fn a_request_of_one_side_only_still_counts() {
    let (short, long) = (side(&noisy(1, 300, 0.0), "h"), side(&noisy(1, 340, 0.0), "h"));
    let found = compare(&short, &long, &Options::default()).unwrap();
    assert!(found.paired && found.requests == 340);
    assert!(found.get(None, p95_ttft()).unwrap().difference_ci95.is_some());
}

/// How often of 100 the interval of the median's difference covers the truth, 0.
fn covered(paths: impl Fn(u64) -> Vec<Record>) -> usize {
    let median = Metric::Percentile(Quantity::Ttft, Level::P50);
    (0..100u64)
        .filter(|&i| {
            let (a, b) = (side(&paths(2 * i), "a"), side(&paths(2 * i + 1), "b"));
            let found = compare(&a, &b, &Options { different_schedules: true, seed: i }).unwrap();
            !found.get(None, median).unwrap().real
        })
        .count()
}

#[test]
fn intervals_cover_the_truth_about_as_often_as_they_say() {
    let independent = covered(|seed| noisy(seed, 400, 0.0));
    // A queue's delays: each is 0.9 of the one before, and something new. Drawn one by one, requests like these
    // would give intervals that cover in about 40 % of cases.
    let dependent = covered(|seed| {
        let mut level = 0.5;
        noise(seed, 900)
            .iter()
            .zip(0..)
            .map(|(x, id)| {
                level = 0.9 * level + 0.1 * x;
                request(id, 100.0 + 100.0 * level)
            })
            .collect()
    });
    assert!((87..=99).contains(&independent), "{independent} of 100");
    assert!((80..=99).contains(&dependent), "{dependent} of 100");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_pack_and_itself_do_not_differ(seed in 0u64..1000, count in 1usize..200) {
        let side = side(&noisy(seed, count, 0.0), "h");
        let found = compare(&side, &side, &Options::default()).unwrap();
        for scope in &found.scopes {
            for metric in &scope.metrics {
                prop_assert!(metric.difference.is_none_or(|d| d == 0.0) && !metric.real, "{:?}", metric);
                prop_assert!(metric.difference_ci95.is_none_or(|ci| ci == (0.0, 0.0)), "{:?}", metric);
                prop_assert!(metric.ratio.is_none_or(|ratio| ratio == 1.0));
            }
            prop_assert!(scope.distributions.iter().all(|d| d.kolmogorov_smirnov.is_none_or(|ks| ks == 0.0)));
        }
    }

    #[test]
    fn swapping_the_packs_negates_the_differences(seed in 0u64..1000, shift in -50.0f64..50.0) {
        let (a, b) = (side(&noisy(seed, 150, 0.0), "h"), side(&noisy(seed + 1, 150, shift), "h"));
        let there = compare(&a, &b, &Options::default()).unwrap();
        let back = compare(&b, &a, &Options::default()).unwrap();
        for (x, y) in there.scopes.iter().zip(&back.scopes) {
            for (x, y) in x.metrics.iter().zip(&y.metrics) {
                prop_assert_eq!(x.difference, y.difference.map(|d| 0.0 - d));
                prop_assert_eq!(x.difference_ci95, y.difference_ci95.map(|(low, high)| (0.0 - high, 0.0 - low)));
                prop_assert_eq!(x.real, y.real);
            }
            prop_assert_eq!(&x.distributions[0].kolmogorov_smirnov, &y.distributions[0].kolmogorov_smirnov);
        }
    }
}
