use super::*;
use crate::analyze::{Analyzer, Stated};
use crate::capacity::{Capacity, Judgement, capacity};
use crate::plan::{PlanInput, plan};
use crate::record::{Outcome, Record};
use crate::report::{OUTSIDE_VALIDITY, RunFacts};
use crate::testing::{failed, manifest, ok};
use crate::time::Nanos;
use crate::timeline::FleetSample;
use crate::trend::Verdict;

const CLASSES: [&str; 3] = ["interactive", "long_context", "generation_heavy"];

/// A report at `rps` whose latencies rise with the load; `seed` shifts them a little.
fn report(rps: f64, seed: u64) -> Report {
    let mut analyzer = Analyzer::new(&manifest(20));
    let load = rps / 26.0;
    for id in 0..300u64 {
        let spread = 0.4 + ((id * 7919 + seed * 31) % 100) as f64 / 150.0;
        let slow = if load > 1.0 { 40.0 * (load - 1.0) * id as f64 / 300.0 } else { 0.0 };
        let ttft = 1e9 * spread * (0.35 / (1.15 - load.min(1.1)) * 0.3 + slow);
        let tpot = 1e6 * 36.0 * spread * (0.5 + 0.6 * load);
        let mut record = ok(id, (id % 3) as u16, ttft as u64, (tpot * 99.0) as u64, 100);
        if load > 1.0 && id % 40 == 0 {
            record = failed(id, (id % 3) as u16, Outcome::Timeout);
        }
        let at = Nanos((id as f64 / rps * 1e9) as u64);
        let moved = |t: Nanos| at + t.since(record.sent);
        let (first_token, ended) = (record.first_token.map(moved), moved(record.ended));
        analyzer.push(&Record { scheduled: at, sent: at, first_token, ended, ..record });
    }
    let queue_trend = Some(if load > 1.0 { Verdict::Growing } else { Verdict::Flat });
    let facts = RunFacts {
        origin: Origin::Simulated,
        schedule_hash: Some("0123456789abcdef".into()),
        seed: Some(seed),
        offered_rps: Some(rps),
        ..RunFacts::of_file()
    };
    analyzer.finish(facts, Stated { queue_trend, duration_s: None })
}

fn samples() -> Vec<FleetSample> {
    let sample = |s: u64| FleetSample {
        at: Nanos(s * 1_000_000_000),
        waiting: (s / 8) * (s * 13 % 7) / 3,
        running: 300 + s * 31 % 90,
        kv_blocks_used: 3000 + s * 5 + s * 97 % 800,
        kv_blocks_total: 10_000,
    };
    (60..960).map(sample).collect()
}

fn sweep_points() -> Vec<(f64, Report)> {
    let rates = [16.0, 20.0, 24.0, 28.0];
    rates.iter().flat_map(|&rps| (1..=3).map(move |seed| (rps, report(rps, seed)))).collect()
}

fn capacity_of(points: &[(f64, Report)]) -> Capacity {
    let judged: Vec<_> = points.iter().map(|(rps, report)| (*rps, Judgement::of(report))).collect();
    capacity(&judged)
}

fn pages() -> Vec<String> {
    let points = sweep_points();
    let capacity = capacity_of(&points);
    let input = PlanInput {
        capacity_rps: 24.0,
        replicas: 4,
        gpus_per_replica: 2,
        peak_rps: 36.0,
        target_utilization: 0.75,
        spare: 1,
    };
    let simulated = [FleetCapacity { replicas: 9, capacity_rps: Some(51.0) }];
    let title = "Dense <70B> & \"friends\"";
    vec![
        point_html(&PointPage { title, report: &points[10].1, samples: &samples() }),
        sweep_html(&SweepPage {
            title,
            classes: &CLASSES,
            attainment_min: 0.95,
            points: &points,
            capacity: &capacity,
            remarks: &["Drawn twice.".to_string()],
        }),
        plan_html(&PlanPage {
            title,
            plan: &plan(&input).unwrap(),
            simulated: &simulated,
            remarks: &["Capacity is 5.6 % below what division says.".to_string()],
        }),
    ]
}

#[test]
fn pages_stand_alone_and_every_picture_has_its_table() {
    for (page, pictures) in pages().iter().zip([3, 4, 1]) {
        for banned in ["http:", "https:", "<script", "src=", "href=", "url(", "NaN", "<70B>"] {
            assert!(!page.contains(banned), "{banned} in {page}");
        }
        assert_eq!(page.matches("<svg").count(), pictures);
        let figures: Vec<_> = page.split("<figure>").skip(1).collect();
        assert_eq!(figures.len(), pictures);
        assert!(figures.iter().all(|f| f.find("<table").unwrap() > f.find("</svg>").unwrap()));
        assert!(page.contains("width=device-width") && page.contains("role=\"img\" aria-label="));
        for tag in ["table", "figure", "svg", "div", "td", "text", "ul", "p"] {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
        }
    }
}

#[test]
fn the_sweep_names_its_capacity_and_what_fails_above() {
    let page = &pages()[1];
    assert!(
        page.contains("Capacity: 24 requests/s") && page.contains("28 requests/s fails first on"),
        "{page}"
    );
    assert!(page.contains("interactive (cutoff 500 ms)"));
}

#[test]
fn a_run_outside_the_profile_s_region_is_marked_in_its_row() {
    assert!(!pages()[1].contains("profile's region"), "a column for nothing");
    let mut points = sweep_points();
    points[4].1.warnings.push(format!("{OUTSIDE_VALIDITY}rows reached 9, the profile holds to 8"));
    let capacity = capacity_of(&points);
    let (title, classes, attainment_min, remarks) = ("x", &CLASSES[..], 0.95, &[][..]);
    let page = sweep_html(&SweepPage {
        title,
        classes,
        attainment_min,
        points: &points,
        capacity: &capacity,
        remarks,
    });
    assert_eq!(page.matches("<td>OUTSIDE</td>").count(), 1);
    assert_eq!(page.matches("<td>inside</td>").count(), points.len() - 1);
    assert!(page.contains("20 requests/s is outside the profile&#39;s validity region in 1 of 3 runs"));
}

#[test]
fn the_plan_shows_its_arithmetic() {
    let page = &pages()[2];
    assert!(page.contains("⌈36 / (6 × 0.75)⌉ = 8") && page.contains("9 replicas on 18 GPUs"));
}

#[test]
fn a_run_without_successes_or_samples_has_a_page() {
    let mut analyzer = Analyzer::new(&manifest(1));
    analyzer.push(&failed(0, 0, Outcome::Lost));
    let report = analyzer.finish(RunFacts::of_file(), Stated::default());
    let page = point_html(&PointPage { title: "x", report: &report, samples: &[] });
    assert!(page.contains("Gates failed") && !page.contains("NaN"));
    let points = [(1.0, report)];
    let capacity = capacity_of(&points);
    let input = SweepPage {
        title: "x",
        classes: &CLASSES,
        attainment_min: 0.95,
        points: &points,
        capacity: &capacity,
        remarks: &[],
    };
    assert!(sweep_html(&input).contains("No tested rate passes every gate"));
}
