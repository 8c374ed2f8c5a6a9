use super::*;
use crate::report::Origin;
use crate::requests_csv::{Reader, Writer};
use crate::testing::{failed, manifest, ok};
use proptest::prelude::*;

fn facts() -> RunFacts {
    RunFacts { origin: Origin::Simulated, ..RunFacts::of_file() }
}

fn analyze(records: &[Record], min_successes: u64, stated: Stated) -> Report {
    let mut analyzer = Analyzer::new(&manifest(min_successes));
    records.iter().for_each(|r| analyzer.push(r));
    analyzer.finish(facts(), stated)
}

const FLAT: Stated = Stated { duration_s: None, queue_trend: Some(Verdict::Flat) };

/// Samples every second from `from_s` to `to_s`, `waiting` at each.
fn samples(analyzer: &mut Analyzer, from_s: u64, to_s: u64, waiting: impl Fn(u64) -> u32) {
    for s in from_s..=to_s {
        let row = TimelineRow { at: Nanos(s * 1_000_000_000), waiting: waiting(s), ..TimelineRow::default() };
        analyzer.push_sample(&row);
    }
}

/// Three successes of each class in time, one second each.
fn good() -> Vec<Record> {
    (0..9).map(|id| ok(id, (id % 3) as u16, 100_000_000, 900_000_000, 101)).collect()
}

