//! What `scaleproof plan` says in words.

use super::{AtPeak, PeakPlan, Scaling, SmallestFleet};
use crate::commands::capacity::Refined;
use crate::draws::ConfidentFleet;
use crate::table::{counted, number, percent, table};
use scaleproof_pack::plan::Plan;

impl Scaling {
    /// Whether division holds, to within what the searches can tell, and what moved.
    pub fn words(&self, base: &Refined, factor: f64) -> String {
        let noise = (base.within_rps * factor + self.simulated.within_rps) / self.linear_rps;
        let off = self.ratio - 1.0;
        let verdict = if off.abs() <= noise {
            format!("linear, to within the searches' {}", percent(Some(noise)))
        } else if off > 0.0 {
            format!("more than linear, by {}", percent(Some(off)))
        } else {
            format!("less than linear, by {}", percent(Some(-off)))
        };
        let mut causes = Vec::new();
        if let (Some(a), Some(b)) = (self.measured_balance, self.planned_balance) {
            let percents = |a, b| format!("{} to {}", percent(Some(a)), percent(Some(b)));
            causes.push(format!(
                "imbalance across replicas {}, variation over time (bursts) {}",
                percents(a.across_replicas, b.across_replicas),
                percents(a.over_time, b.over_time)
            ));
        }
        if let (Some(a), Some(b)) = (self.measured_prefix_hit_share, self.planned_prefix_hit_share) {
            causes.push(format!("prefix hits {} to {}", percent(Some(a)), percent(Some(b))));
        }
        format!(
            "{verdict}; from the swept fleet at its capacity to the planned one at the same load per replica: {}",
            causes.join(", ")
        )
    }
}

/// The division.
pub fn arithmetic_text(plan: &Plan) -> String {
    let mut text = format!(
        "peak {} requests/s: {} per replica x {} utilization -> ceil({} / {:.3}) = {}, {}\n",
        plan.peak_rps,
        plan.capacity_per_replica_rps,
        plan.target_utilization,
        plan.peak_rps,
        plan.capacity_per_replica_rps * plan.target_utilization,
        counted(plan.required_replicas.into(), "replica"),
        counted(plan.required_gpus.into(), "GPU")
    );
    if plan.spare_replicas > 0 {
        text += &format!(
            "with {} spare: {}, {}\n",
            plan.spare_replicas,
            counted(plan.planned_replicas.into(), "replica"),
            counted(plan.planned_gpus.into(), "GPU")
        );
    }
    text
}

impl PeakPlan {
    /// The arithmetic and what the simulation says of it.
    pub fn text(&self) -> String {
        let plan = &self.arithmetic;
        let mut text = arithmetic_text(plan);
        text += &self.at_peak.text("simulated at the peak");
        text += &self.after_loss.as_ref().map_or_else(
            || "after a loss: no replica is left\n".to_owned(),
            |lost| lost.text("after a loss, at the peak"),
        );
        text += &self.smallest_fleet.text(plan);
        for line in self.at_confidence.iter().flat_map(ConfidentFleet::lines) {
            text += &format!("{line}\n");
        }
        let scaling = &self.scaling;
        text += &format!(
            "the planned fleet's own capacity: {:.2} requests/s, by division {:.2}: {}\n",
            scaling.simulated.capacity_refined_rps, scaling.linear_rps, scaling.finding
        );
        text += &scaling.simulated.warnings_text();
        text + &format!(
            "headroom at the peak: {:.2} requests/s, utilization {}\n",
            scaling.headroom_rps,
            percent(Some(scaling.utilization))
        )
    }
}

impl SmallestFleet {
    /// Beside the division's answer, which stays the plan.
    fn text(&self, plan: &Plan) -> String {
        let fewest = match (self.replicas, self.gpus) {
            (Some(replicas), Some(gpus)) => {
                format!("{}, {}", counted(replicas.into(), "replica"), counted(gpus.into(), "GPU"))
            }
            _ => "none found".to_owned(),
        };
        let tested: Vec<String> = self
            .simulated
            .iter()
            .map(|at| format!("{} {}", at.replicas, if at.pass { "passes" } else { "fails" }))
            .collect();
        format!(
            "smallest fleet that passes at the peak: {fewest} ({}); division at {} utilization: {}\n",
            tested.join(", "),
            plan.target_utilization,
            plan.required_replicas
        )
    }
}

impl AtPeak {
    fn text(&self, label: &str) -> String {
        let verdict = match (self.repeats, self.pass) {
            (1, true) => "every gate passes".to_owned(),
            (1, false) => format!("FAILS {}", self.failing_gates.join(", ")),
            _ => format!("{} of {} repeats pass", self.repeats_passing, self.repeats),
        };
        let outside = match self.repeats_outside_validity {
            0 => String::new(),
            some => format!("; OUTSIDE the profile's validity region in {some} of {}", self.repeats),
        };
        let fleet = counted(self.replicas.into(), "replica");
        format!("{label}, {fleet}: {verdict} ({}{outside})\n", self.summary)
    }
}

/// A row a peak.
pub fn peaks_table(plans: &[PeakPlan]) -> String {
    let headers = [
        "peak rps",
        "replicas",
        "GPUs",
        "at the peak",
        "after a loss",
        "smallest that passes",
        "fleet capacity rps",
        "of linear",
        "headroom rps",
    ];
    let word = |at: &AtPeak| if at.pass { "pass".to_owned() } else { "fail".to_owned() };
    let row = |planned: &PeakPlan| {
        vec![
            number(Some(planned.arithmetic.peak_rps), 1),
            planned.arithmetic.planned_replicas.to_string(),
            planned.arithmetic.planned_gpus.to_string(),
            word(&planned.at_peak),
            planned.after_loss.as_ref().map_or_else(|| "-".to_owned(), word),
            planned.smallest_fleet.replicas.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            number(Some(planned.scaling.simulated.capacity_refined_rps), 1),
            percent(Some(planned.scaling.ratio)),
            number(Some(planned.scaling.headroom_rps), 1),
        ]
    };
    format!("\n{}", table(&headers, &plans.iter().map(row).collect::<Vec<_>>()))
}
