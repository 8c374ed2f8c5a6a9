//! What the numbers of a page rest on, in words: no page must leave that open.

use crate::report::{Origin, RunFacts};
use std::collections::BTreeSet;

/// Characters of a hash that are shown.
const HASH_CHARACTERS: usize = 12;

/// Where the numbers come from, and the profile behind simulated ones.
pub(super) fn source(facts: &RunFacts) -> String {
    let source = match facts.origin {
        Origin::Simulated => "Simulated: a prediction, not a measurement.",
        Origin::Live => "Measured on a live engine.",
        Origin::Imported => "Imported: measured by another tool, and converted.",
        Origin::File => "Read from a file.",
    };
    let profile = facts.system.as_ref().and_then(|system| system.profile.as_ref()).map(|profile| {
        format!(" Profile {} ({}), valid for {}.", profile.name, profile.label, profile.validity)
    });
    format!("{source}{}", profile.unwrap_or_default())
}

/// Seed and schedules of some points. `others_in`: the file that has the hashes of all.
pub(super) fn schedules<'a>(points: impl Iterator<Item = &'a RunFacts>, others_in: &str) -> String {
    let (mut seeds, mut runs, mut hashes) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for facts in points {
        seeds.extend(facts.seed);
        runs.extend(facts.run);
        hashes.extend(facts.schedule_hash.as_ref().filter(|hash| !hashes.contains(hash)));
    }
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let [first, others @ ..] = hashes.as_slice() else { return String::new() };
    let repeats = if runs.len() > 1 { format!(", {} repeats", runs.len()) } else { String::new() };
    let hash: String = first.chars().take(HASH_CHARACTERS).collect();
    let schedules = match others.len() {
        0 => format!("schedule {hash}"),
        more => format!("{} schedules: the first is {hash}, {others_in} has all", more + 1),
    };
    format!("Seed {}{repeats}; {schedules}.", seeds.join(", "))
}

/// `Open loop, cold cache`.
pub(super) fn experiment(facts: &RunFacts) -> String {
    let loop_kind = if facts.concurrency.is_some() { "Closed loop" } else { "Open loop" };
    match &facts.system {
        Some(system) => format!("{loop_kind}, {} cache", system.cache),
        None => loop_kind.to_owned(),
    }
}

/// `24 requests/s` or `64 clients`; nothing where the load is unknown.
pub(super) fn load(facts: &RunFacts) -> Option<String> {
    let open = facts.offered_rps.map(|rps| format!("{} requests/s", super::html::number(rps)));
    open.or_else(|| facts.concurrency.map(|clients| format!("{clients} {}", plural(clients, "client"))))
}

/// `4 replicas on 8 GPUs`.
pub(super) fn fleet(replicas: u32, gpus: u32) -> String {
    format!("{replicas} {} on {gpus} {}", plural(replicas, "replica"), plural(gpus, "GPU"))
}

/// `word`, or its plural.
pub(super) fn plural(count: u32, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_schedule_is_named_and_many_are_counted() {
        let facts = |run: u64, hash: &str| RunFacts {
            seed: Some(7),
            run: Some(run),
            schedule_hash: Some(hash.to_owned()),
            ..RunFacts::of_file()
        };
        let [a, b] = [facts(0, "0123456789abcdef"), facts(1, "fedcba")];
        assert_eq!(schedules([&a, &a].into_iter(), "x.csv"), "Seed 7; schedule 0123456789ab.");
        assert_eq!(
            schedules([&a, &b].into_iter(), "x.csv"),
            "Seed 7, 2 repeats; 2 schedules: the first is 0123456789ab, x.csv has all."
        );
        assert_eq!(schedules([&RunFacts::of_file()].into_iter(), "x.csv"), "");
    }
}
