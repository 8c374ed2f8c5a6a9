//! Draws requests from a manifest's classes: an initial schedule, its continuation, and the warm-up.

use super::arrivals::{Releases, WarmUp};
use super::draw::{Sampler, cumulative, pick};
use super::extras::Extras;
use super::{Load, Part, Planned, PlannedList, Release, ScheduleError, segment_number};
use crate::chance::{self, Stream};
use crate::manifest::{Manifest, TOKENS_MAX};
use crate::prompt::Segment;
use crate::time::Nanos;
use rand::seq::SliceRandom;

/// An endless source of requests. A *unit* is what is shuffled and gets an arrival: one request, or all turns of a
/// session.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    part: Part,
    shared_prefixes: bool,
    classes: Vec<ClassSource>,
    releases: Releases,
    extras: Extras,
    order: Stream,
    inputs: Stream,
    outputs: Stream,
    session_pauses: Stream,
    next_id: u64,
    next_chunk: u64,
}

#[derive(Clone, Debug)]
struct ClassSource {
    name: String,
    priority: i32,
    input: Sampler,
    output: Sampler,
    turns: u32,
    pause: Option<Sampler>,
    /// Requests of the initial schedule.
    requests: u64,
}

impl ClassSource {
    /// Units of the initial schedule; the last session may be short.
    fn units(&self) -> u64 {
        self.requests.div_ceil(u64::from(self.turns))
    }
}

impl Generator {
    pub(super) fn new(
        manifest: &Manifest,
        load: Load,
        run: u64,
        part: Part,
        shared_prefixes: bool,
    ) -> Generator {
        let stream = |name: &str| {
            chance::stream(
                manifest.client.request_schedule_seed,
                run,
                &format!("{}{name}", part.stream_prefix()),
            )
        };
        let classes: Vec<ClassSource> = manifest
            .classes
            .iter()
            .zip(&manifest.client.class_schedule_counts)
            .map(|(class, requests)| ClassSource {
                name: class.name.clone(),
                priority: class.priority,
                input: Sampler::tokens(&class.input_tokens),
                output: Sampler::tokens(&class.output_tokens),
                turns: class.session.as_ref().map_or(1, |session| session.turns.max(1)),
                pause: class.session.as_ref().map(|session| Sampler::seconds(&session.think_seconds)),
                requests: *requests,
            })
            .collect();
        let requests: u64 = classes.iter().map(|class| class.requests).sum();
        let units: u64 = classes.iter().map(ClassSource::units).sum();
        let requests_per_arrival = requests as f64 / units.max(1) as f64;
        Generator {
            part,
            shared_prefixes,
            classes,
            releases: Releases::new(&manifest.client, load, requests_per_arrival, &stream),
            extras: Extras::new(manifest, &stream),
            order: stream("class order"),
            inputs: stream("input lengths"),
            outputs: stream("output lengths"),
            session_pauses: stream("session pauses"),
            next_id: 0,
            next_chunk: 0,
        }
    }

    /// Moves all arrivals by `offset`.
    pub(super) fn beginning_at(mut self, offset: Nanos) -> Generator {
        self.releases = self.releases.beginning_at(offset);
        self
    }

    /// The manifest's own counts.
    pub(super) fn initial(&mut self) -> Result<PlannedList, ScheduleError> {
        let units: Vec<u64> = self.classes.iter().map(ClassSource::units).collect();
        let turns = self.classes.iter().map(|class| class.requests).collect();
        self.shuffled(&units, turns)
    }

    /// The next chunk of the continuation: about a tenth of the initial units of each class, exactly all of them in
    /// ten chunks. None if there is nothing to repeat.
    pub(super) fn chunk(&mut self) -> Option<Result<PlannedList, ScheduleError>> {
        if self.classes.iter().all(|class| class.requests == 0) {
            return None;
        }
        loop {
            let chunk = self.next_chunk;
            self.next_chunk += 1;
            let share = |class: &ClassSource| (chunk + 1) * class.units() / 10 - chunk * class.units() / 10;
            let units: Vec<u64> = self.classes.iter().map(share).collect();
            if units.iter().any(|units| *units > 0) {
                let turns =
                    units.iter().zip(&self.classes).map(|(units, c)| units * u64::from(c.turns)).collect();
                return Some(self.shuffled(&units, turns));
            }
        }
    }

