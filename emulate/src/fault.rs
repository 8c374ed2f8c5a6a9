//! What can be done to a replica on command, and what it is under at a time. Seconds and milliseconds are the engine's:
//! the time scale stretches them too.

use crate::config::EmulateError;
use serde::{Deserialize, Serialize};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The process dies: connections are reset, the port refuses, requests and cache are lost.
    Stop {
        /// It is started again at once, and is ready after so long.
        start_up_seconds: Option<f64>,
    },
    /// A stopped one is started again, with an empty cache and no faults.
    Start {
        /// It is ready after so long. Until then its port refuses.
        #[serde(default)]
        start_up_seconds: f64,
    },
    /// The engine stands still.
    Stall {
        /// Whether the server answers all that needs no engine, its health included; otherwise it accepts connections
        /// and answers nothing.
        #[serde(default)]
        health: bool,
    },
    /// Each step takes `factor` times as long.
    Slow {
        /// Above 0.
        factor: f64,
    },
    /// A share of the KV blocks cannot be taken. Who has blocks keeps them.
    KvCut {
        /// This share of all blocks.
        share: f64,
    },
    /// Answers break off.
    Drop {
        /// After so many tokens.
        after_tokens: u32,
        /// Which share of the answers.
        #[serde(default = "always")]
        probability: f64,
    },
    /// Requests are refused.
    Refuse {
        /// With this HTTP status.
        status: u16,
        /// Which share of the requests.
        #[serde(default = "always")]
        probability: f64,
        /// As `Retry-After`.
        retry_after_seconds: Option<u32>,
    },
    /// The way to it is long.
    Latency {
        /// Each request, on its way in.
        #[serde(default)]
        request_ms: f64,
        /// Each token, on its way out.
        #[serde(default)]
        token_ms: f64,
    },
    /// Its server breaks the protocol.
    Misbehave {
        /// How.
        how: Misbehaviour,
        /// In which share of the answers.
        #[serde(default = "always")]
        probability: f64,
    },
    /// All is well again. A stopped replica stays stopped.
    Heal {},
}

fn always() -> f64 {
    1.0
}

/// How a server can break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misbehaviour {
    /// An event after the first token is no JSON.
    InvalidSse,
    /// Each token's text ends in a character of two bytes, sent apart.
    SplitUtf8,
    /// Every chunk has a usage.
    UsageOnEveryChunk,
    /// The stream ends without `[DONE]`.
    NeverDone,
    /// The stream has all its tokens, and stays open.
    NeverEnds,
    /// The connection is closed in the place of a reply.
    NoReply,
    /// The body comes byte by byte, each after 5 ms.
    ByteByByte,
}

/// What a running replica is under.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// See [`Fault::Stall`]: whether its health is well.
    pub stalled: Option<bool>,
    /// See [`Fault::Slow`].
    pub slow_factor: f64,
    /// See [`Fault::KvCut`].
    pub kv_cut_share: f64,
    /// See [`Fault::Drop`]: tokens and probability.
    pub drop: Option<(u32, f64)>,
    /// See [`Fault::Refuse`].
    pub refuse: Option<Refuse>,
    /// See [`Fault::Latency`].
    pub request_latency_ms: f64,
    /// See [`Fault::Latency`].
    pub token_latency_ms: f64,
    /// See [`Fault::Misbehave`]: how and its probability.
    pub misbehave: Option<(Misbehaviour, f64)>,
}

/// See [`Fault::Refuse`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Refuse {
    /// HTTP status.
    pub status: u16,
    /// Share of the requests.
    pub probability: f64,
    /// As `Retry-After`.
    pub retry_after_seconds: Option<u32>,
}

impl Default for Conditions {
    fn default() -> Self {
        Conditions {
            stalled: None,
            slow_factor: 1.0,
            kv_cut_share: 0.0,
            drop: None,
            refuse: None,
            request_latency_ms: 0.0,
            token_latency_ms: 0.0,
            misbehave: None,
        }
    }
}

/// The longest start-up and latency, in seconds.
const SECONDS_MAX: f64 = 1e5;

