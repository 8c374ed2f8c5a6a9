//! What an engine's scheduler is set to, found from outside: seats, token budget, prefix cache, KV blocks.

use super::data::median;
use super::lab::{Answer, Ask, Lab, SweepError, gaps_us};
use scaleproof_pack::experiment::EngineFacts;
use scaleproof_sim::engine::EngineConfig;
use std::collections::BTreeMap;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The scheduler's settings.
    pub scheduler: EngineConfig,
    /// The engine and its version, as it says.
    pub version: Option<String>,
    /// The model, as it says.
    pub model: Option<String>,
    /// How each setting was found, in words.
    pub notes: Vec<String>,
}

/// First rough times, to plan with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// A decode step of one row, seconds.
    pub step_s: f64,
    /// What a further row adds to it, seconds.
    pub row_s: f64,
    /// What a token of context adds to it, seconds.
    pub context_s: f64,
    /// A prompt's token, seconds.
    pub token_s: f64,
    /// From sending a short prompt to its token, seconds.
    pub ttft_s: f64,
}

impl Pace {
    /// A decode step of rows with so many tokens of context each, in seconds. Twice as long at a hundred rows at least: on a
    /// GPU rows cost too little to be seen in a few steps.
    #[must_use]
    pub fn steps_of_s(self, rows: u32, context: u32) -> f64 {
        let rows = f64::from(rows);
        self.step_s + rows * (self.row_s.max(self.step_s / 100.0) + f64::from(context) * self.context_s)
    }
}

/// Seats are looked for up to here.
const SEATS_MAX: u32 = 2048;
/// A token budget is looked for up to here.
const BUDGET_MAX: u32 = 65_536;
/// Below this a chunk is not told from a decode step.
const CHUNK_MIN: u32 = 128;
/// A gap so many times the usual one may hold a prompt's chunk,
const LONG_GAP: f64 = 1.25;
/// if it is longer by this share of what the whole prompt takes. Of two chunks and more, a full one has a third or more; a
/// step before them that a server is late with, since it reads the prompt, has less.
const CHUNK_SHARE: f64 = 0.25;

/// Tokens of an answer that tells what its context costs.
const READ: u32 = 24;

/// Measures the pace: the reference point and prompts. What a row costs comes with the seats ([`find`]).
///
/// # Errors
/// As [`Lab::open`].
pub fn pace(lab: &mut Lab<'_>, longest: u32) -> Result<Pace, SweepError> {
    let step_s = lab.reference()?.step_us / 1e6;
    let long = 1024.min(longest / 2).max(64);
    let asks: Vec<Ask> = [(16, 1), (long, READ), (16, 1), (long, READ)]
        .map(|(input, output)| Ask::new(None, input, output))
        .to_vec();
    let answers = lab.closed(1, &asks)?;
    let least = |input: u32| {
        answers.iter().filter(|a| a.input == input).map(Answer::ttft_s).fold(f64::INFINITY, f64::min)
    };
    let (short_s, long_s) = (least(16), least(long));
    if !(short_s.is_finite() && long_s.is_finite()) {
        return Err(SweepError::Unusable(format!(
            "the first prompts: found no answer to one of 16 or {long} tokens; expected both to be served"
        )));
    }
    let reads = answers.iter().filter_map(|answer| median(&gaps_us(&answer.tokens_s)));
    let read_s = reads.reduce(f64::min).map_or(step_s, |read_us| read_us / 1e6);
    Ok(Pace {
        step_s,
        row_s: 0.0,
        context_s: ((read_s - step_s) / f64::from(long)).max(0.0),
        token_s: ((long_s - short_s) / f64::from(long - 16)).max(step_s * 1e-4),
        ttft_s: short_s,
    })
}

