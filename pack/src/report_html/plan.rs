//! The page of a plan: the answer for each peak, then what it rests on.

use super::basis;
use super::html::{escape, figure, notes, number, page, percent, verdicts, yes};
use super::svg::{Chart, Limit, Measure, Point, Scale, Series};
use super::table::{Table, pairs};
use crate::plan::{FleetAtPeak, Plan};
use crate::report::RunFacts;

/// Replicas drawn beyond the planned ones.
const REPLICAS_BEYOND: u32 = 2;

/// What the page of a plan shows.
#[derive(Clone, Copy, Debug)]
pub struct PlanPage<'a> {
    /// What is served.
    pub model: &'a str,
    /// A plan for each peak; at least one.
    pub peaks: &'a [PlannedPeak],
    /// The fleet whose capacity is divided, with its refined capacity.
    pub swept: FleetCapacity,
    /// What the swept points were run with.
    pub points: &'a [&'a RunFacts],
    /// What else the reader should know.
    pub remarks: &'a [String],
}

/// A plan for one peak, and what simulating the planned fleet said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPeak {
    /// The arithmetic.
    pub plan: Plan,
    /// All planned replicas at the peak.
    pub at_peak: FleetVerdict,
    /// What is left of them after a loss; None if nothing is.
    pub after_loss: Option<FleetVerdict>,
    /// The planned fleet's own capacity.
    pub capacity_rps: f64,
    /// What division says it is.
    pub by_division_rps: f64,
    /// How the two compare, in words.
    pub finding: String,
}

/// The verdict on a fleet simulated at a peak.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetVerdict {
    /// Replicas.
    pub replicas: u32,
    /// Whether the peak passes on them.
    pub pass: bool,
    /// The gates that fail.
    pub failing_gates: Vec<String>,
    /// Attainment and queue, in words.
    pub summary: String,
}

/// The capacity of a simulated fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetCapacity {
    /// Replicas.
    pub replicas: u32,
    /// Its capacity.
    pub capacity_rps: f64,
}

impl FleetVerdict {
    fn words(&self) -> String {
        if self.pass {
            "every gate passes".to_owned()
        } else {
            format!("FAILS {}", self.failing_gates.join(", "))
        }
    }
}

impl PlannedPeak {
    fn fleet(&self) -> String {
        basis::fleet(self.plan.planned_replicas, self.plan.planned_gpus)
    }

    fn headroom_rps(&self) -> f64 {
        self.capacity_rps - self.plan.peak_rps
    }

    fn verdict(&self) -> String {
        let gates =
            if self.at_peak.pass { "every gate passes".to_owned() } else { "a gate FAILS".to_owned() };
        let after_loss = match &self.after_loss {
            None => ", and no replica is left after a loss".to_owned(),
            Some(left) if left.pass == self.at_peak.pass => {
                format!(", also on {} after a loss", left.replicas)
            }
            Some(left) if left.pass => format!(", but not on {} after a loss", left.replicas),
            Some(left) => format!(", but on {} after a loss one FAILS", left.replicas),
        };
        format!(
            "{} for a peak of {} requests/s. Simulated at the peak, {gates}{after_loss}. The fleet's own capacity is {} \
             requests/s: {} requests/s of headroom, {} utilization.",
            self.fleet(),
            number(self.plan.peak_rps),
            number(self.capacity_rps),
            number(self.headroom_rps()),
            percent(self.plan.peak_rps / self.capacity_rps)
        )
    }
}

/// The page of a plan, as HTML.
#[must_use]
pub fn plan_html(input: &PlanPage) -> String {
    let title = match input.peaks {
        [only] => format!("{} for {} requests/s", only.fleet(), number(only.plan.peak_rps)),
        all => format!("Plans for {} peaks", all.len()),
    };
    let mut body = verdicts(&input.peaks.iter().map(|peak| escape(&peak.verdict())).collect::<Vec<_>>());
    body += &answers(input.peaks);
    let source = input.points.first().map_or_else(String::new, |facts| basis::source(facts));
    let schedules = basis::schedules(input.points.iter().copied(), "summary.csv");
    let basis = format!("{}. {source} {schedules}", input.model);
    body += &format!("<p class=\"basis\">{}</p>\n", escape(&basis));
    body += "<h2>Does capacity divide by replicas?</h2>\n<div class=\"pictures\">\n";
    body += &picture(input);
    body += "</div>\n";
    let findings = input.peaks.iter().map(|peak| {
        format!("{} replicas against {}: {}", peak.plan.planned_replicas, input.swept.replicas, peak.finding)
    });
    body += &notes("What division misses", &findings.collect::<Vec<_>>());
    for peak in input.peaks {
        body += &arithmetic(&peak.plan);
    }
    body += &notes("Before you believe the numbers", input.remarks);
    page(&title, &body)
}

/// The key facts: a row a peak.
fn answers(peaks: &[PlannedPeak]) -> String {
    Table::of(peaks)
        .key("peak, requests/s", |peak| number(peak.plan.peak_rps))
        .key("replicas", |peak| peak.plan.planned_replicas.to_string())
        .key("GPUs", |peak| peak.plan.planned_gpus.to_string())
        .key("simulated capacity, requests/s", |peak| number(peak.capacity_rps))
        .key("by division, requests/s", |peak| number(peak.by_division_rps))
        .key("headroom, requests/s", |peak| number(peak.headroom_rps()))
        .key("utilization", |peak| percent(peak.plan.peak_rps / peak.capacity_rps))
        .html("The answers")
        + &simulated(peaks)
}

