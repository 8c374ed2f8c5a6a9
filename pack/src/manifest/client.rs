//! The load generator: counts, timeouts, cancellations.

use super::distribution::{Unit, distribution, positive_seconds};
use super::workload::ReadClass;
use super::{ArrivalPattern, Cancellation, Client, DURATION_MAX_SECONDS, REQUESTS_MAX};
use crate::fault::suggestion;
use crate::fields::{Fields, Item, from_to};
use crate::time::Nanos;

/// Reads the client. `classes` are the workload's, None if they are faulty: then counts cannot be checked
/// against them.
pub(super) fn client(
    mut fields: Fields<'_>,
    arrivals: Option<ArrivalPattern>,
    classes: Option<&[ReadClass<'_>]>,
) -> Option<Client> {
    let trace = matches!(arrivals, Some(ArrivalPattern::Trace(_)));
    // What the rows of a trace decide need not be stated.
    let required = !trace;
    let duration_range = from_to(0.0, DURATION_MAX_SECONDS);
    let location = fields.req("location").string();
    let streaming = fields.req("streaming").bool();
    let minimum_item = fields.field("minimum_duration_seconds", required);
    let minimum = or_default(&minimum_item, minimum_item.f64(duration_range), trace);
    let total_item = fields.field("initial_scheduled_requests", required);
    let total = total_item.u64(0..=REQUESTS_MAX);
    let seed = fields.req("request_schedule_seed").u64(0..=u64::MAX);
    let counts_item = fields.field("class_schedule_counts", required);
    let counts = or_default(&counts_item, class_counts(&counts_item, total, classes), trace);
    let warmup = fields.req("warmup_seconds").f64(duration_range);
    let timeout = timeout(&fields.opt("timeout_seconds"));
    let ttft_timeout = timeout_of_first(&fields.opt("ttft_timeout_seconds"), timeout);
    let cancellation = fields.opt("cancellation").fields().and_then(cancellation);
    let think_item = fields.opt("think_time_seconds");
    let think_time = think_item.is_present().then(|| distribution(&think_item, Unit::Seconds)).flatten();
    let ignore_eos = fields.opt("ignore_eos").bool();
    let sampling = fields.opt("sampling").fields().map(sampling);
    fields.finish();
    Some(Client {
        location: location?,
        streaming: streaming?,
        arrivals: arrivals?,
        minimum_duration_seconds: minimum?,
        initial_scheduled_requests: or_default(&total_item, total, trace)?,
        request_schedule_seed: seed?,
        class_schedule_counts: counts?,
        warmup_seconds: warmup?,
        timeout,
        ttft_timeout,
        cancellation,
        think_time,
        ignore_eos: ignore_eos.unwrap_or(true),
        sampling: sampling.flatten().unwrap_or_default(),
    })
}

/// `read`, or the default where nothing is stated and nothing need be.
fn or_default<T: Default>(item: &Item<'_>, read: Option<T>, optional: bool) -> Option<T> {
    if optional && !item.is_present() { Some(T::default()) } else { read }
}

/// The counts in the order of the classes; they sum to `total` and follow the mix.
fn class_counts(item: &Item<'_>, total: Option<u64>, classes: Option<&[ReadClass<'_>]>) -> Option<Vec<u64>> {
    let entries = item.fields()?.all();
    let read: Vec<_> = entries.iter().map(|(name, item)| (*name, item, item.u64(0..=REQUESTS_MAX))).collect();
    let classes = classes?;
    let names = || classes.iter().map(|read| read.class.name.as_str());
    for (name, item, _) in &read {
        if !names().any(|known| known == *name) {
            item.fault("a count for an unknown class", "", &suggestion(name, names()));
        }
    }
    let mut counts = Vec::new();
    for class in classes {
        let name = class.class.name.as_str();
        match read.iter().find(|(counted, _, _)| *counted == name) {
            None => item.fault(format!("no count for class {name}"), "a count for each class", ""),
            Some((_, item, count)) => {
                let count = (*count)?;
                if let Some(total) = total {
                    follows_mix(item, count, class.class.mix, total);
                }
                counts.push(count);
            }
        }
    }
    let sum: u64 = counts.iter().sum();
    let complete = counts.len() == classes.len() && read.len() == classes.len();
    if let Some(total) = total.filter(|total| complete && *total != sum) {
        item.fault(format!("counts that sum to {sum}"), &format!("{total} = initial_scheduled_requests"), "");
    }
    complete.then_some(counts)
}

fn follows_mix(item: &Item<'_>, count: u64, mix: f64, total: u64) {
    let share = mix * total as f64;
    if (count as f64 - share).abs() > 1.0 + 1e-6 {
        item.wrong(&format!("{} = mix x total, give or take one", (share * 10.0).round() / 10.0), "");
    }
}

fn timeout(item: &Item<'_>) -> Option<Nanos> {
    positive_seconds(item).and_then(|seconds| Nanos::from_seconds(seconds).ok())
}

fn timeout_of_first(item: &Item<'_>, whole: Option<Nanos>) -> Option<Nanos> {
    let first = timeout(item);
    if let (Some(first), Some(whole)) = (first, whole)
        && first > whole
    {
        item.wrong(&format!("at most timeout_seconds, {}", whole.seconds()), "");
    }
    first
}

fn cancellation(mut fields: Fields<'_>) -> Option<Cancellation> {
    let probability = fields.req("probability").f64(from_to(0.0, 1.0));
    let after_seconds = distribution(&fields.req("after_seconds"), Unit::Seconds);
    fields.finish();
    Some(Cancellation { probability: probability?, after_seconds: after_seconds? })
}

/// Parameters whose names belong to the server: any name, a number each.
fn sampling(fields: Fields<'_>) -> Option<Vec<(String, f64)>> {
    let number = |(name, item): (&str, Item<'_>)| Some((name.to_owned(), item.f64(from_to(-1e12, 1e12))?));
    let numbers: Vec<Option<(String, f64)>> = fields.all().into_iter().map(number).collect();
    numbers.into_iter().collect()
}