/// Finds every setting, as far as time allows; and the pace with what a row costs.
///
/// # Errors
/// As [`Lab::open`], and settings that cannot be found.
pub fn find(lab: &mut Lab<'_>, facts: &EngineFacts, mut pace: Pace) -> Result<(Found, Pace), SweepError> {
    let mut scheduler = EngineConfig { async_scheduling: true, ..EngineConfig::default() };
    let mut notes = Vec::new();
    scheduler.max_model_len = facts.max_model_len.unwrap_or(scheduler.max_model_len);
    let told = if facts.max_model_len.is_some() { "told" } else { "not told: the usual one is taken" };
    notes.push(format!("max_model_len {}: {told}", scheduler.max_model_len));
    scheduler.block_size = facts.block_size.unwrap_or(16);
    if facts.block_size.is_none() {
        notes.push(
            "block_size 16: not told, the usual one is taken; the pool's tokens are measured".to_owned(),
        );
    }
    let Seats { count: seats, at_least, step_s } = seats(lab, scheduler.max_model_len)?;
    scheduler.max_num_seqs = seats;
    pace.row_s = ((step_s.unwrap_or_default() - pace.step_s) / f64::from(seats)).max(0.0);
    notes.push(format!(
        "max_num_seqs {seats}: {}measured by a burst",
        if at_least { "at least, " } else { "" }
    ));
    let chunks = Chunks { pace, longest: scheduler.max_model_len };
    chunks.find(lab, &mut scheduler, &mut notes)?;
    scheduler.enable_prefix_caching = prefix_cache(lab, pace, scheduler.max_model_len)?;
    let cache = if scheduler.enable_prefix_caching { "on" } else { "off" };
    notes.push(format!("prefix cache {cache}: measured by repeated prompts"));
    if facts.prefix_cache.is_some_and(|told| told != scheduler.enable_prefix_caching) {
        notes.push("the engine says otherwise of its prefix cache: what was measured is taken".to_owned());
    }
    blocks(lab, facts, pace, &mut scheduler, &mut notes)?;
    Ok((Found { scheduler, version: facts.version.clone(), model: facts.model.clone(), notes }, pace))
}

/// Requests that run at once at most.
struct Seats {
    count: u32,
    /// Whether there may be more.
    at_least: bool,
    /// A step with all of them, seconds.
    step_s: Option<f64>,
}

fn seats(lab: &mut Lab<'_>, longest: u32) -> Result<Seats, SweepError> {
    // A block of 16 tokens each at first, so that memory hardly limits them.
    let (mut asked, mut output, mut most) = (64, 12, 0);
    loop {
        let (input, output_fits) = (4, output.min(longest.saturating_sub(4)).max(2));
        let asks = vec![Ask::new(Some(0.0), input, output_fits); asked as usize];
        let answers = lab.open(&asks)?;
        let together = most_at_once(&answers).max(1);
        let gaps: Vec<f64> = answers.iter().flat_map(|answer| gaps_us(&answer.tokens_s)).collect();
        let step_s = median(&gaps).map(|step_us| step_us / 1e6);
        if together >= asked {
            if asked >= SEATS_MAX {
                return Ok(Seats { count: asked, at_least: true, step_s });
            }
            asked *= 2;
        } else if together <= most || output > SEAT_OUTPUT_MAX {
            return Ok(Seats { count: most.max(together), at_least: false, step_s });
        } else {
            // Perhaps the first ended before the server had read the last: with longer answers there are more, if so.
            (output, most) = (output * 2, together);
        }
    }
}

/// Answers of more tokens hold a seat no longer, when seats are looked for.
const SEAT_OUTPUT_MAX: u32 = 200;

/// Of the time with a request between its tokens, the share that the most at once must fill: where one's last token comes
/// late, it meets the first token of the one that took its seat, for a moment.
const HELD_SHARE: f64 = 0.1;

