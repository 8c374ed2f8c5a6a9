//! The API server before an engine: how long a request takes through it, and whether requests wait there for each other.

use scaleproof_pack::fields::word_of;
use scaleproof_pack::time::{Nanos, TimeError};

/// What the front end's work on requests that come in runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEndProcess {
    /// Processes enough that no request waits for another: a latency.
    #[default]
    Parallel,
    /// One process on a core of its own: one request after the other.
    Serial,
    /// One process on the core that computes the steps: one request after the other, and a step stands still meanwhile.
    Shared,
}

impl FrontEndProcess {
    /// All, each with the word that profiles have.
    pub const WORDS: [(&'static str, FrontEndProcess); 3] = [
        ("parallel", FrontEndProcess::Parallel),
        ("serial", FrontEndProcess::Serial),
        ("shared", FrontEndProcess::Shared),
    ];

    /// The word in a profile.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&FrontEndProcess::WORDS, &self)
    }
}

/// What the API server adds around the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrontEnd {
    /// What it runs on.
    pub process: FrontEndProcess,
    /// Each request, on its way in.
    pub request: Nanos,
    /// What of that keeps the process from the next request; the rest passes beside it. Prompt tokens are all work.
    pub busy: Nanos,
    /// Each prompt token, on its way in (tokenisation, hashing), in microseconds.
    pub prompt_token_us: f64,
    /// Each token, on its way out: a latency, whatever the process.
    pub output_token: Nanos,
}

impl FrontEnd {
    /// From reaching the API server to the engine's input queue, for a request that need not wait.
    ///
    /// # Errors
    /// If the profile's cost gives something that is no time.
    pub fn ingest(&self, input_tokens: u32) -> Result<Nanos, TimeError> {
        Ok(self.request + self.tokens(input_tokens)?)
    }

    /// The part of that in which its process does nothing else.
    ///
    /// # Errors
    /// As [`FrontEnd::ingest`].
    pub fn work(&self, input_tokens: u32) -> Result<Nanos, TimeError> {
        Ok(self.busy + self.tokens(input_tokens)?)
    }

    /// The part in which it does other things.
    #[must_use]
    pub fn aside(&self) -> Nanos {
        self.request.since(self.busy)
    }

    fn tokens(&self, input_tokens: u32) -> Result<Nanos, TimeError> {
        Nanos::from_seconds(self.prompt_token_us * f64::from(input_tokens) / 1e6)
    }
}
