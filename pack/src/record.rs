//! The record of one attempt: the row both worlds write, and all that the analyzer sees.

use crate::time::Nanos;

/// How an attempt ended. Every attempt ends exactly once, as one of these six.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// All tokens arrived.
    Ok,
    /// The server answered with an error, or the stream broke.
    Error,
    /// The client's own time limit passed.
    Timeout,
    /// Refused on purpose: a queue limit, a rate limit, admission control.
    Rejected,
    /// Given up by the client on purpose.
    Cancelled,
    /// The replica died with the attempt in it.
    Lost,
}

impl Outcome {
    /// All six, in the order of the columns.
    pub const ALL: [Outcome; 6] =
        [Outcome::Ok, Outcome::Error, Outcome::Timeout, Outcome::Rejected, Outcome::Cancelled, Outcome::Lost];

    /// The word in requests.csv.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Error => "error",
            Outcome::Timeout => "timeout",
            Outcome::Rejected => "rejected",
            Outcome::Cancelled => "cancelled",
            Outcome::Lost => "lost",
        }
    }

    /// The outcome that `word` names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|o| o.word() == word)
    }
}

/// One attempt, from its scheduled arrival to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The request's position in its schedule (warm-up and measured count apart).
    pub id: u64,
    /// Index into the manifest's classes.
    pub class: u16,
    /// True before the measured window.
    pub warmup: bool,
    /// When the schedule wanted it sent.
    pub scheduled: Nanos,
    /// When it was sent.
    pub sent: Nanos,
    /// When the first non-empty token arrived at the client.
    pub first_token: Option<Nanos>,
    /// When it ended: the last token for `ok`, else the moment of failure.
    pub ended: Nanos,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Of those, found in the prefix cache at its first admission.
    pub cached_tokens: u32,
    /// Tokens the client received.
    pub output_tokens: u32,
    /// Tokens it asked for.
    pub requested_tokens: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The replica that served it, if one was chosen.
    pub replica: Option<u32>,
    /// How often it lost its blocks and was computed again.
    pub preemptions: u32,
    /// How often it was sent again after a failed try; `replica` is that of the last.
    pub retries: u32,
    /// Tokens computed for it, prompt and output, without prefix hits and without what was computed again after a
    /// preemption; None if that is not known.
    pub computed_tokens: Option<u32>,
    /// What failed, in a few fixed words; empty for `ok`.
    pub reason: &'static str,
    /// What only a live client sees.
    pub wire: Option<Box<Wire>>,
}

/// What a live client saw of one attempt, beyond what a simulation knows too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wire {
    /// When the response's headers arrived.
    pub headers: Option<Nanos>,
    /// When the body's first byte arrived.
    pub first_byte: Option<Nanos>,
    /// When the stream was closed, or `[DONE]` arrived.
    pub done: Option<Nanos>,
    /// The HTTP status, if there was an answer.
    pub http_status: Option<u16>,
    /// Where the count of output tokens came from.
    pub tokens_from: TokensFrom,
    /// Prompt tokens by the server's own count.
    pub usage_input_tokens: Option<u32>,
    /// Arrival of each chunk with tokens, and how many tokens it brought.
    pub chunks: Vec<(Nanos, u32)>,
    /// The error in the server's or the library's words; empty if there was none.
    pub error: String,
}

/// Where a count of output tokens came from, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokensFrom {
    /// The server's `usage`.
    Usage,
    /// Token ids in the chunks.
    TokenIds,
    /// Chunks, each counted as one token.
    #[default]
    Chunks,
}

impl Record {
    /// Time to first token from sending, if there was one.
    #[must_use]
    pub fn ttft(&self) -> Option<Nanos> {
        self.first_token.map(|t| t.since(self.sent))
    }

    /// From sending to the end.
    #[must_use]
    pub fn e2e(&self) -> Nanos {
        self.ended.since(self.sent)
    }

    /// Time per output token after the first, in milliseconds: (E2E - TTFT)/(O - 1). None for fewer than two.
    ///
    /// One division, so rounded once: a TPOT that is exactly its cutoff compares equal to it.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let decode = self.e2e().since(self.ttft()?);
        (self.output_tokens > 1).then(|| decode.0 as f64 / (1e6 * f64::from(self.output_tokens - 1)))
    }

    /// How much later than scheduled it was sent.
    #[must_use]
    pub fn lag(&self) -> Nanos {
        self.sent.since(self.scheduled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ok;

    #[test]
    fn words_name_outcomes() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_word(outcome.word()), Some(outcome));
        }
        assert_eq!(Outcome::from_word("OK"), None);
    }

    #[test]
    fn a_tpot_at_its_cutoff_equals_it() {
        for (cutoff_ms, gap_ns) in [(40.1, 40_100_000), (33.3, 33_300_000), (0.7, 700_000)] {
            for tokens in [2, 3, 128, 1024] {
                let record = ok(0, 0, 1_000_000, gap_ns * (tokens - 1), tokens as u32);
                assert_eq!(record.tpot_ms(), Some(cutoff_ms), "{tokens} tokens");
            }
        }
        assert_eq!(ok(0, 0, 5, 0, 1).tpot_ms(), None);
    }
}
