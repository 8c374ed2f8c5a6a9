use super::*;
use crate::analyze::{Analyzer, Stated};
use crate::capacity::{Capacity, Judgement, capacity};
use crate::plan::{PlanInput, plan};
use crate::record::{Outcome, Record};
use crate::report::{OUTSIDE_VALIDITY, Origin, Report, RunFacts, SystemFacts};
use crate::saturation::saturation;
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
        system: Some(SystemFacts {
            replicas: 4,
            gpus: 8,
            router: "round_robin".into(),
            cache: "cold".into(),
            profile: None,
        }),
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
    let title = "Dense <70B> & \"friends\"";
    let verdict = |replicas, pass| FleetVerdict {
        replicas,
        pass,
        failing_gates: vec!["queue_trend".into()],
        summary: "attainment 97 %".into(),
    };
    let peak = PlannedPeak {
        plan: plan(&input).unwrap(),
        at_peak: verdict(9, true),
        after_loss: Some(verdict(8, false)),
        capacity_rps: 51.0,
        by_division_rps: 54.0,
        finding: "less than linear, by 5.6 %".into(),
    };
    let facts: Vec<&RunFacts> = points.iter().map(|(_, report)| &report.facts).collect();
    vec![
        point_html(&PointPage { model: title, name: "open-28", report: &points[10].1, samples: &samples() }),
        study_html(title, &[sweep_section(&sweep_page(&points, &capacity))], &[]),
        plan_html(&PlanPage {
            model: title,
            peaks: &[peak],
            swept: FleetCapacity { replicas: 4, capacity_rps: 24.3 },
            points: &facts,
            remarks: &["A <remark>.".to_string()],
        }),
        study_html(title, &[closed_of(&points), sweep_section(&sweep_page(&points, &capacity))], &[]),
    ]
}

fn sweep_page<'a>(points: &'a [(f64, Report)], capacity: &'a Capacity) -> SweepPage<'a> {
    SweepPage {
        title: "Open <loop>",
        classes: &CLASSES,
        attainment_min: 0.95,
        points,
        capacity,
        remarks: &[],
    }
}

/// A closed loop whose clients are as many as the points' rates.
fn closed_of(points: &[(f64, Report)]) -> Section {
    let closed = |(rps, report): &(f64, Report)| {
        let facts = RunFacts { offered_rps: None, concurrency: Some(*rps as u32), ..report.facts.clone() };
        (*rps, Report { facts, ..report.clone() })
    };
    let points: Vec<(f64, Report)> = points.iter().map(closed).collect();
    let tested: Vec<(u32, f64)> =
        points.iter().map(|(n, r)| (*n as u32, r.request_throughput_rps.unwrap_or(0.0))).collect();
    let saturation = saturation(&tested);
    closed_section(&ClosedPage {
        title: "Closed",
        classes: &CLASSES,
        points: &points,
        saturation: &saturation,
    })
}

#[test]
fn pages_stand_alone_and_every_picture_has_its_table() {
    for (page, pictures) in pages().iter().zip([3, 4, 1, 7]) {
        for banned in ["http:", "https:", "<script", "src=", "href=", "url(", "NaN", "<70B>"] {
            assert!(!page.contains(banned), "{banned} in {page}");
        }
        assert_eq!(page.matches("<svg").count(), pictures);
        let figures: Vec<_> = page.split("<figure>").skip(1).collect();
        assert_eq!(figures.len(), pictures);
        assert!(figures.iter().all(|f| f.find("<table").unwrap() > f.find("</svg>").unwrap()));
        assert!(page.contains("width=device-width") && page.contains("role=\"img\" aria-label="));
        for tag in ["table", "figure", "svg", "div", "td", "th", "text", "ul", "li", "p", "details"] {
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
fn a_run_outside_the_profiles_region_is_marked_in_its_row() {
    assert!(!pages()[1].contains("OUTSIDE"));
    let mut points = sweep_points();
    points[4].1.warnings.push(format!("{OUTSIDE_VALIDITY}rows reached 9, the profile holds to 8"));
    let capacity = capacity_of(&points);
    let remarks = ["Drawn <twice>.".to_owned()];
    let page = sweep_section(&SweepPage { remarks: &remarks, ..sweep_page(&points, &capacity) });
    let page = study_html("x", &[page], &[]);
    assert_eq!(page.matches("<td>OUTSIDE</td>").count(), 1);
    assert!(page.contains("20 requests/s is outside the profile&#39;s validity region in 1 of 3 runs"));
    assert!(page.contains("Drawn &lt;twice&gt;."));
}

#[test]
fn a_study_begins_with_every_answer() {
    let page = &pages()[3];
    let top = &page[..page.find("<section>").unwrap()];
    assert!(
        top.contains("<li>Closed loop, cold cache. Not saturated at 28 clients")
            || top.contains("Saturates at")
    );
    assert!(top.contains("<li>Open loop, cold cache. Capacity: 24 requests/s"), "{top}");
    assert!(
        top.contains("<th scope=\"row\">Open loop, cold cache</th><td>capacity 24 requests/s</td>"),
        "{top}"
    );
    assert!(top.contains("weakest class there"));
}

#[test]
fn a_front_has_its_cutoffs_and_its_clients() {
    let page = &pages()[3];
    assert!(page.contains("interactive (cutoff 500 ms: thin line)"));
    assert!(page.contains("text-anchor=\"end\">28</text>"), "the number of clients at its mark");
}

#[test]
fn a_point_says_what_it_is_and_what_is_not_measured() {
    let page = &pages()[0];
    assert!(page.contains("<h1>28 requests/s: 4 replicas on 8 GPUs</h1>"), "{page}");
    assert!(page.contains("Open loop, cold cache; router round_robin."));
    assert!(page.contains(">drain</text>") && page.contains("schedule 0123456789ab."));
}

#[test]
fn the_plan_begins_with_its_answer() {
    let page = &pages()[2];
    assert!(page.contains("<h1>9 replicas on 18 GPUs for 36 requests/s</h1>"));
    assert!(page.contains("every gate passes, but on 8 after a loss one FAILS"));
    assert!(page.contains("15 requests/s of headroom, 70.6 % utilization"));
    assert!(page.contains("⌈36 / (6 × 0.75)⌉ = 8") && page.contains("A &lt;remark&gt;."));
}

#[test]
fn a_run_without_successes_or_samples_has_a_page() {
    let mut analyzer = Analyzer::new(&manifest(1));
    analyzer.push(&failed(0, 0, Outcome::Lost));
    let report = analyzer.finish(RunFacts::of_file(), Stated::default());
    let page = point_html(&PointPage { model: "x", name: "some <point>", report: &report, samples: &[] });
    assert!(
        page.contains("Gates failed")
            && page.contains("<h1>some &lt;point&gt;</h1>")
            && !page.contains("NaN")
    );
    let points = [(1.0, report)];
    let capacity = capacity_of(&points);
    let page = study_html("x", &[sweep_section(&sweep_page(&points, &capacity))], &[]);
    assert!(page.contains("No tested rate passes every gate") && !page.contains("NaN"));
}
