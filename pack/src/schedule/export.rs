//! The frozen schedule as other load generators take it: a JSON object a request with its time, its lengths and the hash
//! ids of its prompt's blocks. docs/formats.md says what each tool does with them.

use super::{Part, Planned, PlannedList, Release, Schedule};
use crate::time::Nanos;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// The greatest hash id: guidellm reads 32 bits with a sign.
const HASH_ID_MAX: u64 = i32::MAX as u64;

/// A tool that replays arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTool {
    /// AIPerf's `mooncake_trace`.
    Aiperf,
    /// `timed_trace` of `vllm bench serve`.
    VllmBench,
    /// guidellm's `mooncake`.
    Guidellm,
}

/// A word of a shell's command line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+=:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl ReplayTool {
    /// Tokens of a block, unless the tool is told otherwise.
    #[must_use]
    pub fn block_tokens(self) -> u32 {
        match self {
            ReplayTool::Aiperf | ReplayTool::Guidellm => 512,
            ReplayTool::VllmBench => 16,
        }
    }

    /// The command that replays `file`, which has `exported` in it, with the flags that it depends on.
    #[must_use]
    pub fn command(self, file: &str, exported: &Exported) -> String {
        let (rows, block) = (exported.requests, exported.block_tokens);
        let in_json = serde_json::Value::from(file).to_string().replace('\'', r"'\''");
        let file = quoted(file);
        match self {
            ReplayTool::Aiperf => format!(
                "aiperf profile --input-file {file} --custom-dataset-type mooncake_trace --fixed-schedule \
                 --isl-block-size {block} --streaming --extra-inputs ignore_eos:true"
            ),
            ReplayTool::VllmBench => format!(
                "PYTHONHASHSEED=0 vllm bench serve --dataset-name timed_trace --dataset-path {file} --num-prompts {rows} \
                 --self-timed --ignore-eos --timed-trace-sec-multiplier 0.001 --timed-trace-chunk-hash-size {block}"
            ),
            ReplayTool::Guidellm => format!(
                "guidellm run --data '{{\"kind\": \"mooncake\", \"hash_id_block_size\": {block}, \"source\": {{\"kind\": \
                 \"json_file\", \"path\": {in_json}}}}}' --profile kind=replay"
            ),
        }
    }

    /// A time as the tool counts: milliseconds, or seconds for guidellm. To the nanosecond.
    fn timestamp(self, at: Nanos) -> String {
        match self {
            ReplayTool::Guidellm => format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000),
            _ => format!("{}.{:06}", at.0 / 1_000_000, at.0 % 1_000_000),
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Rows, warm-up first.
    pub requests: u64,
    /// Of them, the warm-up.
    pub warmup_requests: u64,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Prompt tokens that may be shared, but lie in a block with tokens of one request alone: not shared in the file.
    pub unshared_tokens: u64,
    /// Requests with a cancellation or priority, which the file cannot say.
    pub plainer_requests: u64,
}

/// Why a schedule cannot be written for another tool.
#[derive(Debug)]
pub enum ExportError {
    /// A request without a time of its own.
    Untimed,
    /// More blocks than the tools can number.
    TooManyBlocks,
    /// The writer failed.
    Io(io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Untimed => f.write_str(
                "found requests that wait for others (a closed loop, or sessions); expected an open loop of single requests: \
                 the tools replay times only",
            ),
            ExportError::TooManyBlocks => write!(
                f,
                "found more than {HASH_ID_MAX} blocks; expected fewer; give a larger --block-tokens"
            ),
            ExportError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Io(error)
    }
}

