//! Where a refuted model is wrong, as far as the data show. Each rule looks at a signal that its part of the system moves
//! first; [`RULES`] says them in words, in the order in which they are asked.

use super::Compared;
use super::measure::{Loads, Pair, Point, Run};
use crate::compare::{Level, Metric, Quantity};
use crate::experiment::EngineFacts;
use serde::Serialize;

/// A part of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The KV pool.
    KvBlocks,
    /// The prefix cache.
    Cache,
    /// Who chooses the replica.
    Router,
    /// What a step costs.
    StepTime,
    /// Between client and server.
    Network,
    /// The API server's own latency.
    FrontEnd,
    /// What a prompt token costs.
    Prefill,
    /// Which requests run together, and the queue.
    Scheduling,
}

impl Place {
    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Place::KvBlocks => "engine capacity (KV blocks)",
            Place::Cache => "prefix cache",
            Place::Router => "router",
            Place::StepTime => "step time",
            Place::Network => "network",
            Place::FrontEnd => "front end",
            Place::Prefill => "prefill time",
            Place::Scheduling => "scheduling",
        }
    }
}

/// The rules in the order in which they are asked: the part, and what shows that it is wrong.
pub const RULES: [(Place, &str); 8] = [
    (
        Place::KvBlocks,
        "the engine says another number of KV blocks than the profile; or it preempts more or less under load, which comes \
         after the router, since that may bring it about",
    ),
    (
        Place::Cache,
        "the engine says that its prefix cache is off; or the share of prompt tokens found in it differs, which comes after \
         the router as well",
    ),
    (
        Place::Router,
        "the most loaded replica has another share of the requests, or of what is in flight, than predicted",
    ),
    (Place::StepTime, "TPOT differs at the lowest rate, where hardly anything waits or is batched"),
    (Place::Network, "TTFT differs at the lowest rate by about what the response's headers took"),
    (Place::FrontEnd, "TTFT differs at the lowest rate by the same time for every class, and TPOT does not"),
    (Place::Prefill, "TTFT differs at the lowest rate by more for longer prompts, and TPOT does not"),
    (
        Place::Scheduling,
        "latencies are right at the lowest rate and differ at higher ones, and nothing above explains it",
    ),
];

/// A part of the system that the data point at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Which.
    pub place: Place,
    /// What shows it.
    pub evidence: String,
}

/// KV blocks that may be more or fewer, as a share: engines round.
const BLOCKS_TOLERANCE: f64 = 0.02;
/// The busiest replica's share over an even share that may differ from the predicted, absolutely.
const IMBALANCE_TOLERANCE: f64 = 0.1;
/// A delay explains a TTFT's difference from this share of it on.
const EXPLAINED_FROM: f64 = 0.5;
/// Differences of classes that are alike to within this share of the largest are one constant.
const ALIKE_WITHIN: f64 = 0.35;

/// What the rules look at.
struct Signals<'a> {
    points: &'a [&'a Point],
    compared: &'a [Compared],
    /// What the prediction took the engine to be.
    expected: &'a EngineFacts,
    facts: &'a EngineFacts,
    /// Rate a replica of the least loaded point.
    lowest: f64,
}

/// What is seen only by how the engine behaves, in the order in which it is asked.
const SYMPTOMS: [Place; 7] = [
    Place::KvBlocks,
    Place::Cache,
    Place::StepTime,
    Place::Network,
    Place::FrontEnd,
    Place::Prefill,
    Place::Scheduling,
];

