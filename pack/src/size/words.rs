//! Candidates as tables of words: the same in a terminal and on a page.

use super::{AtPeak, Candidate, Fleet};

/// Headers and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// A header a column.
    pub headers: Vec<String>,
    /// The cells, a row a candidate.
    pub rows: Vec<Vec<String>>,
}

/// Candidates that have a fleet, in their order.
#[must_use]
pub fn fleet_table(candidates: &[Candidate]) -> Table {
    let sized = || candidates.iter().filter(|candidate| candidate.fleet.is_some());
    let currency = sized().find_map(|candidate| candidate.cost.as_ref()).map(|cost| cost.currency.clone());
    let first = || sized().find_map(|candidate| candidate.capacity.as_ref());
    let level = first().and_then(|c| c.interval_rps).map_or(0.0, |interval| 100.0 * interval.level);
    let probability = first().map_or(0.0, |capacity| 100.0 * capacity.assured.probability);
    let mut headers: Vec<String> = ["configuration", "capacity/s of a replica"].map(str::to_owned).to_vec();
    headers.push(format!("{level:.0} % interval"));
    headers.push(format!("with {probability:.0} %"));
    headers.extend(
        ["replicas", "GPUs", "at the peak", "one lost", "simulated, all/one lost"].map(str::to_owned),
    );
    if let Some(currency) = &currency {
        headers.push(format!("{currency}/h"));
        headers.push(format!("{currency} per 1M output tokens"));
    }
    Table {
        headers,
        rows: sized().filter_map(|candidate| fleet_row(candidate, currency.is_some())).collect(),
    }
}

fn fleet_row(candidate: &Candidate, priced: bool) -> Option<Vec<String>> {
    let (capacity, fleet) = (candidate.capacity.as_ref()?, candidate.fleet.as_ref()?);
    let interval = capacity.interval_rps.map(|i| format!("{:.2} to {:.2}", i.low, i.high));
    let mut row = vec![
        candidate.name.clone(),
        format!("{:.2}", capacity.own_rps),
        interval.unwrap_or_else(|| "-".to_owned()),
        format!("{:.2}", capacity.assured.rps),
        fleet.plan.planned_replicas.to_string(),
        fleet.plan.planned_gpus.to_string(),
        format!("{:.0} %", 100.0 * fleet.plan.full.utilization),
        one_lost(fleet),
        simulated(fleet),
    ];
    if priced {
        let cost = candidate.cost.as_ref();
        row.push(cost.map_or("-".to_owned(), |cost| format!("{:.2}", cost.per_hour)));
        row.push(cost.map_or("-".to_owned(), |cost| format!("{:.2}", cost.per_million_output_tokens)));
    }
    Some(row)
}

/// Whether the peak is carried with one replica lost, and how full the others are.
fn one_lost(fleet: &Fleet) -> String {
    let word = if fleet.carries_with_one_lost() { "carried" } else { "NOT carried" };
    let left = fleet.plan.one_lost.map(|left| format!("{word}, {:.0} %", 100.0 * left.utilization));
    left.unwrap_or_else(|| format!("{word}, none left"))
}

fn simulated(fleet: &Fleet) -> String {
    let word = |at: &Option<AtPeak>| match at {
        Some(AtPeak { pass: true, .. }) => "pass",
        Some(AtPeak { pass: false, .. }) => "FAIL",
        None => "-",
    };
    format!("{}/{}", word(&fleet.at_peak), word(&fleet.one_lost))
}

/// How the memory of a GPU of each candidate is divided.
#[must_use]
pub fn memory_table(candidates: &[Candidate]) -> Table {
    let headers = [
        "configuration",
        "GB taken of a GPU",
        "- weights",
        "- working memory",
        "= KV cache",
        "KV bytes a token",
        "KV blocks",
        "KV tokens",
        "fits",
    ];
    let row = |candidate: &Candidate| {
        let memory = candidate.memory.as_ref()?;
        let gb = |bytes: i64| format!("{:.1}", bytes as f64 / 1e9);
        Some(vec![
            candidate.name.clone(),
            gb(memory.taken_bytes),
            gb(memory.weight_bytes as i64),
            gb(memory.working_bytes),
            gb(memory.kv_bytes),
            memory.kv_bytes_per_token.to_string(),
            memory.num_blocks.to_string(),
            memory.kv_tokens.to_string(),
            if memory.fits { "yes" } else { "NO" }.to_owned(),
        ])
    };
    Table { headers: headers.map(str::to_owned).to_vec(), rows: candidates.iter().filter_map(row).collect() }
}

/// Candidates without a fleet, with the reason; no rows if all have one.
#[must_use]
pub fn refused_table(candidates: &[Candidate]) -> Table {
    let row = |candidate: &Candidate| {
        let reason = candidate.reason.clone().unwrap_or_default();
        vec![candidate.name.clone(), reason]
    };
    Table {
        headers: ["configuration", "why not"].map(str::to_owned).to_vec(),
        rows: candidates.iter().filter(|candidate| candidate.fleet.is_none()).map(row).collect(),
    }
}