/// Writes a row for each request, warm-up first, in blocks of `block_tokens` (at least 1). Two prompts have the same hash
/// id exactly where they are the same up to that block's end.
///
/// # Errors
/// A request without a time, more blocks than can be numbered, and those of the writer.
pub fn write_replay(
    schedule: &Schedule,
    tool: ReplayTool,
    block_tokens: u32,
    mut out: impl Write,
) -> Result<Exported, ExportError> {
    let mut blocks =
        Blocks { block_tokens: block_tokens.max(1), ids: BTreeMap::new(), next: 0, unshared_tokens: 0 };
    let mut plainer_requests = 0;
    for (part, list) in [(Part::Warmup, &schedule.warmup), (Part::Measured, &schedule.measured)] {
        for (id, request) in (0..).zip(&list.requests) {
            let Release::At(at) = request.release else { return Err(ExportError::Untimed) };
            plainer_requests += u64::from(request.cancel_after.is_some() || request.priority != 0);
            let ids = blocks.of(part, id, request, list)?;
            let ids = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            writeln!(
                out,
                "{{\"timestamp\": {}, \"input_length\": {}, \"output_length\": {}, \"hash_ids\": [{ids}]}}",
                tool.timestamp(at),
                request.input_tokens,
                request.output_tokens
            )?;
        }
    }
    out.flush()?;
    let warmup_requests = schedule.warmup.requests.len() as u64;
    Ok(Exported {
        requests: warmup_requests + schedule.measured.requests.len() as u64,
        warmup_requests,
        block_tokens: blocks.block_tokens,
        unshared_tokens: blocks.unshared_tokens,
        plainer_requests,
    })
}

/// A run of tokens: its stream, first index and length.
type Piece = (u64, u32, u32);

/// Numbers blocks by their tokens and all before them.
struct Blocks {
    block_tokens: u32,
    /// By the id of the block before, and the tokens.
    ids: BTreeMap<(Option<u64>, Vec<Piece>), u64>,
    next: u64,
    unshared_tokens: u64,
}

impl Blocks {
    fn of(
        &mut self,
        part: Part,
        id: u64,
        request: &Planned,
        list: &PlannedList,
    ) -> Result<Vec<u64>, ExportError> {
        let segments = list.segments_of(request);
        let unique = part.unique(id);
        let shareable = segments.iter().filter(|segment| segment.stream != unique);
        let mut left_over = shareable.map(|segment| u64::from(segment.len)).sum::<u64>();
        let mut pieces = segments.iter().map(|s| (s.stream.0, s.start, s.len)).collect::<Vec<Piece>>();
        pieces.reverse();
        let mut ids = Vec::new();
        let mut before = 0;
        while before < request.input_tokens {
            let size = self.block_tokens.min(request.input_tokens - before);
            before += size;
            let key = (ids.last().copied(), take(&mut pieces, size));
            let tokens = key.1.iter().map(|piece| piece.2).sum::<u32>();
            let alone = tokens < size || key.1.iter().any(|piece| piece.0 == unique.0);
            if !alone {
                left_over -= u64::from(size);
                if let Some(known) = self.ids.get(&key) {
                    ids.push(*known);
                    continue;
                }
                self.ids.insert(key, self.next);
            }
            ids.push(self.next);
            self.next += 1;
            if self.next > HASH_ID_MAX {
                return Err(ExportError::TooManyBlocks);
            }
        }
        self.unshared_tokens += left_over;
        Ok(ids)
    }
}

/// Takes up to `tokens` tokens from the end of the reversed `pieces`, neighbours of one stream made one.
fn take(pieces: &mut Vec<Piece>, tokens: u32) -> Vec<Piece> {
    let mut taken: Vec<Piece> = Vec::new();
    let mut wanted = tokens;
    while wanted > 0
        && let Some((stream, start, len)) = pieces.pop()
    {
        let now = len.min(wanted);
        wanted -= now;
        if now < len {
            pieces.push((stream, start + now, len - now));
        }
        match taken.last_mut() {
            Some((last, from, count)) if *last == stream && *from + *count == start => *count += now,
            _ if now > 0 => taken.push((stream, start, now)),
            _ => {}
        }
    }
    taken
}