/// The causes that the data show, the likeliest first.
pub(super) fn causes(
    points: &[&Point],
    compared: &[Compared],
    (expected, facts): (&EngineFacts, &EngineFacts),
) -> Vec<Cause> {
    let load = |point: &&&Point| point.offered_rps / f64::from(point.replicas.max(1));
    let lowest = points.iter().map(|point| load(&point)).fold(f64::INFINITY, f64::min);
    let signals = Signals { points, compared, expected, facts, lowest };
    // First what needs no symptom: what the engine says of itself, and how the load was shared. Symptoms may be theirs.
    let found = [
        (Place::KvBlocks, signals.blocks_told()),
        (Place::Cache, signals.cache_told()),
        (Place::Router, signals.router()),
    ];
    let mut causes: Vec<Cause> = Vec::new();
    causes
        .extend(found.into_iter().filter_map(|(place, evidence)| Some(Cause { place, evidence: evidence? })));
    let first = causes.first().map(|cause| cause.place);
    let also = first.map(|place| format!("; the {} may bring it about", place.word())).unwrap_or_default();
    for place in SYMPTOMS {
        let evidence = match place {
            _ if causes.iter().any(|cause| cause.place == place) => None,
            Place::KvBlocks => signals.preemptions(),
            Place::Cache => signals.cache(),
            Place::StepTime => signals.step_time(),
            Place::Scheduling => signals.scheduling().filter(|_| causes.is_empty()),
            Place::Router => None,
            Place::Network | Place::FrontEnd | Place::Prefill => signals.first_token(place),
        };
        causes.extend(evidence.map(|evidence| Cause { place, evidence: evidence + &also }));
    }
    causes
}

