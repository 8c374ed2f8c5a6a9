//! The experiments that steps are priced from: which, how long they take, and what is read from their answers.

use super::data::{Kind, Measurement, Robust, robust};
use super::lab::{Answer, Ask, Lab, REFERENCE, REFERENCE_SHARE, SweepError, gaps_us};
use super::structure::{Pace, nearest};
use scaleproof_sim::engine::EngineConfig;

/// Decode steps looked at in a batch, and tokens before a prompt disturbs it.
const WINDOW: u32 = 24;
/// Prompts of one size that disturb one batch, one after the other.
const DISTURBANCES: u32 = 3;

/// Tokens found in the cache, those that are not, and whether it is held out.
type Cached = (u32, u32, bool);
/// Decode rows, context of each when they begin, and whether it is held out.
type Batch = (u32, u32, bool);
/// Decode rows, prompts at once, tokens of each, and whether it is held out.
type Disturbed = (u32, u32, u32, bool);

/// The experiments of one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Prompts alone, and whether they are held out.
    pub prompts: Vec<(u32, bool)>,
    /// Prompts alone whose beginning is in the cache, those with the same beginning one after the other.
    pub cached: Vec<Cached>,
    /// Batches that decode.
    pub batches: Vec<Batch>,
    /// Batches that prompts disturb.
    pub disturbed: Vec<Disturbed>,
    /// Passes.
    pub passes: u32,
    /// Seconds that all of it is expected to take.
    pub expected_s: f64,
}

/// The most passes.
const PASSES_MAX: u32 = 6;
/// Of a pass's disturbed batches, that there must be time for: the costs of a mixed step are few, and prompts as long as the
/// engine's largest steps say more than every size of a prompt beside every batch.
const DISTURBED_MIN: f64 = 0.5;

impl Design {
    /// As much as the time allows: first shorter prompts, then more passes. None if the least takes longer.
    #[must_use]
    pub fn within(scheduler: &EngineConfig, pace: Pace, time_s: f64) -> Option<Design> {
        let pool = u64::from(scheduler.usable_blocks()) * u64::from(scheduler.block_size);
        let longest = scheduler.max_model_len.min(pool.min(1 << 24) as u32 / 2).saturating_sub(128);
        let mut reach = longest.min(32_768);
        while reach >= 64 {
            let mut design = Design::reaching(scheduler, reach, pool, pace, time_s);
            let [least_s, pass_s] = [DISTURBED_MIN, 1.0].map(|share| design.pass_s(scheduler, pace, share));
            if least_s <= time_s {
                // The last is as much as there is time for: what says most for its time comes first.
                design.passes = ((time_s / pass_s).ceil() as u32).clamp(1, PASSES_MAX);
                design.expected_s = (f64::from(design.passes) * pass_s).min(time_s);
                return Some(design);
            }
            reach = reach * 2 / 3;
        }
        None
    }