/// What the simulations at the peaks saw.
fn simulated(peaks: &[PlannedPeak]) -> String {
    let fleets: Vec<(&PlannedPeak, &str, &FleetVerdict)> = peaks
        .iter()
        .flat_map(|peak| {
            let left = peak.after_loss.as_ref().map(|left| (peak, "after a loss", left));
            std::iter::once((peak, "all planned", &peak.at_peak)).chain(left)
        })
        .collect();
    Table::of(&fleets)
        .key("simulated at, requests/s", |(peak, ..)| number(peak.plan.peak_rps))
        .key("fleet", |(_, what, _)| (*what).to_owned())
        .key("replicas", |(.., fleet)| fleet.replicas.to_string())
        .text("gates", |(.., fleet)| fleet.words())
        .text("attainment and queue", |(.., fleet)| fleet.summary.clone())
        .html("Simulated at the peaks")
}

fn arithmetic(plan: &Plan) -> String {
    let row = |name: &str, value: String| (name.to_string(), value);
    let rows = [
        row("capacity of the swept fleet, requests/s", number(plan.capacity_rps)),
        row("capacity per replica, requests/s", number(plan.capacity_per_replica_rps)),
        row("peak, requests/s", number(plan.peak_rps)),
        row("target utilization", percent(plan.target_utilization)),
        row(
            "required replicas",
            format!(
                "⌈{} / ({} × {})⌉ = {}",
                number(plan.peak_rps),
                number(plan.capacity_per_replica_rps),
                number(plan.target_utilization),
                plan.required_replicas
            ),
        ),
        row("required GPUs", plan.required_gpus.to_string()),
        row("spare replicas", plan.spare_replicas.to_string()),
        row("planned replicas", plan.planned_replicas.to_string()),
        row("planned GPUs", plan.planned_gpus.to_string()),
    ];
    let peak = number(plan.peak_rps);
    let fleets: Vec<&FleetAtPeak> = std::iter::once(&plan.full).chain(&plan.one_lost).collect();
    let divided = Table::of(&fleets)
        .key("replicas", |fleet| fleet.replicas.to_string())
        .key("capacity, requests/s", |fleet| number(fleet.capacity_rps))
        .key("utilization", |fleet| percent(fleet.utilization))
        .key("headroom, requests/s", |fleet| number(fleet.headroom_rps))
        .key("within capacity", |fleet| yes(fleet.within_capacity))
        .key("within target", |fleet| yes(fleet.within_target))
        .html("At the peak, by division");
    format!(
        "<h2>Arithmetic for {peak} requests/s</h2>\n{}<p>At the peak, if capacity divides by replicas:</p>\n{divided}",
        pairs("Arithmetic", ["quantity", "value"], &rows)
    )
}

fn picture(input: &PlanPage) -> String {
    let first = &input.peaks[0].plan;
    let planned = |peak: &PlannedPeak| f64::from(peak.plan.planned_replicas);
    let most = input.peaks.iter().map(|peak| peak.plan.planned_replicas).max().unwrap_or(1);
    let last = most.saturating_add(REPLICAS_BEYOND);
    let by_division = |n: u32| Point::at(f64::from(n), first.capacity_per_replica_rps * f64::from(n));
    let swept = Point::at(f64::from(input.swept.replicas), input.swept.capacity_rps);
    let fleets = input.peaks.iter().map(|peak| Point::at(planned(peak), peak.capacity_rps));
    let series = vec![
        Series {
            name: "capacity by division".into(),
            points: [1, last].map(by_division).to_vec(),
            apart: false,
        },
        Series {
            name: "capacity of a simulated fleet".into(),
            points: std::iter::once(swept).chain(fleets).collect(),
            apart: true,
        },
        Series {
            name: "peak that a fleet is planned for".into(),
            points: input.peaks.iter().map(|peak| Point::at(planned(peak), peak.plan.peak_rps)).collect(),
            apart: true,
        },
    ];
    let mut chart = Chart {
        title: "Capacity by number of replicas".into(),
        x: Measure::new("replicas", Scale::FromZero),
        y: Measure::new("requests/s", Scale::FromZero),
        series,
        ..Chart::default()
    };
    if let [only] = input.peaks {
        let needed = only.plan.peak_rps / only.plan.target_utilization;
        let name = format!("peak / target utilization = {} requests/s", number(needed));
        chart.limits = vec![Limit::of_all(needed, name)];
        chart.mark = Some((planned(only), "planned".into()));
    }
    let mut rows = vec![(input.swept, input.swept.capacity_rps)];
    rows.extend(input.peaks.iter().map(|peak| {
        let fleet = FleetCapacity { replicas: peak.plan.planned_replicas, capacity_rps: peak.capacity_rps };
        (fleet, peak.by_division_rps)
    }));
    let numbers = Table::of(&rows)
        .key("replicas", |(fleet, _)| fleet.replicas.to_string())
        .key("simulated, requests/s", |(fleet, _)| number(fleet.capacity_rps))
        .key("by division, requests/s", |(_, divided)| number(*divided))
        .html("Capacity by replicas");
    let reading =
        "The line is the hypothesis that capacity divides by replicas; the simulated fleets test it.";
    figure("Capacity by replicas", reading, &chart.svg(), &numbers)
}