#[test]
fn the_smoke_file() {
    let text = "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status\n\
                r-0001,interactive,182.0,25.1,3370.0,128,ok\n\
                r-0002,long_context,1940.0,44.2,13211.2,256,ok\n\
                r-0003,generation_heavy,910.0,47.0,48991.0,1024,ok\n\
                r-0004,interactive,0,0,0,0,error\n";
    let manifest = manifest(2000);
    let mut analyzer = Analyzer::new(&manifest);
    for row in Reader::new(text.as_bytes(), manifest.classes.iter().map(|c| c.name.as_str())).unwrap() {
        analyzer.push_row(&row.unwrap());
    }
    let report = analyzer
        .finish(RunFacts::of_file(), Stated { duration_s: Some(60.0), queue_trend: Some(Verdict::Flat) });
    assert_eq!((report.attempted, report.successful, report.failed), (4, 3, 1));
    assert_eq!(report.error_rate, Some(0.25));
    assert_eq!(report.overall_attainment, Some(2.0 / 3.0));
    assert_eq!(report.observed_goodput_rps, Some(2.0 / 60.0));
    assert_eq!(report.output_throughput_tps, Some(1408.0 / 60.0));
    assert!(report.classes.values().all(|c| !c.sample_adequate && !c.class_slo_pass && c.exploratory));
    assert_eq!(report.classes["generation_heavy"].passing_count, 0);
    assert_eq!(report.classes["interactive"].passing_count, 1);
    assert_eq!(report.classes["interactive"].latency.p95_ttft_ms, Some(182.0));
    assert_eq!(report.classes["interactive"].latency.p99_ttft_ms, None);
    assert!(!report.all_class_slos_pass && !report.capacity_gate_pass);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn a_good_run_passes_every_gate() {
    let report = analyze(&good(), 3, FLAT);
    assert!(report.capacity_gate_pass, "{:?}", report.gates);
    assert_eq!(report.gates.len(), 8);
    assert!((report.duration_s - 9.0).abs() < 1e-12, "from the first arrival to the last end");
    assert_eq!(report.request_throughput_rps, Some(1.0));
    let class = &report.classes["interactive"];
    assert_eq!(class.latency.mean_e2e_ms, Some(1000.0));
    assert_eq!(class.mean_tpot_ms, Some(9.0));
    assert!(!class.resolved, "three of three resolve nothing");
}

#[test]
fn cutoffs_include_their_own_value() {
    let at = |ttft_ns, decode_ns, tokens| {
        let report = analyze(&[ok(0, 0, ttft_ns, decode_ns, tokens)], 1, FLAT);
        report.classes["interactive"].passing_count
    };
    assert_eq!(at(500_000_000, 40_000_000 * 127, 128), 1);
    assert_eq!(at(500_000_001, 40_000_000 * 127, 128), 0);
    assert_eq!(at(500_000_000, 40_000_000 * 127 + 1, 128), 0);
    assert_eq!(at(500_000_000, 7_000_000_000, 1), 1, "one token has no TPOT and passes its cutoff");
}

#[test]
fn without_successes_nothing_passes() {
    for records in [Vec::new(), vec![failed(0, 0, Outcome::Rejected), failed(1, 1, Outcome::Lost)]] {
        let report = analyze(&records, 0, Stated::default());
        assert!(!report.capacity_gate_pass && !report.all_class_slos_pass);
        assert_eq!(report.overall_attainment, None);
        assert_eq!(report.queue_trend, Verdict::Undetermined);
        let class = &report.classes["interactive"];
        assert_eq!((class.attainment, class.latency.p50_ttft_ms, class.mean_tpot_ms), (None, None, None));
        assert!(!serde_json::to_string(&report).unwrap().contains("NaN"));
    }
}

#[test]
fn everything_rejected_at_one_moment_has_no_rates() {
    let record = failed(0, 0, Outcome::Rejected);
    let report = analyze(&[Record { ended: record.sent, ..record }], 1, FLAT);
    assert_eq!((report.request_throughput_rps, report.observed_goodput_rps), (None, None));
    assert_eq!(report.attempted_attainment, Some(0.0));
}

#[test]
fn a_class_nobody_sends_fails_and_is_named() {
    let records: Vec<_> = good().into_iter().filter(|r| r.class != 1).collect();
    let report = analyze(&records, 1, FLAT);
    let failing: Vec<_> = report.failing_gates().collect();
    assert_eq!(failing, ["attainment:long_context", "samples:long_context"]);
    assert!(report.warnings[0].contains("long_context was never attempted"), "{:?}", report.warnings);
}

#[test]
fn p99_needs_ten_thousand_successes() {
    let p99 = |n| {
        let records: Vec<_> = (0..n).map(|id| ok(id, 0, id * 1000, 1_000_000, 2)).collect();
        let report = analyze(&records, 1, FLAT);
        (report.classes["interactive"].latency.p99_ttft_ms, report.classes["interactive"].p99_tpot_ms)
    };
    assert_eq!(p99(9_999), (None, None));
    assert_eq!(p99(10_000), (Some(9.899), Some(1.0)));
}

#[test]
fn warm_up_is_left_out_of_all_but_little() {
    let mut records = good();
    records.push(Record { warmup: true, outcome: Outcome::Error, ..ok(0, 0, 1, 2_000_000_000, 5) });
    let (with, without) = (analyze(&records, 3, FLAT), analyze(&good(), 3, FLAT));
    assert_eq!(with.warmup_attempts, 1);
    assert_eq!(Report { warmup_attempts: 0, ..with }, without);
}

#[test]
fn latency_from_the_schedule_shows_what_a_late_client_hides() {
    let late = |r: Record| Record { scheduled: r.scheduled.since(Nanos(400_000_000)), ..r };
    let records: Vec<_> =
        good().into_iter().enumerate().map(|(i, r)| if i >= 3 { late(r) } else { r }).collect();
    let report = analyze(&records, 3, FLAT);
    let class = &report.classes["interactive"];
    assert_eq!(class.latency.p95_ttft_ms, Some(100.0));
    let from_schedule = class.from_schedule.as_ref().unwrap();
    assert_eq!((from_schedule.p50_ttft_ms, from_schedule.p95_e2e_ms), (Some(500.0), Some(1400.0)));
    assert_eq!(report.send_lag, Some(SendLag { p50_ms: 400.0, p99_ms: 400.0, max_ms: 400.0 }));
}

#[test]
fn the_trend_ends_with_the_arrivals() {
    let mut analyzer = Analyzer::new(&manifest(1));
    // Grows for 100 s while requests arrive, then drains for 900: over all of it there is no growth left.
    (0..=100).for_each(|id| analyzer.push(&ok(id, 0, 1, 1, 2)));
    analyzer.push(&Record { ended: Nanos(1_000_000_000_000), ..ok(50, 0, 1, 1, 2) });
    samples(&mut analyzer, 0, 1000, |s| if s <= 100 { s as u32 } else { (1000 - s) as u32 / 10 });
    let report = analyzer.finish(facts(), Stated::default());
    assert_eq!(report.queue_trend, Verdict::Growing, "{:?}", report.queue_trend_test);
    assert_eq!(report.queue_peak, Some(100));
}

#[test]
fn littles_law_finds_what_the_records_lack() {
    let gap = |waiting: u32| {
        let mut analyzer = Analyzer::new(&manifest(1));
        (0..100).for_each(|id| analyzer.push(&ok(id, 0, 1, 999_999_999, 2)));
        let warmup = Record { warmup: true, ended: Nanos(50_000_000_000), ..ok(0, 0, 1, 1, 2) };
        analyzer.push(&warmup);
        samples(&mut analyzer, 0, 100, |_| waiting);
        let report = analyzer.finish(facts(), FLAT);
        (report.littles_law.unwrap(), report.warnings.iter().any(|w| w.starts_with("Little")))
    };
    let (law, warned) = gap(3);
    assert!(
        (law.implied_in_flight - 1.5).abs() < 1e-9 && (law.warmup_in_flight - 0.5).abs() < 1e-9,
        "{law:?}"
    );
    assert!((law.relative_gap.unwrap() - 0.5).abs() < 1e-9 && warned);
}

#[test]
fn a_nearly_empty_fleet_breaks_no_law() {
    // A tenth of a request in flight, which samples a second apart never see.
    let mut analyzer = Analyzer::new(&manifest(1));
    (0..100).for_each(|id| analyzer.push(&ok(id, 0, 1, 99_999_999, 2)));
    samples(&mut analyzer, 0, 100, |_| 0);
    let report = analyzer.finish(facts(), FLAT);
    assert_eq!(report.littles_law.unwrap().relative_gap, Some(-1.0));
    assert!(!report.warnings.iter().any(|w| w.starts_with("Little")), "{:?}", report.warnings);
}

#[test]
fn another_tools_tpot_is_noticed() {
    let text =
        "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status\na,interactive,500,15,1500,100,ok\n";
    let mut analyzer = Analyzer::new(&manifest(1));
    for row in Reader::new(text.as_bytes(), ["interactive"]).unwrap() {
        analyzer.push_row(&row.unwrap());
    }
    let report = analyzer.finish(RunFacts::of_file(), FLAT);
    assert!(report.warnings.iter().any(|w| w.contains("another metric")), "{:?}", report.warnings);
    assert_eq!(report.duration_s.to_bits(), 0, "unknown unless stated");
    assert_eq!(report.classes["interactive"].from_schedule, None);
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let one = (0u16..3, 0..6usize, 0u64..2_000_000_000, 0u64..9_000_000_000, 1u32..200, 0u64..3);
    prop::collection::vec(one, 0..60).prop_map(|parts| {
        let record =
            |(id, (class, outcome, ttft, decode, tokens, lag)): (usize, (_, usize, _, _, _, u64))| {
                let base = ok(id as u64 / 3 + 1, class, ttft, decode, tokens);
                let (outcome, scheduled) = (Outcome::ALL[outcome], base.scheduled.since(Nanos(lag)));
                let reason = if outcome == Outcome::Ok { "" } else { "made to fail" };
                Record { id: id as u64, outcome, scheduled, reason, warmup: id % 7 == 6, ..base }
            };
        parts.into_iter().enumerate().map(record).collect()
    })
}

proptest! {
    #[test]
    fn outcomes_add_up_and_counts_agree(records in any_records()) {
        let report = analyze(&records, 1, FLAT);
        let measured = records.iter().filter(|r| !r.warmup);
        prop_assert_eq!(report.attempted, measured.clone().count() as u64);
        prop_assert_eq!(report.outcomes.attempted(), report.attempted);
        prop_assert_eq!(report.successful + report.failed, report.attempted);
        prop_assert_eq!(report.failure_reasons.values().sum::<u64>(), report.failed);
        let classes = report.classes.values();
        prop_assert_eq!(classes.clone().map(|c| c.attempted_count).sum::<u64>(), report.attempted);
        prop_assert_eq!(classes.clone().map(|c| c.successful_count).sum::<u64>(), report.successful);
        prop_assert!(classes.clone().all(|c| c.passing_count <= c.successful_count));
        prop_assert_eq!(report.capacity_gate_pass, report.failing_gates().next().is_none());
    }

    #[test]
    fn the_order_of_the_records_changes_nothing(
        (records, shuffled) in any_records().prop_flat_map(|r| (Just(r.clone()), Just(r).prop_shuffle()))
    ) {
        prop_assert_eq!(analyze(&records, 1, FLAT), analyze(&shuffled, 1, FLAT));
    }

    /// JSON has no word for NaN or infinity: the report comes back from its JSON as it was.
    #[test]
    fn json_gives_the_report_back(records in any_records()) {
        let report = analyze(&records, 1, Stated::default());
        let json = serde_json::to_string(&report).unwrap();
        let back: Report = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), json);
    }

    /// The analysis of a written file is the analysis of its records.
    #[test]
    fn a_file_gives_the_same_report(records in any_records()) {
        let manifest = manifest(1);
        let names = || manifest.classes.iter().map(|c| c.name.as_str());
        let mut writer = Writer::new(Vec::new(), names());
        let measured: Vec<_> = records.iter().filter(|r| !r.warmup).cloned().collect();
        measured.iter().for_each(|r| writer.row(r).unwrap());
        let file = writer.finish().unwrap();
        let mut analyzer = Analyzer::new(&manifest);
        for row in Reader::new(&file[..], names()).unwrap() {
            analyzer.push_row(&row.unwrap());
        }
        prop_assert_eq!(analyzer.finish(facts(), FLAT), analyze(&measured, 1, FLAT));
    }
}