/// The most requests between their first and their last token, for longer than moments.
fn most_at_once(answers: &[Answer]) -> u32 {
    let mut edges: Vec<(f64, i64)> = Vec::new();
    for answer in answers {
        if let (Some(first), Some(last)) = (answer.tokens_s.first(), answer.tokens_s.last()) {
            edges.extend([(*first, 1), (*last, -1)]);
        }
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Seconds with exactly so many.
    let mut held_s: BTreeMap<i64, f64> = BTreeMap::new();
    let mut now = 0;
    for pair in edges.windows(2) {
        now += pair[0].1;
        *held_s.entry(now).or_default() += pair[1].0 - pair[0].0;
    }
    held_s.remove(&0);
    let all_s: f64 = held_s.values().sum();
    let mut above_s = 0.0;
    let most = held_s.iter().rev().find(|(_, seconds)| {
        above_s += **seconds;
        above_s >= HELD_SHARE * all_s
    });
    most.map_or(0, |(count, _)| u32::try_from(*count).unwrap_or(0))
}

struct Chunks {
    pace: Pace,
    longest: u32,
}

impl Chunks {
    /// The token budget and the part of it that one prompt may have.
    fn find(
        &self,
        lab: &mut Lab<'_>,
        scheduler: &mut EngineConfig,
        notes: &mut Vec<String>,
    ) -> Result<(), SweepError> {
        let most = (self.longest / 2).clamp(CHUNK_MIN, BUDGET_MAX);
        let (one, bounded) = self.largest(lab, CHUNK_MIN, most, 1)?;
        if !bounded {
            scheduler.max_num_batched_tokens = one + 1;
            notes.push(format!("max_num_batched_tokens at least {}: no longer prompt was tried", one + 1));
            return Ok(());
        }
        if self.steps(lab, one + 64, 2)? > 1 {
            scheduler.max_num_batched_tokens = one + 1;
            notes.push(format!("max_num_batched_tokens {}: measured, where TTFT bends", one + 1));
            return Ok(());
        }
        // One prompt may not have the whole budget.
        scheduler.long_prefill_token_threshold = one;
        let (all, bounded) = self.largest(lab, one, BUDGET_MAX, one)?;
        scheduler.max_num_batched_tokens = all + 1;
        let least = if bounded { "" } else { "at least " };
        notes.push(format!("long_prefill_token_threshold {one}: measured, where TTFT bends"));
        notes.push(format!("max_num_batched_tokens {least}{}: measured by prompts together", all + 1));
        Ok(())
    }

    /// The most prompt tokens that one step takes beside one decode row, in pieces of at most `piece` tokens (1: in
    /// one piece); false if `most` fit.
    fn largest(
        &self,
        lab: &mut Lab<'_>,
        from: u32,
        most: u32,
        piece: u32,
    ) -> Result<(u32, bool), SweepError> {
        let pieces = |tokens: u32| if piece == 1 { 1 } else { tokens.div_ceil(piece) };
        let (mut fits, mut above) = (from, None);
        while above.is_none() {
            let next = fits.saturating_mul(2).min(most);
            let costly = f64::from(next) * self.pace.token_s > lab.budget_s / 40.0;
            if next == fits || costly {
                return Ok((fits, false));
            }
            if self.steps(lab, next, pieces(next))? <= 1 { fits = next } else { above = Some(next) }
        }
        let mut above = above.unwrap_or(most);
        while above - fits > 1 {
            let middle = fits.midpoint(above);
            if self.steps(lab, middle, pieces(middle))? <= 1 { fits = middle } else { above = middle }
        }
        Ok((fits, true))
    }

    /// Steps that `tokens` prompt tokens take in about equal pieces at once, beside one decode row: the median of three.
    fn steps(&self, lab: &mut Lab<'_>, tokens: u32, pieces: u32) -> Result<u32, SweepError> {
        let mut found = Vec::new();
        for i in 0..3 {
            let waits = (self.pace.ttft_s + f64::from(tokens) * self.pace.token_s) / self.pace.step_s;
            let output = (40.0 + waits).min(4000.0) as u32 + tokens / 256;
            // At different moments of a step: just before its end some pieces may be read in time, and others not.
            let at_s = self.pace.ttft_s + (8.0 + 0.37 * f64::from(i)) * self.pace.step_s;
            let mut asks = vec![Ask::new(Some(0.0), 16, output)];
            // About equal pieces, so that they come at the same moment.
            let length = |piece| tokens / pieces + u32::from(piece < tokens % pieces);
            asks.extend((0..pieces).map(|piece| Ask::new(Some(at_s), length(piece), 1)));
            let answers = lab.open(&asks)?;
            found.extend(chunk_steps(&answers, f64::from(tokens) * self.pace.token_s).map(f64::from));
            if found.len() == 2 && (found[0] - found[1]).abs() < 0.5 {
                break;
            }
        }
        let Some(steps) = median(&found) else {
            return Err(SweepError::Unusable(format!(
                "the token budget: found no answer to {pieces} prompts of {tokens} tokens in all beside a running one; \
                 expected them to be served"
            )));
        };
        Ok(steps as u32)
    }
}

/// Steps that the later requests' prompts took, seen by the first one's tokens. They need `prompts_s` in all. None if they were
/// not served.
fn chunk_steps(answers: &[Answer], prompts_s: f64) -> Option<u32> {
    let (stream, prompts) = answers.split_first().filter(|(stream, _)| stream.index == 0)?;
    let last = prompts
        .iter()
        .filter_map(|prompt| prompt.tokens_s.first())
        .fold(None, |most: Option<f64>, at| Some(most.map_or(*at, |most| most.max(*at))))?;
    let gaps = gaps_us(&stream.tokens_s);
    let usual = median(&gaps)?;
    let end = nearest(&stream.tokens_s, last)?;
    // The gap before token `end` is the last step's, however short; those before it that are long are its chunks'.
    // A step that was under way when the prompts were sent has none of them, however long a server that reads them makes it.
    let sent_s = prompts.iter().map(|prompt| prompt.sent_s).fold(f64::INFINITY, f64::min);
    let until = end.checked_sub(1)?;
    let from = stream.tokens_s.partition_point(|at| *at < sent_s).min(until);
    let before = gaps.get(from..until)?;
    let least = (LONG_GAP * usual).max(usual + 1e6 * CHUNK_SHARE * prompts_s);
    let long = before.iter().rev().take_while(|gap| **gap > least).count();
    Some(long as u32 + 1)
}

/// The position of the time nearest to `at`.
pub fn nearest(times_s: &[f64], at: f64) -> Option<usize> {
    let after = times_s.partition_point(|time| *time < at);
    let candidates = [after.checked_sub(1), Some(after).filter(|i| *i < times_s.len())];
    candidates.into_iter().flatten().min_by(|a, b| {
        let off = |i: usize| (times_s[i] - at).abs();
        off(*a).total_cmp(&off(*b))
    })
}

/// Whether a repeated prompt is faster than a new one, or said to be cached.
fn prefix_cache(lab: &mut Lab<'_>, pace: Pace, longest: u32) -> Result<bool, SweepError> {
    let wanted = (4.0 * (pace.step_s + pace.ttft_s) / pace.token_s).clamp(256.0, 8192.0) as u32;
    let input = wanted.min(longest / 2).max(64);
    let asks: Vec<Ask> = (0..6).map(|i| Ask::whole(i / 2, input)).collect();
    let answers = lab.closed(1, &asks)?;
    let ttft = |again: usize| {
        let of: Vec<f64> = answers.iter().filter(|a| a.index % 2 == again).map(Answer::ttft_s).collect();
        median(&of)
    };
    let said = answers.iter().any(|answer| answer.index % 2 == 1 && answer.cached > 0);
    let faster = ttft(0).zip(ttft(1)).is_some_and(|(new, again)| again < 0.7 * new);
    Ok(said || faster)
}

/// Reads or measures the KV blocks: prompts fill the pool, then come again, the last one first; those that are
/// found again are what it holds.
fn blocks(
    lab: &mut Lab<'_>,
    facts: &EngineFacts,
    pace: Pace,
    scheduler: &mut EngineConfig,
    notes: &mut Vec<String>,
) -> Result<(), SweepError> {
    let size = scheduler.block_size;
    let told = facts.num_blocks.and_then(|blocks| u32::try_from(blocks).ok()).filter(|blocks| *blocks > 1);
    let allowed = (lab.budget_s / 6.0 / pace.token_s) as u64;
    let told_tokens = told.map(|blocks| u64::from(blocks - 1) * u64::from(size));
    let measured = if scheduler.enable_prefix_caching && told_tokens.is_none_or(|t| t * 3 / 2 < allowed) {
        pool_tokens(lab, told_tokens, allowed, scheduler)?
    } else {
        None
    };
    match (told, told_tokens, measured) {
        (Some(blocks), Some(tokens), Some(found)) => {
            let off = found as f64 / tokens as f64 - 1.0;
            if off.abs() > 0.05 {
                return Err(SweepError::Unusable(format!(
                    "the KV pool: found room for {found} tokens, expected the {tokens} that the engine says it has; \
                     run alone on one replica, without other traffic"
                )));
            }
            scheduler.num_blocks = blocks;
            notes.push(format!("num_blocks {blocks}: told, and found to {:+.1} %", 100.0 * off));
        }
        (Some(blocks), ..) => {
            scheduler.num_blocks = blocks;
            notes.push(format!("num_blocks {blocks}: told; filling the pool is not possible in the time"));
        }
        (None, _, Some(found)) => {
            scheduler.num_blocks =
                (found / u64::from(size)).min(u64::from(EngineConfig::NUM_BLOCKS_MAX) - 1) as u32 + 1;
            notes.push(format!("num_blocks {}: measured, room for {found} tokens", scheduler.num_blocks));
        }
        (None, _, None) => {
            return Err(SweepError::Unusable(format!(
                "the KV blocks: found neither what the engine says nor room within {allowed} tokens of prompts; expected \
                 one of them; give --num-blocks from the server's log, or a longer --budget"
            )));
        }
    }
    Ok(())
}

/// Tokens that the pool holds, once coarsely and once finely. None if it holds more than `allowed`, or says nothing.
fn pool_tokens(
    lab: &mut Lab<'_>,
    told: Option<u64>,
    allowed: u64,
    scheduler: &EngineConfig,
) -> Result<Option<u64>, SweepError> {
    let longest = scheduler.max_model_len.saturating_sub(2).max(1);
    let step = |pool: u64, parts: u64| {
        let tokens = (pool / parts).max(u64::from(scheduler.block_size) * 4).min(u64::from(longest));
        // One token more than blocks: they are all found again, and nothing that lasts is computed anew.
        ((tokens as u32).next_multiple_of(scheduler.block_size) + 1).min(longest)
    };
    let mut pool = told.unwrap_or(16_384);
    loop {
        let tokens = step(pool, 32);
        match refill(lab, tokens, pool * 5 / 4)? {
            Some(found) => {
                pool = found;
                break;
            }
            None if pool * 4 > allowed || told.is_some() => return Ok(None),
            None => pool *= 3,
        }
    }
    if pool * 5 / 2 > allowed {
        return Ok(Some(pool));
    }
    Ok(refill(lab, step(pool, 256), pool * 11 / 10)?.or(Some(pool)))
}

/// Sends `total` tokens in prompts of `tokens`, then the same again, the last first: the tokens found again. None if
/// all are.
fn refill(lab: &mut Lab<'_>, tokens: u32, total: u64) -> Result<Option<u64>, SweepError> {
    let count = total.div_ceil(u64::from(tokens)).clamp(2, 100_000) as u32;
    let tokens = tokens.max(2);
    let order = (0..count).chain((0..count).rev());
    let asks: Vec<Ask> = order.map(|number| Ask::whole(number, tokens)).collect();
    let answers = lab.closed(1, &asks)?;
    let (new, again): (Vec<&Answer>, Vec<&Answer>) =
        answers.iter().partition(|answer| answer.index < count as usize);
    let cold: Vec<f64> = new.iter().map(|answer| answer.ttft_s()).collect();
    let (Some(cold), Some(warm)) = (median(&cold), again.first().map(|answer| answer.ttft_s())) else {
        return Ok(None);
    };
    let said = again.iter().any(|answer| answer.cached > 0);
    let mut found = 0.0;
    for answer in &again {
        let share = if said {
            f64::from(answer.cached) / f64::from(tokens - 1)
        } else {
            ((cold - answer.ttft_s()) / (cold - warm).max(1e-9)).clamp(0.0, 1.0)
        };
        // A prompt whose end was evicted is the last that was found.
        found += share * f64::from(tokens - 1);
        if share < 0.5 {
            return Ok(Some(found as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(index: usize, tokens_s: &[f64]) -> Answer {
        Answer { index, sent_s: 0.0, tokens_s: tokens_s.to_vec(), input: 9, cached: 0 }
    }

    #[test]
    fn requests_at_once_are_those_between_their_tokens() {
        let answers =
            [answer(0, &[1.0, 2.0]), answer(1, &[1.0, 3.0]), answer(2, &[2.5, 4.0]), answer(3, &[])];
        assert_eq!(most_at_once(&answers), 2);
        // A last token that comes late meets those who took the seats.
        let late =
            [answer(0, &[1.0, 5.0]), answer(1, &[1.0, 5.2]), answer(2, &[5.1, 9.0]), answer(3, &[5.1, 9.0])];
        assert_eq!(most_at_once(&late), 2);
        assert_eq!(most_at_once(&[]), 0);
    }

    #[test]
    fn chunks_are_counted_back_from_the_first_token() {
        // Steps of 1, two chunks of 5 and a short last one, then a hiccup that is none of them.
        let stream = answer(0, &[1.0, 2.0, 3.0, 8.0, 13.0, 14.1, 15.1, 22.0, 23.0]);
        assert_eq!(chunk_steps(&[stream.clone(), answer(1, &[14.1])], 8.0), Some(3));
        assert_eq!(chunk_steps(&[stream.clone(), answer(1, &[8.0])], 4.0), Some(1));
        assert_eq!(chunk_steps(std::slice::from_ref(&stream), 8.0), None);
        // Sent while the first of the long ones was under way.
        let late = Answer { sent_s: 4.0, ..answer(1, &[14.1]) };
        assert_eq!(chunk_steps(&[stream, late], 8.0), Some(2));
        // The server reads the prompt for a while, then computes it in one piece.
        let reads = answer(0, &[1.0, 2.0, 3.0, 4.6, 12.6, 13.6]);
        assert_eq!(chunk_steps(&[reads, answer(1, &[12.6])], 7.0), Some(1));
        assert_eq!(nearest(&[1.0, 2.0], 1.6), Some(1));
        assert_eq!(nearest(&[], 1.6), None);
    }
}