impl Signals<'_> {
    /// The clear differences of one metric, at the lowest rate or above it, the largest beyond its tolerance first.
    fn clear(&self, low: bool, metric: impl Fn(Metric) -> bool) -> Vec<&Compared> {
        let at = |c: &&Compared| {
            let load = c.offered_rps / f64::from(c.replicas.max(1));
            (load <= self.lowest * 1.001) == low && metric(c.metric) && c.is_clear()
        };
        let mut found: Vec<&Compared> = self.compared.iter().filter(at).collect();
        let weight = |c: &Compared| c.difference.abs() / c.tolerance;
        found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        found
    }

    fn either(&self, metric: Metric) -> Option<&Compared> {
        let low = self.clear(true, |m| m == metric);
        low.first().or(self.clear(false, |m| m == metric).first()).copied()
    }

    fn blocks_told(&self) -> Option<String> {
        let (expected, measured) = (self.expected.num_blocks?, self.facts.num_blocks?);
        let off = (measured as f64 / expected as f64 - 1.0).abs() > BLOCKS_TOLERANCE;
        off.then(|| format!("a replica has {measured} KV blocks, {expected} in the profile"))
    }

    fn preemptions(&self) -> Option<String> {
        let preemptions = self.either(Metric::Preemptions)?;
        // An engine that finds less in its cache holds more blocks.
        if self.either(Metric::PrefixHitShare).is_some() {
            return None;
        }
        Some(format!(
            "{}: {:.4} measured, {:.4} predicted an attempt",
            preemptions.name(),
            preemptions.measured,
            preemptions.predicted
        ))
    }

    /// A cache that is off by the engine's own word, where hits show it.
    fn cache_told(&self) -> Option<String> {
        let off = self.facts.prefix_cache == Some(false) && self.expected.prefix_cache == Some(true);
        self.cache().filter(|_| off)
    }

    fn cache(&self) -> Option<String> {
        let hits = self.either(Metric::PrefixHitShare)?;
        let off = if self.facts.prefix_cache == Some(false) {
            "; the engine says that its cache is off"
        } else {
            ""
        };
        Some(format!(
            "prefix hits at {} requests/s: {:.1} % of prompt tokens measured, {:.1} % predicted{off}",
            hits.offered_rps,
            100.0 * hits.measured,
            100.0 * hits.predicted
        ))
    }

    /// The busiest replica's load over an even share, all runs of the widest fleet together: its requests, or where a
    /// client behind a router does not know them what the replicas had in flight.
    fn router(&self) -> Option<String> {
        let widest = self.points.iter().map(|point| point.replicas).max().filter(|&n| n > 1)?;
        let pairs = || self.points.iter().filter(|p| p.replicas == widest).flat_map(|p| &p.pairs);
        let busiest = |of: fn(&Pair) -> &Run, what: fn(&Run) -> &Loads| {
            let (mut most, mut all) = (0, 0);
            for loads in pairs().map(of).map(what) {
                most += loads.values().max().copied().unwrap_or(0);
                all += loads.values().sum::<u64>();
            }
            (all > 0).then(|| most as f64 / all as f64 * f64::from(widest))
        };
        let both = |what| busiest(|pair| &pair.predicted, what).zip(busiest(|pair| &pair.measured, what));
        let requests = both(|run| &run.by_replica).map(|found| (found, "requests"));
        let ((predicted, measured), what) =
            requests.or_else(|| both(|run| &run.in_flight).map(|found| (found, "load in flight")))?;
        ((measured - predicted).abs() > IMBALANCE_TOLERANCE).then(|| {
            format!(
                "the busiest of {widest} replicas had {measured:.2} times an even share of the {what}, {predicted:.2} \
                 times predicted"
            )
        })
    }

    fn step_time(&self) -> Option<String> {
        let tpot = self.clear(true, is(Quantity::Tpot));
        let worst = tpot.first()?;
        let slower = if worst.difference > 0.0 { "slower" } else { "faster" };
        Some(format!(
            "{}: {:.2} ms measured, {:.2} ms predicted: steps are {slower} than the profile's",
            worst.name(),
            worst.measured,
            worst.predicted
        ))
    }

    /// TTFT at the lowest rate, where TPOT is right: whose delay it is.
    fn first_token(&self, asked: Place) -> Option<String> {
        if !self.clear(true, is(Quantity::Tpot)).is_empty()
            || self.cache().is_some()
            || self.router().is_some()
        {
            return None;
        }
        let worst = *self.clear(true, is(Quantity::Ttft)).first()?;
        let low = |c: &&Compared| {
            c.metric == Metric::Percentile(Quantity::Ttft, Level::P50)
                && c.offered_rps.total_cmp(&worst.offered_rps).is_eq()
                && c.replicas == worst.replicas
        };
        let shifts: Vec<f64> = self.compared.iter().filter(low).map(|c| c.measured - c.predicted).collect();
        let (least, most) =
            shifts.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), s| (l.min(*s), m.max(*s)));
        let size = least.abs().max(most.abs());
        let headers = self.headers_ms().filter(|headers| *headers >= EXPLAINED_FROM * size);
        let found = match headers {
            Some(_) => Place::Network,
            None if most - least <= ALIKE_WITHIN * size => Place::FrontEnd,
            None => Place::Prefill,
        };
        let network =
            headers.map(|ms| format!("; the response's headers took {ms:.1} ms")).unwrap_or_default();
        let one = if shifts.len() == 1 && found == Place::FrontEnd {
            "; one class alone cannot tell it from prefill"
        } else {
            ""
        };
        (found == asked).then(|| {
            format!(
                "{}: {:.1} ms measured, {:.1} ms predicted; medians of the classes differ by {least:+.1} to {most:+.1} \
                 ms{network}{one}",
                worst.name(),
                worst.measured,
                worst.predicted
            )
        })
    }

    /// Median over the measured runs at the lowest rate.
    fn headers_ms(&self) -> Option<f64> {
        let low = self
            .points
            .iter()
            .filter(|p| p.offered_rps / f64::from(p.replicas.max(1)) <= self.lowest * 1.001);
        let mut all: Vec<f64> =
            low.flat_map(|point| &point.pairs).filter_map(|pair| pair.measured.headers_ms).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    fn scheduling(&self) -> Option<String> {
        let latency =
            |metric| matches!(metric, Metric::Percentile(..) | Metric::Throughput | Metric::Attainment);
        if !self.clear(true, |m| matches!(m, Metric::Percentile(..))).is_empty() {
            return None;
        }
        let worst = *self.clear(false, latency).first()?;
        Some(format!("{}: {}, although the lowest rate is right", worst.name(), worst.difference_text()))
    }
}

/// Percentiles of a latency.
fn is(quantity: Quantity) -> impl Fn(Metric) -> bool {
    move |metric| matches!(metric, Metric::Percentile(q, Level::P50 | Level::P90) if q == quantity)
}
