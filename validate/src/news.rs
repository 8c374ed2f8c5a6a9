//! What a run tells beside its records: tries, their first tokens and failures, and what became of the targets.

use scaleproof_pack::failure::Moment;
use scaleproof_pack::time::Nanos;

/// How a connection failed: the values of the metrics' label `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionFailure {
    /// Nobody listens.
    Refused,
    /// It broke, or could not be made for another reason.
    Reset,
    /// It was not answered in time.
    Timeout,
}

impl ConnectionFailure {
    /// The label's value: one of [`scaleproof_pack::alerts::client_metrics::CONNECTION_FAILURES`].
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ConnectionFailure::Refused => "refused",
            ConnectionFailure::Reset => "reset",
            ConnectionFailure::Timeout => "timeout",
        }
    }

    /// Of an error while connecting.
    pub(crate) fn of(error: &std::io::Error) -> ConnectionFailure {
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => ConnectionFailure::Refused,
            std::io::ErrorKind::TimedOut => ConnectionFailure::Timeout,
            _ => ConnectionFailure::Reset,
        }
    }
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// A try was sent to a target.
    Sent {
        /// Which.
        target: u32,
    },
    /// A try's first token came.
    FirstToken {
        /// From which target.
        target: u32,
        /// So long after the try was sent.
        took: Nanos,
    },
    /// A try ended.
    TryEnded {
        /// At which target.
        target: u32,
        /// When.
        at: Nanos,
        /// How its connection failed, if it did.
        failed: Option<ConnectionFailure>,
    },
    /// A target was seen to fail, was left out, or takes work again.
    Moment(Moment),
}