    fn reaching(scheduler: &EngineConfig, reach: u32, pool: u64, pace: Pace, time_s: f64) -> Design {
        let chunk = scheduler.max_num_batched_tokens;
        let mut lengths: Vec<u32> = halves(4).take_while(|length| *length <= reach).collect();
        // Where a prompt's chunks end: one token more is another step.
        lengths.extend([chunk, chunk + chunk / 8, 2 * chunk].into_iter().filter(|length| *length <= reach));
        let mut prompts: Vec<(u32, bool)> = lengths.into_iter().map(|length| (length, false)).collect();
        let between = [11, 37, 90].into_iter().map(|share| (u64::from(reach) * share / 100) as u32);
        prompts.extend(between.filter(|length| *length >= 16).map(|length| (length, true)));
        let fits = |rows: u32, context: u32| {
            let tokens = u64::from(rows) * u64::from(context + WINDOW + rows / 4 + 64);
            tokens * 10 < pool * 9 && tokens as f64 * pace.token_s < time_s / 25.0 && context <= reach
        };
        let contexts = [16, 512, 2048, 8192, 24_576];
        let mut batches = Vec::new();
        for rows in row_ladder(scheduler.max_num_seqs) {
            let fitting = contexts.into_iter().filter(|context| fits(rows, *context));
            // Context costs a line: the ends say most.
            let fitting: Vec<u32> = fitting.collect();
            let ends = [fitting.first(), fitting.get(1), fitting.last()];
            let mut ends: Vec<u32> = ends.into_iter().flatten().copied().collect();
            ends.dedup();
            if !coarse(rows) {
                ends.truncate(1);
            }
            batches.extend(ends.into_iter().map(|context| (rows, context, false)));
        }
        let held = [(5, 300), (22, 900), (54, 400), (100, 700)];
        let held = held.into_iter().filter(|(rows, _)| *rows < scheduler.max_num_seqs);
        batches.extend(held.filter(|(rows, c)| fits(*rows, *c)).map(|(rows, context)| (rows, context, true)));
        let (cached, disturbed) = (cached(scheduler, reach), disturbed(scheduler, reach));
        Design { prompts, cached, batches, disturbed, passes: 1, expected_s: 0.0 }
    }

    /// With a share of the disturbed batches.
    fn pass_s(&self, scheduler: &EngineConfig, pace: Pace, share: f64) -> f64 {
        let prompt_s = |tokens: u32| pace.ttft_s + f64::from(tokens) * pace.token_s;
        let alone: f64 = self.prompts.iter().map(|(tokens, _)| prompt_s(*tokens)).sum();
        let behind = |of: &[Cached]| -> f64 {
            prompt_s(of[0].0) + of.iter().map(|(_, new, _)| prompt_s(*new)).sum::<f64>()
        };
        let prompts = alone + self.behind_one().map(behind).sum::<f64>();
        let batch = |&(rows, context, _): &Batch| {
            let steps = f64::from(batch_output(rows, context, scheduler));
            pace.ttft_s
                + f64::from(rows) * f64::from(context) * pace.token_s
                + steps * pace.steps_of_s(rows, context)
        };
        let disturbance =
            |disturbed: &Disturbed| pace.ttft_s + Timing::of(*disturbed, scheduler, pace).lasts_s(scheduler);
        let reference_s =
            f64::from(REFERENCE.0) * pace.token_s + f64::from(REFERENCE.1) * pace.step_s + pace.ttft_s;
        let batches: f64 = self.batches.iter().map(batch).sum();
        let disturbed: f64 = self.disturbed.iter().map(disturbance).sum();
        3.0 * reference_s + (1.0 + REFERENCE_SHARE) * (prompts + batches + share * disturbed)
    }

    /// Those behind the same cached tokens together.
    fn behind_one(&self) -> impl Iterator<Item = &[Cached]> {
        self.cached.chunk_by(|a, b| a.0 == b.0)
    }

    /// What is measured, in words.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let span = |values: &mut dyn Iterator<Item = u32>| {
            let (low, high) = values.fold((u32::MAX, 0), |(low, high), v| (low.min(v), high.max(v)));
            format!("{low} to {high}")
        };
        let cached = match self.cached.len() {
            0 => String::new(),
            n => format!(", {n} behind {} cached ones", span(&mut self.cached.iter().map(|c| c.0))),
        };
        vec![
            format!(
                "{} prompts alone, {} tokens{cached}",
                self.prompts.len(),
                span(&mut self.prompts.iter().map(|p| p.0))
            ),
            format!(
                "{} decode batches, {} rows at {} tokens of context",
                self.batches.len(),
                span(&mut self.batches.iter().map(|b| b.0)),
                span(&mut self.batches.iter().map(|b| b.1))
            ),
            format!("{} batches disturbed by prompts", self.disturbed.len()),
            format!(
                "up to {} passes, the reference point between, about {:.0} s",
                self.passes, self.expected_s
            ),
        ]
    }

    /// One pass; false if it was not done by `until_s` seconds of experiments, and was ended there.
    ///
    /// # Errors
    /// As [`Lab::open`].
    pub fn pass(
        &self,
        lab: &mut Lab<'_>,
        scheduler: &EngineConfig,
        pace: Pace,
        until_s: f64,
        rows: &mut Vec<Measurement>,
    ) -> Result<bool, SweepError> {
        lab.reference()?;
        rows.extend(prompts(lab, &self.prompts)?);
        lab.reference()?;
        for behind in self.behind_one() {
            lab.keep_the_pace()?;
            rows.extend(behind_cached(lab, behind)?);
        }
        for batch in &self.batches {
            if !lab.goes_on(until_s)? {
                return Ok(false);
            }
            rows.extend(decode(lab, *batch, scheduler)?);
        }
        lab.reference()?;
        for disturbed in &self.disturbed {
            if !lab.goes_on(until_s)? {
                return Ok(false);
            }
            rows.extend(mixed(lab, *disturbed, scheduler, pace)?);
        }
        Ok(true)
    }
}

