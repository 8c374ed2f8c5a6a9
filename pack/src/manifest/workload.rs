//! The classes and the groups of shared prefixes.

use super::distribution::{Unit, distribution};
use super::{Class, Distribution, LengthRule, PrefixGroup, Session, TOKENS_MAX};
use crate::fields::{Fields, Item, above, from_to};
use std::collections::BTreeSet;

/// The greatest number of classes.
const CLASSES_MAX: usize = 1_000;

/// A class with the item of its mix, for checks against other parts of the manifest.
pub(super) struct ReadClass<'a> {
    pub(super) class: Class,
    pub(super) mix: Item<'a>,
}

/// Reads the classes and checks them against each other.
pub(super) fn classes<'a>(workload: &Item<'a>, trace: bool) -> Option<Vec<ReadClass<'a>>> {
    let items = workload.list(1..=CLASSES_MAX)?;
    let mut seen = BTreeSet::new();
    let read: Vec<Option<ReadClass<'a>>> =
        items.iter().map(|item| class(item.fields()?, trace, &mut seen)).collect();
    let read = read.into_iter().collect::<Option<Vec<ReadClass<'a>>>>()?;
    let stated = !trace || read.iter().any(|read| read.mix.is_present());
    let sum: f64 = read.iter().map(|read| read.class.mix).sum();
    // Shares are often written with a few digits: three thirds of 0.333333 are a whole.
    if stated && (sum - 1.0).abs() > 2e-6 {
        workload.fault(format!("mixes that sum to {}", (sum * 1e9).round() / 1e9), "a sum of 1", "");
    }
    Some(read)
}

fn class<'a>(mut fields: Fields<'a>, trace: bool, seen: &mut BTreeSet<String>) -> Option<ReadClass<'a>> {
    let name = unseen(&fields.req("name"), seen);
    let mix_item = fields.field("mix", !trace);
    let mix = mix_item.f64(from_to(0.0, 1.0));
    let input_tokens = lengths(&mut fields, "input_tokens", trace);
    let output_tokens = lengths(&mut fields, "output_tokens", trace);
    let ttft = fields.req("request_ttft_cutoff_ms").f64(above(0.0, 1e9));
    let tpot = fields.req("request_tpot_cutoff_ms").f64(above(0.0, 1e9));
    let priority = fields.opt("priority").i32(-1_000_000..=1_000_000);
    let session_item = fields.opt("session");
    let session = session_item.fields().and_then(session);
    let rule_item = fields.opt("when");
    let rule = rule_item.fields().and_then(length_rule);
    if trace {
        session_item.refuse("since the rows of a trace stand alone");
    } else {
        rule_item.refuse("since arrival_pattern is not trace");
    }
    fields.finish();
    let class = Class {
        name: name?,
        mix: if trace { mix.unwrap_or(0.0) } else { mix? },
        input_tokens: input_tokens?,
        output_tokens: output_tokens?,
        request_ttft_cutoff_ms: ttft?,
        request_tpot_cutoff_ms: tpot?,
        priority: priority.unwrap_or(0),
        session,
        rule,
    };
    Some(ReadClass { class, mix: mix_item })
}

/// A name that none before it had.
fn unseen(item: &Item<'_>, seen: &mut BTreeSet<String>) -> Option<String> {
    let name = item.string()?;
    if !seen.insert(name.clone()) {
        item.wrong("a name that no other has", "");
        return None;
    }
    Some(name)
}

fn lengths(fields: &mut Fields<'_>, name: &'static str, trace: bool) -> Option<Distribution> {
    if trace {
        fields.opt(name).refuse("since each row of a trace has its own");
        return Some(Distribution::Fixed(0.0));
    }
    distribution(&fields.req(name), Unit::Tokens)
}

fn session(mut fields: Fields<'_>) -> Option<Session> {
    let turns = fields.req("turns").u32(1..=1_000);
    let think = fields.opt("think_seconds");
    let think_seconds =
        if think.is_present() { distribution(&think, Unit::Seconds) } else { Some(Distribution::Fixed(0.0)) };
    fields.finish();
    Some(Session { turns: turns?, think_seconds: think_seconds? })
}

fn length_rule(mut fields: Fields<'_>) -> Option<LengthRule> {
    let mut bounds = |min: &'static str, max: &'static str| {
        let from = fields.opt(min).u32(0..=TOKENS_MAX).unwrap_or(0);
        let max = fields.opt(max);
        let to = max.u32(0..=TOKENS_MAX).unwrap_or(TOKENS_MAX);
        if from > to {
            max.wrong(&format!("at least {min}, {from}"), "");
        }
        (from, to)
    };
    let (input_min, input_max) = bounds("input_min", "input_max");
    let (output_min, output_max) = bounds("output_min", "output_max");
    fields.finish();
    Some(LengthRule { input_min, input_max, output_min, output_max })
}

/// Reads the prefix groups; `classes` are the names of the manifest's, if they could be read. None after a fault.
#[must_use]
pub fn read_prefix_groups(item: &Item<'_>, classes: Option<&[&str]>) -> Option<Vec<PrefixGroup>> {
    if !item.is_present() {
        return Some(Vec::new());
    }
    let items = item.list(0..=100_000)?;
    let mut seen = BTreeSet::new();
    let groups: Vec<Option<PrefixGroup>> =
        items.iter().map(|item| prefix_group(item.fields()?, classes, &mut seen)).collect();
    groups.into_iter().collect()
}

fn prefix_group(
    mut fields: Fields<'_>,
    classes: Option<&[&str]>,
    seen: &mut BTreeSet<String>,
) -> Option<PrefixGroup> {
    let name = unseen(&fields.req("name"), seen);
    let tokens = fields.req("tokens").u32(0..=TOKENS_MAX);
    let weight = fields.req("weight").f64(from_to(0.0, 1e12));
    let users = fields.opt("classes").list(0..=CLASSES_MAX).unwrap_or_default();
    let users: Vec<Option<String>> = users.iter().map(|user| known_class(user, classes)).collect();
    fields.finish();
    Some(PrefixGroup {
        name: name?,
        tokens: tokens?,
        weight: weight?,
        classes: users.into_iter().collect::<Option<Vec<String>>>()?,
    })
}

fn known_class(item: &Item<'_>, classes: Option<&[&str]>) -> Option<String> {
    let name = item.string()?;
    if let Some(classes) = classes
        && !classes.contains(&name.as_str())
    {
        item.wrong("a class of the workload", &crate::fault::suggestion(&name, classes.iter().copied()));
    }
    Some(name)
}