    /// `units` of each class in shuffled order, sharing `turns` requests: full sessions first, the rest in the last.
    fn shuffled(&mut self, units: &[u64], mut turns: Vec<u64>) -> Result<PlannedList, ScheduleError> {
        let mut order: Vec<u16> = Vec::new();
        for (class, units) in (0..).zip(units) {
            order.extend(std::iter::repeat_n(class, *units as usize));
        }
        order.shuffle(&mut self.order);
        let mut list = PlannedList::default();
        list.requests.reserve_exact(turns.iter().sum::<u64>() as usize);
        for class in order {
            let left = &mut turns[usize::from(class)];
            let count = u64::from(self.classes[usize::from(class)].turns).min(*left);
            *left -= count;
            let release = self.releases.next()?;
            self.unit(&mut list, class, count, release)?;
        }
        Ok(list)
    }

    /// Requests of random classes, for a warm-up.
    pub(super) fn random(&mut self, warmup: WarmUp) -> Result<PlannedList, ScheduleError> {
        let weights: Vec<f64> = self.classes.iter().map(|class| class.units() as f64).collect();
        let weights = cumulative(&weights);
        let mut list = PlannedList::default();
        loop {
            let release = self.releases.next()?;
            let covered = warmup.covers(release, list.requests.len());
            let Some(class) = pick(&weights, &mut self.order).filter(|_| covered) else { return Ok(list) };
            let count = u64::from(self.classes[class].turns);
            self.unit(&mut list, class as u16, count, release)?;
        }
    }

    /// One request, or the turns of a session. The prompt of a later turn is all that was said before it, then its
    /// own new tokens; so the segments of a turn are the first ones of the whole session's.
    fn unit(
        &mut self,
        list: &mut PlannedList,
        class: u16,
        turns: u64,
        mut release: Release,
    ) -> Result<(), ScheduleError> {
        let segments_from = segment_number(list.segments.len())?;
        let source = &self.classes[usize::from(class)];
        let mut history: u64 = 0;
        for turn in 0..turns {
            let id = self.next_id;
            let mut new = source.input.draw_tokens(&mut self.inputs);
            let output_tokens = source.output.draw_tokens(&mut self.outputs);
            let input_tokens =
                u32::try_from(history + u64::from(new)).ok().filter(|tokens| *tokens <= TOKENS_MAX);
            let Some(input_tokens) = input_tokens else {
                return Err(ScheduleError::SessionTooLong { class: source.name.clone(), turn: turn + 1 });
            };
            if self.shared_prefixes {
                let prefix = if turn == 0 { self.extras.prefix(class, new) } else { None };
                list.segments.extend(prefix);
                new -= prefix.map_or(0, |segment| segment.len);
                if turns > 1 {
                    list.segments.push(Segment { stream: self.part.unique(id), start: 0, len: new });
                }
            }
            list.requests.push(Planned {
                release,
                class,
                priority: source.priority,
                input_tokens,
                output_tokens,
                cancel_after: self.extras.cancel_after()?,
                segments_from,
                segments_len: segment_number(list.segments.len())? - segments_from,
            });
            if self.shared_prefixes && turn + 1 < turns {
                list.segments.push(Segment { stream: self.part.output(id), start: 0, len: output_tokens });
            }
            history = u64::from(input_tokens) + u64::from(output_tokens);
            if let Some(pause) = &source.pause {
                let delay = pause.draw_time(&mut self.session_pauses)?;
                release = Release::After { predecessor: id, delay };
            }
            self.next_id += 1;
        }
        Ok(())
    }
}
