//! What `scaleproof size` writes and prints.

use super::search::draw_part;
use super::system::Workload;
use crate::args::Format;
use crate::exit::CommandError;
use crate::files::{self, unwritable};
use crate::report_text::merged;
use crate::study::{print_out, shown};
use crate::table::{counted, table};
use scaleproof_calibrate::fluid::Traffic;
use scaleproof_pack::report_html::{SizePage, size_html};
use scaleproof_pack::size::{Candidate, Table, fleet_table, memory_table, refused_table};
use serde_json::{Value, json};
use std::path::Path;

/// Warnings of the runs that are shown; the JSON has them all.
const WARNINGS_SHOWN: usize = 5;
/// The folder of the profiles in the pack.
const PROFILES: &str = "profiles";

/// The comparison, ranked.
pub struct Sizing<'a> {
    pub workload: &'a Workload<'a>,
    pub traffic: Traffic,
    pub target: f64,
    pub candidates: &'a [Candidate],
}

/// Writes the workload's manifest, the profiles, size.json and report.html.
pub fn write(
    sizing: &Sizing<'_>,
    profiles: &[(String, String)],
    directory: &Path,
) -> Result<(), CommandError> {
    files::write(&directory.join(files::MANIFEST), sizing.workload.base.manifest_text.as_bytes())?;
    let folder = directory.join(PROFILES);
    std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    for (name, text) in profiles {
        files::write(&folder.join(format!("{name}.yaml")), text.as_bytes())?;
    }
    let text = serde_json::to_string_pretty(&sizing.json()).map_err(CommandError::could_not_run)?;
    files::write(&directory.join("size.json"), format!("{text}\n").as_bytes())?;
    let args = sizing.workload.args;
    let page = size_html(&SizePage {
        title: &format!("{} for {} requests/s", sizing.workload.model.name, args.peak),
        verdict: &sizing.verdict(),
        remarks: &sizing.remarks(),
        candidates: sizing.candidates,
    });
    files::write(&directory.join(files::PAGE), page.as_bytes())
}

/// Prints the comparison.
pub fn print(sizing: &Sizing<'_>, directory: &Path) -> Result<(), CommandError> {
    print_out(&match sizing.workload.args.format {
        Format::Json => {
            let mut printed = sizing.json();
            printed["pack"] = shown(directory).into();
            serde_json::to_string_pretty(&printed).map_err(CommandError::could_not_run)? + "\n"
        }
        Format::Text => format!("{}pack: {}\n", sizing.text(), directory.display()),
    })
}

impl Sizing<'_> {
    fn json(&self) -> Value {
        let Workload { args, model, base, shared_prefixes, .. } = *self.workload;
        json!({
            "model": model.name,
            "peak_rps": args.peak,
            "workload": shown(&base.directory),
            "cache": if shared_prefixes { "warm" } else { "cold" },
            "seed": base.manifest.client.request_schedule_seed,
            "target_utilization": self.target,
            "at_confidence": args.at_confidence,
            "draws": args.draws(),
            "within": args.within,
            "input_tokens_mean": self.traffic.input_tokens,
            "output_tokens_mean": self.traffic.output_tokens,
            "candidates": self.candidates,
            "warnings": self.remarks(),
        })
    }

    fn verdict(&self) -> String {
        let (peak, best) = (self.workload.args.peak, self.candidates.first());
        let Some((best, fleet)) = best.and_then(|best| Some((best, best.fleet.as_ref()?))) else {
            return format!("No configuration is known to carry {peak} requests/s.");
        };
        let cost = best.cost.as_ref().map(|cost| format!(", {:.2} {} an hour", cost.per_hour, cost.currency));
        format!(
            "{} for {peak} requests/s: {}, {} on {}{}.",
            if cost.is_some() { "Cheapest" } else { "Fewest GPUs" },
            best.name,
            counted(fleet.plan.planned_replicas.into(), "replica"),
            counted(fleet.plan.planned_gpus.into(), "GPU"),
            cost.unwrap_or_default()
        )
    }

    /// What a reader should know.
    fn remarks(&self) -> Vec<String> {
        let Workload { args, base, .. } = *self.workload;
        let mut remarks = vec![self.expected_error()];
        remarks.push(format!(
            "classes, lengths, arrivals, gates and router are those of {}; model, precision, placement, engine and \
             profile are each configuration's: vLLM's scheduler with its usual settings for the GPU, and no queue limit",
            base.directory.display()
        ));
        let part = match draw_part(self.workload) {
            1 => String::new(),
            part => format!(", over 1/{part} of the requests"),
        };
        remarks.push(format!(
            "capacity: the highest rate found to pass every gate on one replica, to within {} % below one that fails; \
             the interval is of {}, each with its own parameters and seed{part}",
            100.0 * args.within,
            counted(args.draws(), "draw")
        ));
        remarks.push(format!(
            "replicas: the peak / ({} x the capacity that another draw reaches with the probability in the table); \
             by division, and the fleet simulated with the profile's own parameters",
            self.target
        ));
        if self.candidates.iter().any(|candidate| candidate.cost.is_some()) {
            remarks.push(format!(
                "a million output tokens cost that while the peak lasts, at {:.1} output tokens a request",
                self.traffic.output_tokens
            ));
        }
        for candidate in self.candidates {
            let of_runs = merged(candidate.warnings.iter());
            let named = of_runs.iter().take(WARNINGS_SHOWN);
            remarks.extend(named.map(|warning| format!("{}: {warning}", candidate.name)));
            let unsimulated = candidate.fleet.as_ref().and_then(|fleet| fleet.not_simulated.as_ref());
            remarks.extend(
                unsimulated.map(|why| format!("{}: the fleet was not simulated: {why}", candidate.name)),
            );
        }
        remarks
    }

    /// What the profiles are worth, by GPU.
    fn expected_error(&self) -> String {
        let mut labels: Vec<&str> =
            self.candidates.iter().filter_map(|c| Some(c.profile.as_ref()?.label.as_str())).collect();
        labels.sort_unstable();
        labels.dedup();
        match labels.is_empty() {
            true => "nothing was simulated".to_owned(),
            false => format!("from physics, not calibrated on any of these engines: {}", labels.join("; ")),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |heading: &str, of: &Table| {
            if !of.rows.is_empty() {
                let headers: Vec<&str> = of.headers.iter().map(String::as_str).collect();
                text += &format!("{heading}{}\n", table(&headers, &of.rows));
            }
        };
        add("", &fleet_table(self.candidates));
        add("without a fleet:\n", &refused_table(self.candidates));
        add("memory of each GPU:\n", &memory_table(self.candidates));
        text += &format!("{}\n", self.verdict());
        for remark in self.remarks() {
            text += &format!("note: {remark}\n");
        }
        let Workload { base, shared_prefixes, .. } = *self.workload;
        let cache = if shared_prefixes { "warm" } else { "cold" };
        text + &format!("simulated, {cache} cache; seed {}\n", base.manifest.client.request_schedule_seed)
    }
}