impl Fault {
    /// Whether its numbers can be.
    ///
    /// # Errors
    /// [`EmulateError::Fault`].
    pub fn check(&self) -> Result<(), EmulateError> {
        let within = |name: &str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(EmulateError::Fault(format!("{name}: found {value}; expected {low} to {high}")))
        };
        let probability = |value| within("probability", value, 0.0, 1.0);
        let seconds = |value| within("start_up_seconds", value, 0.0, SECONDS_MAX);
        match *self {
            Fault::Stop { start_up_seconds } => seconds(start_up_seconds.unwrap_or(0.0)),
            Fault::Start { start_up_seconds } => seconds(start_up_seconds),
            Fault::Slow { factor } => within("factor", factor, 0.01, 1000.0),
            Fault::KvCut { share } => within("share", share, 0.0, 1.0),
            Fault::Drop { probability: share, .. } | Fault::Misbehave { probability: share, .. } => {
                probability(share)
            }
            Fault::Refuse { status, probability: share, .. } => {
                within("status", f64::from(status), 400.0, 599.0)?;
                probability(share)
            }
            Fault::Latency { request_ms, token_ms } => {
                within("request_ms", request_ms, 0.0, 1e3 * SECONDS_MAX)?;
                within("token_ms", token_ms, 0.0, 1e3 * SECONDS_MAX)
            }
            Fault::Stall { .. } | Fault::Heal {} => Ok(()),
        }
    }
}

impl Conditions {
    /// Under one more command. Nothing changes for those that concern the whole process.
    #[must_use]
    pub fn under(self, fault: &Fault) -> Conditions {
        match *fault {
            Fault::Stop { .. } | Fault::Start { .. } => self,
            Fault::Stall { health } => Conditions { stalled: Some(health), ..self },
            Fault::Slow { factor } => Conditions { slow_factor: factor, ..self },
            Fault::KvCut { share } => Conditions { kv_cut_share: share, ..self },
            Fault::Drop { after_tokens, probability } => {
                Conditions { drop: Some((after_tokens, probability)), ..self }
            }
            Fault::Refuse { status, probability, retry_after_seconds } => {
                Conditions { refuse: Some(Refuse { status, probability, retry_after_seconds }), ..self }
            }
            Fault::Latency { request_ms, token_ms } => {
                Conditions { request_latency_ms: request_ms, token_latency_ms: token_ms, ..self }
            }
            Fault::Misbehave { how, probability } => {
                Conditions { misbehave: Some((how, probability)), ..self }
            }
            Fault::Heal {} => Conditions::default(),
        }
    }

    /// Whether the server answers nothing at all.
    #[must_use]
    pub fn hangs(&self) -> bool {
        self.stalled == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Fault, String> {
        let fault: Fault = serde_json::from_str(text).map_err(|error| error.to_string())?;
        fault.check().map_err(|error| error.to_string())?;
        Ok(fault)
    }

    #[test]
    fn faults_are_read_with_their_defaults() {
        assert_eq!(read(r#"{"fault":"stop"}"#), Ok(Fault::Stop { start_up_seconds: None }));
        assert_eq!(read(r#"{"fault":"stall"}"#), Ok(Fault::Stall { health: false }));
        let refuse = Fault::Refuse { status: 429, probability: 1.0, retry_after_seconds: None };
        assert_eq!(read(r#"{"fault":"refuse","status":429}"#), Ok(refuse));
        let never = Fault::Misbehave { how: Misbehaviour::NeverDone, probability: 0.5 };
        assert_eq!(read(r#"{"fault":"misbehave","how":"never_done","probability":0.5}"#), Ok(never));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for bad in [
            r#"{"fault":"slow","factor":0}"#,
            r#"{"fault":"drop","after_tokens":1,"probability":1.5}"#,
            r#"{"fault":"refuse","status":200}"#,
            r#"{"fault":"latency","token_ms":-1}"#,
            r#"{"fault":"stop","start_up_seconds":1e300}"#,
            r#"{"fault":"stop","after":1}"#,
            r#"{"fault":"burn"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_add_up_until_healed() {
        let slow = Conditions::default().under(&Fault::Slow { factor: 2.0 });
        let both = slow.under(&Fault::Stall { health: true });
        assert_eq!((both.slow_factor, both.stalled, both.hangs()), (2.0, Some(true), false));
        assert_eq!(both.under(&Fault::Heal {}), Conditions::default());
    }
}
