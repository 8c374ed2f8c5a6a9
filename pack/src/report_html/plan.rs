//! The page of a plan.

use super::html::{figure, notes, number, page, percent, table, yes};
use super::svg::{Chart, Point, Series};
use crate::plan::{FleetAtPeak, Plan};

/// Replicas drawn beyond the planned ones.
const REPLICAS_BEYOND: u32 = 2;
/// Points of the line of the hypothesis.
const LINE_POINTS: u32 = 32;

/// What the page of a plan shows.
#[derive(Clone, Copy, Debug)]
pub struct PlanPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The arithmetic.
    pub plan: &'a Plan,
    /// Capacities found by simulating whole fleets; may be empty.
    pub simulated: &'a [FleetCapacity],
    /// What else the reader should know.
    pub remarks: &'a [String],
}

/// The capacity of a simulated fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetCapacity {
    /// Replicas.
    pub replicas: u32,
    /// Capacity, if any tested rate passed.
    pub capacity_rps: Option<f64>,
}

/// The page of a plan, as HTML.
#[must_use]
pub fn plan_html(input: &PlanPage) -> String {
    let plan = input.plan;
    let verdict = format!(
        "{} replicas on {} GPUs for a peak of {} requests/s.",
        plan.planned_replicas,
        plan.planned_gpus,
        number(plan.peak_rps)
    );
    let mut body = String::from("<h2>Arithmetic</h2>\n");
    body.push_str(&table(&["quantity", "value"], &arithmetic(plan)));
    body.push_str("<h2>At the peak, if capacity divides by replicas</h2>\n");
    let rows: Vec<_> = std::iter::once(&plan.full).chain(&plan.one_lost).map(at_peak_row).collect();
    let head = ["replicas", "capacity/s", "utilization", "headroom/s", "within capacity", "within target"];
    body.push_str(&table(&head, &rows));
    body.push_str("<h2>Picture</h2>\n<div class=\"pictures\">\n");
    body.push_str(&picture(input));
    body.push_str("</div>\n");
    body.push_str(&notes("Remarks", input.remarks));
    page(input.title, &verdict, &body)
}

fn arithmetic(plan: &Plan) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_string(), value];
    vec![
        row("capacity of the swept fleet, requests/s", number(plan.capacity_rps)),
        row("capacity per replica", number(plan.capacity_per_replica_rps)),
        row("peak", number(plan.peak_rps)),
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
    ]
}

fn at_peak_row(fleet: &FleetAtPeak) -> Vec<String> {
    vec![
        fleet.replicas.to_string(),
        number(fleet.capacity_rps),
        percent(fleet.utilization),
        number(fleet.headroom_rps),
        yes(fleet.within_capacity),
        yes(fleet.within_target),
    ]
}

fn picture(input: &PlanPage) -> String {
    let plan = input.plan;
    let last = plan.planned_replicas.saturating_add(REPLICAS_BEYOND);
    let by_division = |replicas: u32| plan.capacity_per_replica_rps * f64::from(replicas);
    let point = |replicas: u32, y: f64| Point { x: f64::from(replicas), y, range: None };
    let step = last.div_ceil(LINE_POINTS).max(1) as usize;
    let mut series = vec![Series {
        name: "by division".into(),
        points: (1..last).step_by(step).chain([last]).map(|n| point(n, by_division(n))).collect(),
    }];
    let found: Vec<_> =
        input.simulated.iter().filter_map(|f| f.capacity_rps.map(|rps| point(f.replicas, rps))).collect();
    if !found.is_empty() {
        series.push(Series { name: "simulated fleet".into(), points: found });
    }
    let needed = plan.peak_rps / plan.target_utilization;
    let chart = Chart {
        title: "Capacity by number of replicas".into(),
        x_label: "replicas",
        y_label: "capacity, requests/s",
        series,
        limits: vec![
            (plan.peak_rps, format!("peak, {}/s", number(plan.peak_rps))),
            (needed, format!("peak at the target utilization, {}/s", number(needed))),
        ],
        mark: Some((f64::from(plan.planned_replicas), "planned".into())),
        x_from_zero: true,
        y_from_zero: true,
        y_ratio: false,
    };
    let mut rows: Vec<_> = std::iter::once(&plan.full)
        .chain(&plan.one_lost)
        .map(|f| vec![f.replicas.to_string(), number(f.capacity_rps), "division".to_string()])
        .collect();
    rows.extend(
        input
            .simulated
            .iter()
            .map(|f| vec![f.replicas.to_string(), number(f.capacity_rps), "simulated".to_string()]),
    );
    let reading =
        "The line is the hypothesis that capacity divides by replicas; the simulated fleet tests it.";
    figure("Capacity by replicas", reading, &chart.svg(), &table(&["replicas", "capacity/s", "from"], &rows))
}