/// Tokens of one prompt among other requests that one step computes, about.
fn chunk_among_others(scheduler: &EngineConfig) -> u32 {
    match scheduler.long_prefill_token_threshold {
        0 => scheduler.max_num_batched_tokens,
        threshold => threshold.min(scheduler.max_num_batched_tokens),
    }
}

/// `from`, half as much again, twice, three times, and so on.
fn halves(from: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from), |value| value.checked_mul(2)).flat_map(|value| [value, value / 2 * 3])
}

/// Batches of all contexts; the others are to see graphs' sizes.
fn coarse(rows: u32) -> bool {
    rows.is_power_of_two()
}

/// 1, 2, 4 and so on up to the seats; and just above graphs' usual sizes, where a padded step is as long as the next.
fn row_ladder(seats: u32) -> Vec<u32> {
    let powers = std::iter::successors(Some(1_u32), |rows| rows.checked_mul(2));
    let mut rows: Vec<u32> = powers.take_while(|rows| *rows <= seats).collect();
    rows.extend(
        [3, 6, 9, 12, 17, 20, 24, 25, 33, 36, 40, 48, 65, 72, 96, 192, 384]
            .into_iter()
            .filter(|r| *r <= seats),
    );
    rows.push(seats);
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Prompts of a few lengths behind a few contexts, in whole blocks, that one step computes; none without a prefix cache.
fn cached(scheduler: &EngineConfig, reach: u32) -> Vec<Cached> {
    let whole_blocks = |tokens: u32| tokens - tokens % scheduler.block_size;
    let beginnings = [reach / 4, reach / 2, reach / 8 * 7].map(whole_blocks);
    let beginnings = beginnings.into_iter().filter(|tokens| scheduler.enable_prefix_caching && *tokens > 0);
    let all = beginnings.flat_map(|tokens| [16, 128, 512].map(|new| (tokens, new, false)));
    let room = scheduler.max_num_batched_tokens;
    let mut list: Vec<Cached> =
        all.filter(|(tokens, new, _)| tokens + new <= reach && *new <= room).collect();
    let middle = list.len() / 2;
    if let Some((.., held_out)) = list.get_mut(middle) {
        *held_out = true;
    }
    list
}

fn disturbed(scheduler: &EngineConfig, reach: u32) -> Vec<Disturbed> {
    let chunk = chunk_among_others(scheduler);
    let budget = scheduler.max_num_batched_tokens;
    let mut list = Vec::new();
    // A prompt must find a seat.
    for rows in [2, 16, 64].into_iter().filter(|rows| *rows < scheduler.max_num_seqs) {
        let room = budget.saturating_sub(rows).min(reach);
        let sizes = [16, 32, 64, 128, 256, 512, chunk / 2, chunk, chunk * 5 / 2];
        let mut sizes: Vec<u32> = sizes.into_iter().filter(|size| (16..=reach).contains(size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        list.extend(sizes.iter().map(|size| (rows, 1, *size, *size == 256 && rows == 16)));
        // Several short prompts in one step; with a threshold, more tokens than one prompt can bring.
        if room >= 256 && rows < scheduler.max_num_seqs / 2 {
            list.push((rows, 4, room / 5, false));
            list.push((rows, 4, room / 4, false));
        }
    }
    list
}

/// When prompts come to a batch, and how long it decodes.
struct Timing {
    /// Context of each row at first.
    context: u32,
    /// The batch's own prompts, and all those that come to it.
    prompts_s: f64,
    disturbing_s: f64,
    /// A decode step of the batch.
    step_s: f64,
    /// The first prompts, and from those to the next.
    begin_s: f64,
    spacing_s: f64,
}

impl Timing {
    fn of((rows, count, tokens, _): Disturbed, scheduler: &EngineConfig, pace: Pace) -> Timing {
        // In one of the batches long, so that what decode rows read beside a prompt has a price.
        let long = if rows == 16 { 1024.min(scheduler.max_model_len / 8) } else { 48 };
        let context = long.max(16);
        let step_s = pace.steps_of_s(rows, context);
        let prompts_s = f64::from(rows * context) * pace.token_s;
        Timing {
            context,
            prompts_s,
            disturbing_s: f64::from(DISTURBANCES * count * tokens) * pace.token_s,
            step_s,
            begin_s: pace.ttft_s + 1.5 * prompts_s + 6.0 * step_s,
            spacing_s: pace.ttft_s + 1.3 * f64::from(count * tokens) * pace.token_s + 8.0 * step_s,
        }
    }

    /// Until the last prompts are through.
    fn total_s(&self) -> f64 {
        self.begin_s + f64::from(DISTURBANCES + 1) * self.spacing_s
    }

    /// Output tokens with which the batch decodes until then, should its steps be shorter by a sixth and its prompts through in half
    /// of their time.
    fn output(&self, scheduler: &EngineConfig) -> u32 {
        let tokens = (1.2 * (self.total_s() - 0.5 * self.prompts_s) / self.step_s).min(20_000.0) as u32;
        tokens.clamp(WINDOW, scheduler.max_model_len / 2)
    }

    /// The whole experiment: its streams decode to their ends.
    fn lasts_s(&self, scheduler: &EngineConfig) -> f64 {
        self.prompts_s + self.disturbing_s + f64::from(self.output(scheduler)) * self.step_s
    }
}

/// Output tokens with which all rows of a batch decode together for a window.
fn batch_output(rows: u32, context: u32, scheduler: &EngineConfig) -> u32 {
    let budget =
        scheduler.max_num_batched_tokens.saturating_sub(rows).max(scheduler.max_num_batched_tokens / 8);
    // Rows that come to the API server one after the other are admitted a few at a time.
    let admission = (u64::from(rows) * u64::from(context)).div_ceil(u64::from(budget.max(1)));
    WINDOW + admission.min(4000) as u32 + rows / 16 + 6
}

/// Prompts one after the other, from the middle outwards, so that length and time are not the same thing.
fn prompts(lab: &mut Lab<'_>, lengths: &[(u32, bool)]) -> Result<Vec<Measurement>, SweepError> {
    let mut order: Vec<(u32, bool)> = Vec::new();
    for (i, length) in lengths.iter().enumerate() {
        if i % 2 == 0 { order.push(*length) } else { order.insert(0, *length) }
    }
    let from_s = lab.spent_s;
    let asks: Vec<Ask> = order.iter().map(|(input, _)| Ask::new(None, *input, 1)).collect();
    let answers = lab.closed(1, &asks)?;
    let row = |answer: &Answer| {
        let (_, held_out) = *order.get(answer.index)?;
        Some(prompt(answer, from_s, asks.get(answer.index)?.input, 0, held_out))
    };
    Ok(answers.iter().filter_map(row).collect())
}

/// What a prompt alone took, of `tokens` of which `cached` were in the cache.
fn prompt(answer: &Answer, from_s: f64, tokens: u32, cached: u32, held_out: bool) -> Measurement {
    let ttft_us = 1e6 * answer.ttft_s();
    let time = Robust { mean: ttft_us, relative_sd: 0.0, samples: 1, outliers: 0, stalls: 0.0 };
    Measurement {
        prompts: 1,
        prompt_tokens: tokens,
        cached_tokens: cached,
        ..Measurement::new(Kind::Prompt, from_s + answer.sent_s, time, held_out)
    }
}

/// A prompt, and those that begin as it does: their other tokens are computed beside its context. Where the engine says that it found
/// something else in its cache, that is none.
fn behind_cached(lab: &mut Lab<'_>, list: &[Cached]) -> Result<Vec<Measurement>, SweepError> {
    let ask =
        |&(cached, new, _): &Cached| Ask { shared: Some((0, cached)), ..Ask::new(None, cached + new, 1) };
    let first = list.first().map(|(cached, ..)| Ask::whole(0, *cached));
    let asks: Vec<Ask> = first.into_iter().chain(list.iter().map(ask)).collect();
    let from_s = lab.spent_s;
    let answers = lab.closed(1, &asks)?;
    let says = answers.iter().any(|answer| answer.cached > 0);
    let row = |answer: &Answer| {
        let (cached, new, held_out) = match answer.index.checked_sub(1) {
            Some(index) => *list.get(index)?,
            None => (0, asks.first()?.input, false),
        };
        let found = !says || answer.cached == cached;
        found.then(|| prompt(answer, from_s, cached + new, cached, held_out))
    };
    Ok(answers.iter().filter_map(row).collect())
}

/// A batch in which all rows decode.
fn decode(
    lab: &mut Lab<'_>,
    (rows, context, held_out): Batch,
    scheduler: &EngineConfig,
) -> Result<Option<Measurement>, SweepError> {
    let output = batch_output(rows, context, scheduler);
    let from_s = lab.spent_s;
    let answers = lab.open(&vec![Ask::new(Some(0.0), context, output); rows as usize])?;
    if answers.len() < rows as usize {
        return Ok(None);
    }
    Ok(window(&answers).and_then(|(from, to)| {
        let (gaps, mean_context) = steps_between(&answers, from, to)?;
        let time = robust(&gaps)?;
        Some(Measurement {
            rows,
            context: mean_context,
            ..Measurement::new(Kind::Decode, from_s, time, held_out)
        })
    }))
}

/// From the last first token to the first last token.
fn window(answers: &[Answer]) -> Option<(f64, f64)> {
    let from = answers.iter().filter_map(|a| a.tokens_s.first().copied()).fold(0.0, f64::max);
    let to = answers.iter().filter_map(|a| a.tokens_s.last().copied()).fold(f64::INFINITY, f64::min);
    (from < to && to.is_finite()).then_some((from, to))
}

/// The gaps of the stream that began last, and the context that all rows read in a step, in the mean.
fn steps_between(answers: &[Answer], from: f64, to: f64) -> Option<(Vec<f64>, f64)> {
    let last = answers.iter().max_by(|a, b| {
        let first = |answer: &Answer| answer.tokens_s.first().copied().unwrap_or_default();
        first(a).total_cmp(&first(b))
    })?;
    let times: Vec<f64> = last.tokens_s.iter().copied().filter(|t| (from..=to).contains(t)).collect();
    let gaps = gaps_us(&times);
    if gaps.len() < WINDOW as usize / 3 {
        return None;
    }
    // Streams tell of a step's end at slightly different times: half a step earlier no token is on its way.
    let half_s = (to - from) / gaps.len() as f64 / 2.0;
    let contexts = times[..times.len() - 1].iter().map(|begin| context_at(answers, begin + half_s));
    Some((gaps, contexts.sum::<f64>() / (times.len() - 1) as f64))
}

/// Tokens of context that the rows which decode at a moment read, the step's own included.
fn context_at(answers: &[Answer], at_s: f64) -> f64 {
    let tokens = |answer: &Answer| {
        let made = answer.tokens_s.partition_point(|time| *time <= at_s);
        let decodes = made > 0 && made < answer.tokens_s.len();
        if decodes { f64::from(answer.input) + made as f64 } else { 0.0 }
    };
    answers.iter().map(tokens).sum()
}

/// A batch that decodes, and prompts that come in between.
fn mixed(
    lab: &mut Lab<'_>,
    disturbed: Disturbed,
    scheduler: &EngineConfig,
    pace: Pace,
) -> Result<Vec<Measurement>, SweepError> {
    let timing = Timing::of(disturbed, scheduler, pace);
    let (rows, count, tokens, held_out) = disturbed;
    let (context, output, spacing) = (timing.context, timing.output(scheduler), timing.spacing_s);
    let mut asks = vec![Ask::new(Some(0.0), context, output); rows as usize];
    for i in 0..DISTURBANCES {
        // At different moments of a step.
        let at_s = timing.begin_s + (f64::from(i) + 0.37 * f64::from(i) * pace.step_s / spacing) * spacing;
        asks.extend(vec![Ask::new(Some(at_s), tokens, 1); count as usize]);
    }
    let from_s = lab.spent_s;
    let answers = lab.open(&asks)?;
    let (streams, prompts): (Vec<Answer>, Vec<Answer>) =
        answers.into_iter().partition(|answer| answer.index < rows as usize);
    let mut found = Vec::new();
    for i in 0..DISTURBANCES {
        let first = (rows + i * count) as usize;
        let group: Vec<&Answer> =
            prompts.iter().filter(|p| (first..first + count as usize).contains(&p.index)).collect();
        let chunks = chunk_sizes(tokens, rows, scheduler).len();
        let Some(seen) = disturbance(&streams, &group, count as usize, chunks) else { continue };
        let row = |kind, time_us: f64, rows_at: f64| {
            let time = Robust { mean: time_us, relative_sd: 0.0, samples: 1, outliers: 0, stalls: 0.0 };
            Measurement {
                rows,
                context: rows_at,
                prompts: count,
                prompt_tokens: tokens,
                ..Measurement::new(kind, from_s + seen.sent_s, time, held_out)
            }
        };
        found.push(row(Kind::Mixed, seen.steps_us, seen.context));
        found.push(row(Kind::Wait, seen.wait_us, seen.usual_us));
    }
    Ok(found)
}

/// Tokens of a prompt in each of its steps beside decode rows; alone for none, and then no threshold holds.
pub fn chunk_sizes(tokens: u32, rows: u32, scheduler: &EngineConfig) -> Vec<u32> {
    let room = scheduler.max_num_batched_tokens.saturating_sub(rows).max(1);
    let each = match scheduler.long_prefill_token_threshold {
        threshold if threshold > 0 && rows > 0 => threshold.min(room),
        _ => room,
    };
    let mut left = tokens;
    let mut chunks = Vec::new();
    while left > 0 {
        let chunk = left.min(each);
        chunks.push(chunk);
        left -= chunk;
    }
    chunks
}

struct Disturbance {
    sent_s: f64,
    steps_us: f64,
    wait_us: f64,
    usual_us: f64,
    /// Context that the decode rows read in the mean step.
    context: f64,
}

/// What prompts that came together did to the streams: None if they did not end in the same step, if a stream had not
/// begun or had ended, or if the steps cannot be told.
fn disturbance(streams: &[Answer], prompts: &[&Answer], count: usize, chunks: usize) -> Option<Disturbance> {
    let stream = streams.first().filter(|_| prompts.len() == count)?;
    let firsts = || prompts.iter().filter_map(|prompt| prompt.tokens_s.first().copied());
    let usual_us = super::data::median(&gaps_us(&stream.tokens_s))?;
    let (early, late) = (firsts().fold(f64::INFINITY, f64::min), firsts().fold(0.0, f64::max));
    let same = (late - early) * 1e6 < 0.5 * usual_us;
    let end = nearest(&stream.tokens_s, late)?;
    let begin = end.checked_sub(chunks)?;
    let (from_s, to_s) = (*stream.tokens_s.get(begin)?, *stream.tokens_s.get(end)?);
    let sent_s = prompts.first()?.sent_s;
    // A prompt that comes among the streams' own prompts shares its steps with them.
    let decoding = |answer: &Answer| {
        let (first, last) = (answer.tokens_s.first(), answer.tokens_s.last());
        first.zip(last).is_some_and(|(first, last)| *first <= sent_s && *last > to_s)
    };
    if !same || !streams.iter().all(decoding) {
        return None;
    }
    let contexts = stream.tokens_s[begin..end].iter().map(|at| context_at(streams, at + usual_us / 4e6));
    Some(Disturbance {
        sent_s,
        steps_us: 1e6 * (to_s - from_s),
        wait_us: 1e6 * (from_s - sent_s),
        usual_us,
        context: contexts.sum::<f64>() / chunks.max(1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace { step_s: 0.01, row_s: 0.0, context_s: 0.0, token_s: 2e-5, ttft_s: 0.02 }
    }

    #[test]
    fn a_design_keeps_to_its_time() {
        let scheduler = EngineConfig {
            num_blocks: 20_000,
            max_num_batched_tokens: 2048,
            max_num_seqs: 128,
            max_model_len: 16_384,
            ..EngineConfig::default()
        };
        let long = Design::within(&scheduler, pace(), 600.0).unwrap();
        let short = Design::within(&scheduler, pace(), 60.0).unwrap();
        assert!(long.expected_s <= 600.0 && short.expected_s <= 60.0);
        assert!(
            long.passes >= 1
                && long.passes * long.prompts.len() as u32 > short.passes * short.prompts.len() as u32
        );
        assert!(Design::within(&scheduler, pace(), 0.5).is_none());
        assert!(long.batches.iter().any(|(rows, ..)| *rows == 128), "up to the seats");
        assert!(long.prompts.iter().any(|(length, _)| *length == 2048), "the chunk's end");
        assert!(long.batches.iter().any(|(.., held)| *held) && long.prompts.iter().any(|(_, held)| *held));
    }

    #[test]
    fn chunks_share_the_budget_with_decode_rows() {
        let scheduler = EngineConfig { max_num_batched_tokens: 2048, ..EngineConfig::default() };
        assert_eq!(chunk_sizes(5000, 48, &scheduler), [2000, 2000, 1000]);
        let bounded = EngineConfig { long_prefill_token_threshold: 1024, ..scheduler };
        assert_eq!(chunk_sizes(2048, 48, &bounded), [1024, 1024]);
        assert_eq!(chunk_sizes(2048, 0, &bounded), [2048], "alone it has the whole budget");
        assert_eq!(chunk_sizes(0, 48, &bounded), [0; 0]);
    }

    #[test]
    fn a_disturbance_is_read_from_the_streams() {
        let times = [1.0, 2.0, 3.0, 4.0, 9.0, 11.0, 12.0, 13.0];
        let stream = |index| Answer { index, sent_s: 0.0, tokens_s: times.to_vec(), input: 10, cached: 0 };
        let streams = [stream(0), stream(1)];
        let prompt = Answer { index: 2, sent_s: 2.5, tokens_s: vec![11.0], input: 99, cached: 0 };
        let seen = disturbance(&streams, &[&prompt], 1, 2).unwrap();
        assert!((seen.steps_us - 7e6).abs() < 1.0, "steps of 5 and 2 s");
        assert!((seen.wait_us - 1.5e6).abs() < 1.0);
        // In the first of them four tokens were made by each row, in the second five.
        assert!((seen.context - 2.0 * (10.0 + 4.5)).abs() < 1e-9, "{}", seen.context);
        let late = Answer { tokens_s: vec![12.0], ..prompt.clone() };
        assert!(disturbance(&streams, &[&prompt, &late], 2, 2).is_none(), "two steps apart");
    }
}
